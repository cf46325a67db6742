// step_memory.hpp: all memory that the kernels of a step use, at addresses that never move, wired
// in one place: activations, the KV pool, sampled tokens, and the scratch memory of CUDA's kernels.
// The engine, the benchmarks and the tests run their steps on it. Graphs of all step sizes share
// one StepMemory, because one step runs at a time. Kernels read the number of real tokens when they
// run.
#pragma once

#include <attacca/memory.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/activations.hpp"
#include "kernels/attention/rope_epilogue.hpp"
#include "kernels/attention/rope_store.hpp"
#include "kernels/residual.hpp"
#include "kernels/sample/sample.hpp"
#include "model/config.hpp"
#include "model/weights.hpp"
#include "step/kv_pool.hpp"

namespace attacca::step {

class PersistentSteps;
class TensorParallel;
class TiledProducts;

/// The largest batch a graph can run.
struct StepShape {
  std::uint32_t tokens;    // computed
  std::uint32_t rows;      // of logits, one for each token to be sampled
  bool is_decode = false;  // every token is the newest of a sequence of its own
  // Rank 0 samples from the highest logits of each rank, and does not gather all.
  // REQUIRES: TensorParallel::can_sample_highest, and rows that need few (see highest.hpp).
  bool samples_highest = false;
};

/// The form of decode steps of few rows on a GPU: a chain of kernels, or one persistent kernel
/// where that can be (step/persistent_step.hpp). `automatic`: one kernel where it was measured
/// faster.
enum class StepForm { kernels, persistent, automatic };

struct StepSizes {
  StepShape largest;
  std::uint32_t slots = 1;
  std::uint32_t table_stride = 0;  // pages in one slot's block table
  bool same_bits = false;          // a row is computed alike in every step
  bool is_plain = false;           // on CUDA too: the kernels that need neither scratch nor maps
  StepForm form = StepForm::kernels;
  // Other ranks may use the GPU at the same time. Then blocks of a tiled product could wait for
  // others that find no room, so there are none.
  bool shares_device = false;
  // The model is split over ranks, and this is one of them. REQUIRES: it outlives the memory.
  const TensorParallel* parallel = nullptr;
};

/// The inputs that change from step to step. Their owner writes them before a step runs.
struct StepInput {
  const std::int32_t* tokens = nullptr;         // [tokens]
  const std::int32_t* positions = nullptr;      // [tokens]
  const std::int32_t* slots = nullptr;          // [tokens]
  const std::uint32_t* token_count = nullptr;   // how many of them are real
  const std::int32_t* gather = nullptr;         // [rows]: which token's logits
  const std::int32_t* row_slots = nullptr;      // [rows]
  const std::int32_t* row_positions = nullptr;  // [rows]: the position of the sampled token
  const std::int32_t* row_forced = nullptr;  // [rows]: the token to take instead of a draw, or -1
  const std::uint32_t* row_count = nullptr;
  const std::int32_t* tables = nullptr;         // [slots, table_stride]: block tables
  kernels::SamplingParams* sampling = nullptr;  // [slots]
  kernels::SlotTokens slot_tokens = {};
  // Rows of the step before that sample tokens of this one (see CarryTokensArgs), and `tokens`
  // again, to write them to. Null: all tokens are given.
  const std::int32_t* token_from = nullptr;
  std::int32_t* carried = nullptr;
};

/// A part of the arena. In the course of a step kernels keep one thing after another in it;
/// StepMemory's comment says which. `as` throws if a thing does not fit.
class Region {
 public:
  Region() = default;
  Region(const char* name, Arena& arena, std::size_t bytes)
      : name_(name), data_(static_cast<std::byte*>(arena.take_bytes(bytes))), bytes_(bytes) {}

  /// `count` elements, `first` elements behind the start.
  template <class T>
  T* as(std::size_t count, std::size_t first = 0) const {
    check((first + count) * sizeof(T));
    return reinterpret_cast<T*>(data_) + first;
  }
  /// Rows for a linear kernel of this format.
  kernels::Rows rows(kernels::RowFormat format, std::uint32_t count, std::uint32_t columns) const {
    check(count * kernels::row_stride(format, columns));
    return {data_, format, columns};
  }
  const void* data() const { return data_; }

 private:
  void check(std::size_t bytes) const;

