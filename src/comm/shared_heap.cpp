// shared_heap.cpp: the memory, and the last put to each signal.
#include "comm/shared_heap.hpp"

#include <algorithm>

#include "comm/group.hpp"

namespace attacca::comm {

namespace {

constexpr std::size_t kPartAlignment = 256;

SharedHeap& heap_of(const SymmetricPlace& place) {
  return *static_cast<SharedHeap*>(place.block->memory.get());
}

}  // namespace

SharedHeap::SharedHeap(const Device& device, std::size_t bytes, StreamRef stream)
    : memory_(device, bytes) {
  stream.fill(memory_.data(), 0, bytes);
  stream.synchronize();
}

void SharedHeap::announce(const std::byte* signal, std::uint64_t value, const Event& done) {
  const std::lock_guard lock(mutex_);
  puts_.insert_or_assign(signal, Put{value, done});
}

std::uint64_t SharedHeap::value_of(const std::byte* signal) const {
  const std::lock_guard lock(mutex_);
  const auto found = puts_.find(signal);
  return found == puts_.end() ? 0 : found->second.value;
}

std::optional<Event> SharedHeap::last_put(const std::byte* signal) const {
  const std::lock_guard lock(mutex_);
  const auto found = puts_.find(signal);
  return found == puts_.end() ? std::nullopt : std::optional(found->second.done);
}

std::shared_ptr<SymmetricBlock> make_shared_block(const Device& device, std::size_t bytes,
                                                  int ranks, StreamRef stream) {
  const std::size_t each = (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  const std::size_t all =
      attacca::detail::array_bytes(std::max(each, kPartAlignment), static_cast<std::size_t>(ranks));
  const auto heap = std::make_shared<SharedHeap>(device, all, stream);
  auto block = std::make_shared<SymmetricBlock>();
  block->bytes = bytes;
  for (int rank = 0; rank < ranks; ++rank)
    block->bases.push_back(heap->data() + each * static_cast<std::size_t>(rank));
  block->memory = heap;
  return block;
}

void announce(const ExchangeData& put, const Event& done) {
  heap_of(put.signal).announce(put.signal.of(put.peer), put.value, done);
}

void enqueue_wait(const ExchangeData& wait, StreamRef stream) {
  const SharedHeap& heap = heap_of(wait.signal);
  const std::byte* const signal = wait.signal.of(wait.group->rank());
  wait_for_value(wait, [&] { return heap.value_of(signal); });
  if (const std::optional<Event> put = heap.last_put(signal)) stream.wait(*put);
}

}  // namespace attacca::comm
