// device.hpp: where graphs run. A Device is the host's threads, the host one node at a time, or a
// CUDA GPU; a Stream is an ordered queue of work on one. Memory is in memory.hpp.
#pragma once

#include <attacca/kernel.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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
  /// All cores of the host; one device however often it is asked for.
  static Device host();
  /// A host device of its own with `threads` workers.
  static Device host(unsigned threads);
  /// The host, one node at a time in a fixed order: the reference.
  static Device host_serial();
  /// GPU number `index`. Throws where this build or machine has none.
  static Device cuda(int index);
  /// From "host", "host-serial", "cuda" or "cuda:N", as a command line spells it.
  static Device from_name(const std::string& name);
  /// How many GPUs this build can use.
  static int cuda_count();

  DeviceKind kind() const;
  bool is_cuda() const { return kind() == DeviceKind::cuda; }
  /// "host", "host-serial" or "cuda:N".
  std::string name() const;
  /// Memory that can still be had there, now.
  std::size_t bytes_free() const;
  /// Of a GPU, major times ten plus minor: 90 for a Hopper. 0 for the host.
  int compute_capability() const;

  friend bool operator==(const Device& a, const Device& b) { return a.impl_ == b.impl_; }

 private:
  friend struct graph::Access;
  explicit Device(std::shared_ptr<graph::DeviceImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<graph::DeviceImpl> impl_;
};

/// A point in a stream that other streams can wait for.
class Event {
 public:
  explicit Event(const Device& device);

 private:
  friend struct graph::Access;
  std::shared_ptr<graph::EventImpl> impl_;
};

/// Borrows a Stream. Work enqueued runs in order, asynchronously. One thread at a time.
/// Between `capture`'s start and end the same calls record a graph instead; see capture.hpp.
class StreamRef {
 public:
  template <class Args>
  void kernel(const Kernel<Args>& kernel, const Grid& grid,
              const std::type_identity_t<Args>& args) const {
    enqueue_kernel(kernel.info(), grid, &args);
  }
  void copy(void* to, const void* from, std::size_t bytes) const;
  /// Sets `bytes` bytes to `value`.
  void fill(void* to, std::uint8_t value, std::size_t bytes) const;
  /// Runs `call` on the host, in order. What it throws comes out of `synchronize`.
  void host(const std::string& name, std::function<void()> call) const;
  /// Runs a function that enqueues work on the stream it is given, such as a cuBLAS call.
  void library(const std::string& name, std::function<void(StreamRef)> enqueue) const;
  void record(const Event& event) const;
  void wait(const Event& event) const;
  /// Waits for everything enqueued and throws what went wrong since the last call: the first
  /// failure, and how many other nodes failed. Until then host calls do not run; docs/failures.md.
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

/// Owns a stream. Destroying it waits for its work.
class Stream : public StreamRef {
 public:
  explicit Stream(const Device& device);
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

 private:
  explicit Stream(std::unique_ptr<graph::StreamState> state);
  std::unique_ptr<graph::StreamState> owned_;
};

}  // namespace attacca
