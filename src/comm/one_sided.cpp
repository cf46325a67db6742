// one_sided.cpp: puts, gets, signals and counters in symmetric memory that this process can
// address: that of other threads, or memory shared by processes.
#include <fmt/core.h>
#include <atomic>
#include <cstring>
#include <thread>

#include "comm/group.hpp"

namespace attacca::comm {

namespace {

std::uint64_t& word_at(const SymmetricPlace& place, int rank) {
  return *reinterpret_cast<std::uint64_t*>(place.of(rank));
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);  // an empty span may have no address
}

}  // namespace

void wait_for_value(const ExchangeData& exchange, const std::function<std::uint64_t()>& seen) {
  GroupImpl& group = *exchange.group;
  const auto end = std::chrono::steady_clock::now() + group.deadline();
  Backoff backoff;
  for (;;) {
    const std::uint64_t value = seen();
    if (value >= exchange.value) return;
    backoff.pause();
    if (!backoff.is_time_to_look()) continue;
    group.poll();
    group.check();
    if (std::chrono::steady_clock::now() >= end)
      group.fail(fmt::format(
          "rank {} waited {:.3g} s for rank {} to set the signal of '{}' to {}; it stood at {}",
          group.world_rank(group.rank()), std::chrono::duration<double>(group.deadline()).count(),
          group.world_rank(exchange.peer), exchange.name, exchange.value, value));
  }
}

void run_one_sided(const ExchangeData& exchange) {
  GroupImpl& group = *exchange.group;
  group.check();
  switch (exchange.descriptor.operation) {
    case Operation::put:
      copy_bytes(exchange.place.of(exchange.peer), exchange.from, exchange.from_bytes);
      if (exchange.signal.block)
        std::atomic_ref(word_at(exchange.signal, exchange.peer))
            .store(exchange.value, std::memory_order_release);
      return;
    case Operation::get:
      copy_bytes(exchange.to, exchange.place.of(exchange.peer), exchange.to_bytes);
      return;
    case Operation::fetch_add: {
      const std::uint64_t before = std::atomic_ref(word_at(exchange.place, exchange.peer))
                                       .fetch_add(exchange.value, std::memory_order_acq_rel);
      std::memcpy(exchange.to, &before, sizeof before);
      return;
    }
    default: {
      const std::atomic_ref signal(word_at(exchange.signal, group.rank()));
      // acquire pairs with the release in `put`: once the value is seen, so is the data.
      wait_for_value(exchange, [&] { return signal.load(std::memory_order_acquire); });
    }
  }
}

void Backoff::pause() {
  if (is_slow()) return std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (turns_++ < kSpins) return;
  const auto now = std::chrono::steady_clock::now();
  if (turns_ == kSpins + 1) first_yield_ = now;
  if (now - first_yield_ > kLongestYields) turns_ = kSpins + kYields;
  std::this_thread::yield();
}

}  // namespace attacca::comm
