// device.hpp: the places where graphs run. A Device is the host's threads, the host one node at a
// time, or a CUDA GPU. A Stream is an ordered queue of work on a device; a BorrowedStream is
// another program's. Memory is in memory.hpp.
#pragma once

#include <attacca/cuda_kernel.hpp>
#include <attacca/kernel.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace attacca {

namespace graph {
class DeviceImpl;
class EventImpl;
struct StreamState;
struct Access;
}  // namespace graph

class Graph;
class Stream;

enum class DeviceKind : std::uint8_t { host_serial, host_threads, cuda };

/// A place to run graphs. A cheap value; all copies are the same device. Thread-safe.
class Device {
 public:
  /// `cuda(0)` where there is a GPU this build can use, else `host()`.
  static Device best();
  /// All cores of the host. Every call returns the same device.
  static Device host();
  /// A new host device with `threads` workers.
  static Device host(unsigned threads);
  /// The host, one node at a time in a fixed order: the reference.
  static Device host_serial();
  /// GPU number `index`. Throws where this build or machine has none.
  static Device cuda(int index);
  /// From "host", "host-serial", "cuda" or "cuda:N", as a command line spells it.
  static Device from_name(const std::string& name);
  /// The number of GPUs that this build can use.
  static int cuda_count();

  DeviceKind kind() const;
  bool is_cuda() const { return kind() == DeviceKind::cuda; }
  /// "host", "host-serial" or "cuda:N".
  std::string name() const;
  /// Memory that can be allocated there now.
  std::size_t bytes_free() const;
  /// Major times ten plus minor: 90 for a Hopper. 0 for the host.
  int compute_capability() const;
  /// SMs of a GPU, worker threads of the host; 1 for `host_serial()`.
  unsigned processors() const;

  friend bool operator==(const Device& a, const Device& b) { return a.impl_ == b.impl_; }

 private:
  friend struct graph::Access;
  explicit Device(std::shared_ptr<graph::DeviceImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<graph::DeviceImpl> impl_;
};

/// A point in a stream that other streams can wait for.
class Event {
 public:
  /// Whether the event keeps the time at which it is reached, for `since`.
  enum class Timing : std::uint8_t { off, on };
  explicit Event(const Device& device, Timing timing = Timing::off);

  /// Whether everything before the last `record` has ended. True where the event was never
  /// recorded, because `wait` would not wait. Throws BadArgument for an event of a capture.
  bool query() const;
  /// Time from `start` to this event. Throws BadArgument, by name, unless both are timed events of
  /// one device that were recorded and reached.
  std::chrono::duration<double> since(const Event& start) const;

 private:
  friend struct graph::Access;
  std::shared_ptr<graph::EventImpl> impl_;
};

/// Rows of memory, their starts `pitch` bytes apart.
struct Pitched {
  void* data;
  std::size_t pitch;
};
struct ConstPitched {
  const void* data;
  std::size_t pitch;
};

namespace detail {
/// Throws BadArgument unless the counts agree.
void check_same_count(std::size_t to, std::size_t from);
}  // namespace detail

/// Borrows a Stream or a BorrowedStream. Work enqueued runs in order, asynchronously. One thread at
/// a time. Between `capture`'s start and end the same calls record a graph instead; see
/// capture.hpp.
class StreamRef {
 public:
  template <class Args>
  void kernel(const Kernel<Args>& kernel, const Grid& grid,
              const std::type_identity_t<Args>& args) const {
    enqueue_kernel(kernel.info(), grid, &args);
  }
  template <class... P>
  void kernel(const CudaKernel<P...>& kernel, const Grid& grid,
              const std::type_identity_t<P>&... args) const {
    enqueue_kernel(kernel.info(), grid, detail::PackedParameters<P...>(args...).data());
  }
  void copy(void* to, const void* from, std::size_t bytes) const;
  /// The spans must have the same size.
  template <class T>
  void copy(std::span<T> to, std::span<const std::type_identity_t<T>> from) const {
    static_assert(std::is_trivially_copyable_v<T>);
    detail::check_same_count(to.size(), from.size());
    copy(to.data(), from.data(), to.size_bytes());
  }
  /// `rows` rows of `width_bytes` bytes. A pitch is at least the width.
  void copy_2d(Pitched to, ConstPitched from, std::size_t width_bytes, std::size_t rows) const;
  /// Sets `bytes` bytes to `value`.
  void fill(void* to, std::uint8_t value, std::size_t bytes) const;
  /// Sets every byte to `value`.
  template <class T>
  void fill(std::span<T> to, std::uint8_t value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    fill(to.data(), value, to.size_bytes());
  }
  /// Runs `call` on the host, in order. If it throws, `synchronize` throws NodeFailed with its
  /// message. It must not wait for its own stream: `synchronize` throws there, which fails the
  /// call.
  void host(const std::string& name, std::function<void()> call) const;
  /// Runs a function that enqueues work on the stream it is given, such as a cuBLAS call.
  void library(const std::string& name, std::function<void(StreamRef)> enqueue) const;
  void record(const Event& event) const;
  void wait(const Event& event) const;
  /// Waits for everything enqueued. If something failed since the last call, throws the first
  /// failure and the number of other nodes that failed. After a failure, host calls do not run
  /// until this has thrown it; see docs/failures.md.
  void synchronize() const;

  /// The backend's own stream: a cudaStream_t on CUDA, null on the host.
  void* native() const;
  Device device() const;

 protected:
  explicit StreamRef(graph::StreamState& state) : state_(&state) {}

 private:
  friend struct graph::Access;
  void enqueue_kernel(const KernelInfo& kernel, const Grid& grid, const void* args) const;
  graph::StreamState* state_;
};

struct StreamOptions {
  int priority = 0;  // higher runs first where there is a choice; the host ignores it
};

/// Owns a stream. Destroying it waits for its work. On the host its own work may destroy it; the
/// rest of the work then runs on without it.
class Stream : public StreamRef {
 public:
  explicit Stream(const Device& device, const StreamOptions& options = {});
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

 private:
  explicit Stream(std::unique_ptr<graph::StreamState> state);
  std::unique_ptr<graph::StreamState> owned_;
};

/// Another program's cudaStream_t, such as PyTorch's current stream. Null is the legacy default
/// stream, and cudaStreamPerThread is refused. The owner must keep the stream while this lives.
/// Destroying this neither waits nor touches the stream. All borrowers of one stream count as one:
/// one thread at a time uses them, and a failure of work enqueued through one comes out of the next
/// `synchronize` of any. Until then, or until the stream is borrowed again and found idle,
/// everything that launches in flight use is kept.
///
/// While its owner captures it, kernels, copies, fills and events join that capture. Host calls,
/// launches of an Exec and `synchronize` are refused by name, because a captured graph would
/// outlive the objects they point to. Throws BadArgument on the host and for another GPU's stream.
class BorrowedStream : public StreamRef {
 public:
  BorrowedStream(const Device& device, void* cuda_stream);
  BorrowedStream(BorrowedStream&&) noexcept;
  BorrowedStream& operator=(BorrowedStream&&) noexcept;
  ~BorrowedStream();

 private:
  explicit BorrowedStream(std::unique_ptr<graph::StreamState> state);
  std::unique_ptr<graph::StreamState> owned_;
};

}  // namespace attacca
