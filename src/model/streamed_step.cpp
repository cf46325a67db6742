// streamed_step.cpp: see streamed_step.hpp.
#include "model/streamed_step.hpp"

#include <attacca/occupancy.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/attention_splits.hpp"
#include "kernels/decode_attention.hpp"
#include "kernels/embed.hpp"
#include "kernels/mixed_attention.hpp"
#include "kernels/rotate_store.hpp"
#include "kernels/thin_linear.hpp"

namespace attacca::model {

namespace {

using namespace kernels;

// What of a block's share of the next weights is fetched into L2 ahead of time. Behind attention
// there is more of it.
constexpr std::uint32_t kAhead = 32 << 10;
constexpr std::uint32_t kAheadOfAttention = 128 << 10;

/// Query, key and value as one matrix.
Matrix joined(const LayerWeights& w) {
  Matrix all = w.query;
  all.rows += w.key.rows + w.value.rows;
  return all;
}
bool are_neighbours(const Matrix& a, const Matrix& b) {
  return a.row(a.rows) == b.data && a.type == b.type && a.columns == b.columns;
}

class Emitter {
 public:
  Emitter(Chain& chain, const ModelConfig& config, const Weights& weights, const StepBuffers& b,
          const StepActivations& a, const StepShape& shape)
      : chain_(chain),
        c_(config),
        weights_(weights),
        b_(b),
        scratch_(*b.scratch),
        a_(a),
        shape_(shape),
        tokens_{b.token_count, shape.tokens},
        residual_(residual_of(config, a, shape)),
        attended_(static_cast<std::uint16_t*>(a.attended.data)),
        gated_(static_cast<std::uint16_t*>(a.gated.data)) {}

  void emit() {
    chain_.add(
        embed_residual(),
        {b_.tokens, tokens_, weights_.embedding, residual_, weights_.layers[0].attention_norm},
        "embed");
    for (std::size_t i = 0; i < weights_.layers.size(); ++i) emit_layer(i);
    ThinLinearArgs head = product(residual_.scaled, weights_.head);
    head.gather = b_.gather;
    head.squares = residual_.squares;
    head.rows = {b_.row_count, shape_.rows};
    head.y = a_.logits;
    add(head, "logits");
  }

 private:
  /// Rows that other steps keep in floats are bf16 here: half the memory is free for the squares.
  static Residual residual_of(const ModelConfig& c, const StepActivations& a,
                              const StepShape& shape) {
    auto* scaled = static_cast<std::uint16_t*>(a.normed.data);
    auto* squares = reinterpret_cast<float*>(scaled + std::size_t{shape.tokens} * c.hidden);
    return {a.hidden, scaled, squares, c.hidden};
  }

  void emit_layer(std::size_t i) {
    const LayerWeights& w = weights_.layers[i];
    const bool is_last = i + 1 == weights_.layers.size();
    const std::string layer = "layer " + std::to_string(i) + " ";
    const Matrix qkv = joined(w);

    ThinLinearArgs in = product(residual_.scaled, qkv);
    in.squares = residual_.squares;
    in.bias = w.query_bias;
    in.y = a_.qkv;
    in.next[0] = upcoming(w.output, kAheadOfAttention);
    add(in, layer + "qkv");

    emit_attention(i, layer);

    ThinLinearArgs out = added(attended_, w.output, w.feed_forward_norm);
    out.next[0] = upcoming(w.gate, kAhead / 2);
    out.next[1] = upcoming(w.up, kAhead / 2);
    add(out, layer + "output");

    ThinLinearArgs gate = product(residual_.scaled, w.gate);
    gate.squares = residual_.squares;
    gate.end = ThinEnd::gate;
    gate.up = w.up;
    gate.gated = gated_;
    gate.next[0] = upcoming(w.down, kAhead);
    add(gate, layer + "gate and up");

    ThinLinearArgs down = added(
        gated_, w.down, is_last ? weights_.final_norm : weights_.layers[i + 1].attention_norm);
    down.next[0] = upcoming(is_last ? weights_.head : joined(weights_.layers[i + 1]), kAhead);
    add(down, layer + "down");
  }

