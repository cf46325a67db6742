// splice.hpp: copies the nodes of one graph into another.
#pragma once

#include "graph/data.hpp"

namespace attacca::graph {

/// Appends everything in `from` to `to`, with what it keeps; the nodes in the root of `from` come
/// into scope `into`. Node n of `from` becomes node n plus the returned number.
NodeId splice(const GraphData& from, GraphData& to, ScopeId into);

}  // namespace attacca::graph
