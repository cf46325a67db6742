// Asks NVIDIA's driver about its GPUs without being linked to it.
#pragma once

#include <vector>

#include "instruments/machine.hpp"

namespace attacca::instruments {

// Fills `gpus` in the driver's order and says why where there are none. Creates no context.
CudaDriver ask_driver(std::vector<Gpu>& gpus);

}  // namespace attacca::instruments
