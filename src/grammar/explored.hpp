// explored.hpp: builds an automaton by trying every byte of an alphabet from every value found so
// far. automaton.hpp declares it.
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "grammar/automaton.hpp"

namespace attacca::grammar {

template <class Value, class After, class Ends>
Dfa explored(const Value& start, const After& after, const Ends& ends, std::string_view alphabet,
             Budget& budget) {
  std::string letters(alphabet);
  std::sort(letters.begin(), letters.end());  // edges are sorted; the alphabets are ASCII
  std::map<Value, Node> numbers{{start, 0}};
  std::vector<Value> values{start};
  Dfa dfa;
  for (Node node = 0; node < values.size(); ++node) {
    if (values.size() > kMostDfaStates)
      throw TooLarge("its automaton has too many states; simplify it");
    budget.spend(letters.size());
    const Value value = values[node];
    std::vector<Edge> edges;
    for (const char letter : letters) {
      const auto found = after(value, letter);
      if (!found) continue;
      const auto [at, is_new] = numbers.try_emplace(*found, static_cast<Node>(values.size()));
      if (is_new) values.push_back(*found);
      const auto symbol = static_cast<unsigned char>(letter);
      if (!edges.empty() && edges.back().to == at->second && edges.back().last + 1 == symbol)
        edges.back().last = symbol;
      else
        edges.push_back({symbol, symbol, at->second});
    }
    dfa.edges.push_back(std::move(edges));
    dfa.accepts.push_back(ends(value));
  }
  return minimized(trimmed(dfa), budget);
}

}  // namespace attacca::grammar
