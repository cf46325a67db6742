// print.cpp: prints values as Python's str and repr do. JSON is in to_json.cpp.
#include <fmt/core.h>

#include <cmath>

#include "text/chat/utf8.hpp"
#include "text/chat/value.hpp"

namespace attacca::text::chat {
namespace {

void append_escaped(std::string& out, const Character& one, std::string_view bytes, char quote) {
  switch (one.code) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (one.code == '\\' || one.code == static_cast<char32_t>(quote)) {
    out += '\\';
    out += bytes;
  } else if (!one.is_valid || is_printable(one.code)) {
    out += bytes;
  } else {
    const auto code = static_cast<std::uint32_t>(one.code);
    out += code < 0x100     ? fmt::format("\\x{:02x}", code)
           : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                            : fmt::format("\\U{:08x}", code);
  }
}

void quote(Text& out, const Text& text) {
  const bool has_single = text.bytes().find('\'') != std::string::npos;
  const bool has_double = text.bytes().find('"') != std::string::npos;
  const char mark = has_single && !has_double ? '"' : '\'';
  out.append({&mark, 1}, text.origin());
  text.for_each_run([&](std::string_view run, Origin origin) {
    std::string escaped;
    for (std::size_t at = 0; at < run.size();) {
      const Character one = character_at(run, at);
      append_escaped(escaped, one, run.substr(at, one.size), mark);
      at += one.size;
    }
    out.append(escaped, origin);
  });
  out.append({&mark, 1}, text.origin());
}

void print(Text& out, const Value& value, bool is_repr);

void print_list(Text& out, const List& list, Origin origin) {
  out.append(list.is_tuple ? "(" : "[", origin);
  for (std::size_t index = 0; index < list.items.size(); ++index) {
    if (index > 0) out.append(", ", origin);
    print(out, list.items[index], true);
  }
  if (list.is_tuple && list.items.size() == 1) out.append(",", origin);
  out.append(list.is_tuple ? ")" : "]", origin);
}

void print_dict(Text& out, const Dict& dict, Origin origin) {
  out.append("{", origin);
  for (std::size_t index = 0; index < dict.entries.size(); ++index) {
    if (index > 0) out.append(", ", origin);
    print(out, dict.entries[index].first, true);
    out.append(": ", origin);
    print(out, dict.entries[index].second, true);
  }
  out.append("}", origin);
}

void print(Text& out, const Value& value, bool is_repr) {
  const Origin origin = value.origin();
  if (const Text* text = value.as_text())
    is_repr ? quote(out, *text) : out.append(*text);
  else if (const bool* boolean = value.as_boolean())
    out.append(*boolean ? "True" : "False", origin);
  else if (const std::int64_t* integer = value.as_integer())
    out.append(fmt::format("{}", *integer), origin);
  else if (const double* real = value.as_real())
    out.append(format_real(*real), origin);
  else if (const List* list = value.as_list())
    print_list(out, *list, origin);
  else if (const Dict* dict = value.as_dict())
    print_dict(out, *dict, origin);
  else if (value.is_none())
    out.append("None", origin);
  else if (!value.is_undefined())
    throw Problem(value.kind() + " cannot be printed");
  else if (is_repr)
    out.append("Undefined", origin);
}

}  // namespace

std::string format_real(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string digits = fmt::format("{}", number);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

Text to_text(const Value& value) {
  Text out;
  print(out, value, false);
  return out;
}

Text to_repr(const Value& value) {
  Text out;
  print(out, value, true);
  return out;
}

}  // namespace attacca::text::chat
