// roofline_step.cpp: the step that the benchmarks time, as a graph.
#include "llm/roofline_step.hpp"

#include <fmt/core.h>

#include "bench/llm/synthetic_step.hpp"
#include "llm/models.hpp"

namespace attacca::tool {

namespace {

bench::SyntheticBatch batch_of(const RooflineStepChoices& choices) {
  return bench::SyntheticBatch(choices.batch, {.context = choices.context});
}

}  // namespace

struct RooflineStep::Parts {
  Parts(const RooflineStepChoices& choices, const Device& device)
      : model(shape_with_layers(choices.shape, choices.layers), device,
              bench::pages_of(batch_of(choices))),
        step(model, batch_of(choices)),
        graph(step.graph(fmt::format("decode step of {}, batch {}, context {}, {} layers",
                                     choices.shape, choices.batch, choices.context,
                                     model.config.layers))) {}
  bench::SyntheticModel model;
  bench::SyntheticStep step;
  Graph graph;
};

RooflineStep::RooflineStep(const RooflineStepChoices& choices, const Device& device)
    : parts_(std::make_unique<Parts>(choices, device)) {}
RooflineStep::~RooflineStep() = default;
const Graph& RooflineStep::graph() const { return parts_->graph; }

}  // namespace attacca::tool
