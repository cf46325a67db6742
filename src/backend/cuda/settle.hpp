// settle.hpp: the node behind a kernel that spawns kernels. CUDA 13.0 ends such a node of a graph
// before what it spawned has ended, unlike a launch on a stream, so this one waits for the count.
#pragma once

namespace attacca::cuda {

/// The __global__ function; its one parameter is the LaunchPort of the kernel it stands behind.
const void* settle_kernel();

}  // namespace attacca::cuda
