// step_runner.cpp: see step_runner.hpp.
#include "engine/step_runner.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace attacca::engine {

namespace {

using kernels::Sampled;
using kernels::SamplingParams;

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t input_bytes(const schedule::Limits& limits) {
  return aligned(schedule::plan_bytes(limits)) + limits.slots * sizeof(SamplingParams);
}

SamplingParams* sampling_in(std::byte* input, const schedule::Limits& limits) {
  return reinterpret_cast<SamplingParams*>(input + aligned(schedule::plan_bytes(limits)));
}

model::StepShape largest(const schedule::Limits& limits) {
  return {limits.step_tokens(), limits.logit_rows};
}

}  // namespace

std::size_t StepRunner::page_bytes(const model::ModelConfig& c, std::uint32_t page_size) {
  return std::size_t{2} * c.layers * c.kv_heads * c.head_size * page_size * sizeof(float);
}

std::size_t StepRunner::fixed_bytes(const model::ModelConfig& c, const schedule::Limits& limits) {
  return model::activation_bytes(c, largest(limits)) + 2 * input_bytes(limits) +
         2 * limits.logit_rows * sizeof(Sampled) +
         std::size_t{limits.slots} * c.vocabulary * sizeof(std::uint16_t);
}

StepRunner::StepRunner(const model::Checkpoint& checkpoint, const Device& device,
                       const schedule::Limits& limits, const model::Progress& progress)
    : device_(device),
      stream_(device),
      config_(checkpoint.config()),
      weights_(checkpoint, device, progress),
      arena_(device, model::activation_bytes(config_, largest(limits))),
      kv_(device, limits.pages * page_bytes(config_, limits.page_size) / sizeof(float)),
      seen_(device, std::size_t{limits.slots} * config_.vocabulary),
      input_bytes_(input_bytes(limits)),
      host_input_(device, input_bytes_, Visibility::shared),
      device_input_(device, device.is_cuda() ? input_bytes_ : 0),
      host_sampled_(device, limits.logit_rows, Visibility::shared),
      device_sampled_(device, device.is_cuda() ? limits.logit_rows : 0),
      plan_(schedule::bind_plan(limits, host_input_.data())),
      sampling_(sampling_in(host_input_.data(), limits)),
      sampled_(host_sampled_.data()) {
  std::fill_n(sampling_, limits.slots, SamplingParams{});
  std::byte* const input = device.is_cuda() ? device_input_.data() : host_input_.data();
  const schedule::Plan plan = schedule::bind_plan(limits, input);
  const std::size_t layer_floats =
      std::size_t{limits.pages} * config_.kv_heads * limits.page_size * config_.head_size;
  buffers_ = {
      .tokens = plan.tokens,
      .positions = plan.positions,
      .slots = plan.slots,
      .token_count = &plan.counts->tokens,
      .gather = plan.gather,
      .row_slots = plan.row_slots,
      .row_positions = plan.row_positions,
      .row_forced = plan.row_forced,
      .row_count = &plan.counts->rows,
      .sampling = sampling_in(input, limits),
      .seen = {seen_.data()},
      .kv = {.keys = kv_.data(),
             .values = kv_.data() + config_.layers * layer_floats,
             .tables = plan.tables,
             .table_stride = limits.table_stride(),
             .page_size = limits.page_size,
             .kv_heads = config_.kv_heads,
             .head_size = config_.head_size},
      .kv_layer_stride = layer_floats,
      .sampled = device.is_cuda() ? device_sampled_.data() : host_sampled_.data(),
  };
  activations_ = model::lay_out(config_, largest(limits), arena_);
  for (std::uint32_t at = 0; at < limits.size_count; ++at) {
    if (progress) progress("building graphs", at, limits.size_count);
    build(limits, limits.sizes[at]);
  }
}

void StepRunner::build(const schedule::Limits& limits, std::uint32_t tokens) {
  Graph graph(device_, fmt::format("step of {}", tokens));
  const model::StepShape shape{tokens, std::min(tokens, limits.logit_rows)};
  if (!device_.is_cuda()) {
    model::emit_step(graph, config_, weights_, buffers_, activations_, shape);
  } else {
    const Node in =
        graph.copy(device_input_.data(), host_input_.data(), input_bytes_).named("plan");
    const Node step =
        graph
            .child("step",
                   [&](Graph& body) {
                     model::emit_step(body, config_, weights_, buffers_, activations_, shape);
                   })
            .after(in);
    graph.copy(host_sampled_.data(), device_sampled_.data(), shape.rows * sizeof(Sampled))
        .named("sampled")
        .after(step);
  }
  graphs_.push_back(graph.instantiate());
}

void StepRunner::run() {
  graphs_[plan_.counts->size_index].launch(stream_);
  stream_.synchronize();
}

void StepRunner::set_seen(std::uint32_t slot, std::span<const std::int32_t> tokens,
                          std::size_t prompt) {
  std::vector<std::uint16_t> counts(config_.vocabulary);
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    std::uint16_t& count = counts[static_cast<std::size_t>(tokens[at])];
    if (at < prompt)
      count |= kernels::SeenTokens::kInPrompt;
    else if ((count & ~kernels::SeenTokens::kInPrompt) < kernels::SeenTokens::kInPrompt - 1)
      ++count;
  }
  attacca::detail::copy_now(device_, seen_.data() + std::size_t{slot} * config_.vocabulary,
                            counts.data(), counts.size() * sizeof(std::uint16_t));
}

std::size_t StepRunner::step_bytes() const {
  return host_input_.bytes() + device_input_.bytes() + host_sampled_.bytes() +
         device_sampled_.bytes() + seen_.bytes();
}

std::size_t StepRunner::graph_bytes() const {
  std::size_t bytes = 0;
  for (const Exec& graph : graphs_) bytes += graph.memory().host_bytes;
  return bytes;
}

}  // namespace attacca::engine
