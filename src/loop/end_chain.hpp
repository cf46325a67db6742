// end_chain.hpp: the device's part of chain_end.hpp.
#pragma once

#include <attacca/device/atomic.hpp>
#include <cstdint>

namespace attacca::loop {

/// Called once for each launch of a chain, by the kernel that launches no further graph.
ATTACCA_HD inline void end_chain(std::uint32_t* ended) {
  const device::AtomicRef<std::uint32_t, device::Scope::system> word(*ended);
  // release pairs with the stream's wait: what comes behind it sees all that the chain wrote.
  word.store(word.load(device::relaxed) + 1, device::release);
}

}  // namespace attacca::loop
