// state_table.hpp: runs a grammar over the tokens of a vocabulary. Equal states have one number, so
// the mask of a state is computed once, and a copy of it on a GPU can be found by the number.
//
// A state is the set of all positions that the text so far may have in the grammar: nodes, each
// with the set of its possible stacks. Sets of stacks share their tails and are numbered too, so
// the many stacks of an ambiguous grammar stay few. The steps from state to state are found when
// first needed, as in a regular expression library that builds its automaton lazily.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.hpp"
#include "grammar/token_trie.hpp"

namespace attacca::grammar {

/// The number of a state in its table.
using State = std::uint32_t;
inline constexpr State kDead = 0;  // no text leads on from here

/// Bit `id % 32` of word `id / 32` is set if the token is allowed.
using Mask = std::vector<std::uint32_t>;
inline bool is_allowed(const Mask& mask, std::int32_t token) {
  const auto id = static_cast<std::uint32_t>(token);
  return (mask[id / 32] >> (id % 32)) & 1;
}

/// Shared by all requests with the same grammar and tokenizer. Any number of threads may use it; a
/// mutex serializes them.
class StateTable {
 public:
  struct Limits {
    std::size_t masks = 1024;                   // kept; the least recently used ones are dropped
    std::size_t states = std::size_t{1} << 18;  // known at most; then `advance` throws Error
  };

  StateTable(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie)
      : StateTable(std::move(grammar), std::move(trie), Limits()) {}
  StateTable(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie,
             Limits limits);
  ~StateTable();

  State start() const { return start_; }
  /// The state after a token; kDead if the token is not allowed, or ends the text.
  State advance(State state, std::int32_t token);
  State advance_bytes(State state, std::string_view bytes);
  /// Whether the text may end here, so the end tokens are allowed.
  bool can_end(State state);
  /// Whether every plain character leads from the state to itself, as within a string.
  bool loops_on_plain(State state);
  /// Exact: a token is allowed if and only if some text of the grammar begins with the text so far
  /// and the token's bytes.
  std::shared_ptr<const Mask> mask(State state);

  const Grammar& grammar() const { return *grammar_; }
  const TokenTrie& trie() const { return *trie_; }
  /// Grows with use. Replace a table whose count nears the limit when its requests are done.
  std::size_t state_count() const;

 private:
  class Machine;
  struct Local;

  std::shared_ptr<const Mask> compute(State state);
  const Local& local(std::uint32_t node);
  void walk(std::uint32_t root, State state, Mask& mask, std::vector<std::uint32_t>* escapes);

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const TokenTrie> trie_;
  const Limits limits_;
  mutable std::mutex mutex_;
  std::unique_ptr<Machine> machine_;
  State start_ = kDead;
  std::vector<State> path_;  // the states on the way to a node of the trie

  struct Cached {
    std::shared_ptr<const Mask> mask;
    std::list<State>::iterator use;
  };
  std::list<State> uses_;  // the last used first
  std::unordered_map<State, Cached> masks_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Local>> locals_;
};

}  // namespace attacca::grammar
