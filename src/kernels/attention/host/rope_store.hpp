// rope_store.hpp: rotates queries and keys and stores keys and values on the host.
#pragma once

#include "kernels/attention/rope_store.hpp"

namespace attacca::kernels::host {

/// The rows that block `block` of `blocks` computes.
void rope_store(const RopeStoreArgs& args, unsigned block, unsigned blocks);

}  // namespace attacca::kernels::host
