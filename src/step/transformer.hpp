// transformer.hpp: emits the kernels of one step: tokens in, sampled tokens out. Every address is
// fixed, so one set of buffers serves the graphs of all step sizes; how many tokens and rows are
// real is read when they run.
#pragma once

#include <attacca/memory.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/activations.hpp"
#include "kernels/attention/paged_kv.hpp"
#include "kernels/sample/sample.hpp"
#include "model/config.hpp"
#include "model/weights.hpp"
#include "step/chain.hpp"

namespace attacca::step {

class TiledProducts;

/// The largest batch a graph can run.
struct StepShape {
  std::uint32_t tokens;    // computed
  std::uint32_t rows;      // of logits, one for each token to be sampled
  bool is_decode = false;  // every token is the newest of a sequence of its own
};

/// Memory in which blocks of CUDA's kernels meet, for all sizes of a step; none on the host.
class StepScratch {
 public:
  /// `kv`: with its table's stride.
  StepScratch(const Device& device, const model::ModelConfig& config, const kernels::PagedKv& kv,
              std::uint32_t slots);
  std::size_t bytes() const;
  /// The same before it is made. Of `kv` only its sizes are read.
  static std::size_t bytes_for(const Device& device, const model::ModelConfig& config,
                               const kernels::PagedKv& kv, std::uint32_t slots);

  std::uint32_t slots() const { return slots_; }
  unsigned processors() const { return processors_; }
  void* attention() const { return attention_.data(); }

 private:
  std::uint32_t slots_;
  unsigned processors_;
  Buffer<std::byte> attention_;
};

/// What a step reads and writes outside its activations.
struct StepBuffers {
  const std::int32_t* tokens;         // [tokens]
  const std::int32_t* positions;      // [tokens]
  const std::int32_t* slots;          // [tokens]
  const std::uint32_t* token_count;   // how many of them are real
  const std::int32_t* gather;         // [rows]: which token's logits
  const std::int32_t* row_slots;      // [rows]
  const std::int32_t* row_positions;  // [rows]: where the sampled token will stand
  const std::int32_t* row_forced;     // [rows]: the token to take instead of a draw, or -1
  const std::uint32_t* row_count;
  const kernels::SamplingParams* sampling;  // [slots]
  kernels::SlotTokens slot_tokens;
  kernels::PagedKv kv;                   // of layer 0
  std::uint64_t kv_layer_stride;         // in elements, from one layer's keys to the next one's
  kernels::Sampled* sampled;             // [rows]
  const StepScratch* scratch = nullptr;  // CUDA; null: the plain kernels, which need none
  const TiledProducts* tiled = nullptr;  // for many rows; null: they are taken a few at a time
  // Tokens that the step before samples: where they come from, see CarryTokensArgs, and `tokens`
  // again, to write them to. Null: all tokens are given.
  const std::int32_t* token_from = nullptr;
  std::int32_t* carried = nullptr;

  kernels::PagedKv kv_of_layer(std::size_t layer) const;
};

/// What kernels of a step hand to each other, for the largest shape.
struct StepActivations {
  float* hidden;           // [tokens, hidden]: the residual stream
  kernels::Rows normed;    // [tokens, hidden]
  float* qkv;              // [tokens, (heads + 2 * kv_heads) * head_size]
  kernels::Rows attended;  // [tokens, heads * head_size]
  kernels::Rows gated;     // [tokens, feed_forward]
  kernels::Rows last;      // [rows, hidden]
  float* logits;           // [rows, vocabulary]
};

/// The format of rows of x that all of these weights can read, the fastest where they agree.
kernels::RowFormat row_format_for(std::span<const kernels::Matrix> weights, bool is_cuda);

/// Formats and bytes of the activations for these weights on this device.
std::size_t activation_bytes(const model::ModelConfig& config, const StepShape& shape);
StepActivations lay_out(const model::ModelConfig& config, const StepShape& shape, Arena& arena);

/// The kernels from tokens to logits.
Chain emit_logits(const Device& device, const model::ModelConfig& config,
                  const model::Weights& weights, const StepBuffers& buffers,
                  const StepActivations& activations, const StepShape& shape);

/// The same, and sampling after it: a whole step.
Chain emit_step(const Device& device, const model::ModelConfig& config,
                const model::Weights& weights, const StepBuffers& buffers,
                const StepActivations& activations, const StepShape& shape);

}  // namespace attacca::step
