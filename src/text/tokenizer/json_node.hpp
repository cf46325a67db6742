// json_node.hpp: a value of a JSON file that knows its place, for messages such as
// "tokenizer.json: pre_tokenizer.pretokenizers[1].type 'X' is ...".
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace attacca::text {

/// A view of one value. REQUIRES: the JSON outlives it.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string file)
      : value_(&value), file_(std::move(file)) {}

  const nlohmann::json& value() const { return *value_; }
  /// "tokenizer.json: model.vocab"
  std::string place() const { return path_.empty() ? file_ : file_ + ": " + path_; }

  /// A field of an object; none if it is absent or null.
  std::optional<JsonNode> find(const char* key) const;
  /// A field of an object. Throws BadArgument if it is absent or null.
  JsonNode at(const char* key) const;
  /// Visits the elements of an array in order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (std::size_t index = 0; index < length(); ++index) visit(item(index));
  }
  std::size_t length() const;  // of an array

  bool is_text() const;
  const std::string& text() const;
  std::uint64_t number() const;  // not negative
  bool truth() const;

  std::string text_or(const char* key, std::string_view otherwise) const;
  std::uint64_t number_or(const char* key, std::uint64_t otherwise) const;
  bool truth_or(const char* key, bool otherwise) const;

  /// Throws BadArgument with the place, the value and `why`.
  [[noreturn]] void refuse(std::string_view why) const;

 private:
  JsonNode item(std::size_t index) const;

  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
};

/// Throws BadArgument with the byte at which the text stops being JSON.
nlohmann::json parse_tokenizer_json(std::string_view text, std::string_view file);

}  // namespace attacca::text
