// text_stream.cpp: decodes tokens and finds stop strings, also across the borders of tokens.
#include "engine/text_stream.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace attacca::engine {

namespace {

/// The length of the longest end of `text` that is the start of a stop string.
std::size_t held_length(std::string_view text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string_view stop : stops) {
    std::size_t length = std::min(text.size(), stop.size() - 1);
    while (length > longest && !stop.starts_with(text.substr(text.size() - length))) --length;
    longest = std::max(longest, length);
  }
  return longest;
}

}  // namespace

TextStream::TextStream(const text::Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                       std::vector<std::string> stops)
    : detokenizer_(tokenizer, true), prompt_(prompt), stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

/// Some tokenizers drop the first space of a text, so the reply must not be decoded as a new text.
void TextStream::read_prompt() {
  for (const std::int32_t token : std::exchange(prompt_, {})) detokenizer_.push(token);
}

std::string TextStream::push(std::int32_t token) {
  if (is_stopped_) return {};
  read_prompt();
  return release(detokenizer_.push(token), false);
}

std::string TextStream::finish() {
  if (is_stopped_) return {};
  read_prompt();
  return release(detokenizer_.finish(), true);
}

std::string TextStream::release(std::string text, bool is_last) {
  text.insert(0, std::exchange(held_, {}));
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, text.find(stop));
  if (end != std::string::npos) {
    is_stopped_ = true;
    text.resize(end);
  } else if (!is_last) {
    const std::size_t certain = text.size() - held_length(text, stops_);
    held_ = text.substr(certain);
    text.resize(certain);
  }
  return text;
}

}  // namespace attacca::engine
