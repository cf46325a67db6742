// memory.cpp: buffers, arenas and pools over the backends.
#include <attacca/error.hpp>
#include <attacca/memory.hpp>

#include <fmt/core.h>

#include <limits>

#include "graph/executor.hpp"

namespace attacca {

namespace detail {

std::size_t array_bytes(std::size_t count, std::size_t element_bytes) {
  // Half of all addresses: no object is larger, and rounding up stays in range.
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2;
  if (count > kMost / element_bytes)
    throw BadArgument(
        fmt::format("{} elements of {} bytes are more than any memory holds; ask for at most {}",
                    count, element_bytes, kMost / element_bytes));
  return count * element_bytes;
}

void* allocate_bytes(const Device& device, std::size_t bytes) {
  return graph::impl_of(device).allocate(bytes);
}
void* allocate_shared_bytes(const Device& device, std::size_t bytes) {
  return graph::impl_of(device).allocate_shared(bytes);
}
void free_bytes(const Device& device, void* address) noexcept {
  graph::impl_of(device).free(address);
}
void free_shared_bytes(const Device& device, void* address) noexcept {
  graph::impl_of(device).free_shared(address);
}
void copy_now(const Device& device, void* to, const void* from, std::size_t bytes) {
  graph::impl_of(device).copy_now(to, from, bytes);
}
void refuse_write(std::size_t values, std::size_t room) {
  throw BadArgument(
      fmt::format("{} values written to a buffer of {}; write at most as many, or make it larger",
                  values, room));
}

}  // namespace detail

namespace {
constexpr std::size_t kArenaAlignment = 256;
}

Arena::Arena(const Device& device, std::size_t bytes) : block_(device, bytes) {}

void* Arena::take_bytes(std::size_t bytes) {
  const std::size_t start = (used_ + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  detail::array_bytes(bytes, 1);
  if (start > bytes_total() || bytes > bytes_total() - start)
    throw BadArgument(fmt::format(
        "arena of {} bytes has {} left and {} were asked for; make it at "
        "least {} bytes",
        bytes_total(), start > bytes_total() ? 0 : bytes_total() - start, bytes, start + bytes));
  used_ = start + bytes;
  return block_.data() + start;
}

Pool::Pool(const Device& device) : device_(device), impl_(graph::impl_of(device).make_pool()) {}
Pool::~Pool() = default;
Pool::Pool(Pool&&) noexcept = default;

graph::PoolImpl& Pool::checked(StreamRef stream) const {
  if (!impl_) throw BadArgument("a pool that was moved from; use the one it was moved to");
  if (!(stream.device() == device_))
    throw BadArgument(
        fmt::format("a pool of {} was given a stream of {}, whose work it cannot follow; use a "
                    "stream of the pool's device",
                    device_.name(), stream.device().name()));
  return *impl_;
}

void* Pool::allocate_bytes(StreamRef stream, std::size_t bytes) {
  graph::PoolImpl& pool = checked(stream);
  if (graph::state_of(stream).recorder)
    throw BadArgument(
        fmt::format("pool allocation of {} bytes on a stream that is being captured; "
                    "allocate before, or use Graph::allocate",
                    bytes));
  detail::array_bytes(bytes, 1);
  return pool.allocate(*graph::state_of(stream).impl, bytes);
}

void Pool::free(StreamRef stream, void* address) {
  graph::PoolImpl& pool = checked(stream);
  if (graph::state_of(stream).recorder)
    throw BadArgument("pool memory freed on a stream that is being captured; free it outside");
  if (!pool.free(*graph::state_of(stream).impl, address))
    throw BadArgument(
        fmt::format("{} is not in use in this pool; free each address once, to the "
                    "pool it came from",
                    address));
}

std::size_t Pool::bytes_in_use() const { return impl_ ? impl_->bytes_in_use() : 0; }
std::size_t Pool::bytes_reserved() const { return impl_ ? impl_->bytes_reserved() : 0; }

}  // namespace attacca
