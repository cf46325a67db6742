// from_vocabulary.cpp: builds a tokenizer from a GGUF file's metadata. open.cpp reads the metadata.
#include <fmt/core.h>
#include <attacca/error.hpp>

#include <cmath>

#include "core/in_quotes.hpp"
#include "text/tokenizer/parts.hpp"
#include "text/tokenizer/pre_patterns.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace attacca::text {
namespace {

constexpr std::size_t kMostTokens = std::size_t{1} << 24;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

/// GGUF's token types.
enum TokenType : std::int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

class Builder {
 public:
  Builder(const Vocabulary& vocabulary, std::string_view where)
      : vocabulary_(vocabulary), where_(where) {}

  std::shared_ptr<TokenizerParts> build() {
    check();
    read_tokens();
    if (vocabulary_.model == "gpt2")
      build_byte_level();
    else
      build_sentence_piece();
    set_named_tokens();
    return std::move(parts_);
  }

 private:
  template <class... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    throw BadArgument(
        fmt::format("{}: {}", where_, fmt::format(text, std::forward<Arguments>(arguments)...)));
  }

  std::int32_t type(std::size_t id) const {
    return vocabulary_.types.empty() ? kNormal : vocabulary_.types[id];
  }

  void check() const {
    const std::size_t count = vocabulary_.tokens.size();
    if (vocabulary_.model != "gpt2" && vocabulary_.model != "llama")
      refuse("tokenizer.ggml.model is {}; attacca knows gpt2 and llama",
             in_quotes(vocabulary_.model));
    if (count == 0) refuse("tokenizer.ggml.tokens is empty");
    if (count > kMostTokens)
      refuse("tokenizer.ggml.tokens has {} tokens; at most {}", count, kMostTokens);
    if (!vocabulary_.types.empty() && vocabulary_.types.size() != count)
      refuse("tokenizer.ggml.token_type has {} entries for {} tokens", vocabulary_.types.size(),
             count);
    if (!vocabulary_.scores.empty() && vocabulary_.scores.size() != count)
      refuse("tokenizer.ggml.scores has {} entries for {} tokens", vocabulary_.scores.size(),
             count);
  }

