// state_table.cpp: computes the masks of states by walks over the trie, and keeps them.
#include "grammar/state_table.hpp"

#include <algorithm>

#include "grammar/machine.hpp"

namespace attacca::grammar {

/// The tokens that a node allows by itself, whatever the stack below it is. Most tokens within a
/// string are such.
struct StateTable::Local {
  Mask mask;
  std::vector<std::uint32_t> escapes;  // nodes of the trie where the node's rule may have ended
};

StateTable::StateTable(std::shared_ptr<const Grammar> grammar,
                       std::shared_ptr<const TokenTrie> trie, Limits limits)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      limits_(limits),
      machine_(std::make_unique<Machine>(*grammar_, limits.states)),
      start_(machine_->start()),
      path_(trie_->longest() + 1) {}

StateTable::~StateTable() = default;

State StateTable::advance(State state, std::int32_t token) {
  const std::string_view bytes = trie_->bytes(token);
  return bytes.empty() ? kDead : advance_bytes(state, bytes);
}

State StateTable::advance_bytes(State state, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  for (const char letter : bytes) {
    if (state == kDead) break;
    state = machine_->next(state, static_cast<std::uint8_t>(letter));
  }
  return state;
}

bool StateTable::can_end(State state) {
  const std::lock_guard lock(mutex_);
  return machine_->can_end(state);
}

bool StateTable::loops_on_plain(State state) {
  const std::lock_guard lock(mutex_);
  return machine_->loops_on_plain(state);
}

std::size_t StateTable::state_count() const {
  const std::lock_guard lock(mutex_);
  return machine_->size();
}

std::shared_ptr<const Mask> StateTable::mask(State state) {
  const std::lock_guard lock(mutex_);
  if (const auto known = masks_.find(state); known != masks_.end()) {
    uses_.splice(uses_.begin(), uses_, known->second.use);
    return known->second.mask;
  }
  std::shared_ptr<const Mask> mask = compute(state);
  uses_.push_front(state);
  masks_[state] = {mask, uses_.begin()};
  if (masks_.size() > std::max<std::size_t>(limits_.masks, 1)) {
    masks_.erase(uses_.back());
    uses_.pop_back();
  }
  return mask;
}

std::shared_ptr<const Mask> StateTable::compute(State state) {
  auto mask = std::make_shared<Mask>(trie_->mask_words());
  // One position after the other, each with the part that is the same for all stacks, unless there
  // are too many positions or too many places where the stack matters.
  constexpr std::size_t kMostPositions = 4;
  const std::size_t most_escapes = trie_->nodes().size() / 16 + 64;
  const auto all = machine_->positions(state);
  const std::vector<Machine::Position> positions(all.begin(), all.end());
  bool is_split = positions.size() <= kMostPositions;
  for (std::size_t at = 0; is_split && at < positions.size(); ++at)
    is_split = local(positions[at].node).escapes.size() <= most_escapes;
  if (is_split) {
    for (const Machine::Position& position : positions) {
      const Local& part = local(position.node);
      for (std::size_t word = 0; word < mask->size(); ++word) (*mask)[word] |= part.mask[word];
      if (part.escapes.empty()) continue;
      const State after = machine_->after_return(position.below);
      for (const std::uint32_t node : part.escapes) walk(node, after, *mask, nullptr);
    }
  } else {
    walk(0, state, *mask, nullptr);
  }
  if (machine_->can_end(state))
    for (const std::int32_t id : trie_->ends())
      (*mask)[static_cast<std::uint32_t>(id) / 32] |= 1u << (static_cast<std::uint32_t>(id) % 32);
  return mask;
}

const StateTable::Local& StateTable::local(std::uint32_t node) {
  if (const auto known = locals_.find(node); known != locals_.end()) return *known->second;
  if (locals_.size() >= std::max<std::size_t>(limits_.masks, 16)) locals_.clear();
  auto made = std::make_unique<Local>();
  made->mask.resize(trie_->mask_words());
  walk(0, machine_->alone(node), made->mask, &made->escapes);
  return *(locals_[node] = std::move(made));
}

/// Allows the tokens at and below a node of the trie, which is reached in `state`. With `escapes`,
/// collects the nodes where the rule of a state that is `alone` may have ended.
void StateTable::walk(std::uint32_t root, State state, Mask& mask,
                      std::vector<std::uint32_t>* escapes) {
  // Pointers of its own: the compiler must assume that a write to the mask changes a vector.
  const TokenTrie::Node* const nodes = trie_->nodes().data();
  const std::uint8_t* const classes = grammar_->byte_classes().data();
  const std::size_t class_count = grammar_->class_count();
  const State* steps = machine_->known_steps();
  State* const path = path_.data();
  std::uint32_t* const words = mask.data();
  const std::uint32_t top = nodes[root].depth, end = nodes[root].end;
  const auto set = [&](std::span<const std::int32_t> tokens) {
    for (const std::int32_t id : tokens)
      words[static_cast<std::uint32_t>(id) / 32] |= 1u << (static_cast<std::uint32_t>(id) % 32);
  };
  const auto allow = [&](std::uint32_t node, State reached) {
    if (escapes && machine_->escapes(reached)) {
      escapes->push_back(node);
      if (machine_->positions(reached).empty()) return;
    }
    set(trie_->tokens(node));
  };
  path[0] = state;
  if (root != 0) allow(root, state);
  for (std::uint32_t node = root + 1; node < end;) {
    const std::uint32_t depth = nodes[node].depth - top;
    State reached = steps[path[depth - 1] * class_count + classes[nodes[node].byte]];
    if (reached == Machine::kUnknown) {
      reached = machine_->next(path[depth - 1], nodes[node].byte);
      steps = machine_->known_steps();
    }
    if (reached == kDead) {
      node = nodes[node].end;
      continue;
    }
    if (nodes[node].is_plain_below) {
      const bool is_in_string = machine_->loops_on_plain(reached) && !machine_->escapes(reached);
      steps = machine_->known_steps();
      if (is_in_string) {  // all tokens here and below are allowed
        set(trie_->tokens_from(node));
        node = nodes[node].end;
        continue;
      }
    }
    path[depth] = reached;
    allow(node, reached);
    ++node;
  }
}

}  // namespace attacca::grammar
