// rope_store.hpp: the host body of the rope_store kernel.
#pragma once

#include "kernels/attention/rope_store.hpp"

namespace attacca::kernels::host {

/// Computes the rows of block `block` of `blocks`.
void rope_store(const RopeStoreArgs& args, unsigned block, unsigned blocks);

}  // namespace attacca::kernels::host
