// ring.hpp: a bounded queue from one writer to one reader, across the line between host and device
// or on either side of it. Only loads and stores cross it, because on most machines a
// read-modify-write of pinned memory is not atomic between CPU and GPU. Neither side ever waits for
// the other: a reader takes what is there, a writer is told when there is no room.
#pragma once

#include <attacca/device/memory_model.hpp>
#include <attacca/memory.hpp>

namespace attacca::device {

namespace detail {
/// Throws BadArgument, with the value and the next size that works, unless a power of two.
void check_capacity(const char* what, std::size_t capacity, std::size_t most);
[[noreturn]] void refuse_second(const char* what);
}  // namespace detail

/// The words both sides share. Each side writes only its own.
template <class Memory = NativeMemory>
struct RingControl {
  template <class T>
  using Atomic = typename Memory::template Atomic<T, Scope::system>;
  alignas(128) Atomic<std::uint64_t> written;  // by the writer
  Atomic<std::uint32_t> is_closed;             // by the writer
  alignas(128) Atomic<std::uint64_t> read;     // by the reader
};

/// A ring in the form of kernel arguments; Ring owns it.
template <class T, class Memory = NativeMemory>
struct RingRef {
  RingControl<Memory>* control;
  typename Memory::template Plain<T>* items;
  std::uint64_t mask;  // capacity - 1
};

/// Where one side stands: its own count, and what it last saw of the other's. A kernel that uses a
/// ring again and again keeps it in device memory from one launch to the next, and so need not read
/// the shared words, which lie across the bus and take a microsecond or two each.
struct RingPlace {
  std::uint64_t own = 0;
  std::uint64_t other = 0;
};

/// The writing side. Keeps its place in registers, so make it once and use it long; only one may
/// exist at a time.
template <class T, class Memory = NativeMemory>
class RingWriter {
 public:
  ATTACCA_HD explicit RingWriter(const RingRef<T, Memory>& ring)
      : ring_(ring),
        next_(ring.control->written.load(relaxed)),
        seen_read_(ring.control->read.load(acquire)) {}
  /// Goes on where another writer of this ring stopped.
  ATTACCA_HD RingWriter(const RingRef<T, Memory>& ring, const RingPlace& place)
      : ring_(ring), next_(place.own), seen_read_(place.other) {}
  ATTACCA_HD RingPlace place() const { return {next_, seen_read_}; }

  /// False where the ring is full; nothing is lost.
  ATTACCA_HD bool try_push(const T& item) {
    if (room() == 0) return false;
    ring_.items[next_ & ring_.mask].write(item);
    // release pairs with the acquire in the reader's `available`, which then sees the item.
    ring_.control->written.store(++next_, release);
    return true;
  }
  /// Pushes as many as there is room for and publishes them at once. Returns how many.
  ATTACCA_HD std::uint32_t try_push(const T* items, std::uint32_t count) {
    const std::uint64_t free = room(count);
    if (free < count) count = static_cast<std::uint32_t>(free);
    for (std::uint32_t at = 0; at < count; ++at)
      ring_.items[(next_ + at) & ring_.mask].write(items[at]);
    if (count) ring_.control->written.store(next_ += count, release);
    return count;
  }
  /// For several threads that push together, each with a writer of its own: `put` writes the item
  /// at place `at` behind those that are published, where no reader looks yet; `slot` leaves the
  /// writing to the caller. When every thread has put its items, which a barrier tells, one of them
  /// publishes all, and no other writer may be used again. REQUIRES: there is room.
  ATTACCA_HD void put(std::uint64_t at, const T& item) { slot(at).write(item); }
  ATTACCA_HD typename Memory::template Plain<T>& slot(std::uint64_t at) {
    return ring_.items[(next_ + at) & ring_.mask];
  }
  ATTACCA_HD void publish(std::uint64_t count) {
    if (count) ring_.control->written.store(next_ += count, release);
  }
  /// Says that no more will come. The reader still gets what is in the ring.
  ATTACCA_HD void close() { ring_.control->is_closed.store(1, release); }
  /// The number of items that can be pushed at least. Reads the other side's word only if the room
  /// seen last time is not enough.
  ATTACCA_HD std::uint64_t room(std::uint64_t wanted = 1) {
    const std::uint64_t capacity = ring_.mask + 1;
    if (capacity - (next_ - seen_read_) < wanted) seen_read_ = ring_.control->read.load(acquire);
    return capacity - (next_ - seen_read_);
  }

