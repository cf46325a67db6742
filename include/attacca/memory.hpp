// memory.hpp: memory outside graphs. Buffer owns an array on a device, Arena hands out fixed
// addresses from one block, Pool allocates in stream order. Inside graphs: Graph::allocate.
#pragma once

#include <attacca/device.hpp>
#include <attacca/error.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace attacca {

namespace detail {
void* allocate_bytes(const Device& device, std::size_t bytes);
void* allocate_shared_bytes(const Device& device, std::size_t bytes);
void free_bytes(const Device& device, void* address) noexcept;
void free_shared_bytes(const Device& device, void* address) noexcept;
void copy_now(const Device& device, void* to, const void* from, std::size_t bytes);
[[noreturn]] void refuse_write(std::size_t values, std::size_t room);
}  // namespace detail

/// Whether the host can read a buffer directly. `shared` is pinned memory on CUDA.
enum class Visibility : std::uint8_t { device, shared };

/// Owns `count` elements on a device. Uninitialised unless made from values. Throws DeviceError
/// where they do not fit. One that was moved from has no elements.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer(const Device& device, std::size_t count, Visibility visibility = Visibility::device)
      : device_(device), count_(count), visibility_(visibility) {
    const std::size_t bytes = detail::array_bytes(count, sizeof(T));
    data_ = static_cast<T*>(visibility == Visibility::shared
                                ? detail::allocate_shared_bytes(device, bytes)
                                : detail::allocate_bytes(device, bytes));
  }
  Buffer(const Device& device, const std::vector<T>& values,
         Visibility visibility = Visibility::device)
      : Buffer(device, values.size(), visibility) {
    write(values);
  }
  Buffer(Buffer&& other) noexcept
      : device_(other.device_),
        count_(std::exchange(other.count_, 0)),
        visibility_(other.visibility_),
        data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(count_, other.count_);
    std::swap(visibility_, other.visibility_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Buffer() {
    if (!data_) return;
    if (visibility_ == Visibility::shared)
      detail::free_shared_bytes(device_, data_);
    else
      detail::free_bytes(device_, data_);
  }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  std::span<T> span() const { return {data_, count_}; }

  /// Copies in or out and waits. For work in flight, synchronize its stream first. `write` starts
  /// at the front and leaves the rest as it is. It throws BadArgument for more than fits.
  void write(std::span<const T> values) {
    if (values.size() > count_) detail::refuse_write(values.size(), count_);
    detail::copy_now(device_, data_, values.data(), values.size_bytes());
  }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    detail::copy_now(device_, values.data(), data_, bytes());
    return values;
  }

 private:
  Device device_;
  std::size_t count_;
  Visibility visibility_;
  T* data_ = nullptr;
};

/// One block of device memory, given out from the front. Addresses never move, so graphs of many
/// sizes can share them. Not thread-safe.
class Arena {
 public:
  Arena(const Device& device, std::size_t bytes);

  /// `count` elements aligned to 256 bytes. Throws BadArgument, with the numbers, when full.
  template <class T>
  T* take(std::size_t count) {
    return static_cast<T*>(take_bytes(detail::array_bytes(count, sizeof(T))));
  }
  void* take_bytes(std::size_t bytes);
  /// Gives everything back; addresses given out before may be given out again.
  void reset() { used_ = 0; }
  std::size_t bytes_used() const { return used_; }
  std::size_t bytes_total() const { return block_.bytes(); }

 private:
  Buffer<std::byte> block_;
  std::size_t used_ = 0;
};

namespace graph {
class PoolImpl;
}

/// Allocates and frees in stream order: memory freed on a stream is given out again to later work
/// of that stream without waiting. Thread-safe. Destroying a pool does not wait: memory that was
/// not freed lives until all work enqueued on the device's streams by then has ended. On CUDA it
/// lives until each of those streams has been synchronized or destroyed. Throws BadArgument for a
/// stream of another device.
class Pool {
 public:
  explicit Pool(const Device& device);
  ~Pool();
  Pool(Pool&&) noexcept;

  template <class T>
  T* allocate(StreamRef stream, std::size_t count) {
    return static_cast<T*>(allocate_bytes(stream, detail::array_bytes(count, sizeof(T))));
  }
  void* allocate_bytes(StreamRef stream, std::size_t bytes);
  /// `address` must come from this pool; anything else throws BadArgument.
  void free(StreamRef stream, void* address);

  std::size_t bytes_in_use() const;
  std::size_t bytes_reserved() const;

 private:
  graph::PoolImpl& checked(StreamRef stream) const;

  Device device_;
  std::unique_ptr<graph::PoolImpl> impl_;
};

}  // namespace attacca
