// socket.hpp: TCP sockets with deadlines. All are non-blocking.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace attacca::comm {

using Deadline = std::chrono::steady_clock::time_point;

/// Owns a socket, or none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  ~Socket();
  Socket(Socket&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  Socket& operator=(Socket&& other) noexcept;

  /// Listens at `port`, or at any if it is 0: on all interfaces, or on the loopback interface alone
  /// if `address` is there. Throws BadArgument.
  static Socket listening(const std::string& address, std::uint16_t port);
  /// Tries again until the deadline, since the other side may not listen yet. None if it never
  /// does. Throws BadArgument for an address that has no meaning.
  static Socket connected(const std::string& address, std::uint16_t port, Deadline deadline);

  explicit operator bool() const { return file_ >= 0; }
  int get() const { return file_; }
  std::uint16_t port() const;  // of this side
  /// The address of the other side as numbers; empty if it is on the loopback interface.
  std::string peer() const;
  /// The next connection. None at the deadline.
  Socket accept(Deadline deadline) const;
  /// False if the other side has gone, or at the deadline.
  bool send_all(const void* data, std::size_t bytes, Deadline deadline) const;
  bool receive_all(void* data, std::size_t bytes, Deadline deadline) const;
  /// Says that nothing more is sent, and reads until the other side says so too. A socket that is
  /// closed with bytes unread would take back what it has sent.
  void close_gently(Deadline deadline);

 private:
  int file_ = -1;
};

}  // namespace attacca::comm
