// uses.cpp: the search for stand-ins among the words of a node.
#include "graph/uses.hpp"

#include <fmt/core.h>

#include "graph/relocate.hpp"

namespace attacca::graph {

Uses uses_of(const GraphData& data, const Part& part) {
  Uses uses;
  if (data.symbols.empty()) return uses;
  each_word(part, [&](std::uintptr_t word, std::size_t offset) {
    if (const Symbol* symbol = data.symbols.find(word))
      uses.push_back({offset, data.symbols.id_of(*symbol)});
  });
  return uses;
}

bool has_foreign_stand_in(const GraphData& data, const NodeData& node) {
  bool is_found = false;
  each_word(node.part, [&](std::uintptr_t word, std::size_t) {
    is_found = is_found || (!data.symbols.find(word) && AddressRange::is_stand_in(word));
  });
  return is_found;
}

GraphError foreign_handle(const GraphData& data, const NodeData& node) {
  return {
      Rule::foreign_handle, node.name,
      fmt::format("{} '{}' uses a condition, an allocation or a node handle that does not belong "
                  "to graph '{}'; make it with this graph, or one it was copied from",
                  kind_name(node), node.name, data.name)};
}

}  // namespace attacca::graph
