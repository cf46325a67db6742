// roofline.hpp: the functions of attacca/roofline.hpp with a clock that the caller brings.
#pragma once

#include <attacca/roofline.hpp>

#include "roofline/graph_clock.hpp"

namespace attacca::roofline {

Roofline place_graph(const Graph& graph, const Roofs& roofs, GraphClock& clock,
                     bool counts = false);
std::vector<Trial> try_all(const Graph& graph, const Roofline& found, GraphClock& clock,
                           const PersistentProgram* program = nullptr);

}  // namespace attacca::roofline
