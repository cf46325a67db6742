// capture.hpp: makes a graph from ordinary stream code. Calls on the captured stream, and on
// streams that join it through events, become nodes and edges instead of running.
#pragma once

#include <attacca/graph.hpp>
#include <functional>
#include <string>

namespace attacca {

/// Records the calls that `code` makes on `stream`. A stream that waits for an event recorded there
/// joins the capture, and must be joined back the same way before the end.
Graph capture(StreamRef stream, const std::function<void(StreamRef)>& code,
              std::string name = "captured");

/// A graph of raw CUDA code: `code` gets the cudaStream_t (as void*) that is being captured, when
/// the graph is instantiated. CUDA devices only.
Graph capture_cuda(const Device& device, std::function<void(void* cuda_stream)> code,
                   std::string name = "captured");

}  // namespace attacca
