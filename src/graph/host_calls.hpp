// host_calls.hpp: the calls with which a program drives a device (launches, copies, waits), for
// whoever wants to hear of them. Without a listener a call pays for one load.
#pragma once

#include <atomic>
#include <attacca/device.hpp>
#include <cstdint>

namespace attacca::graph {

class HostCallListener {
 public:
  virtual ~HostCallListener() = default;
  /// Called from the thread that made the call. `kind` lives for ever.
  virtual void called(const char* kind, std::int64_t begin_ns, std::int64_t end_ns) = 0;
};

/// Tells the listener of a device's calls from now on. When `stop_listening` has returned, none is
/// told any more.
void listen(const Device& device, HostCallListener& listener);
void stop_listening(HostCallListener& listener);

/// A call that is made while this lives.
class HostCall {
 public:
  HostCall(const Device& device, const char* kind);
  ~HostCall() {
    if (kind_) tell();
  }
  HostCall(const HostCall&) = delete;

 private:
  void tell() const noexcept;

  const Device& device_;
  const char* kind_;  // null: nobody listens
  std::int64_t begin_ns_ = 0;
};

}  // namespace attacca::graph
