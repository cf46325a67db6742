// token_trie.hpp: the bytes of every token of a vocabulary as a trie, built once per tokenizer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attacca::text {
class Tokenizer;
}

namespace attacca::grammar {

/// A printable ASCII character that stands for itself in a JSON string.
constexpr bool is_plain(std::uint8_t byte) {
  return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

/// Immutable, so any number of threads may read it. Nodes are in the order of a walk from the root,
/// so a walk that skips subtrees reads forward. Special tokens and tokens without bytes are left
/// out; no text ever allows them.
class TokenTrie {
 public:
  struct Node {
    std::uint32_t end = 0;           // one past the last node below this one
    std::uint32_t tokens_begin = 0;  // its tokens end where those of the next node begin
    std::uint16_t depth = 0;         // the root's is 0
    std::uint8_t byte = 0;           // that leads here
    bool is_plain_below = true;      // every byte below this node is plain
  };

  /// `tokens`: the bytes by id, empty for a token that is never allowed. `ends`: tokens that end a
  /// text. `vocabulary_size`: ids that a mask covers, if more than there are tokens.
  TokenTrie(std::vector<std::string> tokens, std::vector<std::int32_t> ends,
            std::size_t vocabulary_size = 0);
  /// Without `ends`, the tokenizer's end token. Throws BadArgument if it names none.
  explicit TokenTrie(const text::Tokenizer& tokenizer, std::vector<std::int32_t> ends = {},
                     std::size_t vocabulary_size = 0);

  std::size_t vocabulary_size() const { return vocabulary_size_; }
  /// Words of 32 bits that a mask has.
  std::size_t mask_words() const { return (vocabulary_size_ + 31) / 32; }
  std::span<const std::int32_t> ends() const { return ends_; }
  bool is_end(std::int32_t token) const;
  /// Empty if the token is never allowed.
  std::string_view bytes(std::int32_t token) const;
  /// The longest token, in bytes.
  std::size_t longest() const { return longest_; }

  /// Node 0 is the root. One more node marks the end.
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  std::span<const std::int32_t> tokens(std::uint32_t node) const {
    return {tokens_.data() + nodes_[node].tokens_begin,
            tokens_.data() + nodes_[node + 1].tokens_begin};
  }
  /// The tokens of a node and of all nodes below it.
  std::span<const std::int32_t> tokens_from(std::uint32_t node) const {
    return {tokens_.data() + nodes_[node].tokens_begin,
            tokens_.data() + nodes_[nodes_[node].end].tokens_begin};
  }
  /// The node at the end of `bytes` below `node`, or 0.
  std::uint32_t find(std::uint32_t node, std::string_view bytes) const;
  /// Tokens with two or more quotation marks: only these can hold a whole key of an object.
  std::span<const std::int32_t> quoted() const { return quoted_; }

 private:
  std::vector<std::string> bytes_;
  std::vector<std::int32_t> ends_;
  std::size_t vocabulary_size_ = 0;
  std::size_t longest_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> quoted_;
};

/// A mask of the tokens of which every byte is plain.
std::vector<std::uint32_t> plain_tokens(const text::Tokenizer& tokenizer, std::size_t vocabulary);

}  // namespace attacca::grammar
