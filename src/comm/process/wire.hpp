// wire.hpp: what carries messages between processes: MPI, or sockets. Messages with the same tag
// arrive in order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace attacca::comm {

/// The wire cannot carry anything any more.
class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A message on its way. The wire gives it its meaning.
struct Request {
  std::uintptr_t handle = 0;
};

/// Not thread-safe. Memory of a message must live until `is_done` has said so, or until no function
/// is called any more. All functions but the last two may throw WireError.
class Wire {
 public:
  virtual ~Wire() = default;

  virtual const char* name() const = 0;  // of the backend
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int highest_tag() const = 0;
  /// Bytes of a message that is sent at once. With a longer one the receiver is asked first.
  virtual std::size_t most_at_once() const { return std::numeric_limits<std::size_t>::max(); }
  /// Whether messages may be memory of a GPU.
  virtual bool takes_gpu_memory() const { return false; }

  virtual Request send(int peer, int tag, const std::byte* data, std::size_t bytes) = 0;
  /// `bytes`: the most that may come.
  virtual Request receive(int peer, int tag, std::byte* data, std::size_t bytes) = 0;
  /// Moves what can be moved without waiting.
  virtual void progress() {}
  /// After it was true the request is no longer valid.
  virtual bool is_done(Request& request) = 0;

  /// Whether nothing more will come from this rank.
  virtual bool is_gone(int peer) const = 0;
  /// Ends the wire, when all ranks have said that they leave and `receives` are the only requests
  /// left. Returns what went wrong.
  virtual std::string end(Request* receives, std::size_t count,
                          std::chrono::nanoseconds deadline) = 0;
};

}  // namespace attacca::comm
