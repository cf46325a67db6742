// automaton.cpp: the subset construction, products, trimming and minimization of finite automata.
#include "grammar/automaton.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace attacca::grammar {
namespace {

struct HashOfNodes {
  std::size_t operator()(const std::vector<Node>& nodes) const {
    std::uint64_t hash = nodes.size();
    for (const Node node : nodes) {
      hash = (hash ^ node) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 29;
    }
    return static_cast<std::size_t>(hash);
  }
};

void check_size(std::size_t states) {
  if (states > kMostDfaStates) throw TooLarge("its automaton has too many states; simplify it");
}

/// Appends an edge, or widens the last one.
void append(std::vector<Edge>& edges, const Edge& edge) {
  if (!edges.empty() && edges.back().to == edge.to && edges.back().last + 1 == edge.first)
    edges.back().last = edge.last;
  else
    edges.push_back(edge);
}

class SubsetConstruction {
 public:
  SubsetConstruction(const Nfa& nfa, Budget& budget)
      : nfa_(nfa), budget_(budget), mark_(nfa.size(), 0) {}

  Dfa run() {
    number(closure({nfa_.start()}, true, false), true);
    for (Node node = 0; node < subsets_.size(); ++node) expand(node);
    return trimmed(dfa_);
  }

 private:
  using Nodes = std::vector<Node>;

  /// What jumps reach; jumps at the beginning or at the end are taken if the text is there.
  Nodes closure(Nodes nodes, bool at_begin, bool at_end) {
    ++stamp_;
    Nodes found;
    for (const Node node : nodes) mark_[node] = stamp_;
    while (!nodes.empty()) {
      const Node node = nodes.back();
      nodes.pop_back();
      found.push_back(node);
      for (const Nfa::Jump& jump : nfa_.jumps(node)) {
        budget_.spend(1);
        if (jump.when == Nfa::When::at_begin && !at_begin) continue;
        if (jump.when == Nfa::When::at_end && !at_end) continue;
        if (std::exchange(mark_[jump.to], stamp_) != stamp_) nodes.push_back(jump.to);
      }
    }
    std::sort(found.begin(), found.end());
    budget_.spend(found.size());
    return found;
  }

  Node number(Nodes subset, bool is_start) {
    // Only the start may cross a ^, so it equals no later subset.
    Nodes key = subset;
    key.push_back(is_start);
    const auto [at, is_new] = numbers_.try_emplace(std::move(key), subsets_.size());
    if (is_new) {
      check_size(subsets_.size() + 1);
      const Nodes ends = closure(subset, is_start, true);
      dfa_.accepts.push_back(std::binary_search(ends.begin(), ends.end(), nfa_.accept()));
      dfa_.edges.emplace_back();
      subsets_.push_back(std::move(subset));
    }
    return at->second;
  }

  void expand(Node node) {
    // A sweep over the places where an edge begins or has ended.
    struct Event {
      Symbol at;
      bool is_end;
      Node to;
    };
    std::vector<Event> events;
    for (const Node part : subsets_[node]) {
      for (const Edge& edge : nfa_.edges(part)) {
        events.push_back({edge.first, false, edge.to});
        events.push_back({edge.last + 1, true, edge.to});
      }
    }
    budget_.spend(events.size());
    std::sort(events.begin(), events.end(),
              [](const Event& left, const Event& right) { return left.at < right.at; });
    std::map<Node, std::uint32_t> open;
    std::vector<Edge> edges;
    for (std::size_t at = 0; at < events.size();) {
      const Symbol first = events[at].at;
      for (; at < events.size() && events[at].at == first; ++at) {
        if (!events[at].is_end) {
          ++open[events[at].to];
        } else if (--open[events[at].to] == 0) {
          open.erase(events[at].to);
        }
      }
      if (open.empty()) continue;
      Nodes targets;
      for (const auto& [to, count] : open) targets.push_back(to);
      budget_.spend(targets.size() + 4);
      append(edges,
             {first, events[at].at - 1, number(closure(std::move(targets), false, false), false)});
    }
    edge_count_ += edges.size();
    if (edge_count_ > kMostDfaEdges)
      throw TooLarge("its automaton has too many edges; simplify it");
    dfa_.edges[node] = std::move(edges);
  }

