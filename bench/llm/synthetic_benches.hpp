// synthetic_benches.hpp: decode and prefill benchmarks of shapes with random weights. Those of
// model files are in decode.cpp and prefill.cpp.
#pragma once

#include "harness.hpp"

namespace bench {

void run_synthetic_decode(Run& run);
void run_synthetic_prefill(Run& run);

}  // namespace bench
