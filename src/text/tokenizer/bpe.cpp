// bpe.cpp: merges the symbols of a word, in a linked list, with a heap of candidate merges.
#include "text/tokenizer/bpe.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "text/utf8.hpp"

namespace attacca::text {
namespace {

/// The order for std heaps, whose top is the largest: the lowest priority first, then the leftmost.
bool merges_later(const BpeScratch::Candidate& one, const BpeScratch::Candidate& other) {
  return one.priority != other.priority ? one.priority > other.priority : one.left > other.left;
}

}  // namespace

Bpe::Bpe(const TokenTable& tokens, const BpeOptions& options, std::vector<bool> is_excluded)
    : tokens_(&tokens), options_(options), is_excluded_(std::move(is_excluded)) {
  is_excluded_.resize(static_cast<std::size_t>(tokens.size()));
  std::string text;
  for (std::size_t code = 0; code < low_characters_.size(); ++code) {
    text.clear();
    append_utf8(text, static_cast<char32_t>(code));
    low_characters_[code] = tokens.find(text).value_or(-1);
  }
  for (std::size_t byte = 0; byte < byte_tokens_.size(); ++byte)
    byte_tokens_[byte] = tokens.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
}

void Bpe::add_merge(std::uint32_t rank, std::int32_t left, std::int32_t right,
                    std::int32_t result) {
  if (!is_excluded_[static_cast<std::size_t>(result)]) merges_.set(left, right, {rank, result});
}

/// The token with this spelling; -1 if there is none that text may become.
std::int32_t Bpe::find_text(std::string_view text) const {
  const std::optional<std::int32_t> id = tokens_->find(text);
  return id && !is_excluded_[static_cast<std::size_t>(*id)] ? *id : -1;
}

std::int32_t Bpe::find_character(std::string_view text, char32_t code) const {
  const std::int32_t id =
      code < low_characters_.size() ? low_characters_[code] : tokens_->find(text).value_or(-1);
  // An excluded token is allowed if the character would be lost without a fallback.
  const bool may_be_excluded = !options_.has_byte_fallback && !merges_by_score();
  return id >= 0 && is_excluded_[static_cast<std::size_t>(id)] && !may_be_excluded ? -1 : id;
}

bool Bpe::bytes_have_tokens(std::string_view text) const {
  return options_.has_byte_fallback && std::all_of(text.begin(), text.end(), [&](char byte) {
           return byte_tokens_[static_cast<unsigned char>(byte)] >= 0;
         });
}

/// Makes symbols of the word's characters. A character without a token becomes its bytes, the
/// unknown token or nothing. If scores decide the merges, it stays without a token until it merges.
void Bpe::start(std::string_view word, BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  const auto add = [&](std::size_t begin, std::size_t end, std::int32_t id) {
    const auto index = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), id,
                       index - 1, index + 1});
  };
  bool was_unknown = false;
  for (std::size_t begin = 0, length = 0; begin < word.size(); begin += length) {
    const char32_t code = first_code(word.substr(begin), &length);
    const std::string_view text = word.substr(begin, length);
    const std::int32_t id = find_character(text, code);
    const bool is_unknown = id < 0 && !merges_by_score() && !bytes_have_tokens(text);
    if (id >= 0 || merges_by_score()) {
      add(begin, begin + length, id);
    } else if (!is_unknown) {
      for (std::size_t at = 0; at < length; ++at)
        add(begin + at, begin + at + 1, byte_tokens_[static_cast<unsigned char>(text[at])]);
    } else if (was_unknown && options_.fuses_unknown && !symbols.empty()) {
      symbols.back().end = static_cast<std::uint32_t>(begin + length);
    } else if (options_.unknown >= 0) {
      add(begin, begin + length, options_.unknown);
    }
    was_unknown = is_unknown;
  }
  if (!symbols.empty()) symbols.back().next = -1;
}

/// Puts the merge of `left` with its right neighbour on the heap, if the two merge.
void Bpe::consider(std::string_view word, std::int32_t left, BpeScratch& scratch) const {
  const auto& first = scratch.symbols[static_cast<std::size_t>(left)];
  if (first.next < 0) return;
  const auto& second = scratch.symbols[static_cast<std::size_t>(first.next)];
  if (merges_by_score()) {
    const std::int32_t id = find_text(word.substr(first.begin, second.end - first.begin));
    if (id < 0) return;
    const float score = scores_[static_cast<std::size_t>(id)];
    scratch.heap.push_back({-score, left, first.next, second.end, id});
  } else {
    const Merge* merge = merges_.find(first.id, second.id);
    if (!merge) return;
    scratch.heap.push_back(
        {static_cast<double>(merge->rank), left, first.next, second.end, merge->id});
  }
}

void Bpe::merge(std::string_view word, BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  for (std::size_t left = 0; left + 1 < symbols.size(); ++left)
    consider(word, static_cast<std::int32_t>(left), scratch);
  std::make_heap(heap.begin(), heap.end(), merges_later);
  const auto consider_later = [&](std::int32_t left) {
    const std::size_t before = heap.size();
    consider(word, left, scratch);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), merges_later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), merges_later);
    const BpeScratch::Candidate best = heap.back();
    heap.pop_back();
    auto& left = symbols[static_cast<std::size_t>(best.left)];
    auto& right = symbols[static_cast<std::size_t>(best.right)];
    // The candidate is stale if one of the two has merged with another since. A symbol that merged
    // into its left neighbour is empty.
    if (left.begin == left.end || left.next != best.right || right.end != best.end) continue;
    left.id = best.id;
    left.end = right.end;
    left.next = right.next;
    right.end = right.begin;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.left;
    if (left.previous >= 0) consider_later(left.previous);
    consider_later(best.left);
  }
}

void Bpe::encode(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const {
  if (options_.ignores_merges) {
    if (const std::int32_t id = find_text(word); id >= 0) return ids.push_back(id);
  }
  start(word, scratch);
  if (scratch.symbols.empty()) return;
  merge(word, scratch);
  bool was_unknown = false;
  for (std::int32_t at = 0; at >= 0; at = scratch.symbols[static_cast<std::size_t>(at)].next) {
    const auto& symbol = scratch.symbols[static_cast<std::size_t>(at)];
    const std::string_view text = word.substr(symbol.begin, symbol.end - symbol.begin);
    const bool is_unknown = symbol.id < 0 && !bytes_have_tokens(text);
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
    } else if (!is_unknown) {
      for (const char byte : text) ids.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
    } else if (options_.unknown >= 0 && !(was_unknown && options_.fuses_unknown)) {
      ids.push_back(options_.unknown);
    }
    was_unknown = is_unknown;
  }
}

}  // namespace attacca::text
