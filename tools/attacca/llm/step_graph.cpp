// step_graph.cpp: emits a step on memory that is given back before the graph is printed.
#include "llm/step_graph.hpp"

#include <fmt/core.h>

#include "llm/models.hpp"
#include "step/step.hpp"

namespace attacca::tool {

Graph step_graph(const StepGraphChoices& choices, const Device& device) {
  const model::ModelConfig config = shape_with_layers(choices.shape, choices.layers);
  const model::Weights weights(config, device, std::nullopt);
  const std::uint32_t batch = choices.batch.value_or(1);
  const step::StepShape shape{
      .tokens = choices.tokens.value_or(batch), .rows = batch, .is_decode = !choices.tokens};
  const step::KvPool kv(device, config,
                        {.pages = 1,
                         .page_size = 16,
                         .type = device.is_cuda() ? kernels::KvType::bf16 : kernels::KvType::f32});
  const step::StepMemory memory(
      device, config, weights, kv,
      {.largest = shape, .slots = batch, .table_stride = config.context / 16}, {});
  Graph graph(device,
              fmt::format("{} step of {}, {} {}", shape.is_decode ? "decode" : "prefill",
                          choices.shape, shape.tokens, shape.tokens == 1 ? "token" : "tokens"));
  step::emit_step(memory, shape).append_to(graph);
  return graph;
}

}  // namespace attacca::tool
