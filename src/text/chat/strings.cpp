// strings.cpp: strips, splits, joins, replaces and searches Text. Upper and lower case are in
// letter_case.cpp.
#include "text/chat/strings.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "text/chat/utf8.hpp"

namespace attacca::text::chat {
namespace {

constexpr std::size_t kMaxParts = 1 << 18;

void add_part(std::vector<Text>& parts, Text part) {
  if (parts.size() == kMaxParts)
    throw Problem(fmt::format("a text in more than {} parts", kMaxParts));
  parts.push_back(std::move(part));
}

bool is_stripped(char32_t code, const Text* characters) {
  if (!characters) return is_space(code);
  const std::string_view set = characters->bytes();
  for (std::size_t at = 0; at < set.size();) {
    const Character one = character_at(set, at);
    if (one.code == code) return true;
    at += one.size;
  }
  return false;
}

/// The end of the run of characters from `at` on that are all whitespace, or all not.
std::size_t end_of_run(std::string_view bytes, std::size_t at, bool is_whitespace) {
  while (at < bytes.size()) {
    const Character one = character_at(bytes, at);
    if (is_space(one.code) != is_whitespace) break;
    at += one.size;
  }
  return at;
}

std::vector<Text> split_on_space(const Text& text, std::int64_t most) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> parts;
  for (std::size_t at = end_of_run(bytes, 0, true); at < bytes.size();) {
    const bool is_rest = most >= 0 && static_cast<std::int64_t>(parts.size()) == most;
    if (is_rest) {
      add_part(parts, text.part(at, bytes.size()));
      break;
    }
    const std::size_t end = end_of_run(bytes, at, false);
    add_part(parts, text.part(at, end));
    at = end_of_run(bytes, end, true);
  }
  return parts;
}

void require_separator(const Text* separator) {
  if (separator && separator->empty()) throw Problem("split at an empty separator");
}

}  // namespace

Text strip(const Text& text, Side side, const Text* characters) {
  const std::string_view bytes = text.bytes();
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  while (side != Side::right && begin < end) {
    const Character one = character_at(bytes, begin);
    if (!is_stripped(one.code, characters)) break;
    begin += one.size;
  }
  while (side != Side::left && begin < end) {
    const Character one = character_before(bytes, end);
    if (!is_stripped(one.code, characters)) break;
    end -= one.size;
  }
  return text.part(begin, end);
}

std::vector<Text> split(const Text& text, const Text* separator, std::int64_t most) {
  require_separator(separator);
  if (!separator) return split_on_space(text, most);
  std::vector<Text> parts;
  std::size_t at = 0;
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const std::size_t found = text.bytes().find(separator->bytes(), at);
    if (found == std::string::npos) break;
    add_part(parts, text.part(at, found));
    at = found + separator->size();
  }
  add_part(parts, text.part(at, text.size()));
  return parts;
}

