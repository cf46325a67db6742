// json.cpp: runs nlohmann's parser with limits of its own, and words its errors.
#include "formats/json.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/in_quotes.hpp"
#include "core/json_reason.hpp"

namespace attacca::formats {

using nlohmann::json;

json parse_json(std::string_view text, const std::string& file, int most_nesting,
                std::uint64_t first_byte) {
  std::vector<std::set<std::string>> keys;  // of each open object
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    using Event = json::parse_event_t;
    const bool is_start = event == Event::object_start || event == Event::array_start;
    if (is_start && depth >= most_nesting)
      throw BadArgument(fmt::format("{}: nested deeper than {}", file, most_nesting));
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw BadArgument(fmt::format("{}: key {} is there twice in one object", file,
                                    in_quotes(parsed.get<std::string>())));
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::parse_error& error) {
    throw BadArgument(fmt::format("{}: byte {}: not JSON: {}", file, first_byte + error.byte,
                                  in_quotes(json_reason(error.what()))));
  } catch (const json::exception& error) {  // a number is too large for a double
    throw BadArgument(
        fmt::format("{}: not usable JSON: {}", file, in_quotes(json_reason(error.what()))));
  }
}

std::string json_text(const json& value) {
  return in_quotes(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

JsonFields::JsonFields(const json& object, std::string file)
    : object_(object), file_(std::move(file)) {
  if (!object.is_object())
    throw BadArgument(fmt::format("{}: {} is no JSON object", file_, json_text(object)));
}

const json* JsonFields::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::names(const char* key) const { return object_.contains(key); }

std::optional<std::uint32_t> JsonFields::count(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number_unsigned() ||
      value->get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max())
    refuse(key, "a whole number below 2^32 is expected");
  return value->get<std::uint32_t>();
}

std::optional<double> JsonFields::number(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) refuse(key, "a number is expected");
  return value->get<double>();
}

std::optional<bool> JsonFields::truth(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "true or false is expected");
  return value->get<bool>();
}

std::optional<std::string> JsonFields::text(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse(key, "a string is expected");
  return value->get<std::string>();
}

std::uint32_t JsonFields::require_count(const char* key) const {
  const std::optional<std::uint32_t> value = count(key);
  if (!value) throw BadArgument(fmt::format("{}: key '{}' is missing", file_, key));
  return *value;
}

void JsonFields::require(const char* key) const {
  if (!names(key)) throw BadArgument(fmt::format("{}: key '{}' is missing", file_, key));
}

void JsonFields::refuse(const char* key, const std::string& why) const {
  const json* value = find(key);
  throw BadArgument(
      fmt::format("{}: '{}' is {}; {}", file_, key, value ? json_text(*value) : "absent", why));
}

}  // namespace attacca::formats
