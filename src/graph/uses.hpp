// uses.hpp: where nodes use the symbols of their graph, and stand-ins that belong to another graph.
#pragma once

#include <cstddef>

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

/// Whether a node uses a condition, an allocation or a node handle of another graph.
bool has_foreign_stand_in(const GraphData& data, const NodeData& node);
/// The error for such a node.
GraphError foreign_handle(const GraphData& data, const NodeData& node);

}  // namespace attacca::graph
