// token_trie.cpp: sorts the tokens by their bytes and lays the trie out.
#include "grammar/token_trie.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include "text/tokenizer/tokenizer.hpp"

namespace attacca::grammar {
namespace {

std::vector<std::string> bytes_of(const text::Tokenizer& tokenizer,
                                  const std::vector<std::int32_t>& ends) {
  std::vector<std::string> tokens(static_cast<std::size_t>(tokenizer.size()));
  for (std::int32_t id = 0; id < tokenizer.size(); ++id)
    if (!tokenizer.is_special(id) && std::find(ends.begin(), ends.end(), id) == ends.end())
      tokens[static_cast<std::size_t>(id)] = tokenizer.bytes(id);
  return tokens;
}

std::vector<std::int32_t> ends_of(const text::Tokenizer& tokenizer,
                                  std::vector<std::int32_t> ends) {
  if (ends.empty() && tokenizer.eos() >= 0) ends.push_back(tokenizer.eos());
  if (ends.empty())
    throw BadArgument("the tokenizer names no end token; give the tokens that end a text");
  return ends;
}

}  // namespace

std::vector<std::uint32_t> plain_tokens(const text::Tokenizer& tokenizer, std::size_t vocabulary) {
  std::vector<std::uint32_t> mask((vocabulary + 31) / 32);
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    if (tokenizer.is_special(id)) continue;
    const std::string bytes = tokenizer.bytes(id);
    const auto at = static_cast<std::uint32_t>(id);
    if (!bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [](char letter) {
          return is_plain(static_cast<std::uint8_t>(letter));
        }))
      mask[at / 32] |= 1u << (at % 32);
  }
  return mask;
}

TokenTrie::TokenTrie(const text::Tokenizer& tokenizer, std::vector<std::int32_t> ends,
                     std::size_t vocabulary_size)
    : TokenTrie(bytes_of(tokenizer, ends_of(tokenizer, ends)), ends_of(tokenizer, ends),
                vocabulary_size) {}

TokenTrie::TokenTrie(std::vector<std::string> tokens, std::vector<std::int32_t> ends,
                     std::size_t vocabulary_size)
    : bytes_(std::move(tokens)),
      ends_(std::move(ends)),
      vocabulary_size_(std::max(vocabulary_size, bytes_.size())) {
  for (const std::int32_t id : ends_) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary_size_)
      throw BadArgument(
          fmt::format("end token {} is not below the vocabulary's {}", id, vocabulary_size_));
    if (static_cast<std::size_t>(id) < bytes_.size()) bytes_[static_cast<std::size_t>(id)].clear();
  }
  std::vector<std::int32_t> order;
  for (std::size_t id = 0; id < bytes_.size(); ++id) {
    if (bytes_[id].empty()) continue;
    if (bytes_[id].size() > std::numeric_limits<std::uint16_t>::max())
      throw BadArgument(fmt::format("token {} has {} bytes; at most 65535", id, bytes_[id].size()));
    longest_ = std::max(longest_, bytes_[id].size());
    order.push_back(static_cast<std::int32_t>(id));
    if (std::count(bytes_[id].begin(), bytes_[id].end(), '"') >= 2) quoted_.push_back(order.back());
  }
  std::sort(order.begin(), order.end(), [&](std::int32_t left, std::int32_t right) {
    return std::pair(bytes(left), left) < std::pair(bytes(right), right);
  });

  nodes_.push_back({});
  std::vector<std::uint32_t> path{0};  // the nodes of the last token
  std::string_view last;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) {
      const Node& last_node = nodes_[path.back()];
      nodes_[path.back()].end = static_cast<std::uint32_t>(nodes_.size());
      Node& parent = nodes_[path[path.size() - 2]];
      parent.is_plain_below =
          parent.is_plain_below && last_node.is_plain_below && is_plain(last_node.byte);
    }
  };
  for (const std::int32_t id : order) {
    const std::string_view text = bytes(id);
    std::size_t shared = 0;
    while (shared < std::min(last.size(), text.size()) && last[shared] == text[shared]) ++shared;
    close(shared);
    for (std::size_t depth = shared; depth < text.size(); ++depth) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<std::uint32_t>(tokens_.size()),
                        static_cast<std::uint16_t>(depth + 1),
                        static_cast<std::uint8_t>(text[depth])});
    }
    tokens_.push_back(id);
    last = text;
  }
  close(0);
  nodes_[0].end = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<std::uint32_t>(tokens_.size()), 0, 0});
}

bool TokenTrie::is_end(std::int32_t token) const {
  return std::find(ends_.begin(), ends_.end(), token) != ends_.end();
}

std::string_view TokenTrie::bytes(std::int32_t token) const {
  return token < 0 || static_cast<std::size_t>(token) >= bytes_.size()
             ? std::string_view()
             : std::string_view(bytes_[static_cast<std::size_t>(token)]);
}

std::uint32_t TokenTrie::find(std::uint32_t node, std::string_view bytes) const {
  for (const char letter : bytes) {
    const std::uint32_t end = nodes_[node].end;
    std::uint32_t child = node + 1;
    while (child < end && nodes_[child].byte != static_cast<std::uint8_t>(letter))
      child = nodes_[child].end;
    if (child >= end) return 0;
    node = child;
  }
  return node;
}

}  // namespace attacca::grammar
