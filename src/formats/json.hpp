// json.hpp: reads JSON files with bounded nesting and without duplicate keys, and their fields with
// messages that name the file, the key and the value. Headers include json_fwd.hpp: nlohmann's full
// header compiles slowly.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace attacca::formats {

/// Throws BadArgument: "config.json: byte 17: ...". Offsets count from `first_byte`.
nlohmann::json parse_json(std::string_view text, const std::string& file, int most_nesting,
                          std::uint64_t first_byte = 0);

/// The fields of an object. A null counts as absent. REQUIRES: the object outlives it.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string file);

  const nlohmann::json& object() const { return object_; }
  const nlohmann::json* find(const char* key) const;
  /// Whether the object has the key, even with a null.
  bool names(const char* key) const;
  std::optional<std::uint32_t> count(const char* key) const;
  std::optional<double> number(const char* key) const;
  std::optional<bool> truth(const char* key) const;
  std::optional<std::string> text(const char* key) const;
  std::uint32_t require_count(const char* key) const;
  /// Throws if the object does not have the key; a null will do.
  void require(const char* key) const;

  [[noreturn]] void refuse(const char* key, const std::string& why) const;

 private:
  const nlohmann::json& object_;
  std::string file_;
};

/// A value's text for a message, cut if it is long.
std::string json_text(const nlohmann::json& value);

}  // namespace attacca::formats