std::vector<Text> split_from_right(const Text& text, const Text* separator, std::int64_t most) {
  require_separator(separator);
  if (most < 0) return split(text, separator);
  const std::string_view bytes = text.bytes();
  std::vector<Text> parts;
  std::size_t end = separator ? bytes.size() : strip(text, Side::right).size();
  while (static_cast<std::int64_t>(parts.size()) < most) {
    std::size_t begin = end;
    std::size_t left = 0;  // where the text before the separator ends
    if (separator) {
      const std::size_t found = end < separator->size()
                                    ? std::string_view::npos
                                    : bytes.substr(0, end).rfind(separator->bytes());
      if (found == std::string_view::npos) break;
      begin = found + separator->size();
      left = found;
    } else {
      while (begin > 0 && !is_space(character_before(bytes, begin).code))
        begin -= character_before(bytes, begin).size;
      if (begin == end) break;
      left = begin;
      while (left > 0 && is_space(character_before(bytes, left).code))
        left -= character_before(bytes, left).size;
    }
    add_part(parts, text.part(begin, end));
    end = left;
  }
  if (separator || end > 0) add_part(parts, text.part(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character one = character_at(bytes, at);
    const bool is_end = (one.code >= 0x0A && one.code <= 0x0D) ||
                        (one.code >= 0x1C && one.code <= 0x1E) || one.code == 0x85 ||
                        one.code == 0x2028 || one.code == 0x2029;
    const std::size_t line_end = at;
    at += one.size;
    if (!is_end) continue;
    if (one.code == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    add_part(lines, text.part(begin, keep_ends ? at : line_end));
    begin = at;
  }
  if (begin < bytes.size()) add_part(lines, text.part(begin, bytes.size()));
  return lines;
}

Text replace(const Text& text, const Text& old, const Text& with, std::int64_t most) {
  const std::string_view bytes = text.bytes();
  Text result;
  std::size_t at = 0;
  for (std::int64_t done = 0; most < 0 || done < most; ++done) {
    if (old.empty()) {  // between all characters, and around them
      if (done > 0) {
        if (at == bytes.size()) break;
        const std::size_t next = at + character_at(bytes, at).size;
        result.append(text, at, next);
        at = next;
      }
    } else {
      const std::size_t found = bytes.find(old.bytes(), at);
      if (found == std::string_view::npos) break;
      result.append(text, at, found);
      at = found + old.size();
    }
    result.append(with);
  }
  result.append(text, at, bytes.size());
  return result;
}

Text join(const Text& separator, const std::vector<Text>& parts) {
  Text result;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    if (index > 0) result.append(separator);
    result.append(parts[index]);
  }
  return result;
}

Text repeat(const Text& text, std::int64_t times) {
  Text result;
  if (text.empty()) return result;
  if (times > static_cast<std::int64_t>(Text::kMaxBytes / text.size()))
    throw Problem(fmt::format("a text of {} bytes repeated {} times", text.size(), times));
  for (std::int64_t done = 0; done < times; ++done) result.append(text);
  return result;
}

std::vector<Text> characters(const Text& text) {
  std::vector<Text> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = at + character_at(text.bytes(), at).size;
    add_part(all, text.part(at, next));
    at = next;
  }
  return all;
}

Text reversed(const Text& text) {
  Text result;
  for (std::size_t end = text.size(); end > 0;) {
    const std::size_t begin = end - character_before(text.bytes(), end).size;
    result.append(text, begin, end);
    end = begin;
  }
  return result;
}

std::int64_t find(const Text& text, const Text& what, bool from_right) {
  const std::string& bytes = text.bytes();
  const std::size_t found = from_right ? bytes.rfind(what.bytes()) : bytes.find(what.bytes());
  if (found == std::string::npos) return -1;
  return static_cast<std::int64_t>(count_characters(std::string_view(bytes).substr(0, found)));
}

std::int64_t count(const Text& text, const Text& what) {
  if (what.empty()) return static_cast<std::int64_t>(count_characters(text.bytes())) + 1;
  std::int64_t found = 0;
  for (std::size_t at = text.bytes().find(what.bytes()); at != std::string::npos;
       at = text.bytes().find(what.bytes(), at + what.size()))
    ++found;
  return found;
}

Text escape_html(const Text& text) {
  Text result;
  text.for_each_run([&](std::string_view run, Origin origin) {
    std::string escaped;
    for (const char byte : run) {
      switch (byte) {
        case '&':
          escaped += "&amp;";
          break;
        case '<':
          escaped += "&lt;";
          break;
        case '>':
          escaped += "&gt;";
          break;
        case '\'':
          escaped += "&#39;";
          break;
        case '"':
          escaped += "&#34;";
          break;
        default:
          escaped += byte;
      }
    }
    result.append(escaped, origin);
  });
  return result;
}

Text indent(const Text& text, const Text& prefix, bool first_too, bool blank_too) {
  Text with_end = text;
  with_end.append("\n", Origin::author);  // jinja's filter does that, so a last empty line counts
  const std::vector<Text> lines = split_lines(with_end);
  Text result;
  for (std::size_t index = 0; index < lines.size(); ++index) {
    if (index > 0) result.append("\n", Origin::author);
    const bool is_first = index == 0;
    if (is_first ? first_too : blank_too || !lines[index].empty()) result.append(prefix);
    result.append(lines[index]);
  }
  return result;
}

}  // namespace attacca::text::chat
