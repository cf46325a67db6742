// machine.hpp: numbers the states of a grammar's run and finds the steps between them. It belongs
// to state_table.hpp, which guards it with a mutex.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/state_table.hpp"

namespace attacca::grammar {

/// A frame waits for a called rule to end; a stack set is a set of frames, each with the set of
/// stacks below it. The frames of one set have different nodes, so equal sets are equal vectors.
class StateTable::Machine {
 public:
  using StackSet = std::uint32_t;
  struct Frame {
    std::uint32_t node = 0;
    StackSet below = 0;
    auto operator<=>(const Frame&) const = default;
  };
  /// A node that reads a byte, and the stacks it may have.
  using Position = Frame;

  /// The two stacks that have no frame of a rule: behind the whole text, and behind a part that is
  /// looked at by itself.
  static constexpr std::uint32_t kEndNode = ~0u, kBaseNode = ~0u - 1;

  Machine(const Grammar& grammar, std::size_t most_states);

  State start();
  State next(State state, std::uint8_t byte) {
    const State known = next_[state * class_count_ + grammar_.byte_class(byte)];
    return known != kUnknown ? known : find_next(state, byte);
  }
  /// For loops that call `next` for many bytes: the steps that are known, [states, class_count],
  /// with kUnknown for others. Calls that find new states move them.
  const State* known_steps() const { return next_.data(); }
  static constexpr State kUnknown = ~State{0};

  /// Whether every plain byte leads from the state to itself, as within a string.
  bool loops_on_plain(State state) {
    const Loops known = loops_[state];
    return known != Loops::unknown ? known == Loops::yes : find_loops(state);
  }

  /// The state that is only in `node`, without a look at the stack below.
  State alone(std::uint32_t node);
  /// The state after the rule of a position has ended.
  State after_return(StackSet stacks);

  std::span<const Position> positions(State state) const {
    return std::span(positions_)
        .subspan(states_[state].begin, states_[state].end - states_[state].begin);
  }
  bool can_end(State state) const { return states_[state].can_end; }
  /// Whether the rules of `alone` may have ended.
  bool escapes(State state) const { return states_[state].escapes; }
  std::size_t size() const { return states_.size(); }

 private:
  struct Record {
    std::size_t begin = 0, end = 0;
    bool can_end = false, escapes = false;
  };
  struct HashOfWords {
    std::size_t operator()(const std::vector<std::uint32_t>& words) const;
  };
  /// A state that is being collected.
  struct Draft {
    std::vector<Position> reached;  // nodes that read no byte are among them
    bool can_end = false, escapes = false;
  };

  enum class Loops : std::uint8_t { unknown, no, yes };

  State find_next(State state, std::uint8_t byte);
  bool find_loops(State state);
  void reach(Draft& draft, std::uint32_t node, StackSet stacks);
  void leave(Draft& draft, StackSet stacks);
  State number(Draft draft);
  StackSet number(const std::vector<Frame>& frames);
  StackSet united(StackSet left, StackSet right);
  std::span<const Frame> frames(StackSet stacks) const {
    return std::span(frames_).subspan(stacks_[stacks].first,
                                      stacks_[stacks].second - stacks_[stacks].first);
  }

  const Grammar& grammar_;
  const std::size_t class_count_;
  const std::size_t most_states_;
  std::vector<Record> states_;
  std::vector<Position> positions_;
  std::vector<State> next_;   // [states, class_count]
  std::vector<Loops> loops_;  // by state
  std::unordered_map<std::vector<std::uint32_t>, State, HashOfWords> state_numbers_;
  std::vector<std::pair<std::size_t, std::size_t>> stacks_;
  std::vector<Frame> frames_;
  std::unordered_map<std::vector<std::uint32_t>, StackSet, HashOfWords> stack_numbers_;
  std::map<std::pair<StackSet, StackSet>, StackSet> unions_;
};

}  // namespace attacca::grammar
