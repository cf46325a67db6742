// json.cpp: turns values into text through nlohmann's JSON, which keeps the order of keys.
#include "json.hpp"

#include <nlohmann/json.hpp>

namespace attacca::tool {

namespace {

std::string printed(const nlohmann::json& scalar) {
  return scalar.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Json::Json(double value) : scalar_(printed(value)) {}
Json::Json(std::string_view text) : scalar_(printed(text)) {}

Json::Json(const List& values) : kind_(Kind::list) {
  for (const Json& value : values) fields_.emplace_back(std::string(), value);
}

Json::Json(std::initializer_list<Field> fields) : kind_(Kind::object) {
  for (const auto& [key, value] : fields) add(key, value);
}

void Json::add(const std::string& key, Json value) {
  fields_.emplace_back(printed(key), std::move(value));
}

std::string Json::text_at(int indent, int depth) const {
  if (kind_ == Kind::scalar) return scalar_;
  const bool is_list = kind_ == Kind::list;
  const auto line = [&](int level) {
    return indent < 0 ? std::string()
                      : "\n" + std::string(static_cast<std::size_t>(indent * level), ' ');
  };
  std::string text = is_list ? "[" : "{";
  for (const auto& [key, value] : fields_) {
    if (&value != &fields_.front().second) text += ",";
    text += line(depth + 1);
    if (!is_list) text += key + (indent < 0 ? ":" : ": ");
    text += value.text_at(indent, depth + 1);
  }
  if (!fields_.empty()) text += line(depth);
  return text + (is_list ? "]" : "}");
}

}  // namespace attacca::tool
