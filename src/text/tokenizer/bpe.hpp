// bpe.hpp: byte-pair encoding of one word. The order of merges comes from a list of merges
// (tokenizer.json, GPT-2 style GGUF) or from the scores of the pieces (SentencePiece style GGUF).
// Text is cut into words in pre_tokenizer.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer/merge_table.hpp"
#include "text/tokenizer/token_table.hpp"

namespace attacca::text {

struct BpeOptions {
  bool ignores_merges = false;     // a word that is a token needs no merges
  bool has_byte_fallback = false;  // a character without a token becomes a <0xNN> for each byte
  bool fuses_unknown = false;      // unknown characters in a row give one token
  std::int32_t unknown = -1;       // for a character that has no token; -1: it is dropped
};

/// Working memory of `Bpe::encode`, used again for the next word.
struct BpeScratch {
  struct Symbol {
    std::uint32_t begin, end;  // in the word
    std::int32_t id;           // -1: no token yet
    std::int32_t previous, next;
  };
  struct Candidate {
    double priority;  // the lowest merges first
    std::int32_t left, right;
    std::uint32_t end;  // of the right symbol, when the candidate was made
    std::int32_t id;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

/// Immutable after `add_merge` and `set_scores`; then safe to use from many threads, each with a
/// scratch of its own. REQUIRES: the table outlives it and has all ids passed to it.
class Bpe {
 public:
  /// `is_excluded[id]`: text never becomes this token, whatever its spelling.
  Bpe(const TokenTable& tokens, const BpeOptions& options, std::vector<bool> is_excluded);

  void reserve_merges(std::size_t count) { merges_.reserve(count); }
  /// Adds the merge of this rank. A merge that makes an excluded token is ignored.
  void add_merge(std::uint32_t rank, std::int32_t left, std::int32_t right, std::int32_t result);
  /// Makes pieces merge by scores[id], the highest first.
  void set_scores(std::vector<float> scores) { scores_ = std::move(scores); }

  /// Appends the tokens of `word` to `ids`, in time n log n of its length. REQUIRES: valid UTF-8.
  void encode(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const;

 private:
  bool merges_by_score() const { return !scores_.empty(); }
  std::int32_t find_text(std::string_view text) const;
  std::int32_t find_character(std::string_view text, char32_t code) const;
  bool bytes_have_tokens(std::string_view text) const;
  void start(std::string_view word, BpeScratch& scratch) const;
  void consider(std::string_view word, std::int32_t left, BpeScratch& scratch) const;
  void merge(std::string_view word, BpeScratch& scratch) const;

  const TokenTable* tokens_;
  BpeOptions options_;
  std::vector<bool> is_excluded_;
  std::array<std::int32_t, 512> low_characters_;  // by code point; -1: there is no such token
  std::array<std::int32_t, 256> byte_tokens_;     // <0xNN>
  MergeTable merges_;
  std::vector<float> scores_;
};

}  // namespace attacca::text
