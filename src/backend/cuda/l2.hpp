// l2.hpp: converts an L2 window to the driver's form.
#pragma once

#include <cuda_runtime.h>
#include <attacca/l2.hpp>

namespace attacca::cuda {

cudaAccessPolicyWindow to_cuda(const L2Window& window);

}  // namespace attacca::cuda