  const char* name_ = "";
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// bf16 rows; for quantized weights also the remainder of their rounding, else null.
struct Planes {
  std::uint16_t* rounded;
  std::uint16_t* rest;
};

/// The contents of the arena in the course of a layer:
///
///   region    plain steps                    streamed steps
///   hidden    the residual stream            the residual stream
///   normed    normed rows                    the residual, scaled for the next norm
///   qkv       queries, keys, values          the same, or queries and RotatedRows where a
///                                            product rotates; after attention squares of the
///                                            residual
///   attended  attention's results            squares of the residual; after attention its results
///   gated     gated rows                     the same
///   last      normed rows that get logits    the residual of those rows, then its squares
///   logits    logits                         logits
class StepMemory {
 public:
  /// REQUIRES: `config`, `weights`, `kv` and the memory that `input` points to outlive it.
  StepMemory(const Device& device, const model::ModelConfig& config, const model::Weights& weights,
             const KvPool& kv, const StepSizes& sizes, const StepInput& input);
  ~StepMemory();
  StepMemory(const StepMemory&) = delete;

  const Device& device() const { return device_; }
  const model::ModelConfig& config() const { return config_; }
  const model::Weights& weights() const { return weights_; }
  const StepSizes& sizes() const { return sizes_; }
  const StepInput& input() const { return input_; }
  kernels::PagedKv kv(std::size_t layer) const;
  /// For the kernel that rotates a layer's queries and keys and stores keys and values.
  kernels::RopeStoreArgs rope_store(const StepShape& shape, std::size_t layer) const;
  /// [rows]
  const Buffer<kernels::Sampled>& sampled() const { return sampled_; }
  Buffer<kernels::Sampled>& sampled() { return sampled_; }
  /// [rows, vocabulary]
  float* logits() const;

  // For plain steps of this shape.
  float* hidden(const StepShape& shape) const;
  float* qkv(const StepShape& shape) const;
  Region normed() const { return normed_; }
  Region attended() const { return attended_; }
  Region gated() const { return gated_; }
  Region last() const { return last_; }

  // For streamed steps of this shape. `has_rest`: some weights are quantized.
  Planes attended_planes(const StepShape& shape, bool has_rest) const;
  Planes gated_planes(const StepShape& shape, bool has_rest) const;
  /// Up to attention the squares lie in `attended`, after it in `qkv`.
  kernels::Residual residual_before_attention(const StepShape& shape, bool has_rest) const;
  kernels::Residual residual_after_attention(const StepShape& shape, bool has_rest) const;
  /// For products that rotate: behind their queries in `qkv`, the same in all layers.
  /// REQUIRES: has_room_to_rotate.
  kernels::RotatedRows rotated_rows(const StepShape& shape) const;
  /// Whether squares of the residual leave these alone.
  bool has_room_to_rotate() const;
  /// Rows that get logits.
  kernels::Residual last_residual(const StepShape& shape) const;

  /// Whether CUDA's streamed kernels compute its steps.
  bool is_streamed() const { return is_streamed_; }
  /// Where blocks of attention meet; null in plain steps.
  void* attention_scratch() const { return const_cast<std::byte*>(scratch_.data()); }
  /// For products of many rows; null: a few rows are multiplied at a time.
  const TiledProducts* tiled() const { return tiled_.get(); }

  /// For decode steps as one kernel; null: they are chains of kernels.
  const PersistentSteps* persistent() const { return persistent_.get(); }

  std::size_t arena_bytes() const { return arena_.bytes_total(); }
  std::size_t scratch_bytes() const { return scratch_.bytes(); }
  std::size_t tiled_bytes() const;
  /// Bytes of a StepMemory for these sizes, before there is one. `expands`: some weights are
  /// expanded for products of many rows.
  static std::size_t bytes_for(const Device& device, const model::ModelConfig& config,
                               const KvSizes& kv, const StepSizes& sizes, bool expands);
  static std::size_t scratch_bytes_for(const Device& device, const model::ModelConfig& config,
                                       const KvSizes& kv, const StepSizes& sizes);

 private:
  kernels::Residual residual(const StepShape& shape, bool has_rest, float* squares) const;

  Device device_;
  const model::ModelConfig& config_;
  const model::Weights& weights_;
  const KvPool& kv_;
  StepSizes sizes_;
  StepInput input_;
  bool is_streamed_;
  Arena arena_;
  Region hidden_, normed_, qkv_, attended_, gated_, last_, logits_;
  Buffer<kernels::Sampled> sampled_;
  Buffer<std::byte> scratch_;
  std::unique_ptr<TiledProducts> tiled_;
  std::unique_ptr<PersistentSteps> persistent_;
};

}  // namespace attacca::step
