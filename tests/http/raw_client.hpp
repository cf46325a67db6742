// raw_client.hpp: a client that sends any bytes and reads whatever comes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace attacca::test {

/// A client's socket. If nobody listens, nothing comes.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const timeval patience{60, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;

  void send(const std::string& text) const {
    ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// Whatever comes until the server closes the connection.
  std::string rest() const {
    std::string text;
    char piece[4096];
    for (ssize_t size; (size = ::recv(socket_, piece, sizeof piece, 0)) > 0;)
      text.append(piece, static_cast<std::size_t>(size));
    return text;
  }

 private:
  int socket_;
};

}  // namespace attacca::test
