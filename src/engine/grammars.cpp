// grammars.cpp: from a request's schema or expression to the masks of its reply.
#include "engine/grammars.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <utility>

#include "grammar/constraint.hpp"

namespace attacca::engine {

namespace {

using llm::BadGrammar;
using llm::GrammarKind;

constexpr std::size_t kMostKnown = 32;
constexpr std::size_t kMostMasks = 256;        // of one grammar; 16 KB each at 128,256 tokens
constexpr std::size_t kManyStates = 1u << 16;  // a quarter of what a table takes

class ConstrainedReply final : public driver::ReplyGrammar {
 public:
  explicit ConstrainedReply(std::shared_ptr<grammar::StateTable> table)
      : constraint_(std::move(table)) {}

  driver::MaskPtr allowed() override {
    const auto [mask, state, ends_no_key] = constraint_.allowed();
    sharing_ = !state         ? driver::MaskSharing::own
               : !ends_no_key ? driver::MaskSharing::state
                              : driver::MaskSharing::edge;
    if (std::all_of(mask->begin(), mask->end(), [](std::uint32_t word) { return word == 0; }))
      throw BadArgument(
          "the grammar cannot go on: no token of this model spells what must come next; change "
          "the grammar");
    return mask;
  }
  void advance(std::int32_t token) override {
    if (!constraint_.advance(token))
      throw Error(fmt::format(
          "token {} was sampled against the grammar's mask; this is a bug of attacca", token));
  }
  driver::MaskSharing sharing() const override { return sharing_; }
  bool loops_on_plain() override {
    return sharing_ != driver::MaskSharing::own && constraint_.loops_on_plain();
  }

 private:
  grammar::Constraint constraint_;
  driver::MaskSharing sharing_ = driver::MaskSharing::own;
};

grammar::Grammar compile(const llm::Grammar& grammar) {
  const grammar::Frame frame{grammar.before, grammar.after};
  switch (grammar.kind) {
    case GrammarKind::json_schema:
      return grammar::Grammar::from_schema(grammar.text, frame);
    case GrammarKind::json_object:
      return grammar::Grammar::any_object(frame);
    case GrammarKind::regex:
      return grammar::Grammar::from_regex(grammar.text, frame);
    case GrammarKind::none:
      break;
  }
  throw BadArgument(fmt::format("grammar kind {}; use json_schema, json_object or regex",
                                static_cast<unsigned>(grammar.kind)));
}

}  // namespace

std::unique_ptr<driver::ReplyGrammar> Grammars::start(const llm::Grammar& grammar) {
  if (grammar == llm::Grammar()) return nullptr;
  try {
    auto reply = std::make_unique<ConstrainedReply>(table_of(grammar));
    reply->allowed();  // it may find that there is no first token
    return reply;
  } catch (const BadArgument& error) {
    throw BadGrammar(error.what());
  }
}

std::shared_ptr<grammar::StateTable> Grammars::table_of(const llm::Grammar& grammar) {
  if (auto table = find(grammar)) return table;
  // Without the mutex: it may take a second. Of two that compile the same, the last is kept.
  auto table = std::make_shared<grammar::StateTable>(
      std::make_shared<const grammar::Grammar>(compile(grammar)), trie(),
      grammar::StateTable::Limits{.masks = kMostMasks});
  const std::lock_guard lock(mutex_);
  known_.remove_if([&](const Known& known) { return known.grammar == grammar; });
  known_.push_front({grammar, table});
  if (known_.size() > kMostKnown) known_.pop_back();
  return table;
}

/// Null if the grammar is not known, or if its table has grown so large that it should be replaced.
std::shared_ptr<grammar::StateTable> Grammars::find(const llm::Grammar& grammar) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const Known& known) { return known.grammar == grammar; });
  if (found == known_.end() || found->table->state_count() > kManyStates) return nullptr;
  known_.splice(known_.begin(), known_, found);
  return known_.front().table;
}

std::shared_ptr<const grammar::TokenTrie> Grammars::trie() {
  const std::lock_guard lock(trie_mutex_);
  if (trie_) return trie_;
  const model::ModelConfig& config = model_.config();
  if (config.eos_ids.empty())
    throw BadArgument("this model names no end token, and a grammar needs one to end a reply");
  trie_ = std::make_shared<const grammar::TokenTrie>(model_.require_tokenizer(), config.eos_ids,
                                                     config.vocabulary);
  return trie_;
}

}  // namespace attacca::engine
