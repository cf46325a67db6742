// step_memory.cpp: lays out the arena of a step and checks that the kernels' buffers fit into it.
#include "step/step_memory.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include "kernels/attention/attention_splits.hpp"
#include "step/persistent_step.hpp"
#include "step/streamed_step.hpp"
#include "step/tiled_products.hpp"

namespace attacca::step {

using kernels::PagedKv;
using kernels::Residual;
using kernels::RowFormat;
using kernels::Sampled;

namespace {

constexpr std::size_t kRegions = 7;
constexpr std::size_t kAlignment = 256;  // of an Arena's pieces

std::uint32_t qkv_columns(const model::ModelConfig& c) {
  return (c.heads + 2 * c.kv_heads) * c.head_size;
}

/// Bytes of one row of each region. Rows that linear kernels read have room for floats, which is
/// enough for 16-bit integers with their scales and for two planes of bf16.
struct RowBytes {
  explicit RowBytes(const model::ModelConfig& c)
      : hidden(4ull * c.hidden),
        normed(4ull * c.hidden),
        qkv(4ull * qkv_columns(c)),
        attended(4ull * c.heads * c.head_size),
        gated(4ull * c.feed_forward),
        last(4ull * c.hidden),
        logits(4ull * c.vocabulary) {}
  std::uint64_t hidden, normed, qkv, attended, gated;  // a token
  std::uint64_t last, logits;                          // a row
};

std::size_t arena_bytes(const model::ModelConfig& c, const StepShape& shape) {
  const RowBytes row(c);
  return shape.tokens * (row.hidden + row.normed + row.qkv + row.attended + row.gated) +
         shape.rows * (row.last + row.logits) + kRegions * kAlignment;
}

PagedKv shape_of(const model::ModelConfig& c, const KvSizes& kv, const StepSizes& sizes) {
  PagedKv shape = KvPool::shape_of(c, kv);
  shape.table_stride = sizes.table_stride;
  shape.same_bits = sizes.same_bits;
  return shape;
}

Planes planes_in(const Region& region, const StepShape& shape, std::uint32_t columns,
                 bool has_rest) {
  const std::size_t elements = std::size_t{shape.tokens} * columns;
  return {region.as<std::uint16_t>(elements),
          has_rest ? region.as<std::uint16_t>(elements, elements) : nullptr};
}

std::size_t squares_of(std::uint32_t rows, std::uint32_t columns) {
  return std::size_t{rows} * (columns / Residual::kPart);
}

}  // namespace

void Region::check(std::size_t bytes) const {
  if (bytes > bytes_)
    throw Error(fmt::format("a step keeps {} bytes in the region '{}', which has {}; this is a bug",
                            bytes, name_, bytes_));
}

std::size_t StepMemory::scratch_bytes_for(const Device& device, const model::ModelConfig& c,
                                          const KvSizes& kv, const StepSizes& sizes) {
  if (!device.is_cuda() || sizes.is_plain) return 0;
  return kernels::attention_workspace_bytes(sizes.slots, c.heads, shape_of(c, kv, sizes), c.window,
                                            device.processors());
}

std::size_t StepMemory::bytes_for(const Device& device, const model::ModelConfig& c,
                                  const KvSizes& kv, const StepSizes& sizes, bool expands) {
  return step::arena_bytes(c, sizes.largest) + sizes.largest.rows * sizeof(Sampled) +
         scratch_bytes_for(device, c, kv, sizes) +
         (sizes.is_plain || sizes.shares_device
              ? 0
              : TiledProducts::bytes_for(device, c, sizes, expands));
}

StepMemory::StepMemory(const Device& device, const model::ModelConfig& config,
                       const model::Weights& weights, const KvPool& kv, const StepSizes& sizes,
                       const StepInput& input)
    : device_(device),
      config_(config),
      weights_(weights),
      kv_(kv),
      sizes_(sizes),
      input_(input),
      is_streamed_(device.is_cuda() && !sizes.is_plain && can_stream(weights)),
      arena_(device, step::arena_bytes(config, sizes.largest)),
      sampled_(device, std::vector<Sampled>(sizes.largest.rows)),
      scratch_(device, scratch_bytes_for(device, config, kv.sizes(), sizes)) {
  const RowBytes row(config);
  const std::size_t tokens = sizes.largest.tokens;
  const std::size_t rows = sizes.largest.rows;
  hidden_ = Region("hidden", arena_, tokens * row.hidden);
  normed_ = Region("normed", arena_, tokens * row.normed);
  qkv_ = Region("qkv", arena_, tokens * row.qkv);
  attended_ = Region("attended", arena_, tokens * row.attended);
  gated_ = Region("gated", arena_, tokens * row.gated);
  last_ = Region("last", arena_, rows * row.last);
  logits_ = Region("logits", arena_, rows * row.logits);
  if (scratch_.bytes() != 0) {
    const Stream stream(device);
    stream.fill(scratch_.data(), 0, scratch_.bytes());
    stream.synchronize();
  }
  if (!sizes.is_plain && !sizes.shares_device && can_be_tiled(device, weights, sizes.same_bits))
    tiled_ = std::make_unique<TiledProducts>(*this);
  // Ranks that share a device could keep each other's blocks from running at the same time.
  if (sizes.form != StepForm::kernels && is_streamed_ && !sizes.shares_device)
    persistent_ = std::make_unique<PersistentSteps>(device);
}

StepMemory::~StepMemory() = default;

std::size_t StepMemory::tiled_bytes() const { return tiled_ ? tiled_->bytes() : 0; }

PagedKv StepMemory::kv(std::size_t layer) const {
  PagedKv kv = kv_.layer(layer);
  kv.tables = input_.tables;
  kv.table_stride = sizes_.table_stride;
  kv.same_bits = sizes_.same_bits;
  return kv;
}

kernels::RopeStoreArgs StepMemory::rope_store(const StepShape& shape, std::size_t layer) const {
  const model::LayerWeights& w = weights_.layers[layer];
  return {.qkv = qkv(shape),
          .rows = {input_.token_count, shape.tokens},
          .positions = input_.positions,
          .slots = input_.slots,
          .frequencies = weights_.frequencies,
          .query_norm = w.query_norm,
          .key_norm = w.key_norm,
          .epsilon = config_.norm_epsilon,
          .pairs = config_.pairs,
          .rotary_size = config_.rotary_size,
          .heads = config_.heads,
          .kv = kv(layer)};
}

float* StepMemory::logits() const {
  return logits_.as<float>(std::size_t{sizes_.largest.rows} * config_.vocabulary);
}
float* StepMemory::hidden(const StepShape& shape) const {
  return hidden_.as<float>(std::size_t{shape.tokens} * config_.hidden);
}
float* StepMemory::qkv(const StepShape& shape) const {
  return qkv_.as<float>(std::size_t{shape.tokens} * qkv_columns(config_));
}

Planes StepMemory::attended_planes(const StepShape& shape, bool has_rest) const {
  return planes_in(attended_, shape, config_.heads * config_.head_size, has_rest);
}
Planes StepMemory::gated_planes(const StepShape& shape, bool has_rest) const {
  return planes_in(gated_, shape, config_.feed_forward, has_rest);
}

Residual StepMemory::residual(const StepShape& shape, bool has_rest, float* squares) const {
  const Planes scaled = planes_in(normed_, shape, config_.hidden, has_rest);
  return {.values = hidden(shape),
          .scaled = scaled.rounded,
          .squares = squares,
          .columns = config_.hidden,
          .rest = scaled.rest};
}
Residual StepMemory::residual_before_attention(const StepShape& shape, bool has_rest) const {
  return residual(shape, has_rest, attended_.as<float>(squares_of(shape.tokens, config_.hidden)));
}
Residual StepMemory::residual_after_attention(const StepShape& shape, bool has_rest) const {
  return residual(shape, has_rest, qkv_.as<float>(squares_of(shape.tokens, config_.hidden)));
}

kernels::RotatedRows StepMemory::rotated_rows(const StepShape& shape) const {
  const std::size_t queries = std::size_t{shape.tokens} * config_.heads * config_.head_size;
  const std::size_t angles = std::size_t{shape.tokens} * (config_.head_size / 2);
  static_assert(2 * sizeof(float) == sizeof(kernels::Angle));
  const std::size_t cells = queries + 2 * angles;
  return {.angles = qkv_.as<kernels::Angle>(angles, queries / 2),
          .cells = qkv_.as<std::uint32_t>(shape.tokens, cells),
          .is_in_long_run = qkv_.as<std::uint32_t>(shape.tokens, cells + shape.tokens)};
}
bool StepMemory::has_room_to_rotate() const {
  return squares_of(1, config_.hidden) <= std::size_t{config_.heads} * config_.head_size;
}

Residual StepMemory::last_residual(const StepShape& shape) const {
  const std::size_t elements = std::size_t{shape.rows} * config_.hidden;
  static_assert(2 * sizeof(std::uint16_t) == sizeof(float));
  return {.scaled = last_.as<std::uint16_t>(elements),
          .squares = last_.as<float>(squares_of(shape.rows, config_.hidden), elements / 2),
          .columns = config_.hidden};
}

}  // namespace attacca::step
