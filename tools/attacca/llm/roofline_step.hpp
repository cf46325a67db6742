// roofline_step.hpp: a decode step of any known shape, with random weights, that can be launched.
#pragma once

#include <attacca/graph.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace attacca::tool {

struct RooflineStepChoices {
  std::string shape = "llama-1b";
  std::uint32_t batch = 1;
  std::uint32_t context = 512;          // tokens of each sequence
  std::optional<std::uint32_t> layers;  // fewer than the shape has
};

/// The graph and all memory that its kernels use.
class RooflineStep {
 public:
  /// Throws BadArgument with the sizes if the device has too little memory.
  RooflineStep(const RooflineStepChoices& choices, const Device& device);
  ~RooflineStep();
  const Graph& graph() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace attacca::tool
