// rule_set.hpp: the rules of a grammar while it is compiled. A rule may be called before it is
// defined, so rules may call each other.
#pragma once

#include <cstdint>
#include <vector>

#include "grammar/automaton.hpp"
#include "grammar/grammar.hpp"

namespace attacca::grammar {

using RuleId = std::uint32_t;

class RuleSet {
 public:
  RuleId reserve();
  void define(RuleId rule, Dfa dfa);
  RuleId add(Dfa dfa);
  /// A rule with the frame's texts around those of `rule`.
  RuleId framed(RuleId rule, const Frame& frame, Budget& budget);
  void set_free_keys() { has_free_keys_ = true; }

  /// Removes rules and nodes that cannot end or cannot be reached, joins equal rules and numbers
  /// the rest. Throws BadArgument if no text is left. REQUIRES: every rule is defined, and none
  /// calls itself before its first byte.
  Grammar finish(RuleId start);

 private:
  void join_equal_rules();
  void drop_dead_calls();

  std::vector<Dfa> rules_;
  std::vector<RuleId> same_as_;  // a rule with the same texts
  std::size_t node_count_ = 0;
  bool has_free_keys_ = false;
};

}  // namespace attacca::grammar
