// json_node.cpp: reads fields of JSON, and words the message if one has the wrong type.
#include "text/tokenizer/json_node.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <nlohmann/json.hpp>

#include "core/in_quotes.hpp"

namespace attacca::text {

using nlohmann::json;

std::optional<JsonNode> JsonNode::find(const char* key) const {
  if (!value_->is_object()) refuse("an object is expected");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  JsonNode node(*found, file_);
  node.path_ = path_.empty() ? key : path_ + "." + key;
  return node;
}

JsonNode JsonNode::at(const char* key) const {
  std::optional<JsonNode> node = find(key);
  if (!node) throw BadArgument(fmt::format("{}: field '{}' is missing", place(), key));
  return *node;
}

std::size_t JsonNode::length() const {
  if (!value_->is_array()) refuse("an array is expected");
  return value_->size();
}

JsonNode JsonNode::item(std::size_t index) const {
  JsonNode node((*value_)[index], file_);
  node.path_ = fmt::format("{}[{}]", path_, index);
  return node;
}

bool JsonNode::is_text() const { return value_->is_string(); }

const std::string& JsonNode::text() const {
  if (!value_->is_string()) refuse("a string is expected");
  return value_->get_ref<const std::string&>();
}

std::uint64_t JsonNode::number() const {
  if (!value_->is_number_unsigned()) refuse("a whole number is expected");
  return value_->get<std::uint64_t>();
}

bool JsonNode::truth() const {
  if (!value_->is_boolean()) refuse("true or false is expected");
  return value_->get<bool>();
}

std::string JsonNode::text_or(const char* key, std::string_view otherwise) const {
  const std::optional<JsonNode> node = find(key);
  return node ? node->text() : std::string(otherwise);
}

std::uint64_t JsonNode::number_or(const char* key, std::uint64_t otherwise) const {
  const std::optional<JsonNode> node = find(key);
  return node ? node->number() : otherwise;
}

bool JsonNode::truth_or(const char* key, bool otherwise) const {
  const std::optional<JsonNode> node = find(key);
  return node ? node->truth() : otherwise;
}

void JsonNode::refuse(std::string_view why) const {
  // A message names a container by its kind: its text could be as long as the file.
  const std::string shown = value_->is_structured() ? std::string("an ") + value_->type_name()
                            : value_->is_string() ? in_quotes(value_->get_ref<const std::string&>())
                                                  : value_->dump();
  throw BadArgument(fmt::format("{} is {}: {}", place(), shown, why));
}

json parse_tokenizer_json(std::string_view text, std::string_view file) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    throw BadArgument(
        fmt::format("{}: byte {}: not JSON: {}", file, error.byte, in_quotes(error.what())));
  } catch (const json::exception& error) {  // a number is too large for a double
    throw BadArgument(fmt::format("{}: not usable JSON: {}", file, in_quotes(error.what())));
  }
}

}  // namespace attacca::text
