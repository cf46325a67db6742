// grammar.hpp: a set of texts, as an automaton over bytes. It is compiled from a JSON schema or a
// regular expression; docs/grammar.md says which are supported and how JSON is written.
//
// JSON nests, so the automaton has a stack. It consists of rules, each deterministic over bytes and
// calls of rules. After a call, the caller's node waits on the stack. state_table.hpp runs it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace attacca::grammar {

class RuleSet;

/// Texts that stand before and behind those that a grammar describes, as they are.
struct Frame {
  std::string_view before = {};
  std::string_view after = {};
};

/// Immutable once made, so any number of threads may read it. Every node can be reached, and from
/// every node the end can be reached: a text is never led into a dead end.
class Grammar {
 public:
  /// Throws BadArgument that names the keyword and its JSON pointer. A frame of JSON must not have
  /// brackets, quotes or commas.
  static Grammar from_schema(std::string_view schema, const Frame& frame = {});
  /// Any JSON object.
  static Grammar any_object(const Frame& frame = {});
  /// Texts that the expression describes from beginning to end.
  static Grammar from_regex(std::string_view pattern, const Frame& frame = {});

  struct Call {
    std::uint32_t start = 0;    // the rule's first node
    std::uint32_t back_to = 0;  // the caller's node after the call
  };
  struct Step {
    std::uint8_t first = 0, last = 0;  // bytes
    std::uint32_t to = 0;
  };

  std::uint32_t start() const { return start_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(accepts_.size()); }
  /// Whether the rule may end here.
  bool accepts(std::uint32_t node) const { return accepts_[node]; }
  std::span<const Step> steps(std::uint32_t node) const {
    return std::span(steps_).subspan(steps_begin_[node],
                                     steps_begin_[node + 1] - steps_begin_[node]);
  }
  std::span<const Call> calls(std::uint32_t node) const {
    return std::span(calls_).subspan(calls_begin_[node],
                                     calls_begin_[node + 1] - calls_begin_[node]);
  }
  /// Whether the rule can only end here, so a call that comes back to it is a tail call.
  bool is_last(std::uint32_t node) const {
    return accepts(node) && steps(node).empty() && calls(node).empty();
  }
  /// Bytes of one class are alike in every node.
  std::uint32_t byte_class(std::uint8_t byte) const { return class_of_[byte]; }
  std::span<const std::uint8_t, 256> byte_classes() const { return class_of_; }
  std::uint32_t class_count() const { return class_count_; }
  /// Whether objects may have keys that the schema does not name. The automaton does not remember
  /// those; object_keys.hpp does.
  bool has_free_keys() const { return has_free_keys_; }

 private:
  friend class RuleSet;
  Grammar() = default;

  std::uint32_t start_ = 0;
  std::vector<bool> accepts_;
  std::vector<std::uint32_t> steps_begin_{0}, calls_begin_{0};
  std::vector<Step> steps_;
  std::vector<Call> calls_;
  std::array<std::uint8_t, 256> class_of_{};
  std::uint32_t class_count_ = 0;
  bool has_free_keys_ = false;
};

}  // namespace attacca::grammar
