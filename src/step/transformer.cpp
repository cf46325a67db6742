// transformer.cpp: eight kernels a layer; see transformer.hpp. What differs between architectures
// is data: biases and norms that are null, the pairs that rotate.
#include "step/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/rope_store.hpp"
#include "kernels/carry_tokens.hpp"
#include "kernels/embed.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/rms_norm.hpp"
#include "step/streamed_step.hpp"

namespace attacca::step {

namespace {

using namespace kernels;

constexpr std::size_t kAlignment = 256;  // of what an Arena gives
/// Tokens up to which kernels start early, attention does, and the kernels behind it: kernels that
/// wait may take the place of blocks that work; see docs/performance.md.
constexpr std::uint32_t kMostEarly = 64;
constexpr std::uint32_t kMostEarlyOfAttention = 16;
constexpr std::uint32_t kMostEarlyBehindAttention = 2;

Rows for_weights(Rows rows, std::initializer_list<Matrix> weights, bool is_cuda) {
  rows.format = row_format_for(std::span(weights.begin(), weights.size()), is_cuda);
  return rows;
}

/// Bytes of rows in their larger format.
std::size_t rows_bytes(std::uint64_t count, std::uint64_t columns) { return count * columns * 4; }

}  // namespace

RowFormat row_format_for(std::span<const Matrix> weights, bool is_cuda) {
  const bool all = std::all_of(weights.begin(), weights.end(), [&](const Matrix& w) {
    return kernels::row_format_for(w.type, is_cuda) == RowFormat::i16 &&
           w.columns % RowBlock::kElements == 0;
  });
  return all ? RowFormat::i16 : RowFormat::f32;
}

PagedKv StepBuffers::kv_of_layer(std::size_t layer) const {
  PagedKv result = kv;
  const std::size_t bytes = layer * kv_layer_stride * kv_element_bytes(kv.type);
  result.keys = static_cast<std::byte*>(kv.keys) + bytes;
  result.values = static_cast<std::byte*>(kv.values) + bytes;
  return result;
}

std::size_t activation_bytes(const model::ModelConfig& c, const StepShape& shape) {
  const std::uint64_t heads = static_cast<std::uint64_t>(c.heads) * c.head_size;
  const std::uint64_t kv_heads = static_cast<std::uint64_t>(c.kv_heads) * c.head_size;
  const std::uint64_t per_token = 2ull * c.hidden + heads + 2 * kv_heads + heads + c.feed_forward;
  const std::uint64_t per_row = static_cast<std::uint64_t>(c.hidden) + c.vocabulary;
  return rows_bytes(shape.tokens, per_token) + rows_bytes(shape.rows, per_row) + 7 * kAlignment;
}

StepActivations lay_out(const model::ModelConfig& c, const StepShape& shape, Arena& arena) {
  const std::uint32_t heads = c.heads * c.head_size;
  const auto floats = [&](std::uint64_t count, std::uint64_t columns) {
    return arena.take<float>(count * columns);
  };
  const auto rows = [&](std::uint64_t count, std::uint32_t columns) {
    return Rows{arena.take_bytes(rows_bytes(count, columns)), RowFormat::f32, columns};
  };
  StepActivations a{};
  a.hidden = floats(shape.tokens, c.hidden);
  a.normed = rows(shape.tokens, c.hidden);
  a.qkv = floats(shape.tokens, heads + 2 * c.kv_heads * c.head_size);
  a.attended = rows(shape.tokens, heads);
  a.gated = rows(shape.tokens, c.feed_forward);
  a.last = rows(shape.rows, c.hidden);
  a.logits = floats(shape.rows, c.vocabulary);
  return a;
}

namespace {

/// From tokens to logits.
void emit_model(Chain& chain, const model::ModelConfig& c, const model::Weights& weights,
                const StepBuffers& b, const StepActivations& a, const StepShape& shape) {
  const RowCount tokens{b.token_count, shape.tokens};
  const RowCount rows{b.row_count, shape.rows};
  const std::uint32_t qkv_columns = (c.heads + 2 * c.kv_heads) * c.head_size;
  const auto norm = [&](const float* weight, const Rows& y, const std::string& name) {
    chain.add(rms_norm(), {a.hidden, weight, nullptr, tokens, c.norm_epsilon, y}, name);
  };
  const auto add_to_hidden = [&](const Rows& x, const Matrix& w, const std::string& name) {
    chain.add(linear(), {x, tokens, {w}, {}, 1, true, a.hidden}, name);
  };

  chain.add(embed(), {b.tokens, tokens, weights.embedding, a.hidden}, "embed");
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const model::LayerWeights& w = weights.layers[i];
    const PagedKv kv = b.kv_of_layer(i);
    const std::string layer = "layer " + std::to_string(i) + " ";
    const Rows normed = for_weights(a.normed, {w.query, w.key, w.value}, chain.is_cuda());
    norm(w.attention_norm, normed, layer + "norm");
    chain.add(linear(),
              {normed,
               tokens,
               {w.query, w.key, w.value},
               {w.query_bias, w.key_bias, w.value_bias},
               3,
               false,
               a.qkv},
              layer + "qkv");
    chain.add_attention(rope_store(),
                        {a.qkv, tokens, b.positions, b.slots, weights.frequencies, w.query_norm,
                         w.key_norm, c.norm_epsilon, c.pairs, c.rotary_size, c.heads, kv},
                        layer + "rotate");
    const Rows attended = for_weights(a.attended, {w.output}, chain.is_cuda());
    chain.add_attention(attention(),
                        {a.qkv, qkv_columns, c.heads, tokens, b.positions, b.slots,
                         1.0f / std::sqrt(static_cast<float>(c.head_size)), c.window, kv, attended},
                        layer + "attention");
    add_to_hidden(attended, w.output, layer + "output");
    const Rows fed = for_weights(a.normed, {w.gate, w.up}, chain.is_cuda());
    norm(w.feed_forward_norm, fed, layer + "feed-forward norm");
    const Rows gated = for_weights(a.gated, {w.down}, chain.is_cuda());
    chain.add(gated_linear(), {fed, tokens, w.gate, w.up, gated}, layer + "gate and up");
    add_to_hidden(gated, w.down, layer + "down");
  }
  const Rows last = for_weights(a.last, {weights.head}, chain.is_cuda());
  chain.add(rms_norm(), {a.hidden, weights.final_norm, b.gather, rows, c.norm_epsilon, last},
            "final norm");
  chain.add(linear(), {last, rows, {weights.head}, {}, 1, false, a.logits}, "logits");
}

}  // namespace

