// tokenizer.hpp: text to tokens and back. Reads the tokenizers of Hugging Face (tokenizer.json, BPE
// models) and of GGUF files (byte-level BPE and SentencePiece-style BPE). docs/tokenizer.md says
// which parts are read and how broken text is treated.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_range.hpp"

namespace attacca::text {

struct TokenizerParts;

/// What the metadata of a GGUF file says of its tokenizer. Views are only read during the call.
struct Vocabulary {
  std::string model = {};  // "gpt2" or "llama"
  std::string pre = {};    // how "gpt2" splits: "qwen2", "llama-bpe", ...
  std::vector<std::string_view> tokens = {};
  std::vector<float> scores = {};             // one per token; "llama" needs them
  std::vector<std::int32_t> types = {};       // one per token, or none: all normal
  std::vector<std::string_view> merges = {};  // "left right"; "gpt2" needs them
  std::int32_t bos = -1, eos = -1, unknown = -1, pad = -1;
  bool adds_bos = false, adds_eos = false;
  bool adds_space_prefix = true;  // "llama": a space before every text
};

struct EncodeOptions {
  bool add_special = false;   // the tokens that the tokenizer puts around a text, such as BOS
  bool parse_special = true;  // special tokens that are spelled out in the text become tokens
  /// Parts of the text in which no added token is read, special or not, and which no token that is
  /// read reaches into: what a user wrote cannot pass for a special token.
  std::span<const TextRange> literal = {};
};

/// A tokenizer. Immutable, and cheap to copy; any number of threads may use it at once.
class Tokenizer {
 public:
  /// `config`: the text of tokenizer_config.json, for which tokens begin and end a text. Throws
  /// BadArgument that names the field, for what it cannot use.
  static Tokenizer from_json(std::string_view json, std::string_view config = {},
                             std::string_view where = "tokenizer.json");
  static Tokenizer from_vocabulary(const Vocabulary& vocabulary, std::string_view where);

  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Ids that are no token are passed over.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// One more than the largest id.
  std::int32_t size() const;
  /// As the vocabulary spells it: "Ġthe", "▁the". Empty where there is no such token.
  std::string_view piece(std::int32_t id) const;
  /// What the token stands for by itself: " the". Maybe part of a character.
  std::string bytes(std::int32_t id) const;
  std::optional<std::int32_t> find(std::string_view piece) const;
  bool is_special(std::int32_t id) const;

  // -1 where the tokenizer names none.
  std::int32_t bos() const;
  std::int32_t eos() const;
  std::int32_t unknown() const;
  std::int32_t pad() const;

 private:
  friend class Detokenizer;
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const TokenizerParts> parts_;
};

/// Decodes tokens as they come. What it returns is always whole characters, and all together what
/// `Tokenizer::decode` makes of the same ids.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = false);
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;
  ~Detokenizer();

  std::string push(std::int32_t id);
  /// What was held back. REQUIRES: nothing is pushed after it.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attacca::text
