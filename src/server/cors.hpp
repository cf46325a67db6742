// cors.hpp: which web pages may read the server's replies. A browser asks on behalf of a page that
// comes from elsewhere, and shows it the reply only if the reply's header allows the page's origin.
#pragma once

#include <string>
#include <vector>

#include "server/http.hpp"

namespace attacca::server {

class Cors {
 public:
  /// Lets no page read anything.
  Cors() = default;
  /// `origins`: such as "https://example.org:8443"; "*" is every one. Throws BadArgument for what
  /// no browser sends.
  explicit Cors(std::vector<std::string> origins);

  /// Whether a request is from a page that may read the reply. `origin`: that header's value.
  bool allows(const std::string& origin) const;
  /// The reply to a browser that asks whether it may send a request with a body or a key.
  HttpReply preflight() const;
  /// Passes replies on, with a header that lets `origin` read them.
  ExchangePtr wrap(ExchangePtr exchange, const std::string& origin) const;

 private:
  std::vector<std::string> origins_;
};

}  // namespace attacca::server
