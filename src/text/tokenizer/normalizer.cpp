// normalizer.cpp: runs the steps of a normalizer. Each rewrites the text.
#include "text/tokenizer/normalizer.hpp"

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <attacca/error.hpp>

#include "text/utf8.hpp"

namespace attacca::text {
namespace {

/// The most bytes of output for each byte of input. A chain of replacements can grow a text without
/// bound; no sensible one does.
constexpr std::size_t kMostGrowth = 256;
constexpr std::size_t kAlwaysAllowed = 65536;

MarkedText run(const Normalizer::Lowercase&, const MarkedText& text, std::size_t) {
  constexpr char32_t kDottedCapitalI = 0x130;  // the one character whose lower case is two
  TextRewriter rewriter(text);
  std::string lower;
  for (std::string_view left = text.text; !left.empty();) {
    std::size_t length = 0;
    const char32_t code = first_code(left, &length);
    lower.clear();
    if (code == kDottedCapitalI)
      lower = "i\xCC\x87";
    else
      append_utf8(lower,
                  static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    rewriter.replace(length, lower);
    left.remove_prefix(length);
  }
  return std::move(rewriter).finish();
}

MarkedText run(const Normalizer::Replace& step, const MarkedText& text, std::size_t most_bytes) {
  TextRewriter rewriter(text, most_bytes);
  std::size_t at = 0;
  step.pattern.for_each_match(text.text, [&](TextRange range) {
    rewriter.keep(range.begin - at);
    rewriter.replace(range.end - range.begin, step.with);
    at = range.end;
  });
  return std::move(rewriter).finish();
}

MarkedText run(const Normalizer::Prepend& step, const MarkedText& text, std::size_t) {
  TextRewriter rewriter(text);
  if (!text.text.empty()) rewriter.replace(0, step.text);
  return std::move(rewriter).finish();
}

MarkedText run(const Normalizer::Strip& step, const MarkedText& text, std::size_t) {
  const std::string_view left = text.text;
  std::size_t begin = 0;
  std::size_t end = 0;  // of the last character that stays
  for (std::size_t at = 0; at < left.size();) {
    std::size_t length = 0;
    const bool is_space = is_white_space(first_code(left.substr(at), &length));
    if (is_space && begin == at && step.is_left) begin += length;
    at += length;
    if (!is_space || !step.is_right) end = at;
  }
  end = std::max(begin, end);
  TextRewriter rewriter(text);
  rewriter.replace(begin, "");
  rewriter.keep(end - begin);
  rewriter.replace(left.size() - end, "");
  return std::move(rewriter).finish();
}

MarkedText run(NormalForm form, const MarkedText& text, std::size_t) {
  return normal_form(text, form);
}

}  // namespace

void TextRewriter::keep(std::size_t count) {
  to_.text.append(from_.text, at_, count);
  if (!from_.is_literal.empty()) to_.is_literal.append(from_.is_literal, at_, count);
  at_ += count;
}

void TextRewriter::replace(std::size_t count, std::string_view with) {
  if (to_.text.size() + with.size() > most_bytes_)
    throw Error(fmt::format("the tokenizer's normalizer makes more than {} bytes of a text of {}",
                            most_bytes_, from_.text.size()));
  const std::string_view old = std::string_view(from_.text).substr(at_, count);
  if (!from_.is_literal.empty()) {
    const std::size_t shorter = std::min(old.size(), with.size());
    std::size_t front = 0;
    while (front < shorter && old[front] == with[front]) ++front;
    std::size_t back = 0;
    while (back < shorter - front && old[old.size() - 1 - back] == with[with.size() - 1 - back])
      ++back;
    const std::string_view flags = std::string_view(from_.is_literal).substr(at_, count);
    const bool is_literal =
        flags.substr(front, old.size() - front - back).find('\1') != std::string_view::npos;
    to_.is_literal.append(flags.substr(0, front));
    to_.is_literal.append(with.size() - front - back, is_literal ? '\1' : '\0');
    to_.is_literal.append(flags.substr(flags.size() - back));
  }
  to_.text += with;
  at_ += count;
}

MarkedText TextRewriter::finish() && {
  keep(from_.text.size() - at_);
  return std::move(to_);
}

MarkedText Normalizer::apply(MarkedText text) const {
  const std::size_t most_bytes = kMostGrowth * text.text.size() + kAlwaysAllowed;
  for (const Step& step : steps)
    text = std::visit([&](const auto& one) { return run(one, text, most_bytes); }, step);
  return text;
}

}  // namespace attacca::text
