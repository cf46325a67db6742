// signal_kernels.hpp: kernels that pass messages with signals. Their workers wait for each other.
// On a GPU they are the first lanes of warps, on the host threads of their own.
#pragma once

#include <attacca/device/signal.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

/// A grid of `count` workers, each in a block of its own; or all in one block.
inline Grid workers_apart(unsigned count) { return {{count, 1, 1}, {32, 1, 1}}; }
inline Grid workers_together(unsigned count) { return {{1, 1, 1}, {32 * count, 1, 1}}; }

/// Side 0 writes the payload and publishes; side 1 waits, checks it, and answers.
template <device::Scope kScope>
struct RelayArgs {
  static constexpr std::uint32_t kWords = 8;
  device::Signal<kScope>* there;
  device::Signal<kScope>* back;
  std::uint32_t* payload;  // [kWords]
  std::uint32_t* wrong;    // words that differ from those published
  std::uint32_t start;     // the value of both signals at first
  std::uint32_t rounds;
  std::uint32_t first_side;  // the side of worker 0; the next worker has the next side
  device::Patience patience;
};
template <device::Scope kScope>
ATTACCA_HD void relay_side(std::uint32_t side, const RelayArgs<kScope>& a) {
  std::uint32_t wrong = 0;
  for (std::uint32_t at = 1; at <= a.rounds; ++at) {
    const std::uint32_t round = a.start + at;
    if (side == 0) {
      for (std::uint32_t word = 0; word < a.kWords; ++word) a.payload[word] = round * 31 + word;
      a.there->publish(round);
      if (!a.back->wait(round, a.patience)) return;
    } else {
      if (!a.there->wait(round, a.patience)) return;
      for (std::uint32_t word = 0; word < a.kWords; ++word)
        wrong += a.payload[word] != round * 31 + word;
      if (at == a.rounds) *a.wrong = wrong;
      a.back->publish(round);
    }
  }
}
template <device::Scope kScope>
Kernel<RelayArgs<kScope>> relay();
/// The same with signals of its own in shared memory; `there` and `back` are not used. Two workers
/// of one block.
extern const Kernel<RelayArgs<device::Scope::block>> relay_in_shared;

/// Worker 0 writes the payload and raises three signals at once; workers 1 to 3 wait for one each.
struct FanOutArgs {
  static constexpr unsigned kSignals = 3;
  device::Signal<device::Scope::gpu>* signals;  // [kSignals]
  std::uint32_t* payload;
  std::uint32_t* seen;  // [kSignals]: the payload that each waiter found
  std::uint32_t value;
  device::Patience patience;
};
extern const Kernel<FanOutArgs> fan_out;

/// Workers from 1 on write one number each and raise the signal; worker 0 adds the numbers up.
struct GatherArgs {
  device::Signal<device::Scope::gpu>* signal;
  std::uint32_t* numbers;  // [workers]
  std::uint32_t* sum;
  std::uint32_t workers;
  device::Patience patience;
};
extern const Kernel<GatherArgs> gather;

/// Every worker waits for `value`, which nobody publishes meanwhile. On the host they wait in turn.
struct AwaitValueArgs {
  const device::Signal<device::Scope::gpu>* signal;
  std::uint32_t value;
  std::uint32_t* was_there;  // [workers]
  device::Patience patience;
};
extern const Kernel<AwaitValueArgs> await_value;

}  // namespace attacca::test
