// schema_document.cpp: parses schemas with bounded nesting and follows JSON pointers.
#include "grammar/schema_document.hpp"

#include <attacca/error.hpp>

#include <charconv>
#include <set>
#include <vector>

#include "core/in_quotes.hpp"
#include "core/json_reason.hpp"

namespace attacca::grammar {
namespace {

using nlohmann::ordered_json;

/// A key as a part of a JSON pointer.
std::string escaped(std::string_view key) {
  std::string result;
  for (const char letter : key) {
    if (letter == '~')
      result += "~0";
    else if (letter == '/')
      result += "~1";
    else
      result += letter;
  }
  return result;
}

std::string unescaped(std::string_view part) {
  std::string result;
  for (std::size_t at = 0; at < part.size(); ++at) {
    if (part[at] == '~' && at + 1 < part.size() && (part[at + 1] == '0' || part[at + 1] == '1')) {
      result += part[++at] == '0' ? '~' : '/';
    } else {
      result += part[at];
    }
  }
  return result;
}

/// %41 as in URLs.
std::string percent_decoded(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned char byte = 0;
    const char* digits = text.data() + at + 1;
    if (text[at] == '%' && at + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      result += static_cast<char>(byte);
      at += 2;
    } else {
      result += text[at];
    }
  }
  return result;
}

/// formats::parse_json sorts the keys; here their order matters.
ordered_json parsed(std::string_view text) {
  if (text.size() > kMostSchemaBytes)
    throw TooLarge(fmt::format("schema: {} bytes; at most {}", text.size(), kMostSchemaBytes));
  std::vector<std::set<std::string>> keys;  // of each open object
  const auto watch = [&](int depth, ordered_json::parse_event_t event, ordered_json& value) {
    using Event = ordered_json::parse_event_t;
    const bool is_start = event == Event::object_start || event == Event::array_start;
    if (is_start && depth >= kMostSchemaNesting)
      throw TooLarge(fmt::format("schema: nested deeper than {}", kMostSchemaNesting));
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      if (!keys.back().insert(value.get<std::string>()).second)
        throw BadArgument(fmt::format("schema: key {} is there twice in one object",
                                      in_quotes(value.get<std::string>())));
      if (keys.back().size() > kMostKeys)
        throw TooLarge(fmt::format("schema: an object with more than {} keys", kMostKeys));
    }
    return true;
  };
  try {
    return ordered_json::parse(text, watch);
  } catch (const ordered_json::parse_error& error) {
    throw BadArgument(fmt::format("schema: byte {}: not JSON: {}", error.byte,
                                  in_quotes(json_reason(error.what()))));
  } catch (const ordered_json::exception& error) {  // a number is too large for a double
    throw BadArgument(
        fmt::format("schema: not usable JSON: {}", in_quotes(json_reason(error.what()))));
  }
}

}  // namespace

Place Place::at(std::string_view key) const { return at(key, *schema->find(std::string(key))); }

Place Place::at(std::string_view key, const ordered_json& value) const {
  return {&value, pointer + "/" + escaped(key)};
}

Place Place::at(std::string_view key, std::size_t index) const {
  const Place list = at(key);
  return {&(*list.schema)[index], fmt::format("{}/{}", list.pointer, index)};
}

void refuse_with(const Place& place, std::string_view keyword, std::string_view why) {
  throw BadArgument(fmt::format("schema: keyword '{}' at {}: {}", keyword,
                                in_quotes(place.pointer + "/" + escaped(keyword)), why));
}

SchemaDocument::SchemaDocument(std::string_view text) : root_(parsed(text)) {}

Place SchemaDocument::resolve(const Place& schema) const {
  const ordered_json& reference = schema.schema->at("$ref");
  if (!reference.is_string()) refuse(schema, "$ref", "a string is expected");
  const std::string text = reference.get<std::string>();
  if (!text.starts_with('#') || (text.size() > 1 && text[1] != '/'))
    refuse(schema, "$ref",
           "{} is not supported; use a reference into the same schema, such as '#/$defs/name'",
           in_quotes(text));
  const std::string path = percent_decoded(std::string_view(text).substr(1));
  const ordered_json* node = &root_;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at + 1), path.size());
    const std::string key = unescaped(std::string_view(path).substr(at + 1, end - at - 1));
    const ordered_json* next = nullptr;
    if (node->is_object()) {
      const auto found = node->find(key);
      if (found != node->end()) next = &*found;
    } else if (node->is_array()) {
      std::size_t index = 0;
      const auto [rest, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error == std::errc() && rest == key.data() + key.size() && index < node->size())
        next = &(*node)[index];
    }
    if (!next) refuse(schema, "$ref", "{} leads nowhere", in_quotes(text));
    node = next;
    at = end;
  }
  return {node, "#" + path};
}

}  // namespace attacca::grammar
