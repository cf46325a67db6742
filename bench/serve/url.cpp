// url.cpp: takes an address apart, and says which part cannot be used.
#include "serve/url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <attacca/error.hpp>
#include <charconv>

#include "core/in_quotes.hpp"

namespace bench::serve {

namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";
constexpr std::uint16_t kHttpsPort = 443;
constexpr std::string_view kVersion = "/v1";

[[noreturn]] void refuse(std::string_view url, const std::string& reason) {
  throw attacca::BadArgument(fmt::format("--url {}: {}", attacca::in_quotes(url), reason));
}

bool is_plain(char letter) { return letter > ' ' && letter <= '~'; }

/// Splits "HOST:PORT" or "[IPV6]:PORT". The port may be missing.
std::pair<std::string_view, std::string_view> host_and_port(std::string_view text) {
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : std::string_view::npos;
  const std::size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string_view host = text.substr(0, colon);
  if (bracket != std::string_view::npos) host = text.substr(1, bracket - 1);
  return {host, colon == std::string_view::npos ? "" : text.substr(colon + 1)};
}

}  // namespace

std::string Url::authority() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}:{}", is_ipv6 ? "[" + host + "]" : host, port);
}

std::string Url::text() const {
  return fmt::format("{}{}{}", is_tls ? kHttps : kHttp, authority(), api);
}

Url parse_url(std::string_view text) {
  const bool is_tls = text.starts_with(kHttps);
  if (!is_tls && !text.starts_with(kHttp))
    refuse(text, "an address such as http://127.0.0.1:8000 is expected");
  if (!std::all_of(text.begin(), text.end(), is_plain))
    refuse(text, "an address has no blanks and only ASCII characters");
  const std::size_t forbidden = text.find_first_of("@?#");
  if (forbidden != std::string_view::npos)
    refuse(text, fmt::format("leave out the part at '{}'", text.substr(forbidden, 1)));

  const std::string_view rest = text.substr(is_tls ? kHttps.size() : kHttp.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view place = rest.substr(0, slash);
  const auto [host, port] = host_and_port(place);
  Url url{.host = std::string(host), .api = std::string(rest.substr(slash)), .root = {}};
  url.is_tls = is_tls;
  if (is_tls) url.port = kHttpsPort;
  if (host.empty()) refuse(text, "the host is missing");
  if (place.find(':') != std::string_view::npos &&
      !(place.starts_with('[') && place.ends_with(']'))) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (error != std::errc() || end != port.data() + port.size() || url.port == 0)
      refuse(text, "the port is a number from 1 to 65535");
  }
  while (url.api.ends_with('/')) url.api.pop_back();
  if (url.api.empty()) url.api = kVersion;
  url.root = url.api;
  if (url.root.ends_with(kVersion)) url.root.resize(url.root.size() - kVersion.size());
  return url;
}

}  // namespace bench::serve
