// known_misses.cpp: reads and checks the list of known misses, and names whatever is wrong in it.
#include "known_misses.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <attacca/error.hpp>
#include <fstream>

namespace bench {

using json = nlohmann::ordered_json;

namespace {

constexpr const char* kTexts[] = {"bench", "device", "row", "reason", "since"};

/// The problem of an entry; empty if there is none.
std::string fault_of(const json& entry) {
  if (!entry.is_object()) return "it is not an object";
  for (const char* key : kTexts)
    if (!entry.contains(key) || !entry[key].is_string() || entry[key].get<std::string>().empty())
      return fmt::format("'{}' must be a text that is not empty", key);
  if (!entry.contains("params") || !entry["params"].is_object())
    return "'params' must be an object; {} covers every row of the name";
  for (const auto& [key, value] : entry.items())
    if (key != "params" && std::find(std::begin(kTexts), std::end(kTexts), key) == std::end(kTexts))
      return fmt::format("'{}' is not a field; there are bench, device, row, params, reason, since",
                         key);
  return "";
}

}  // namespace

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool KnownMiss::covers(const Row& other) const {
  if (other.name != row) return false;
  for (const auto& [key, value] : params.items())
    if (!other.params.is_object() || !other.params.contains(key) || other.params[key] != value)
      return false;
  return true;
}

std::vector<KnownMiss> read_known_misses(const std::filesystem::path& file) {
  const auto refuse = [&](const std::string& fault) {
    throw attacca::Error(fmt::format("{}: {}", file.string(), fault));
  };
  std::ifstream stream(file);
  if (!stream) refuse("cannot be read");
  const json list = json::parse(stream, nullptr, false);
  if (!list.is_array()) refuse("is not a JSON list of known misses");
  std::vector<KnownMiss> known;
  for (const json& entry : list) {
    if (const std::string fault = fault_of(entry); !fault.empty())
      refuse(fmt::format("entry {}: {}", known.size() + 1, fault));
    known.push_back({entry["bench"], entry["device"], entry["row"], entry["params"],
                     entry["reason"], entry["since"]});
  }
  return known;
}

std::string label_of(const std::string& row, const json& params) {
  std::string text = row;
  for (const auto& [key, value] : params.items())
    text += fmt::format(", {} {}", key, text_of(value));
  return text;
}

}  // namespace bench
