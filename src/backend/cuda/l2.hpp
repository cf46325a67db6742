// l2.hpp: an L2 window as the driver takes it.
#pragma once

#include <cuda_runtime.h>
#include <attacca/l2.hpp>

namespace attacca::cuda {

cudaAccessPolicyWindow to_cuda(const L2Window& window);

}  // namespace attacca::cuda
