// url.hpp: the address of an OpenAI-compatible server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bench::serve {

struct Url {
  std::string host;  // IPv6 without its brackets
  std::uint16_t port = 80;
  bool is_tls = false;  // https
  std::string api;      // the path before /chat/completions: "/v1"
  std::string root;     // the path before /tokenize: "api" without its "/v1"

  /// "http://[::1]:8000/v1", for messages.
  std::string text() const;
  /// Host and port, such as "[::1]:8000". The header Host has them.
  std::string authority() const;
};

/// Reads http://HOST:PORT[/v1], or https://. Without a path, /v1 is meant. Throws BadArgument.
Url parse_url(std::string_view text);

}  // namespace bench::serve
