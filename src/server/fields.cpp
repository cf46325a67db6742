// fields.cpp: the checks of types and ranges behind every field of a request.
#include "server/fields.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/json.hpp"
#include "server/request_error.hpp"

namespace attacca::server {

using nlohmann::json;

namespace {

constexpr int kMostNesting = 32;
constexpr std::size_t kMostKeys = 16384;  // of a field whose order matters

}  // namespace

RequestBody::RequestBody(std::string text)
    : text_(std::make_shared<const std::string>(std::move(text))) {
  json parsed;
  try {
    parsed = formats::parse_json(*text_, "the body", kMostNesting);
  } catch (const BadArgument& error) {
    throw RequestError(400, error.what());
  }
  if (!parsed.is_object())
    throw RequestError(
        400, fmt::format("the body is {}; a JSON object is expected", formats::json_text(parsed)));
  parsed_ = std::make_shared<const json>(std::move(parsed));
}

std::string RequestBody::model() const { return Fields(*parsed_).text("model").value_or(""); }

Fields RequestBody::fields() const {
  Fields fields(*parsed_);
  fields.find("model");
  return fields;
}

nlohmann::ordered_json RequestBody::ordered(const std::string& field) const {
  using Json = nlohmann::ordered_json;
  std::size_t keys = 0;
  bool is_inside = false;
  const auto keep = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event != Json::parse_event_t::key) return true;
    if (depth == 1) is_inside = value == field;
    // An ordered object compares a new key with all of its keys.
    if (is_inside && ++keys > kMostKeys)
      throw RequestError(
          400, fmt::format("'{}' has more than {} keys; simplify it", field, kMostKeys), field);
    return is_inside;
  };
  return Json::parse(*text_, keep)[field];
}

void refuse_value(const std::string& place, const json& value, const std::string& expected) {
  throw RequestError(
      400, fmt::format("'{}' is {}; {} is expected", place, formats::json_text(value), expected),
      place);
}

Fields::Fields(const json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) refuse_value(path_, object, "an object");
}

const json* Fields::find(const std::string& key) {
  known_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(const std::string& key, double least, double most) {
  const json* value = find(key);
  if (!value) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : most + 1;
  if (!(number >= least && number <= most))
    refuse(key, fmt::format("a number from {} to {}", least, most));
  return number;
}

std::optional<std::int64_t> Fields::whole(const std::string& key, std::int64_t least,
                                          std::int64_t most) {
  const json* value = find(key);
  if (!value) return std::nullopt;
  // A number above the range of int64 is unsigned, and its get<int64_t> would wrap.
  const bool fits = value->is_number_integer() &&
                    !(value->is_number_unsigned() &&
                      value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX));
  if (!fits || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most)
    refuse(key, fmt::format("a whole number from {} to {}", least, most));
  return value->get<std::int64_t>();
}

std::optional<bool> Fields::truth(const std::string& key) {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::optional<std::string> Fields::text(const std::string& key) {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse(key, "a string");
  return value->get<std::string>();
}

std::string Fields::place(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

void Fields::refuse(const std::string& key, const std::string& expected) const {
  const auto found = object_.find(key);
  if (found != object_.end()) refuse_value(place(key), *found, expected);
  throw RequestError(400, fmt::format("'{}' is missing; {} is expected", place(key), expected),
                     place(key));
}

void Fields::refuse_unsupported(const std::string& key) const {
  throw RequestError(400, fmt::format("'{}' is not supported yet; leave it out", place(key)),
                     place(key), "unsupported_parameter");
}

void Fields::require_all_known() const {
  for (const auto& [key, value] : object_.items())
    if (!known_.contains(key))
      throw RequestError(400,
                         fmt::format("'{}' is a field that this server does not know", place(key)),
                         place(key));
}

}  // namespace attacca::server
