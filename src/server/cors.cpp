// cors.cpp: the headers that browsers look for.
#include "server/cors.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <attacca/error.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "core/in_quotes.hpp"

namespace attacca::server {

namespace {

class CorsExchange final : public Exchange {
 public:
  CorsExchange(ExchangePtr exchange, HttpHeaders headers)
      : exchange_(std::move(exchange)), headers_(std::move(headers)) {}

  void send(HttpReply reply) override { exchange_->send(with_headers(std::move(reply))); }
  void begin(HttpReply head) override { exchange_->begin(with_headers(std::move(head))); }
  void write(std::string piece) override { exchange_->write(std::move(piece)); }
  void end() override { exchange_->end(); }
  void on_leave(std::function<void()> work) override { exchange_->on_leave(std::move(work)); }
  void note(const TokenCounts& counts) override { exchange_->note(counts); }

 private:
  HttpReply with_headers(HttpReply reply) const {
    reply.headers.insert(reply.headers.end(), headers_.begin(), headers_.end());
    return reply;
  }

  ExchangePtr exchange_;
  HttpHeaders headers_;
};

/// A scheme, a host and a port, and nothing behind them.
bool is_origin(const std::string& text) {
  const std::size_t host = text.find("://");
  return host != std::string::npos && host > 0 && host + 3 < text.size() &&
         text.find_first_of("/ \t\r\n?#*,", host + 3) == std::string::npos;
}

}  // namespace

Cors::Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {
  for (const std::string& origin : origins_)
    if (origin != "*" && !is_origin(origin))
      throw BadArgument(fmt::format(
          "{} is no origin of web pages; give a scheme and a host, such as https://example.org or "
          "http://localhost:3000, or * for all",
          in_quotes(origin)));
}

bool Cors::allows(const std::string& origin) const {
  return !origin.empty() && std::any_of(origins_.begin(), origins_.end(), [&](const auto& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

HttpReply Cors::preflight() const {
  // A star does not stand for Authorization.
  return {.content_type = "text/plain",
          .headers = {{"Access-Control-Allow-Methods", "GET, POST"},
                      {"Access-Control-Allow-Headers", "Authorization, *"},
                      {"Access-Control-Max-Age", "86400"}}};
}

ExchangePtr Cors::wrap(ExchangePtr exchange, const std::string& origin) const {
  return std::make_shared<CorsExchange>(
      std::move(exchange),
      HttpHeaders{{"Access-Control-Allow-Origin", origin}, {"Vary", "Origin"}});
}

}  // namespace attacca::server
