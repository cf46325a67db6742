// to_json.cpp: prints values as JSON.
#include "text/chat/to_json.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "text/chat/utf8.hpp"

namespace attacca::text::chat {
namespace {

class JsonPrinter {
 public:
  explicit JsonPrinter(const JsonStyle& style) : style_(style) {}

  void print(const Value& value) {
    if (const Text* text = value.as_text())
      print_string(*text);
    else if (const List* list = value.as_list())
      print_list(*list, value.origin());
    else if (const Dict* dict = value.as_dict())
      print_dict(*dict, value.origin());
    else
      out_.append(scalar(value), value.origin());
  }

  Text take() { return std::move(out_); }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (const bool* boolean = value.as_boolean()) return *boolean ? "true" : "false";
    if (const std::int64_t* integer = value.as_integer()) return fmt::format("{}", *integer);
    if (const double* real = value.as_real()) {
      if (std::isnan(*real)) return "NaN";
      if (std::isinf(*real)) return *real < 0 ? "-Infinity" : "Infinity";
      return format_real(*real);
    }
    throw Problem((value.is_undefined() ? value.why() : value.kind()) +
                  "; 'tojson' takes strings, numbers, booleans, none, lists and mappings");
  }

  void append_code_unit(std::string& out, unsigned unit) const {
    out += fmt::format("\\u{:04x}", unit);
  }

  void append_escaped(std::string& out, const Character& one, std::string_view bytes) const {
    static constexpr std::string_view kPlain = "\"\\\b\f\n\r\t";
    static constexpr std::string_view kEscaped = "\"\\bfnrt";
    const auto code = static_cast<std::uint32_t>(one.code);
    if (code < 0x80) {
      const std::size_t known = kPlain.find(static_cast<char>(code));
      if (known != std::string_view::npos)
        (out += '\\') += kEscaped[known];
      else if (code < 0x20)
        append_code_unit(out, code);
      else
        out += static_cast<char>(code);
    } else if (!style_.is_ascii) {
      out += bytes;
    } else if (code < 0x10000) {
      append_code_unit(out, code);
    } else {
      append_code_unit(out, 0xD800 + ((code - 0x10000) >> 10));
      append_code_unit(out, 0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }

  void print_string(const Text& text) {
    out_.append("\"", text.origin());
    text.for_each_run([&](std::string_view run, Origin origin) {
      std::string escaped;
      for (std::size_t at = 0; at < run.size();) {
        const Character one = character_at(run, at);
        append_escaped(escaped, one, run.substr(at, one.size));
        at += one.size;
      }
      out_.append(escaped, origin);
    });
    out_.append("\"", text.origin());
  }

  void break_line(Origin origin) {
    if (!style_.indent) return;
    out_.append("\n", origin);
    for (unsigned level = 0; level < level_; ++level) out_.append(*style_.indent);
  }

  template <class Print>
  void print_between(std::string_view marks, std::size_t count, Origin origin, Print print_one) {
    out_.append(marks.substr(0, 1), origin);
    ++level_;
    for (std::size_t index = 0; index < count; ++index) {
      if (index > 0) append(style_.between_items, origin);
      break_line(origin);
      print_one(index);
    }
    --level_;
    if (count > 0) break_line(origin);
    out_.append(marks.substr(1), origin);
  }

  void append(const Text& mark, Origin origin) {
    out_.append(mark.bytes(), either(mark.origin(), origin));
  }

  void print_list(const List& list, Origin origin) {
    print_between("[]", list.items.size(), origin,
                  [&](std::size_t index) { print(list.items[index]); });
  }

  void print_dict(const Dict& dict, Origin origin) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.is_sorted)
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto* a, const auto* b) { return is_less(a->first, b->first); });
    print_between("{}", entries.size(), origin, [&](std::size_t index) {
      const auto& [key, value] = *entries[index];
      const Text* name = key.as_text();
      print_string(name ? *name : Text(scalar(key), key.origin()));
      append(style_.after_key, origin);
      print(value);
    });
  }

  const JsonStyle& style_;
  Text out_;
  unsigned level_ = 0;
};

}  // namespace

Text to_json(const Value& value, const JsonStyle& style) {
  JsonPrinter printer(style);
  printer.print(value);
  return printer.take();
}

}  // namespace attacca::text::chat