  const Nfa& nfa_;
  Budget& budget_;
  std::vector<std::uint32_t> mark_;
  std::uint32_t stamp_ = 0;
  std::unordered_map<Nodes, Node, HashOfNodes> numbers_;
  std::vector<Nodes> subsets_;
  std::size_t edge_count_ = 0;
  Dfa dfa_;
};

/// Both at once. Where only `left` goes on, `right` is kNoNode if `is_difference`.
Dfa product(const Dfa& left, const Dfa& right, bool is_difference, Budget& budget) {
  if (left.size() == 0 || (right.size() == 0 && !is_difference)) return {};
  std::map<std::pair<Node, Node>, Node> numbers;
  std::vector<std::pair<Node, Node>> pairs;
  const auto number = [&](Node a, Node b) {
    const auto [at, is_new] = numbers.try_emplace({a, b}, static_cast<Node>(pairs.size()));
    if (is_new) pairs.emplace_back(a, b);
    check_size(pairs.size());
    return at->second;
  };
  number(0, right.size() == 0 ? kNoNode : 0);
  Dfa result;
  std::size_t edge_count = 0;
  for (std::size_t at = 0; at < pairs.size(); ++at) {
    const auto [a, b] = pairs[at];
    const bool accepts_right = b != kNoNode && right.accepts[b];
    result.accepts.push_back(left.accepts[a] && accepts_right != is_difference);
    static const std::vector<Edge> kNone;
    const std::vector<Edge>& others = b == kNoNode ? kNone : right.edges[b];
    std::vector<Edge> edges;
    std::size_t other = 0;
    for (const Edge& edge : left.edges[a]) {
      Symbol first = edge.first;
      while (other < others.size() && others[other].last < first) ++other;
      for (std::size_t here = other; first <= edge.last; ++here) {
        budget.spend(2);
        const bool meets = here < others.size() && others[here].first <= edge.last;
        const Symbol gap_end = meets ? others[here].first : edge.last + 1;
        if (first < gap_end && is_difference)
          append(edges, {first, gap_end - 1, number(edge.to, kNoNode)});
        if (!meets) break;
        const Symbol begin = std::max(first, others[here].first);
        const Symbol last = std::min(edge.last, others[here].last);
        append(edges, {begin, last, number(edge.to, others[here].to)});
        first = last + 1;
      }
    }
    edge_count += edges.size();
    if (edge_count > kMostDfaEdges) throw TooLarge("its automaton has too many edges; simplify it");
    result.edges.push_back(std::move(edges));
  }
  return trimmed(result);
}

}  // namespace

Node Nfa::add() {
  if (edges_.size() >= kMostNfaStates)
    throw TooLarge("its automaton has too many states; simplify it");
  edges_.emplace_back();
  jumps_.emplace_back();
  return static_cast<Node>(edges_.size() - 1);
}

Node Nfa::bytes(Node from, std::string_view text) {
  for (const char letter : text) {
    const Node to = add();
    const auto symbol = static_cast<unsigned char>(letter);
    edge(from, symbol, symbol, to);
    from = to;
  }
  return from;
}

Node Nfa::call(Node from, std::uint32_t rule) {
  const Node to = add();
  edge(from, kFirstCall + rule, kFirstCall + rule, to);
  return to;
}

bool Dfa::is_empty() const {
  return std::find(accepts.begin(), accepts.end(), true) == accepts.end();
}

