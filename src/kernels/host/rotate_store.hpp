// rotate_store.hpp: rotates queries and keys and stores keys and values on the host.
#pragma once

#include "kernels/rotate_store.hpp"

namespace attacca::kernels::host {

/// The rows that block `block` of `blocks` computes.
void rotate_store(const RotateStoreArgs& args, unsigned block, unsigned blocks);

}  // namespace attacca::kernels::host
