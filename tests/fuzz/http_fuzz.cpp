// http_fuzz.cpp: sends any bytes to an HTTP server over the loopback device. What comes back is
// nothing or begins as an HTTP reply, the server then closes the connection, and it still answers
// others.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "server/http_server.hpp"

namespace {

using namespace attacca::server;

constexpr std::size_t kMostBody = 1 << 16;
constexpr std::size_t kMostHeader = 1 << 12;
constexpr unsigned kInputsPerCheck = 64;

void require(bool claim) {
  if (!claim) std::abort();
}

/// Answers with the length of what it got, as a whole reply or as a stream.
void answer(const HttpRequest& request, const ExchangePtr& exchange) {
  require(request.body.size() <= kMostBody && request.path.size() <= kMostHeader);
  if (request.refusal.status != 0) return exchange->send({.status = request.refusal.status});
  std::string size = std::to_string(request.body.size());
  if (request.path != "/stream") return exchange->send({.body = std::move(size)});
  exchange->begin({.body = "a"});
  exchange->write(std::move(size));
  exchange->end();
}

class Running {
 public:
  Running() {
    server_.listen(answer);
    thread_ = std::thread([this] { server_.run([] {}); });
  }
  std::uint16_t port() const { return server_.port(); }
  ~Running() {
    server_.stop();
    thread_.join();
  }

 private:
  HttpServer server_{{.port = 0, .most_body_bytes = kMostBody, .most_header_bytes = kMostHeader}};
  std::thread thread_;
};

/// Everything that the server says to these bytes. `stays`: the client does not close its side, so
/// the bytes must ask for that.
std::string reply_to(std::string_view bytes, bool stays) {
  static const Running server;
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(server.port());
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  require(connect(client, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  while (!bytes.empty()) {
    const ssize_t sent = send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;  // the server has had enough
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  if (!stays) shutdown(client, SHUT_WR);
  std::string reply;
  char piece[4096];
  ssize_t got = 0;
  while ((got = recv(client, piece, sizeof piece, 0)) > 0)
    reply.append(piece, static_cast<std::size_t>(got));
  require(got == 0 || errno == ECONNRESET);  // and not because patience ended
  close(client);
  return reply;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string reply = reply_to({reinterpret_cast<const char*>(data), size}, false);
  require(reply.empty() || reply.starts_with("HTTP/1.1 ") || reply.starts_with("HTTP/1.0 "));
  static unsigned inputs = 0;
  if (++inputs % kInputsPerCheck == 0)
    require(reply_to("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", true)
                .starts_with("HTTP/1.1 200 "));
  return 0;
}
