// step_graph.hpp: the graph of one step of a model of any known shape, for printing. It has no
// weights: memory is reserved and left as it is, so a large shape takes no time.
#pragma once

#include <attacca/graph.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace attacca::tool {

struct StepGraphChoices {
  std::string shape = "llama-1b";
  std::optional<std::uint32_t> batch;   // sequences that decode one token each, or 1
  std::optional<std::uint32_t> tokens;  // a prompt of so many tokens instead
  std::optional<std::uint32_t> layers;  // fewer than the shape has
};

/// REQUIRES: nobody launches the graph; not both a batch and a prompt.
Graph step_graph(const StepGraphChoices& choices, const Device& device);

}  // namespace attacca::tool
