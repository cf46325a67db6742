// automaton.hpp: finite automata over ranges of symbols, with and without choice. A symbol is a
// code point, a byte, or the call of a grammar's rule; the operations do not care which.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "grammar/limits.hpp"

namespace attacca::grammar {

using Symbol = std::uint32_t;
using Node = std::uint32_t;  // a state of a finite automaton

inline constexpr Symbol kLastCode = 0x10FFFF;
inline constexpr Symbol kFirstCall = 0x1000000;  // kFirstCall + n calls rule n

struct Edge {
  Symbol first = 0, last = 0;
  Node to = 0;
  bool operator==(const Edge&) const = default;
};

/// An automaton that may be in several nodes at once. One node accepts.
class Nfa {
 public:
  /// A jump that consumes nothing may be bound to the beginning or to the end of the text.
  enum class When : std::uint8_t { always, at_begin, at_end };
  struct Jump {
    Node to = 0;
    When when = When::always;
  };

  Nfa() : start_(add()), accept_(add()) {}

  Node start() const { return start_; }
  Node accept() const { return accept_; }
  std::size_t size() const { return edges_.size(); }
  std::span<const Edge> edges(Node from) const { return edges_[from]; }
  std::span<const Jump> jumps(Node from) const { return jumps_[from]; }

  Node add();
  void edge(Node from, Symbol first, Symbol last, Node to) {
    edges_[from].push_back({first, last, to});
  }
  void jump(Node from, Node to, When when = When::always) { jumps_[from].push_back({to, when}); }

  // Each returns the node that the text leads to.
  Node bytes(Node from, std::string_view text);
  Node call(Node from, std::uint32_t rule);

 private:
  std::vector<std::vector<Edge>> edges_;
  std::vector<std::vector<Jump>> jumps_;
  Node start_, accept_;
};

/// An automaton with at most one edge per node and symbol. It starts in node 0. Edges are sorted.
struct Dfa {
  std::vector<std::vector<Edge>> edges;
  std::vector<bool> accepts;

  std::size_t size() const { return edges.size(); }
  bool is_empty() const;  // accepts no text. REQUIRES: trimmed
  bool operator==(const Dfa&) const = default;
};

inline constexpr Node kNoNode = ~Node{0};

/// The node after `symbol`, or kNoNode.
Node next(const Dfa& dfa, Node from, Symbol symbol);

/// The results are trimmed: every node can be reached, and every node but the start leads to one
/// that accepts.
Dfa determinized(const Nfa& nfa, Budget& budget);
Dfa intersection(const Dfa& left, const Dfa& right, Budget& budget);
/// The texts of `left` that `right` does not accept.
Dfa difference(const Dfa& left, const Dfa& right, Budget& budget);
/// The smallest equal automaton; the same one where finding it would take too long.
Dfa minimized(Dfa dfa, Budget& budget);
Dfa trimmed(const Dfa& dfa);

/// Builds an automaton from a start value and a function that gives the value after a byte, or
/// nothing. Values are ordered and few. `ends` says where a text may end.
template <class Value, class After, class Ends>
Dfa explored(const Value& start, const After& after, const Ends& ends, std::string_view alphabet,
             Budget& budget);

}  // namespace attacca::grammar

#include "grammar/explored.hpp"
