// config_keys.hpp: what attacca does with every key that a configuration can have. A key that would
// change the model's output is either read or must have a supported value; none is ignored. The
// tables are in config_keys.cpp.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.hpp"

namespace attacca::model {

/// What attacca does with a key.
///  read        the value goes to ModelConfig
///  irrelevant  the key is for training or bookkeeping: the output is the same
///  fixed       some values are supported, others are refused
enum class KeyUse { read, irrelevant, fixed };

struct KeyRule {
  std::string_view key;  // "a.*" stands for every key that begins with "a."
  KeyUse use;
  std::string_view supported = {};  // if fixed: a JSON list; an empty list: no value is supported
};

/// The keys of config.json, of its objects "rope_parameters" and "rope_scaling", and of GGUF
/// metadata. In GGUF keys {} is the architecture's name.
std::span<const KeyRule> config_json_keys();
std::span<const KeyRule> rope_json_keys();
std::span<const KeyRule> gguf_keys();

/// Checks keys against a table and remembers those that are not in it.
class KeyCheck {
 public:
  /// Called with a key whose value is not supported, and with the values that are.
  using Refuse = std::function<void(const std::string& key, const std::string& supported)>;
  KeyCheck(std::span<const KeyRule> rules, Refuse refuse, std::string architecture = {});

  /// A null counts as absent.
  void check(std::string_view key, const nlohmann::json& value);
  /// An array of a GGUF file counts as an empty list.
  void check(std::string_view key, const formats::GgufValue& value);
  /// Adds a note that names the keys that are not in the table, if there are any.
  void add_note(const std::string& file, std::vector<std::string>& notes) const;

 private:
  bool matches(const KeyRule& rule, std::string_view key) const;

  std::span<const KeyRule> rules_;
  Refuse refuse_;
  std::string architecture_;
  std::vector<std::string> unknown_;
};

/// A GGUF file's value as a message about keys prints it: "8", "'yarn'", "a list".
std::string value_text(const formats::GgufValue& value);

}  // namespace attacca::model
