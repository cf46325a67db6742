// grammars.hpp: compiles the grammars of requests for one model's tokens, and keeps those that were
// used last, so requests with the same grammar share its automaton and its masks.
#pragma once

#include <attacca/llm.hpp>
#include <list>
#include <memory>
#include <mutex>

#include "driver/job.hpp"
#include "engine/model_data.hpp"
#include "grammar/state_table.hpp"

namespace attacca::engine {

/// Thread-safe. REQUIRES: the model outlives it.
class Grammars {
 public:
  explicit Grammars(const llm::detail::ModelData& model) : model_(model) {}

  /// The grammar of a reply that has not begun; null if any text will do. Throws BadGrammar.
  std::unique_ptr<driver::ReplyGrammar> start(const llm::Grammar& grammar);

 private:
  struct Known {
    llm::Grammar grammar;
    std::shared_ptr<grammar::StateTable> table;
  };

  std::shared_ptr<grammar::StateTable> table_of(const llm::Grammar& grammar);
  std::shared_ptr<grammar::StateTable> find(const llm::Grammar& grammar);
  std::shared_ptr<const grammar::TokenTrie> trie();

  const llm::detail::ModelData& model_;
  std::mutex trie_mutex_;
  std::shared_ptr<const grammar::TokenTrie> trie_;  // built for the first grammar
  std::mutex mutex_;
  std::list<Known> known_;  // the last used first
};

}  // namespace attacca::engine
