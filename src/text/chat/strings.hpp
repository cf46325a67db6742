// strings.hpp: Python's string operations on Text. Positions and lengths count characters.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/chat/text.hpp"

namespace attacca::text::chat {

enum class Side { left, right, both };

/// Strips `characters`, or whitespace if there are none.
Text strip(const Text& text, Side side, const Text* characters = nullptr);
/// Without a separator, splits at runs of whitespace. A negative `most` means all.
std::vector<Text> split(const Text& text, const Text* separator, std::int64_t most = -1);
std::vector<Text> split_from_right(const Text& text, const Text* separator, std::int64_t most);
std::vector<Text> split_lines(const Text& text, bool keep_ends = false);
Text replace(const Text& text, const Text& old, const Text& with, std::int64_t most = -1);
Text join(const Text& separator, const std::vector<Text>& parts);
Text repeat(const Text& text, std::int64_t times);

/// One character maps to one, except that upper-case sharp s is SS.
Text upper(const Text& text);
Text lower(const Text& text);
Text capitalize(const Text& text);
/// A capital after every character that is no letter (str.title).
Text title(const Text& text);
/// A capital after whitespace and -({[< only (the filter `title`).
Text title_words(const Text& text);

/// Every character as a Text of its own.
std::vector<Text> characters(const Text& text);
Text reversed(const Text& text);
/// The character at which the first or last occurrence starts; -1 if there is none.
std::int64_t find(const Text& text, const Text& what, bool from_right = false);
std::int64_t count(const Text& text, const Text& what);
/// The classes of str.isdigit, isalpha, isalnum and isspace.
enum class Class { digit, alpha, alnum, space };
bool is_all(const Text& text, Class what);
/// str.isupper and str.islower: some letter has this case, and none the other.
bool is_upper(const Text& text);
bool is_lower(const Text& text);

Text escape_html(const Text& text);
/// Puts `prefix` before every line but the first; before that too with `first_too`.
Text indent(const Text& text, const Text& prefix, bool first_too, bool blank_too);

}  // namespace attacca::text::chat
