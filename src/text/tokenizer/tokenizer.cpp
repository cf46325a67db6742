// tokenizer.cpp: encodes and decodes with the parts of a tokenizer. A text is cut at added tokens.
// The text between them is normalized and cut into words, and each word is merged into tokens.
#include "text/tokenizer/tokenizer.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "text/tokenizer/parts.hpp"
#include "text/utf8.hpp"

namespace attacca::text {
namespace {

/// One call of `encode`.
class Encoding {
 public:
  Encoding(const TokenizerParts& parts, bool finds_special)
      : parts_(parts), finds_special_(finds_special) {}

  void text(const MarkedText& text) {
    parts_.added.cut(text, finds_special_, [&](const AddedToken* token, TextRange range) {
      if (token) return ids_.push_back(token->id);
      section(slice(text, range), range.begin == 0);
    });
  }

  std::vector<std::int32_t> take() && { return std::move(ids_); }

 private:
  static MarkedText slice(const MarkedText& text, TextRange range) {
    const std::size_t length = range.end - range.begin;
    return {text.text.substr(range.begin, length),
            text.is_literal.empty() ? "" : text.is_literal.substr(range.begin, length)};
  }

  void section(MarkedText text, bool is_at_start) {
    text = parts_.normalizer.apply(std::move(text));
    if (parts_.normalized_added.empty()) return words(std::move(text.text), is_at_start);
    parts_.normalized_added.cut(text, finds_special_,
                                [&](const AddedToken* token, TextRange range) {
                                  if (token) return ids_.push_back(token->id);
                                  words(slice(text, range).text, is_at_start && range.begin == 0);
                                });
  }

  void words(std::string text, bool is_at_start) {
    const Pieces pieces = parts_.pre_tokenizer.apply(std::move(text), is_at_start);
    // If the word came before, its tokens are already in `ids_`.
    constexpr std::size_t kLongestKept = 64;
    std::unordered_map<std::string_view, TextRange> seen;
    for (const TextRange range : pieces.ranges) {
      const auto word = std::string_view(pieces.text).substr(range.begin, range.end - range.begin);
      const std::size_t begin = ids_.size();
      if (word.size() > kLongestKept) {
        parts_.bpe->encode(word, scratch_, ids_);
        continue;
      }
      const auto [known, is_new] = seen.try_emplace(word);
      if (is_new) {
        parts_.bpe->encode(word, scratch_, ids_);
        known->second = {begin, ids_.size()};
      } else {
        for (std::size_t at = known->second.begin; at < known->second.end; ++at)
          ids_.push_back(ids_[at]);
      }
    }
  }

  const TokenizerParts& parts_;
  bool finds_special_;
  BpeScratch scratch_;
  std::vector<std::int32_t> ids_;
};

/// The text with its literal bytes marked, and broken UTF-8 repaired.
MarkedText marked(std::string_view text, std::span<const TextRange> literal) {
  if (text.size() > std::numeric_limits<std::int32_t>::max())
    throw BadArgument(
        fmt::format("a text of {} bytes; at most 2147483647 fit an encoding: encode "
                    "it in parts",
                    text.size()));
  std::string flags;
  if (!literal.empty()) flags.assign(text.size(), '\0');
  for (const TextRange range : literal) {
    if (range.begin > range.end || range.end > text.size())
      throw BadArgument(fmt::format("literal range [{}, {}) is not within a text of {} bytes",
                                    range.begin, range.end, text.size()));
    std::fill(flags.begin() + static_cast<std::ptrdiff_t>(range.begin),
              flags.begin() + static_cast<std::ptrdiff_t>(range.end), '\1');
  }
  MarkedText whole{std::string(text), std::move(flags)};
  if (is_utf8(text)) return whole;
  TextRewriter rewriter(whole);
  for (std::string_view left = whole.text; !left.empty();) {
    const Utf8Character character = first_character(left);
    if (character.is_valid)
      rewriter.keep(character.length);
    else
      rewriter.replace(character.length, kReplacementCharacter);
    left.remove_prefix(character.length);
  }
  return std::move(rewriter).finish();
}

}  // namespace

void TokenizerParts::set_added(std::vector<AddedToken> tokens_to_add) {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normal;
  for (AddedToken& token : tokens_to_add) {
    if (token.is_normalized) token.text = normalizer.apply({token.text, {}}).text;
    if (!token.text.empty()) (token.is_normalized ? normal : raw).push_back(std::move(token));
  }
  added = AddedTokens(std::move(raw));
  normalized_added = AddedTokens(std::move(normal));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                            const EncodeOptions& options) const {
  Encoding encoding(*parts_, options.parse_special);
  encoding.text(marked(text, options.literal));
  std::vector<std::int32_t> ids = std::move(encoding).take();
  if (options.add_special) {
    ids.insert(ids.begin(), parts_->prefix.begin(), parts_->prefix.end());
    ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  Detokenizer stream(*this, skip_special);
  std::string text;
  for (const std::int32_t id : ids) text += stream.push(id);
  return text += stream.finish();
}

std::int32_t Tokenizer::size() const { return parts_->tokens.size(); }
std::string_view Tokenizer::piece(std::int32_t id) const { return parts_->tokens.spelling(id); }
std::string Tokenizer::bytes(std::int32_t id) const {
  return parts_->decoder.bytes_of_token(parts_->tokens.spelling(id));
}
std::optional<std::int32_t> Tokenizer::find(std::string_view piece) const {
  return parts_->tokens.find(piece);
}
bool Tokenizer::is_special(std::int32_t id) const {
  return id >= 0 && static_cast<std::size_t>(id) < parts_->is_special.size() &&
         parts_->is_special[static_cast<std::size_t>(id)];
}
std::int32_t Tokenizer::bos() const { return parts_->bos; }
std::int32_t Tokenizer::eos() const { return parts_->eos; }
std::int32_t Tokenizer::unknown() const { return parts_->unknown; }
std::int32_t Tokenizer::pad() const { return parts_->pad; }

struct Detokenizer::State {
  Tokenizer tokenizer;
  bool skip_special;
  DecodeStream stream;
};

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : state_(new State{tokenizer, skip_special, DecodeStream(tokenizer.parts_->decoder)}) {}
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;
Detokenizer::~Detokenizer() = default;

std::string Detokenizer::push(std::int32_t id) {
  std::string text;
  const TokenTable& tokens = state_->tokenizer.parts_->tokens;
  if (tokens.has(id) && !(state_->skip_special && state_->tokenizer.is_special(id)))
    state_->stream.push(tokens.spelling(id), text);
  return text;
}

std::string Detokenizer::finish() {
  std::string text;
  state_->stream.finish(text);
  return text;
}

}  // namespace attacca::text
