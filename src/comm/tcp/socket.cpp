// socket.cpp: resolves names, connects, accepts, and moves bytes until a deadline.
#include "comm/tcp/socket.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

namespace attacca::comm {

namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0)
    throw BadArgument(fmt::format("the address '{}' of rank 0: {}; is MASTER_ADDR right?", address,
                                  gai_strerror(error)));
  return {found, freeaddrinfo};
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

/// Whether the socket is ready for `events` before the deadline.
bool is_ready(int file, short events, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{file, events, 0};
    const int count = ::poll(&entry, 1, static_cast<int>(std::clamp<long>(left, 0, 60'000)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
    if (left <= 0) return false;
  }
}

int make(const addrinfo& at) {
  return ::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

void send_at_once(int file) {
  const int on = 1;
  ::setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Socket::~Socket() {
  if (file_ >= 0) ::close(file_);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

Socket Socket::listening(const std::string& address, std::uint16_t port) {
  const Addresses found = resolve(address, port);
  Socket socket(make(*found));
  // A machine's own name may resolve to a loopback address that others cannot reach (Debian's
  // 127.0.1.1), so only addresses that everyone has restrict it.
  const bool is_local = address == "localhost" || address == "::1" || address == "127.0.0.1";
  sockaddr_storage at{};
  std::memcpy(&at, found->ai_addr, found->ai_addrlen);
  if (!is_local && at.ss_family == AF_INET)
    reinterpret_cast<sockaddr_in*>(&at)->sin_addr.s_addr = htonl(INADDR_ANY);
  if (!is_local && at.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(&at)->sin6_addr = in6addr_any;
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), found->ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    throw BadArgument(
        fmt::format("rank 0 cannot listen at port {}: {}; set ATTACCA_PORT, on all "
                    "ranks, to one that is free",
                    port, std::strerror(errno)));
  return socket;
}

Socket Socket::connected(const std::string& address, std::uint16_t port, Deadline deadline) {
  const Addresses found = resolve(address, port);
  for (;;) {
    for (const addrinfo* at = found.get(); at; at = at->ai_next) {
      Socket socket(make(*at));
      if (!socket) continue;
      int error = ::connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
      if (error == EINPROGRESS && is_ready(socket.get(), POLLOUT, deadline)) {
        socklen_t bytes = sizeof error;
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
      }
      if (error != 0) continue;
      send_at_once(socket.get());
      return socket;
    }
    if (Clock::now() >= deadline) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::uint16_t Socket::port() const {
  sockaddr_storage at{};
  socklen_t bytes = sizeof at;
  ::getsockname(file_, reinterpret_cast<sockaddr*>(&at), &bytes);
  return ntohs(at.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&at)->sin_port
                                       : reinterpret_cast<sockaddr_in6*>(&at)->sin6_port);
}

std::string Socket::peer() const {
  sockaddr_storage at{};
  socklen_t bytes = sizeof at;
  char host[NI_MAXHOST] = {};
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  if (::getpeername(file_, address, &bytes) != 0 || is_loopback(address) ||
      ::getnameinfo(address, bytes, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return {};
  return host;
}

Socket Socket::accept(Deadline deadline) const {
  while (is_ready(file_, POLLIN, deadline)) {
    Socket socket(::accept4(file_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) continue;  // it has gone again
    send_at_once(socket.get());
    return socket;
  }
  return {};
}

bool Socket::send_all(const void* data, std::size_t bytes, Deadline deadline) const {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(file_, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent < 0 && !is_ready(file_, POLLOUT, deadline)) return false;
    if (sent < 0) continue;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool Socket::receive_all(void* data, std::size_t bytes, Deadline deadline) const {
  auto* at = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t came = ::recv(file_, at, bytes, 0);
    if (came == 0 || (came < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (came < 0 && !is_ready(file_, POLLIN, deadline)) return false;
    if (came < 0) continue;
    at += came;
    bytes -= static_cast<std::size_t>(came);
  }
  return true;
}

void Socket::close_gently(Deadline deadline) {
  ::shutdown(file_, SHUT_WR);
  std::byte unread[4096];
  while (is_ready(file_, POLLIN, deadline) && ::recv(file_, unread, sizeof unread, 0) > 0) {
  }
  *this = Socket();
}

}  // namespace attacca::comm