  void emit_attention(std::size_t i, const std::string& layer) {
    const LayerWeights& w = weights_.layers[i];
    const PagedKv kv = b_.kv_of_layer(i);
    const float scale = 1.0f / std::sqrt(static_cast<float>(c_.head_size));
    if (shape_.is_decode) {
      const DecodeAttentionArgs args{.qkv = a_.qkv,
                                     .rows = tokens_,
                                     .positions = b_.positions,
                                     .slots = b_.slots,
                                     .frequencies = weights_.frequencies,
                                     .query_norm = w.query_norm,
                                     .key_norm = w.key_norm,
                                     .epsilon = c_.norm_epsilon,
                                     .pairs = c_.pairs,
                                     .rotary_size = c_.rotary_size,
                                     .heads = c_.heads,
                                     .scale = scale,
                                     .window = c_.window,
                                     .kv = kv,
                                     .workspace = scratch_.attention(),
                                     .y = attended_,
                                     .reads_ahead = true};
      chain_.add_attention(decode_attention(args), grid_of(args, true, scratch_.processors()), args,
                           layer + "attention");
      return;
    }
    chain_.add_attention(
        rotate_store(),
        {a_.qkv, tokens_, b_.positions, b_.slots, weights_.frequencies, w.query_norm, w.key_norm,
         c_.norm_epsilon, c_.pairs, c_.rotary_size, c_.heads, kv},
        layer + "rotate");
    const MixedAttentionArgs args{.q = a_.qkv,
                                  .q_stride = (c_.heads + 2 * c_.kv_heads) * c_.head_size,
                                  .heads = c_.heads,
                                  .rows = tokens_,
                                  .positions = b_.positions,
                                  .slots = b_.slots,
                                  .slot_count = scratch_.slots(),
                                  .scale = scale,
                                  .window = c_.window,
                                  .kv = kv,
                                  .workspace = scratch_.attention(),
                                  .y = attended_};
    chain_.add_attention(mixed_attention(args), grid_of(args, true, scratch_.processors()), args,
                         layer + "attention");
  }

  ThinLinearArgs product(const std::uint16_t* x, const Matrix& w) const {
    ThinLinearArgs args{};
    args.x = x;
    args.epsilon = c_.norm_epsilon;
    args.rows = tokens_;
    args.w = w;
    args.end = ThinEnd::store;
    return args;
  }
  ThinLinearArgs added(const std::uint16_t* x, const Matrix& w, const float* next_norm) const {
    ThinLinearArgs args = product(x, w);
    args.end = ThinEnd::add;
    args.residual = residual_;
    args.next_norm = next_norm;
    return args;
  }
  static Upcoming upcoming(const Matrix& w, std::uint32_t most) {
    return {w.data, w.bytes(), most};
  }
  void add(const ThinLinearArgs& args, const std::string& name) {
    chain_.add(thin_linear(args), thin_grid(args, scratch_.processors()), args, name);
  }

  Chain& chain_;
  const ModelConfig& c_;
  const Weights& weights_;
  const StepBuffers& b_;
  const StepScratch& scratch_;
  const StepActivations& a_;
  StepShape shape_;
  RowCount tokens_;
  Residual residual_;
  std::uint16_t* attended_;
  std::uint16_t* gated_;
};

}  // namespace

StepScratch::StepScratch(const Device& device, const ModelConfig& c, const PagedKv& kv,
                         std::uint32_t slots, std::uint32_t rows)
    : slots_(slots),
      processors_(occupancy(device, sample(), Grid{Dim3{1}, Dim3{32}}).residency.processors),
      attention_(device,
                 device.is_cuda() ? attention_workspace_bytes(slots, c.heads, kv, c.window) : 0),
      scan_(device, device.is_cuda() ? std::size_t{rows} * LogitScan::kParts : 0) {
  if (!device.is_cuda()) return;
  const Stream stream(device);
  stream.fill(attention_.data(), 0, attention_.bytes());
  stream.synchronize();
}

std::size_t StepScratch::bytes() const { return attention_.bytes() + scan_.bytes(); }

bool can_stream(const Weights& weights) {
  return is_thin(weights.head) &&
         std::all_of(weights.layers.begin(), weights.layers.end(), [](const LayerWeights& w) {
           return are_neighbours(w.query, w.key) && are_neighbours(w.key, w.value) &&
                  is_thin(joined(w)) && is_thin(w.output) && is_thin(w.gate) && is_thin(w.up) &&
                  is_thin(w.down);
         });
}

void emit_streamed(Chain& chain, const ModelConfig& config, const Weights& weights,
                   const StepBuffers& buffers, const StepActivations& activations,
                   const StepShape& shape) {
  Emitter(chain, config, weights, buffers, activations, shape).emit();
}

}  // namespace attacca::model
