// json.hpp: the JSON that commands print. Only json.cpp includes nlohmann's header, which costs g++
// 3 to 8 s in each file.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attacca::tool {

/// A value that can be printed. Fields of an object keep their order. Bytes that are not UTF-8
/// become U+FFFD: a token may be half a character, and a prompt may be anything.
class Json {
 public:
  using Field = std::pair<std::string, Json>;
  using List = std::vector<Json>;

  Json() : scalar_("null") {}
  Json(bool value) : scalar_(value ? "true" : "false") {}
  template <std::integral T>
  Json(T value) : scalar_(std::to_string(value)) {}
  Json(double value);
  Json(std::string_view text);
  Json(const std::string& text) : Json(std::string_view(text)) {}
  Json(const char* text) : Json(std::string_view(text)) {}
  Json(const List& values);
  template <class T>
  Json(const std::vector<T>& values) : Json(List(values.begin(), values.end())) {}
  Json(std::initializer_list<Field> fields);

  /// REQUIRES: an object without that key.
  void add(const std::string& key, Json value);

  /// On one line, or indented by so many blanks.
  std::string text(int indent = -1) const { return text_at(indent, 0); }

 private:
  enum class Kind { scalar, list, object };
  std::string text_at(int indent, int depth) const;

  Kind kind_ = Kind::scalar;
  std::string scalar_;         // as it is printed
  std::vector<Field> fields_;  // a list's have no keys; an object's keys are as they are printed
};

}  // namespace attacca::tool
