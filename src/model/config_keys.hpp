// config_keys.hpp: what becomes of every key that a configuration can have. A key that would change
// the answer is read or has the one value that attacca computes with; nothing of the kind is passed
// over. The tables: config_keys.cpp. Included by sources only, as json.hpp.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.hpp"

namespace attacca::model {

/// What attacca does with a key.
///  read        it is in ModelConfig
///  irrelevant  training and bookkeeping: the answer is the same
///  fixed       only some values are supported, others are refused
enum class KeyUse { read, irrelevant, fixed };

struct KeyRule {
  std::string_view key;  // one that ends with '*' is every key that begins so
  KeyUse use;
  std::string_view supported = {};  // fixed: a list in JSON; an empty one: the key must be absent
};

/// Of config.json, of its "rope_parameters" and "rope_scaling", and of GGUF metadata, where {} is
/// the architecture's name.
std::span<const KeyRule> config_json_keys();
std::span<const KeyRule> rope_json_keys();
std::span<const KeyRule> gguf_keys();

/// Holds keys against a table and remembers those that are not in it.
class KeyCheck {
 public:
  /// Told a key whose value is not supported, and which values are.
  using Refuse = std::function<void(const std::string& key, const std::string& supported)>;
  KeyCheck(std::span<const KeyRule> rules, Refuse refuse, std::string architecture = {});

  /// A null counts as absent.
  void check(std::string_view key, const nlohmann::json& value);
  /// One that names the keys that are not in the table; none where there are none.
  void add_note(const std::string& file, std::vector<std::string>& notes) const;

 private:
  bool matches(const KeyRule& rule, std::string_view key) const;

  std::span<const KeyRule> rules_;
  Refuse refuse_;
  std::string architecture_;
  std::vector<std::string> unknown_;
};

/// A number, truth or text of a GGUF file; a list is an empty one.
nlohmann::json json_of(const formats::GgufValue& value);

}  // namespace attacca::model
