// uses.hpp: where nodes use the symbols of their graph, and addresses that they cannot use: those
// of another graph and those past the end of an allocation.
#pragma once

#include <cstddef>
#include <vector>

#include "core/inline_vector.hpp"
#include "graph/data.hpp"

namespace attacca::graph {

/// A word of a node that stands for a symbol. For a kernel `offset` counts bytes of its arguments.
struct Use {
  std::size_t offset;
  SymbolId symbol;
};
using Uses = InlineVector<Use, 4>;
/// All symbols among the arguments of a kernel or the pointers of a copy or fill.
Uses uses_of(const GraphData& data, const Part& part);
inline Uses uses_of(const GraphData& data, const NodeData& node) {
  return uses_of(data, node.part);
}

/// Errors for stand-ins among a kernel's arguments or the pointers of a copy or fill that belong to
/// no symbol of the graph, and for copies and fills of more bytes than an allocation has.
std::vector<GraphError> address_problems(const GraphData& data, const NodeData& node);

}  // namespace attacca::graph
