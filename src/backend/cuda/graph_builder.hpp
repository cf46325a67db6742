// graph_builder.hpp: turns graph data into a cudaGraph_t.
#pragma once

#include <memory>

#include "backend/cuda/built_graph.hpp"
#include "backend/cuda/stream.hpp"

namespace attacca::cuda {

/// Adds every node of `data` to a new graph in `built`. Throws DeviceError with the name of a node
/// that the driver refuses; `built` then holds what was made so far. `side_stream` captures library
/// calls and is made where there is one. REQUIRES: `data` is valid and its device is current.
void build_graph(BuiltGraph& built, const graph::GraphData& data,
                 std::shared_ptr<CudaStream>& side_stream);

}  // namespace attacca::cuda
