// print.hpp: helpers that the three printed forms of a graph share: safe names, shapes in words,
// and the use that each node makes of the graph's symbols.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/data.hpp"

namespace attacca::graph {

/// Replaces bytes that are no UTF-8 by U+FFFD and calls `escape` for every other
/// character of one byte: it appends to its first argument and returns true, or returns false to
/// have the character copied.
std::string escaped(std::string_view text, bool (*escape)(std::string& out, char character));

/// "4x4 blocks of 16x16, 1024 bytes shared".
std::string shape_text(const Grid& grid);

/// "normal", "streaming" or "persisting".
const char* access_name(L2Access access);

/// 12345678 and "B" give "12.3 MB".
std::string quantity_text(double value, const char* unit);

/// The symbols among a node's arguments, by what it does to them.
struct Relations {
  std::vector<SymbolId> sets;   // conditions
  std::vector<NodeId> updates;  // device-updatable kernels
  std::vector<NodeId> uses;     // allocations
};
Relations relations_of(const GraphData& data, const NodeData& node);

/// The condition a conditional looks at; null for one that is not of this graph.
const Symbol* condition_of(const GraphData& data, const ConditionalPart& part);

}  // namespace attacca::graph
