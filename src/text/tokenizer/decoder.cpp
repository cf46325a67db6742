// decoder.cpp: runs the steps of a decoder as a chain. Each step passes on the text that later
// tokens cannot change.
#include "text/tokenizer/decoder.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <charconv>

#include "text/tokenizer/byte_alphabet.hpp"

namespace attacca::text {
namespace {

/// The byte that <0xNN> stands for.
std::optional<char> fallback_byte(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>')
    return std::nullopt;
  unsigned char byte = 0;
  const char* end = spelling.data() + 5;
  if (std::from_chars(spelling.data() + 3, end, byte, 16).ptr != end) return std::nullopt;
  return static_cast<char>(byte);
}

std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.find(what, at), text.size());
    result += text.substr(at, found - at);
    if (found == text.size()) break;
    result += with;
    at = found + what.size();
  }
  return result;
}

std::string replaced(const Decoder::Replace& step, std::string_view text) {
  constexpr std::size_t kMostBytes = 1 << 20;  // a chain of replacements can grow without bound
  std::string result;
  std::size_t at = 0;
  step.pattern.for_each_match(text, [&](TextRange range) {
    if (result.size() + step.with.size() > kMostBytes)
      throw Error(
          fmt::format("the tokenizer's decoder makes more than {} bytes of a token", kMostBytes));
    result += text.substr(at, range.begin - at);
    result += step.with;
    at = range.end;
  });
  return result += text.substr(at);
}

std::string stripped(const Decoder::Strip& step, std::string_view text) {
  for (std::size_t count = 0; count < step.at_start && text.starts_with(step.letter); ++count)
    text.remove_prefix(step.letter.size());
  for (std::size_t count = 0; count < step.at_end && text.ends_with(step.letter); ++count)
    text.remove_suffix(step.letter.size());
  return std::string(text);
}

}  // namespace

std::string Decoder::bytes_of_token(std::string_view spelling) const {
  std::string text(spelling);
  for (const Step& step : steps) {
    if (std::holds_alternative<ByteLevel>(step)) {
      text = bytes_of(text);
    } else if (std::holds_alternative<ByteFallback>(step)) {
      if (const auto byte = fallback_byte(text)) return std::string(1, *byte);
    } else if (const auto* space = std::get_if<Metaspace>(&step)) {
      text = replaced(text, space->mark, " ");
    } else if (const auto* replace = std::get_if<Replace>(&step)) {
      text = replaced(*replace, text);
    }
  }
  return text;
}

DecodeStream::DecodeStream(const Decoder& decoder)
    : decoder_(&decoder), states_(decoder.steps.size()) {}

void DecodeStream::push(std::string_view spelling, std::string& out) {
  if (is_utf8(spelling)) {
    feed(0, spelling, out);
  } else {
    feed(0, repaired(spelling), out);
  }
}

void DecodeStream::finish(std::string& out) {
  for (std::size_t step = 0; step < states_.size(); ++step) flush(step, out);
}

void DecodeStream::feed(std::size_t step, std::string_view text, std::string& out) {
  if (step == states_.size()) {
    out += text;
  } else {
    std::visit([&](const auto& one) { run(one, step, text, out); }, decoder_->steps[step]);
  }
}

/// Passes on the text that a step still holds, after the last token.
void DecodeStream::flush(std::size_t step, std::string& out) {
  State& state = states_[step];
  if (std::holds_alternative<Decoder::ByteLevel>(decoder_->steps[step])) {
    std::string rest;
    state.utf8.finish(rest);
    if (!rest.empty()) feed(step + 1, rest, out);
  } else if (std::holds_alternative<Decoder::ByteFallback>(decoder_->steps[step])) {
    const std::string bytes = std::move(state.held);
    state.held.clear();
    if (bytes.empty()) return;
    if (is_utf8(bytes)) return feed(step + 1, bytes, out);
    for (std::size_t count = 0; count < bytes.size(); ++count)
      feed(step + 1, kReplacementCharacter, out);
  }
}

void DecodeStream::run(const Decoder::ByteLevel&, std::size_t step, std::string_view text,
                       std::string& out) {
  std::string decoded;
  states_[step].utf8.push(bytes_of(text), decoded);
  if (!decoded.empty()) feed(step + 1, decoded, out);
}

void DecodeStream::run(const Decoder::ByteFallback&, std::size_t step, std::string_view text,
                       std::string& out) {
  if (const auto byte = fallback_byte(text)) {
    states_[step].held += *byte;
    return;
  }
  flush(step, out);
  feed(step + 1, text, out);
}

void DecodeStream::run(const Decoder::Metaspace& space, std::size_t step, std::string_view text,
                       std::string& out) {
  const bool is_first = states_[step].count++ == 0;
  feed(step + 1, replaced(text, space.mark, is_first && space.drops_first ? "" : " "), out);
}

void DecodeStream::run(const Decoder::Replace& replace, std::size_t step, std::string_view text,
                       std::string& out) {
  feed(step + 1, replaced(replace, text), out);
}

void DecodeStream::run(const Decoder::Fuse&, std::size_t step, std::string_view text,
                       std::string& out) {
  feed(step + 1, text, out);
}

void DecodeStream::run(const Decoder::Strip& strip, std::size_t step, std::string_view text,
                       std::string& out) {
  if (!strip.is_after_fuse) return feed(step + 1, stripped(strip, text), out);
  State& state = states_[step];
  while (!state.has_begun && state.count < strip.at_start && text.starts_with(strip.letter)) {
    text.remove_prefix(strip.letter.size());
    ++state.count;
  }
  state.has_begun = state.has_begun || !text.empty();
  // The last letters are held back: if the text ends there, they are stripped.
  state.held += text;
  const std::size_t certain = stripped({strip.letter, 0, strip.at_end}, state.held).size();
  const std::string passed = state.held.substr(0, certain);
  state.held.erase(0, certain);
  if (!passed.empty()) feed(step + 1, passed, out);
}

void DecodeStream::run(const Decoder::JoinWithSpaces&, std::size_t step, std::string_view text,
                       std::string& out) {
  if (states_[step].count++ > 0) feed(step + 1, " ", out);
  feed(step + 1, text, out);
}

}  // namespace attacca::text
