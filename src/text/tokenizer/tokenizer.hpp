// tokenizer.hpp: turns text into tokens and back. It reads the tokenizers of Hugging Face
// (tokenizer.json, BPE models) and of GGUF files (byte-level BPE and SentencePiece-style BPE).
// docs/tokenizer.md says which parts are supported and how broken text is treated.
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

/// The tokenizer's part of a GGUF file's metadata. Views are only read during the call.
struct Vocabulary {
  std::string model = {};  // "gpt2" or "llama"
  std::string pre = {};    // how "gpt2" splits: "qwen2", "llama-bpe", ...
  std::vector<std::string_view> tokens = {};
  std::vector<float> scores = {};             // one per token; "llama" needs them
  std::vector<std::int32_t> types = {};       // one per token; empty: all are normal
  std::vector<std::string_view> merges = {};  // "left right"; "gpt2" needs them
  std::int32_t bos = -1, eos = -1, unknown = -1, pad = -1;
  bool adds_bos = false, adds_eos = false;
  bool adds_space_prefix = true;  // "llama": puts a space before every text
};

struct EncodeOptions {
  bool add_special = false;   // add the tokens that belong around a text, such as BOS
  bool parse_special = true;  // special tokens that are spelled out in the text become tokens
  /// Parts of the text in which no added token is recognised, special or not; nor does one reach
  /// into them. So a user's text cannot pass for a special token.
  std::span<const TextRange> literal = {};
};

/// Immutable and cheap to copy. Any number of threads may use it at once.
class Tokenizer {
 public:
  /// `config`: the text of tokenizer_config.json, which says which tokens begin and end a text.
  /// Throws BadArgument that names the field it cannot use.
  static Tokenizer from_json(std::string_view text, std::string_view config = {},
                             std::string_view where = "tokenizer.json");
  static Tokenizer from_vocabulary(const Vocabulary& vocabulary, std::string_view where);

  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Ids that are no token are skipped.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// One more than the largest id.
  std::int32_t size() const;
  /// The vocabulary's spelling: "Ġthe", "▁the". Empty if there is no such token.
  std::string_view piece(std::int32_t id) const;
  /// The bytes of the token by itself: " the". They may be part of a character.
  std::string bytes(std::int32_t id) const;
  std::optional<std::int32_t> find(std::string_view piece) const;
  bool is_special(std::int32_t id) const;

  // -1 if the tokenizer names none.
  std::int32_t bos() const;
  std::int32_t eos() const;
  std::int32_t unknown() const;
  std::int32_t pad() const;

 private:
  friend class Detokenizer;
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const TokenizerParts> parts_;
};

/// Decodes tokens as they come. It returns whole characters only; together they are what
/// `Tokenizer::decode` gives for the same ids.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = false);
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;
  ~Detokenizer();

  std::string push(std::int32_t id);
  /// The text that was held back. REQUIRES: nothing is pushed after it.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attacca::text