  void read_tokens() {
    const std::vector<std::string_view>& tokens = vocabulary_.tokens;
    parts_->tokens.reserve(tokens.size());
    parts_->is_special.resize(tokens.size());
    is_excluded_.resize(tokens.size());
    std::vector<AddedToken> added;
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      parts_->tokens.add(static_cast<std::int32_t>(id), tokens[id]);
      const bool is_special = type(id) == kControl || type(id) == kUnknown;
      parts_->is_special[id] = is_special;
      is_excluded_[id] = is_special || type(id) == kByte;
      if ((!is_special && type(id) != kUserDefined) || tokens[id].empty()) continue;
      if (tokens[id].size() > kMostAddedTokenBytes)
        refuse("tokenizer.ggml.tokens[{}] of type {} has {} bytes; at most {}", id, type(id),
               tokens[id].size(), kMostAddedTokenBytes);
      added.push_back({.id = static_cast<std::int32_t>(id),
                       .text = std::string(tokens[id]),
                       .is_special = is_special});
    }
    parts_->set_added(std::move(added));
  }

  void build_byte_level() {
    const PrePattern* pre = find_pre_pattern(vocabulary_.pre.empty() ? "default" : vocabulary_.pre);
    if (!pre)
      refuse("tokenizer.ggml.pre is {}; attacca knows {}", in_quotes(vocabulary_.pre),
             known_pre_patterns());
    if (pre->is_nfc) parts_->normalizer.steps.emplace_back(NormalForm::nfc);
    for (const std::string_view pattern : pre->patterns)
      parts_->pre_tokenizer.steps.emplace_back(
          PreTokenizer::Split{Regex(pattern, where_), SplitBehavior::isolated});
    parts_->pre_tokenizer.steps.emplace_back(PreTokenizer::SpellBytes{});
    parts_->decoder.steps.emplace_back(Decoder::ByteLevel{});
    parts_->bpe.emplace(parts_->tokens, BpeOptions{.ignores_merges = pre->ignores_merges},
                        is_excluded_);
    read_merges();
  }

  void read_merges() {
    if (vocabulary_.merges.empty()) refuse("tokenizer.ggml.merges is missing or empty");
    parts_->bpe->reserve_merges(vocabulary_.merges.size());
    std::string joined;
    for (std::size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
      const std::string_view merge = vocabulary_.merges[rank];
      const std::size_t space = merge.find(' ');
      if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos)
        refuse("tokenizer.ggml.merges[{}] is {}; 'left right' is expected", rank, in_quotes(merge));
      const auto id = [&](std::string_view token) {
        const std::optional<std::int32_t> found = parts_->tokens.find(token);
        if (!found)
          refuse("tokenizer.ggml.merges[{}] is {}, but {} is no token", rank, in_quotes(merge),
                 in_quotes(token));
        return *found;
      };
      const std::string_view left = merge.substr(0, space);
      const std::string_view right = merge.substr(space + 1);
      joined.assign(left).append(right);
      // Look up the left side first: a message names the first side that is no token.
      const std::int32_t left_id = id(left);
      const std::int32_t right_id = id(right);
      parts_->bpe->add_merge(static_cast<std::uint32_t>(rank), left_id, right_id, id(joined));
    }
  }

  void build_sentence_piece() {
    if (vocabulary_.scores.empty()) refuse("tokenizer.ggml.scores is missing");
    for (std::size_t id = 0; id < vocabulary_.scores.size(); ++id)
      if (std::isnan(vocabulary_.scores[id])) refuse("tokenizer.ggml.scores[{}] is nan", id);
    if (vocabulary_.adds_space_prefix)
      parts_->normalizer.steps.emplace_back(Normalizer::Prepend{" "});
    parts_->normalizer.steps.emplace_back(
        Normalizer::Replace{Regex::literal(" ", where_), std::string(kSpaceMark)});
    auto& steps = parts_->decoder.steps;
    steps.emplace_back(Decoder::Replace{Regex::literal(kSpaceMark, where_), " "});
    steps.emplace_back(Decoder::ByteFallback{});
    steps.emplace_back(Decoder::Fuse{});
    if (vocabulary_.adds_space_prefix)
      steps.emplace_back(
          Decoder::Strip{.letter = " ", .at_start = 1, .at_end = 0, .is_after_fuse = true});
    const BpeOptions options{.has_byte_fallback = true,
                             .fuses_unknown = true,
                             .unknown = checked("unknown_token_id", vocabulary_.unknown)};
    parts_->bpe.emplace(parts_->tokens, options, is_excluded_);
    parts_->bpe->set_scores(vocabulary_.scores);
  }

  std::int32_t checked(std::string_view name, std::int32_t id) const {
    if (id != -1 && !parts_->tokens.has(id))
      refuse("tokenizer.ggml.{} is {}, but there are {} tokens", name, id, parts_->tokens.size());
    return id;
  }

  void set_named_tokens() {
    parts_->bos = checked("bos_token_id", vocabulary_.bos);
    parts_->eos = checked("eos_token_id", vocabulary_.eos);
    parts_->unknown = checked("unknown_token_id", vocabulary_.unknown);
    parts_->pad = checked("padding_token_id", vocabulary_.pad);
    if (vocabulary_.adds_bos && parts_->bos >= 0) parts_->prefix.push_back(parts_->bos);
    if (vocabulary_.adds_eos && parts_->eos >= 0) parts_->suffix.push_back(parts_->eos);
  }

  const Vocabulary& vocabulary_;
  std::string where_;
  std::vector<bool> is_excluded_;  // tokens that text never merges into
  std::shared_ptr<TokenizerParts> parts_ = std::make_shared<TokenizerParts>();
};

}  // namespace

Tokenizer Tokenizer::from_vocabulary(const Vocabulary& vocabulary, std::string_view where) {
  return Tokenizer(Builder(vocabulary, where).build());
}

}  // namespace attacca::text
