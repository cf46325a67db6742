// silu.hpp: silu(gate) * up, the gate of a transformer's feed-forward layer, on the host.
#pragma once

namespace attacca::kernels::host {

/// gate[i] = silu(gate[i]) * up[i], where silu(g) = g / (1 + exp(-g)), for 32 elements.
void gate_32(float* gate, const float* up);

}  // namespace attacca::kernels::host
