// settle.hpp: the node behind a kernel that spawns kernels. In a graph, CUDA 13.0 ends the spawning
// node before the spawned kernels have ended; on a stream it does not. So this node waits for them.
#pragma once

namespace attacca::cuda {

/// The __global__ function. Its one parameter is the LaunchPort of the kernel before it.
const void* settle_kernel();

}  // namespace attacca::cuda
