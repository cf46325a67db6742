// regex.cpp: builds the automaton of a regular expression's tree.
#include "grammar/regex.hpp"

#include "grammar/regex_syntax.hpp"

namespace attacca::grammar {
namespace {

class Builder {
 public:
  Builder(Nfa& nfa, Budget& budget) : nfa_(nfa), budget_(budget) {}

  /// The node that a text described by `node` leads to.
  Node build(const RegexNode& node, Node from) {
    budget_.spend(1);  // repeats of nothing add no node
    switch (node.kind) {
      case RegexNode::Kind::characters: {
        const Node to = nfa_.add();
        for (const CodeSet::Range& range : node.set.ranges())
          nfa_.edge(from, range.first, range.last, to);
        return to;
      }
      case RegexNode::Kind::sequence:
        for (const RegexNode& part : node.parts) from = build(part, from);
        return from;
      case RegexNode::Kind::choice: {
        const Node to = nfa_.add();
        for (const RegexNode& part : node.parts) {
          // A node of its own: a loop at the start of one part must not reach the others.
          const Node begin = nfa_.add();
          nfa_.jump(from, begin);
          nfa_.jump(build(part, begin), to);
        }
        return to;
      }
      case RegexNode::Kind::repeat:
        return repeat(node, from);
      case RegexNode::Kind::begin:
        return anchor(from, Nfa::When::at_begin);
      case RegexNode::Kind::end:
        return anchor(from, Nfa::When::at_end);
    }
    return from;
  }

 private:
  Node anchor(Node from, Nfa::When when) {
    const Node to = nfa_.add();
    nfa_.jump(from, to, when);
    return to;
  }

  Node repeat(const RegexNode& node, Node from) {
    const RegexNode& part = node.parts.front();
    for (std::uint32_t done = 0; done < node.least; ++done) from = build(part, from);
    if (node.most == kUnbounded) {
      const Node hub = nfa_.add();
      nfa_.jump(from, hub);
      nfa_.jump(build(part, hub), hub);
      const Node to = nfa_.add();
      nfa_.jump(hub, to);
      return to;
    }
    const Node to = nfa_.add();
    for (std::uint32_t done = node.least; done < node.most; ++done) {
      nfa_.jump(from, to);
      const Node begin = nfa_.add();
      nfa_.jump(from, begin);
      from = build(part, begin);
    }
    nfa_.jump(from, to);
    return to;
  }

  Nfa& nfa_;
  Budget& budget_;
};

}  // namespace

Dfa regex_automaton(std::string_view pattern, Match match, Budget& budget) {
  const RegexNode tree = parse_regex(pattern);
  Nfa nfa;
  Node begin = nfa.start();
  if (match == Match::anywhere) {
    for (const CodeSet::Range& range : CodeSet::all().ranges()) {
      nfa.edge(begin, range.first, range.last, begin);
      nfa.edge(nfa.accept(), range.first, range.last, nfa.accept());
    }
    begin = nfa.add();
    nfa.jump(nfa.start(), begin);
  }
  nfa.jump(Builder(nfa, budget).build(tree, begin), nfa.accept());
  return minimized(determinized(nfa, budget), budget);
}

}  // namespace attacca::grammar
