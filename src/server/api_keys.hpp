// api_keys.hpp: the keys that clients show as "Authorization: Bearer KEY".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attacca::server {

class ApiKeys {
 public:
  /// Without keys everyone is let in.
  ApiKeys() = default;
  /// One key a line; empty lines and lines that begin with # are passed over. Throws BadArgument if
  /// there is none, or one has a blank in it.
  explicit ApiKeys(std::string_view text);

  /// Takes as long whatever the keys are: it compares every byte with every key.
  bool lets_in(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace attacca::server