Chain emit_logits(const Device& device, const model::ModelConfig& config,
                  const model::Weights& weights, const StepBuffers& buffers,
                  const StepActivations& activations, const StepShape& shape) {
  Chain chain(device, {.of_attention = shape.tokens <= kMostEarlyOfAttention,
                       .behind_attention = shape.tokens <= kMostEarlyBehindAttention,
                       .elsewhere = shape.tokens <= kMostEarly});
  if (buffers.token_from)
    chain.add(
        carry_tokens(),
        {buffers.token_from, {buffers.token_count, shape.tokens}, buffers.sampled, buffers.carried},
        "carry tokens");
  if (device.is_cuda() && buffers.scratch && can_stream(weights))
    emit_streamed(chain, config, weights, buffers, activations, shape);
  else
    emit_model(chain, config, weights, buffers, activations, shape);
  return chain;
}

Chain emit_step(const Device& device, const model::ModelConfig& config,
                const model::Weights& weights, const StepBuffers& b,
                const StepActivations& activations, const StepShape& shape) {
  Chain chain = emit_logits(device, config, weights, b, activations, shape);
  const SampleArgs args{.logits = activations.logits,
                        .vocabulary = config.vocabulary,
                        .rows = {b.row_count, shape.rows},
                        .slots = b.row_slots,
                        .positions = b.row_positions,
                        .forced = b.row_forced,
                        .params = b.sampling,
                        .tokens = b.slot_tokens,
                        .out = b.sampled};
  chain.add(sample(args), args, "sample");
  return chain;
}

}  // namespace attacca::step
