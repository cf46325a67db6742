// graphs_at_start.hpp: what an engine's graphs cost when it starts.
#pragma once

#include "harness.hpp"
#include "model/config.hpp"

namespace bench {

/// Rows for the time to build the graphs of all default sizes, and for the memory they pin, on a
/// shape with random weights. What was not used in this process before is loaded meanwhile.
void run_graphs_at_start(Run& run, const attacca::model::ModelConfig& config);

}  // namespace bench
