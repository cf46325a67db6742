// step.cpp: emits the kernels that all steps share: tokens from the step before, sampling. It also
// decides which kernels start early (programmatic dependent launch).
#include "step/step.hpp"

#include "kernels/carry_tokens.hpp"
#include "kernels/sample/sample.hpp"
#include "step/persistent_step.hpp"
#include "step/plain_step.hpp"
#include "step/streamed_step.hpp"
#include "step/tensor_parallel.hpp"
#include "step/tiled_products.hpp"

namespace attacca::step {

namespace {

// The most tokens of a step whose attention starts early, and whose streamed products behind
// attention do, and tiled ones. In larger steps a kernel that waits takes the place of blocks that
// work; see docs/trials.md.
constexpr std::uint32_t kMostEarlyOfAttention = 16;
constexpr std::uint32_t kMostEarlyBehindAttention = 2;
constexpr std::uint32_t kMostEarlyTiledBehindAttention = 64;

/// Whether products behind attention start early. A block of a tiled product needs all of an SM, so
/// it takes no place from attention: it starts where attention's blocks have exited.
bool starts_behind_attention(const StepMemory& memory, const StepShape& shape) {
  if (shape.tokens <= kMostEarlyBehindAttention) return true;
  return shape.is_decode && shape.tokens <= kMostEarlyTiledBehindAttention && memory.tiled() &&
         memory.tiled()->takes(shape.tokens);
}

std::string why_not_persistent(const Chain& chain, StepForm form) {
  if (form == StepForm::kernels) return "nobody asked for it";
  if (std::string why = why_not_persistent(chain); !why.empty()) return why;
  if (form == StepForm::automatic && !is_faster_persistent(chain))
    return "it was not measured faster for a model and a step of this size";
  return {};
}

/// From tokens to logits, as a chain of kernels.
Chain emit_kernels(const StepMemory& memory, const StepShape& shape) {
  const StepInput& in = memory.input();
  Chain chain(memory.device(), {.of_attention = shape.tokens <= kMostEarlyOfAttention,
                                .behind_attention = starts_behind_attention(memory, shape),
                                .elsewhere = true});
  if (in.token_from)
    chain.add(Part::tokens, "carry tokens", kernels::carry_tokens(),
              {.from = in.token_from,
               .rows = {in.token_count, shape.tokens},
               .sampled = memory.sampled().data(),
               .tokens = in.carried});
  if (memory.is_streamed())
    emit_streamed(chain, memory, shape);
  else
    emit_plain(chain, memory, shape);
  return chain;
}

}  // namespace

Chain emit_logits(const StepMemory& memory, const StepShape& shape) {
  Chain chain = emit_kernels(memory, shape);
  if (memory.persistent() && why_not_persistent(chain, memory.sizes().form).empty())
    memory.persistent()->join(chain);
  return chain;
}

std::string why_not_persistent(const StepMemory& memory, const StepShape& shape) {
  if (!memory.device().is_cuda()) return "the host has no such kernel";
  if (memory.sizes().shares_device) return "other ranks may need the device's processors";
  return why_not_persistent(emit_kernels(memory, shape), memory.sizes().form);
}

Chain emit_step(const StepMemory& memory, const StepShape& shape) {
  const StepInput& in = memory.input();
  const TensorParallel* parallel = memory.sizes().parallel;
  Chain chain = emit_logits(memory, shape);
  const kernels::SampleArgs args{.logits = memory.logits(),
                                 .vocabulary = memory.config().vocabulary,
                                 .rows = {in.row_count, shape.rows},
                                 .slots = in.row_slots,
                                 .positions = in.row_positions,
                                 .forced = in.row_forced,
                                 .params = in.sampling,
                                 .tokens = in.slot_tokens,
                                 .out = const_cast<kernels::Sampled*>(memory.sampled().data())};
  if (shape.samples_highest)
    parallel->sample_highest(chain, args);
  else if (!parallel || parallel->is_root())
    chain.add(Part::sampling, "sample", kernels::sample(args), args);
  if (parallel) parallel->share_tokens(chain, args.out, args.rows);
  return chain;
}

}  // namespace attacca::step
