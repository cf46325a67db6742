// graphs_at_start.hpp: the cost of an engine's graphs when it starts.
#pragma once

#include "harness.hpp"
#include "model/config.hpp"

namespace bench {

/// Rows for the time to build the graphs of all default sizes, and for the memory they pin, on a
/// shape with random weights. The time includes loading kernels that this process has not used
/// before.
void run_graphs_at_start(Run& run, const attacca::model::ModelConfig& config);

}  // namespace bench
