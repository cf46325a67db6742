// rule_set.cpp: prunes the rules of a grammar and lays them out for state_table.hpp.
#include "grammar/rule_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

namespace attacca::grammar {
namespace {

bool is_call(const Edge& edge) { return edge.first >= kFirstCall; }

/// Edges with calls replaced: `map` gives the new rule, or nothing to drop the edge. Ranges of
/// calls are split, because neighbours may have changed.
template <class Map>
std::vector<Edge> with_calls(const std::vector<Edge>& edges, const Map& map) {
  std::vector<Edge> result, calls;
  for (const Edge& edge : edges) {
    if (!is_call(edge)) {
      result.push_back(edge);
      continue;
    }
    for (Symbol symbol = edge.first; symbol <= edge.last; ++symbol)
      if (const std::optional<RuleId> rule = map(symbol - kFirstCall))
        calls.push_back({kFirstCall + *rule, kFirstCall + *rule, edge.to});
  }
  std::sort(calls.begin(), calls.end(), [](const Edge& left, const Edge& right) {
    return std::tie(left.first, left.to) < std::tie(right.first, right.to);
  });
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  result.insert(result.end(), calls.begin(), calls.end());
  return result;
}

/// Whether the rule is nothing but one call.
std::optional<RuleId> only_call(const Dfa& dfa) {
  if (dfa.size() != 2 || dfa.accepts[0] || !dfa.accepts[1] || !dfa.edges[1].empty() ||
      dfa.edges[0].size() != 1)
    return std::nullopt;
  const Edge& edge = dfa.edges[0].front();
  if (!is_call(edge) || edge.first != edge.last || edge.to != 1) return std::nullopt;
  return edge.first - kFirstCall;
}

std::vector<Symbol> key_of(const Dfa& dfa) {
  std::vector<Symbol> key;
  for (Node node = 0; node < dfa.size(); ++node) {
    key.push_back(static_cast<Symbol>(dfa.edges[node].size() * 2 + dfa.accepts[node]));
    for (const Edge& edge : dfa.edges[node])
      key.insert(key.end(), {edge.first, edge.last, edge.to});
  }
  return key;
}

}  // namespace

RuleId RuleSet::reserve() {
  if (rules_.size() >= kMostRules)
    throw TooLarge(fmt::format("it has more than {} different subschemas", kMostRules));
  rules_.emplace_back();
  return static_cast<RuleId>(rules_.size() - 1);
}

void RuleSet::define(RuleId rule, Dfa dfa) {
  node_count_ += dfa.size();
  if (node_count_ > 2 * kMostGrammarStates)  // some may be pruned later
    throw TooLarge("its automaton has too many states; simplify it");
  rules_[rule] = std::move(dfa);
}

RuleId RuleSet::add(Dfa dfa) {
  const RuleId rule = reserve();
  define(rule, std::move(dfa));
  return rule;
}

RuleId RuleSet::framed(RuleId rule, const Frame& frame, Budget& budget) {
  if (frame.before.empty() && frame.after.empty()) return rule;
  Nfa nfa;
  nfa.jump(nfa.bytes(nfa.call(nfa.bytes(nfa.start(), frame.before), rule), frame.after),
           nfa.accept());
  return add(determinized(nfa, budget));
}

void RuleSet::drop_dead_calls() {
  // From the ends backwards: a node is live if an edge leads to a live node and, if the edge calls
  // a rule, that rule's start is live.
  struct Source {
    RuleId rule;
    Node node;
  };
  std::vector<std::vector<std::vector<std::pair<Node, Symbol>>>> sources(rules_.size());
  std::vector<std::vector<bool>> is_live(rules_.size());
  std::vector<std::vector<Source>> waiting(rules_.size());  // for the start of a rule
  std::vector<Source> open;
  const auto mark = [&](RuleId rule, Node node) {
    if (is_live[rule][node]) return;
    is_live[rule][node] = true;
    open.push_back({rule, node});
  };
  for (RuleId rule = 0; rule < rules_.size(); ++rule) {
    const Dfa& dfa = rules_[rule];
    is_live[rule].resize(dfa.size());
    sources[rule].resize(dfa.size());
    for (Node node = 0; node < dfa.size(); ++node)
      for (const Edge& edge : dfa.edges[node])
        for (Symbol symbol = is_call(edge) ? edge.first : edge.last; symbol <= edge.last; ++symbol)
          sources[rule][edge.to].emplace_back(node, symbol);
  }
  for (RuleId rule = 0; rule < rules_.size(); ++rule)
    for (Node node = 0; node < rules_[rule].size(); ++node)
      if (rules_[rule].accepts[node]) mark(rule, node);
  while (!open.empty()) {
    const Source live = open.back();
    open.pop_back();
    if (live.node == 0)
      for (const Source& source : waiting[live.rule]) mark(source.rule, source.node);
    for (const auto& [node, symbol] : sources[live.rule][live.node]) {
      if (symbol >= kFirstCall && !is_live[symbol - kFirstCall][0])
        waiting[symbol - kFirstCall].push_back({live.rule, node});
      else
        mark(live.rule, node);
    }
  }
  for (Dfa& dfa : rules_) {
    for (auto& edges : dfa.edges)
      edges = with_calls(edges, [&](RuleId called) {
        return is_live[called][0] ? std::optional(called) : std::nullopt;
      });
    dfa = trimmed(dfa);
  }
}

void RuleSet::join_equal_rules() {
  same_as_.resize(rules_.size());
  std::iota(same_as_.begin(), same_as_.end(), 0);
  constexpr int kMostRounds = 16;  // equal rules that are not joined cost only space
  for (int round = 0; round < kMostRounds; ++round) {
    std::map<std::vector<Symbol>, RuleId> known;
    bool has_changed = false;
    for (RuleId rule = 0; rule < rules_.size(); ++rule) {
      if (same_as_[rule] != rule) continue;
      const std::optional<RuleId> called = only_call(rules_[rule]);
      const RuleId same =
          called ? same_as_[*called] : known.try_emplace(key_of(rules_[rule]), rule).first->second;
      has_changed = has_changed || same != rule;
      same_as_[rule] = same;
    }
    if (!has_changed) return;
    for (RuleId rule = 0; rule < rules_.size(); ++rule)
      while (same_as_[rule] != same_as_[same_as_[rule]]) same_as_[rule] = same_as_[same_as_[rule]];
    for (Dfa& dfa : rules_)
      for (auto& edges : dfa.edges)
        edges = with_calls(edges, [&](RuleId called) { return std::optional(same_as_[called]); });
  }
}

Grammar RuleSet::finish(RuleId start) {
  drop_dead_calls();
  if (rules_[start].is_empty()) throw BadArgument("no text satisfies it");
  join_equal_rules();
  start = same_as_[start];

  // Number the nodes of the rules that can be reached.
  constexpr std::uint32_t kUnknown = ~0u;
  std::vector<std::uint32_t> first(rules_.size(), kUnknown);
  std::vector<RuleId> order;
  std::uint32_t size = 0;
  const auto visit = [&](RuleId rule) {
    if (first[rule] != kUnknown) return;
    first[rule] = size;
    size += static_cast<std::uint32_t>(rules_[rule].size());
    order.push_back(rule);
  };
  visit(start);
  for (std::size_t at = 0; at < order.size(); ++at)
    for (const auto& edges : rules_[order[at]].edges)
      for (const Edge& edge : edges)
        for (Symbol symbol = edge.first; is_call(edge) && symbol <= edge.last; ++symbol)
          visit(symbol - kFirstCall);
  if (size > kMostGrammarStates)
    throw TooLarge(
        fmt::format("its automaton has {} states; at most {}", size, kMostGrammarStates));

  Grammar grammar;
  grammar.start_ = first[start];
  grammar.has_free_keys_ = has_free_keys_;
  std::array<bool, 257> is_border{};
  is_border[0] = true;
  for (const RuleId rule : order) {
    const Dfa& dfa = rules_[rule];
    for (Node node = 0; node < dfa.size(); ++node) {
      for (const Edge& edge : dfa.edges[node]) {
        if (is_call(edge)) {
          for (Symbol symbol = edge.first; symbol <= edge.last; ++symbol)
            grammar.calls_.push_back({first[symbol - kFirstCall], first[rule] + edge.to});
        } else {
          grammar.steps_.push_back({static_cast<std::uint8_t>(edge.first),
                                    static_cast<std::uint8_t>(edge.last), first[rule] + edge.to});
          is_border[edge.first] = is_border[edge.last + 1] = true;
        }
      }
      grammar.accepts_.push_back(dfa.accepts[node]);
      grammar.steps_begin_.push_back(static_cast<std::uint32_t>(grammar.steps_.size()));
      grammar.calls_begin_.push_back(static_cast<std::uint32_t>(grammar.calls_.size()));
    }
  }
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    grammar.class_count_ += is_border[byte];
    grammar.class_of_[byte] = static_cast<std::uint8_t>(grammar.class_count_ - 1);
  }
  return grammar;
}

}  // namespace attacca::grammar
