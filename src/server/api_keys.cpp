// api_keys.cpp: reads keys, and compares them in a time that tells nothing about them.
#include "server/api_keys.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>

namespace attacca::server {

namespace {

bool is_blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

/// The number of steps depends on `shown` only.
bool is_same(std::string_view shown, std::string_view key) {
  volatile unsigned difference = shown.size() == key.size() ? 0 : 1;
  for (std::size_t at = 0; at < shown.size(); ++at)
    difference = difference | static_cast<unsigned char>(shown[at] ^ key[at % key.size()]);
  return difference == 0;
}

}  // namespace

ApiKeys::ApiKeys(std::string_view text) {
  for (std::size_t start = 0, line = 1; start < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string_view key = text.substr(start, end - start);
    start = end + 1;
    while (!key.empty() && is_blank(key.front())) key.remove_prefix(1);
    while (!key.empty() && is_blank(key.back())) key.remove_suffix(1);
    if (key.empty() || key.front() == '#') continue;
    if (std::any_of(key.begin(), key.end(), is_blank))
      throw BadArgument(fmt::format("line {}: a key with a blank in it", line));
    keys_.emplace_back(key);
  }
  if (keys_.empty()) throw BadArgument("there is no key in it; write one on each line");
}

bool ApiKeys::lets_in(std::string_view authorization) const {
  if (keys_.empty()) return true;
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view scheme = authorization.substr(0, kScheme.size());
  const bool is_bearer = std::equal(
      scheme.begin(), scheme.end(), kScheme.begin(), kScheme.end(),
      [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b; });
  if (!is_bearer) return false;
  bool is_known = false;
  for (const std::string& key : keys_)
    is_known = is_same(authorization.substr(kScheme.size()), key) | is_known;
  return is_known;
}

}  // namespace attacca::server
