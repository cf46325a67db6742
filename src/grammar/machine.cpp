// machine.cpp: follows calls and returns of a grammar's rules, and numbers what it finds.
#include "grammar/machine.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>

namespace attacca::grammar {

std::size_t StateTable::Machine::HashOfWords::operator()(
    const std::vector<std::uint32_t>& words) const {
  std::uint64_t hash = words.size();
  for (const std::uint32_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return static_cast<std::size_t>(hash);
}

StateTable::Machine::Machine(const Grammar& grammar, std::size_t most_states)
    : grammar_(grammar), class_count_(grammar.class_count()), most_states_(most_states) {
  number(Draft{});  // kDead
}

State StateTable::Machine::start() {
  Draft draft;
  reach(draft, grammar_.start(), number(std::vector<Frame>{{kEndNode, 0}}));
  return number(std::move(draft));
}

State StateTable::Machine::alone(std::uint32_t node) {
  Draft draft;
  draft.reached.push_back({node, number(std::vector<Frame>{{kBaseNode, 0}})});
  return number(std::move(draft));
}

State StateTable::Machine::after_return(StackSet stacks) {
  Draft draft;
  leave(draft, stacks);
  return number(std::move(draft));
}

State StateTable::Machine::find_next(State state, std::uint8_t byte) {
  Draft draft;
  // By index: reaching on may move `positions_`.
  for (std::size_t at = states_[state].begin; at < states_[state].end; ++at) {
    const Position position = positions_[at];
    const auto steps = grammar_.steps(position.node);
    const auto found = std::lower_bound(
        steps.begin(), steps.end(), byte,
        [](const Grammar::Step& step, std::uint8_t wanted) { return step.last < wanted; });
    if (found != steps.end() && found->first <= byte) reach(draft, found->to, position.below);
  }
  const State next = number(std::move(draft));
  return next_[state * class_count_ + grammar_.byte_class(byte)] = next;
}

bool StateTable::Machine::find_loops(State state) {
  bool does_loop = true;
  for (std::uint8_t byte = 0x7F; does_loop && byte-- > 0x20;)
    does_loop = !is_plain(byte) || next(state, byte) == state;
  loops_[state] = does_loop ? Loops::yes : Loops::no;
  return does_loop;
}

/// Adds a node and what its calls and its end reach without a byte. This ends, because no rule
/// calls itself before its first byte.
void StateTable::Machine::reach(Draft& draft, std::uint32_t node, StackSet stacks) {
  const auto known = std::find_if(draft.reached.begin(), draft.reached.end(),
                                  [&](const Position& other) { return other.node == node; });
  if (known == draft.reached.end()) {
    draft.reached.push_back({node, stacks});
  } else {
    const StackSet both = united(known->below, stacks);
    if (both == known->below) return;
    known->below = both;
  }
  for (const Grammar::Call& call : grammar_.calls(node)) {
    const bool is_tail_call = grammar_.is_last(call.back_to);
    reach(draft, call.start,
          is_tail_call ? stacks : number(std::vector<Frame>{{call.back_to, stacks}}));
  }
  if (grammar_.accepts(node)) leave(draft, stacks);
}

/// A rule ends, and its callers go on.
void StateTable::Machine::leave(Draft& draft, StackSet stacks) {
  for (std::size_t at = stacks_[stacks].first; at < stacks_[stacks].second; ++at) {
    const Frame frame = frames_[at];
    if (frame.node == kEndNode)
      draft.can_end = true;
    else if (frame.node == kBaseNode)
      draft.escapes = true;
    else
      reach(draft, frame.node, frame.below);
  }
}

State StateTable::Machine::number(Draft draft) {
  std::erase_if(draft.reached,
                [&](const Position& position) { return grammar_.steps(position.node).empty(); });
  std::sort(draft.reached.begin(), draft.reached.end());
  std::vector<std::uint32_t> key{draft.can_end * 2u + draft.escapes};
  for (const Position& position : draft.reached)
    key.insert(key.end(), {position.node, position.below});
  const auto [at, is_new] =
      state_numbers_.try_emplace(std::move(key), static_cast<State>(states_.size()));
  if (is_new) {
    if (states_.size() >= most_states_ || stacks_.size() >= most_states_) {
      state_numbers_.erase(at);
      throw Error(fmt::format("a grammar's table is full: it has {} states", states_.size()));
    }
    const std::size_t begin = positions_.size();
    positions_.insert(positions_.end(), draft.reached.begin(), draft.reached.end());
    states_.push_back({begin, positions_.size(), draft.can_end, draft.escapes});
    next_.resize(next_.size() + class_count_, kUnknown);
    loops_.push_back(Loops::unknown);
    return static_cast<State>(states_.size() - 1);
  }
  return at->second;
}

StateTable::Machine::StackSet StateTable::Machine::number(const std::vector<Frame>& frames) {
  std::vector<std::uint32_t> key;
  for (const Frame& frame : frames) key.insert(key.end(), {frame.node, frame.below});
  const auto [at, is_new] =
      stack_numbers_.try_emplace(std::move(key), static_cast<StackSet>(stacks_.size()));
  if (is_new) {
    stacks_.emplace_back(frames_.size(), frames_.size() + frames.size());
    frames_.insert(frames_.end(), frames.begin(), frames.end());
  }
  return at->second;
}

StateTable::Machine::StackSet StateTable::Machine::united(StackSet left, StackSet right) {
  if (left == right) return left;
  if (left > right) std::swap(left, right);
  if (const auto known = unions_.find({left, right}); known != unions_.end()) return known->second;
  std::vector<Frame> all(frames(left).begin(), frames(left).end());
  all.insert(all.end(), frames(right).begin(), frames(right).end());
  std::sort(all.begin(), all.end());
  std::vector<Frame> joined;
  for (const Frame& frame : all) {
    if (!joined.empty() && joined.back().node == frame.node)
      joined.back().below = united(joined.back().below, frame.below);
    else
      joined.push_back(frame);
  }
  const StackSet result = number(joined);
  unions_.emplace(std::pair(left, right), result);
  return result;
}

}  // namespace attacca::grammar