Node next(const Dfa& dfa, Node from, Symbol symbol) {
  const std::vector<Edge>& edges = dfa.edges[from];
  const auto found =
      std::lower_bound(edges.begin(), edges.end(), symbol,
                       [](const Edge& edge, Symbol wanted) { return edge.last < wanted; });
  return found == edges.end() || found->first > symbol ? kNoNode : found->to;
}

Dfa determinized(const Nfa& nfa, Budget& budget) { return SubsetConstruction(nfa, budget).run(); }

Dfa intersection(const Dfa& left, const Dfa& right, Budget& budget) {
  return product(left, right, false, budget);
}

Dfa difference(const Dfa& left, const Dfa& right, Budget& budget) {
  return product(left, right, true, budget);
}

Dfa trimmed(const Dfa& dfa) {
  const std::size_t size = dfa.size();
  if (size == 0) return dfa;
  std::vector<std::vector<Node>> sources(size);
  for (Node node = 0; node < size; ++node)
    for (const Edge& edge : dfa.edges[node]) sources[edge.to].push_back(node);
  std::vector<Node> open;
  std::vector<bool> is_live(size);
  for (Node node = 0; node < size; ++node)
    if (dfa.accepts[node]) open.push_back(node), is_live[node] = true;
  while (!open.empty()) {
    const Node node = open.back();
    open.pop_back();
    for (const Node source : sources[node])
      if (!is_live[source]) open.push_back(source), is_live[source] = true;
  }
  // Renumbered in the order in which they are found from the start.
  std::vector<Node> numbers(size, kNoNode), order{0};
  numbers[0] = 0;
  Dfa result;
  for (std::size_t at = 0; at < order.size(); ++at) {
    std::vector<Edge> edges;
    for (const Edge& edge : dfa.edges[order[at]]) {
      if (!is_live[edge.to]) continue;
      if (numbers[edge.to] == kNoNode) {
        numbers[edge.to] = static_cast<Node>(order.size());
        order.push_back(edge.to);
      }
      append(edges, {edge.first, edge.last, numbers[edge.to]});
    }
    result.edges.push_back(std::move(edges));
    result.accepts.push_back(dfa.accepts[order[at]]);
  }
  return result;
}

Dfa minimized(Dfa dfa, Budget& budget) {
  // Moore's algorithm: nodes are split until all of a class have equal edges. Long chains take as
  // many rounds as they have nodes, so large ones are left as they are.
  constexpr std::uint64_t kMostVisits = 2'000'000;
  const std::size_t size = dfa.size();
  std::vector<Node> classes(size);
  for (Node node = 0; node < size; ++node) classes[node] = dfa.accepts[node] ? 1 : 0;
  std::uint64_t visits = 0;
  for (std::size_t count = 0;;) {
    std::unordered_map<std::vector<Node>, Node, HashOfNodes> numbers;
    std::vector<Node> refined(size);
    for (Node node = 0; node < size; ++node) {
      std::vector<Edge> edges;
      for (const Edge& edge : dfa.edges[node])
        append(edges, {edge.first, edge.last, classes[edge.to]});
      std::vector<Node> key{classes[node]};
      for (const Edge& edge : edges) key.insert(key.end(), {edge.first, edge.last, edge.to});
      visits += key.size();
      refined[node] = numbers.try_emplace(std::move(key), numbers.size()).first->second;
    }
    if (visits > kMostVisits) return dfa;
    budget.spend(size);
    classes = std::move(refined);
    if (numbers.size() == count) break;
    count = numbers.size();
  }
  // Class numbers follow the first node of each class, so the start's is 0.
  Dfa result;
  for (Node node = 0; node < size; ++node) {
    if (classes[node] != result.size()) continue;
    std::vector<Edge> edges;
    for (const Edge& edge : dfa.edges[node])
      append(edges, {edge.first, edge.last, classes[edge.to]});
    result.edges.push_back(std::move(edges));
    result.accepts.push_back(dfa.accepts[node]);
  }
  return trimmed(result);
}

}  // namespace attacca::grammar
