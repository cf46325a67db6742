// usage.cpp: joins --same-bits with its value, and finds the words that an error quotes.
#include "usage.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "command_line.hpp"

namespace attacca::tool {

namespace {

/// Paths and quoted words stay as they are.
bool is_part_of_name(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
         std::string_view("_-/.'").find(letter) != std::string_view::npos;
}
/// Whether a name ends there. A dot may end the sentence.
bool is_end_of_name(std::string_view text, std::size_t at) {
  if (at < text.size() && text[at] == '.') ++at;
  return at == text.size() || !is_part_of_name(text[at]);
}

/// Every `from` that is a word of its own becomes `to`.
void replace_words(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
    const std::size_t end = at + from.size();
    const bool is_word = (at == 0 || !is_part_of_name(text[at - 1])) && is_end_of_name(text, end);
    if (is_word) text.replace(at, from.size(), to);
    at += is_word ? to.size() : from.size();
  }
}

}  // namespace

std::vector<std::string> words_of(int argc, const char* const* argv) {
  std::vector<std::string> words;
  bool is_text = false;  // behind a --
  for (const char* const* word = argv + 1; word < argv + argc; ++word) {
    const std::string text = *word;
    const bool is_value = !is_text && !words.empty() && words.back() == "--same-bits" &&
                          !text.starts_with('-') && text.find(' ') == std::string::npos;
    is_text |= text == "--";
    if (is_value && text != "on" && text != "off")
      throw UsageError("the word behind --same-bits must be on or off, not '" + text +
                       "'; put a model or a prompt before the flag");
    if (is_value)
      words.back() += "=" + text;
    else
      words.push_back(text);
  }
  return words;
}

std::string in_words_of_options(const std::vector<std::string>& options, std::string message) {
  replace_words(message, "Device::host()", "--device host");
  replace_words(message, "Device::best()", "--device best");
  for (const std::string& name : options) {
    std::string field = name;
    std::replace(field.begin(), field.end(), '-', '_');
    const std::string option = "--" + name;
    replace_words(message, field + " =", option);
    // A name of one word may be any word, unless its value follows.
    if (field != name)
      replace_words(message, field, option);
    else if (message.starts_with(field + " is "))
      message.replace(0, field.size(), option);
  }
  return message;
}

}  // namespace attacca::tool