 private:
  RingRef<T, Memory> ring_;
  std::uint64_t next_;
  std::uint64_t seen_read_;
};

/// The reading side, wait-free. Like the writer, only one may exist at a time.
template <class T, class Memory = NativeMemory>
class RingReader {
 public:
  ATTACCA_HD explicit RingReader(const RingRef<T, Memory>& ring)
      : ring_(ring), next_(ring.control->read.load(relaxed)), seen_written_(next_) {}
  /// Goes on where another reader of this ring stopped.
  ATTACCA_HD RingReader(const RingRef<T, Memory>& ring, const RingPlace& place)
      : ring_(ring), next_(place.own), seen_written_(place.other) {}
  ATTACCA_HD RingPlace place() const { return {next_, seen_written_}; }

  /// False where there is nothing.
  ATTACCA_HD bool try_pop(T& item) { return try_pop(&item, 1) == 1; }
  /// Takes up to `count` items. Returns how many.
  ATTACCA_HD std::uint32_t try_pop(T* items, std::uint32_t count) {
    const std::uint64_t there = available(count);
    if (there < count) count = static_cast<std::uint32_t>(there);
    for (std::uint32_t at = 0; at < count; ++at)
      items[at] = ring_.items[(next_ + at) & ring_.mask].read();
    // release pairs with the acquire in the writer's `room`: the places are free once it is seen.
    if (count) ring_.control->read.store(next_ += count, release);
    return count;
  }
  /// For threads that read together: `slot` is where the item lies that comes next. `take` passes
  /// it over without telling the writer that its place is free; `tell` does, and so does `try_pop`.
  /// REQUIRES: there is an item.
  ATTACCA_HD const typename Memory::template Plain<T>& slot() const {
    return ring_.items[next_ & ring_.mask];
  }
  ATTACCA_HD void take() { ++next_; }
  ATTACCA_HD void tell() { ring_.control->read.store(next_, release); }
  /// Whether the writer closed and everything was read.
  ATTACCA_HD bool is_finished() {
    // In this order: once closing is seen, everything written before it is.
    return ring_.control->is_closed.load(acquire) != 0 && available(1) == 0;
  }

  /// How many were ever written, at least. A hint that orders nothing, so a kernel can ask early
  /// and need not wait for the answer before it uses it: if nothing is new, it spares `available`.
  ATTACCA_HD std::uint64_t glance() const { return ring_.control->written.load(relaxed); }
  /// The number of items; reads the other side's word only if fewer than `wanted` were seen before.
  ATTACCA_HD std::uint64_t available(std::uint64_t wanted) {
    if (seen_written_ - next_ < wanted) seen_written_ = ring_.control->written.load(acquire);
    return seen_written_ - next_;
  }

 private:
  RingRef<T, Memory> ring_;
  std::uint64_t next_;
  std::uint64_t seen_written_;
};

/// Owns a ring in memory that host and device see. `writer` and `reader` give out each side once,
/// as a RingRef to make a RingWriter or RingReader of, here or in a kernel.
template <class T>
class Ring {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// `capacity` is a power of two.
  Ring(const attacca::Device& device, std::size_t capacity)
      : control_(checked(device, capacity), 1, Visibility::shared),
        items_(device, capacity, Visibility::shared) {
    *control_.data() = RingControl<>{};
  }

  RingRef<T> writer() { return give(has_writer_, "writer"); }
  RingRef<T> reader() { return give(has_reader_, "reader"); }
  std::size_t capacity() const { return items_.size(); }

 private:
  static const attacca::Device& checked(const attacca::Device& device, std::size_t capacity) {
    detail::check_capacity("Ring", capacity, std::size_t{1} << 30);
    return device;
  }
  RingRef<T> give(bool& is_given, const char* what) {
    if (is_given) detail::refuse_second(what);
    is_given = true;
    return {control_.data(), items_.data(), items_.size() - 1};
  }
  Buffer<RingControl<>> control_;
  Buffer<Plain<T>> items_;
  bool has_writer_ = false;
  bool has_reader_ = false;
};

}  // namespace attacca::device
