// pre_tokenizer.cpp: runs the steps of a pre-tokenizer. A split cuts pieces further; the other
// steps rewrite them.
#include "text/tokenizer/pre_tokenizer.hpp"

#include "text/tokenizer/byte_alphabet.hpp"

namespace attacca::text {
namespace {

/// Collects the cuts of one piece under a behavior.
class Cutter {
 public:
  Cutter(SplitBehavior behavior, bool is_inverted, std::vector<TextRange>& ranges)
      : behavior_(behavior), is_inverted_(is_inverted), ranges_(ranges), first_(ranges.size()) {}

  void add(TextRange range, bool is_match) {
    is_match = is_match != is_inverted_;
    const bool has_last = ranges_.size() > first_;
    bool joins = false;
    switch (behavior_) {
      case SplitBehavior::removed:
        if (!is_match) ranges_.push_back(range);
        return;
      case SplitBehavior::isolated:
        break;
      case SplitBehavior::merged_with_previous:
        joins = is_match && !was_match_;
        break;
      case SplitBehavior::merged_with_next:
        // The last of several matches in a row joins the text behind it.
        joins = !is_match && was_match_;
        break;
      case SplitBehavior::contiguous:
        joins = is_match == was_match_;
        break;
    }
    was_match_ = is_match;
    if (joins && has_last)
      ranges_.back().end = range.end;
    else
      ranges_.push_back(range);
  }

 private:
  SplitBehavior behavior_;
  bool is_inverted_;
  std::vector<TextRange>& ranges_;
  std::size_t first_;
  bool was_match_ = false;
};

void run(const PreTokenizer::Split& step, Pieces& pieces) {
  std::vector<TextRange> ranges;
  ranges.reserve(pieces.ranges.size());
  for (const TextRange piece : pieces.ranges) {
    Cutter cutter(step.behavior, step.is_inverted, ranges);
    const auto text = std::string_view(pieces.text).substr(piece.begin, piece.end - piece.begin);
    std::size_t at = 0;
    const auto add = [&](std::size_t begin, std::size_t end, bool is_match) {
      cutter.add({piece.begin + begin, piece.begin + end}, is_match);
    };
    step.pattern.for_each_match(text, [&](TextRange match) {
      if (at != match.begin) add(at, match.begin, false);
      add(match.begin, match.end, true);
      at = match.end;
    });
    if (at != text.size()) add(at, text.size(), false);
  }
  std::erase_if(ranges, [](TextRange range) { return range.begin == range.end; });
  pieces.ranges = std::move(ranges);
}

/// Rewrites every piece: `write(piece, is_first, out)` appends its new text to `out`.
template <class Write>
void rewrite(Pieces& pieces, const Write& write) {
  if (!pieces.ranges.empty() && pieces.ranges.front().begin > 0) pieces.is_at_start = false;
  std::string text;
  text.reserve(pieces.text.size() + pieces.text.size() / 2);
  for (TextRange& range : pieces.ranges) {
    const auto old = std::string_view(pieces.text).substr(range.begin, range.end - range.begin);
    const std::size_t begin = text.size();
    const bool is_first = &range == pieces.ranges.data() && pieces.is_at_start;
    write(old, is_first, text);
    range = {begin, text.size()};
  }
  pieces.text = std::move(text);
}

void run(const PreTokenizer::ReplaceSpaces& step, Pieces& pieces) {
  rewrite(pieces, [&](std::string_view old, bool, std::string& text) {
    for (const char letter : old) {
      if (letter == ' ')
        text += step.with;
      else
        text += letter;
    }
  });
}

void run(const PreTokenizer::Prefix& step, Pieces& pieces) {
  rewrite(pieces, [&](std::string_view old, bool is_first, std::string& text) {
    if ((is_first || !step.only_at_start) && !old.starts_with(step.text)) text += step.text;
    text += old;
  });
}

void run(const PreTokenizer::SpellBytes&, Pieces& pieces) {
  rewrite(pieces, [](std::string_view old, bool, std::string& text) {
    for (const char byte : old) text += character_of(static_cast<unsigned char>(byte));
  });
}

}  // namespace

Pieces PreTokenizer::apply(std::string text, bool is_at_start) const {
  Pieces pieces{.text = std::move(text), .ranges = {}, .is_at_start = is_at_start};
  if (pieces.text.empty()) return pieces;
  pieces.ranges.push_back({0, pieces.text.size()});
  for (const Step& step : steps) std::visit([&](const auto& one) { run(one, pieces); }, step);
  return pieces;
}

}  // namespace attacca::text
