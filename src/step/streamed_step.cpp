// streamed_step.cpp: see streamed_step.hpp.
#include "step/streamed_step.hpp"

#include <attacca/occupancy.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/attention/attention_splits.hpp"
#include "kernels/attention/decode_attention.hpp"
#include "kernels/attention/mixed_attention.hpp"
#include "kernels/attention/rope_store.hpp"
#include "kernels/embed.hpp"
#include "kernels/gather_residual.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/linear/sm90_same_bits_linear.hpp"
#include "kernels/linear/sm90_tiled_linear.hpp"
#include "kernels/linear/streamed_linear.hpp"
#include "kernels/rms_norm.hpp"
#include "step/tiled_products.hpp"

namespace attacca::step {

namespace {

using namespace kernels;

// What of a block's share of the next weights is fetched into L2 ahead of time. A kernel ends when
// that has come, so it is not much, and nothing where a layer is small.
constexpr std::uint32_t kAhead = 32 << 10;
constexpr std::uint64_t kSmallLayer = 128 << 20;  // bytes of weights

// Rows up to which weights are streamed past x in registers; more go through shared memory.
constexpr std::uint32_t kMostStreamed = 16;

bool are_neighbours(const Matrix& a, const Matrix& b) {
  return a.row(a.rows) == b.data && a.type == b.type && a.columns == b.columns;
}

/// Whether some product wants more of x than its rounded rows.
bool wants_rest(const model::Weights& weights) {
  const auto is_any = [](const model::LayerWeights& w) {
    return is_quantized(w.query.type) || is_quantized(w.output.type) || is_quantized(w.gate.type) ||
           is_quantized(w.down.type);
  };
  return is_quantized(weights.head.type) ||
         std::any_of(weights.layers.begin(), weights.layers.end(), is_any);
}

std::uint64_t bytes_of(const model::LayerWeights& w) {
  return joined(w).bytes() + w.output.bytes() + w.gate.bytes() + w.up.bytes() + w.down.bytes();
}

/// Rows in bf16, and what rounding them left or null.
struct Planes {
  std::uint16_t* rounded;
  std::uint16_t* rest;
};
/// Rows that other steps keep in floats have room for both.
Planes planes_of(const Rows& rows, std::uint32_t count, bool has_rest) {
  auto* rounded = static_cast<std::uint16_t*>(rows.data);
  return {rounded, has_rest ? rounded + std::size_t{count} * rows.columns : nullptr};
}

class Emitter {
 public:
  Emitter(Chain& chain, const model::ModelConfig& config, const model::Weights& weights,
          const StepBuffers& b, const StepActivations& a, const StepShape& shape)
      : chain_(chain),
        c_(config),
        weights_(weights),
        b_(b),
        scratch_(*b.scratch),
        a_(a),
        shape_(shape),
        tokens_{b.token_count, shape.tokens},
        scaled_(planes_of(a.normed, shape.tokens, wants_rest(weights))),
        attended_(planes_of(a.attended, shape.tokens, wants_rest(weights))),
        gated_(planes_of(a.gated, shape.tokens, wants_rest(weights))),
        is_small_(bytes_of(weights.layers[0]) <= kSmallLayer),
        ahead_(is_small_ ? 0 : kAhead),
        residual_{a.hidden, scaled_.rounded, static_cast<float*>(a.attended.data), config.hidden,
                  scaled_.rest} {}

  void emit() {
    chain_.add(
        embed_residual(),
        {b_.tokens, tokens_, weights_.embedding, residual_, weights_.layers[0].attention_norm},
        "embed");
    for (std::size_t i = 0; i < weights_.layers.size(); ++i) emit_layer(i);
    emit_head();
  }

 private:
  void emit_head() {
    if (!can_stream_weights(weights_.head)) return emit_plain_head();
    StreamedLinearArgs head = product(scaled_, weights_.head);
    head.gather = b_.gather;
    head.squares = residual_.squares;
    head.rows = {b_.row_count, shape_.rows};
    head.y = a_.logits;
    if (is_tiled(head)) {
      auto* scaled = static_cast<std::uint16_t*>(a_.last.data);
      auto* squares = reinterpret_cast<float*>(scaled + std::size_t{shape_.rows} * c_.hidden);
      const Residual last{nullptr, scaled, squares, c_.hidden};
      chain_.add(gather_residual(), {residual_, b_.gather, head.rows, last}, "last rows");
      head.x = last.scaled;
      head.squares = last.squares;
      head.gather = nullptr;
    }
    add(head, "logits");
  }

  void emit_plain_head() {
    const RowCount rows{b_.row_count, shape_.rows};
    chain_.add(rms_norm(),
               {a_.hidden, weights_.final_norm, b_.gather, rows, c_.norm_epsilon, a_.last},
               "final norm");
    chain_.add(linear(), {a_.last, rows, {weights_.head}, {}, 1, false, a_.logits}, "logits");
  }

  /// The squares beside the residual lie where nothing else does until they are read: before
  /// attention in `attended`, after it in `qkv`.
  void emit_layer(std::size_t i) {
    const model::LayerWeights& w = weights_.layers[i];
    const bool is_last = i + 1 == weights_.layers.size();
    const std::string layer = "layer " + std::to_string(i) + " ";
    const Matrix qkv = joined(w);

    StreamedLinearArgs in = product(scaled_, qkv);
    in.squares = residual_.squares;
    in.bias = w.query_bias;
    in.y = a_.qkv;
    in.next[0] = upcoming(w.output, ahead_);
    add(in, layer + "qkv");

    emit_attention(i, layer);

    StreamedLinearArgs out = added(attended_, w.output, w.feed_forward_norm);
    out.residual.squares = a_.qkv;
    out.next[0] = upcoming(w.gate, ahead_ / 2);
    out.next[1] = upcoming(w.up, ahead_ / 2);
    add(out, layer + "output");

    StreamedLinearArgs gate = product(scaled_, w.gate);
    gate.squares = a_.qkv;
    gate.epilogue = Epilogue::gate;
    gate.up = w.up;
    gate.gated = gated_.rounded;
    gate.gated_rest = gated_.rest;
    gate.next[0] = upcoming(w.down, ahead_);
    add(gate, layer + "gate and up");

    StreamedLinearArgs down = added(
        gated_, w.down, is_last ? weights_.final_norm : weights_.layers[i + 1].attention_norm);
    down.next[0] = upcoming(is_last ? weights_.head : joined(weights_.layers[i + 1]), ahead_);
    add(down, layer + "down");
  }

  void emit_attention(std::size_t i, const std::string& layer) {
    const model::LayerWeights& w = weights_.layers[i];
    const PagedKv kv = b_.kv_of_layer(i);
    const float scale = 1.0f / std::sqrt(static_cast<float>(c_.head_size));
    if (shape_.is_decode) {
      const DecodeAttentionArgs args{.qkv = a_.qkv,
                                     .rows = tokens_,
                                     .positions = b_.positions,
                                     .slots = b_.slots,
                                     .slot_count = scratch_.slots(),
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
                                     .y = attended_.rounded,
                                     .reads_ahead = true,
                                     .y_rest = attended_.rest};
      chain_.add_attention(decode_attention(args), grid_of(args, true, scratch_.processors()), args,
                           layer + "attention");
      return;
    }
    chain_.add_attention(
        rope_store(),
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
                                  .y = attended_.rounded,
                                  .y_rest = attended_.rest};
    chain_.add_attention(mixed_attention(args), grid_of(args, true, scratch_.processors()), args,
                         layer + "attention");
  }

  StreamedLinearArgs product(const Planes& x, const Matrix& w) const {
    StreamedLinearArgs args{};
    args.x = x.rounded;
    args.x_rest = x.rest;
    args.epsilon = c_.norm_epsilon;
    args.rows = tokens_;
    args.w = w;
    args.epilogue = Epilogue::store;
    return args;
  }
  StreamedLinearArgs added(const Planes& x, const Matrix& w, const float* next_norm) const {
    StreamedLinearArgs args = product(x, w);
    args.epilogue = Epilogue::add;
    args.residual = residual_;
    args.next_norm = next_norm;
    return args;
  }
  static Upcoming upcoming(const Matrix& w, std::uint32_t most) {
    return {w.data, w.bytes(), most};
  }
  bool is_tiled(const StreamedLinearArgs& args) const {
    return b_.tiled && args.rows.capacity > kMostStreamed;
  }
  void add(const StreamedLinearArgs& args, const std::string& name) {
    if (is_tiled(args) && b_.tiled->same_bits()) {
      chain_.add(same_bits_linear(), same_bits_grid(scratch_.processors()),
                 b_.tiled->same_bits_arguments(args), name);
    } else if (is_tiled(args)) {
      const TiledLinearArgs tiled = b_.tiled->arguments(args);
      chain_.add(tiled_linear(tiled, scratch_.processors()),
                 tiled_grid(tiled, scratch_.processors()), tiled, name);
    } else {
      // With more rows attention leaves the next product no room to start early, and large products
      // are better off one after the other.
      const CoResident co_resident =
          is_small_ || args.rows.capacity <= kFewRows ? CoResident::next : CoResident::none;
      chain_.add(streamed_linear(args), streamed_grid(args, scratch_.processors(), neighbour), args,
                 name);
    }
  }

  Chain& chain_;
  const model::ModelConfig& c_;
  const model::Weights& weights_;
  const StepBuffers& b_;
  const StepScratch& scratch_;
  const StepActivations& a_;
  StepShape shape_;
  RowCount tokens_;
  Planes scaled_;  // of residual_
  Planes attended_;
  Planes gated_;
  bool is_small_;  // each layer
  std::uint32_t ahead_;
  Residual residual_;
};

}  // namespace

unsigned processors_of(const Device& device) {
  return occupancy(device, embed(), Grid{Dim3{1}, Dim3{32}}).residency.processors;
}

Matrix joined(const model::LayerWeights& w) {
  Matrix all = w.query;
  all.rows += w.key.rows + w.value.rows;
  return all;
}

StepScratch::StepScratch(const Device& device, const model::ModelConfig& c, const PagedKv& kv,
                         std::uint32_t slots)
    : slots_(slots),
      processors_(processors_of(device)),
      attention_(device, device.is_cuda()
                             ? attention_workspace_bytes(slots, c.heads, kv, c.window, processors_)
                             : 0) {
  if (!device.is_cuda()) return;
  const Stream stream(device);
  stream.fill(attention_.data(), 0, attention_.bytes());
  stream.synchronize();
}

std::size_t StepScratch::bytes() const { return attention_.bytes(); }

std::size_t StepScratch::bytes_for(const Device& device, const model::ModelConfig& c,
                                   const PagedKv& kv, std::uint32_t slots) {
  if (!device.is_cuda()) return 0;
  return attention_workspace_bytes(slots, c.heads, kv, c.window, processors_of(device));
}

bool can_stream(const model::Weights& weights) {
  return std::all_of(weights.layers.begin(), weights.layers.end(),
                     [](const model::LayerWeights& w) {
                       return are_neighbours(w.query, w.key) && are_neighbours(w.key, w.value) &&
                              can_stream_weights(joined(w)) && can_stream_weights(w.output) &&
                              can_stream_weights(w.gate) && can_stream_weights(w.up) &&
                              w.gate.type == w.up.type && can_stream_weights(w.down);
                     });
}

void emit_streamed(Chain& chain, const model::ModelConfig& config, const model::Weights& weights,
                   const StepBuffers& buffers, const StepActivations& activations,
                   const StepShape& shape) {
  Emitter(chain, config, weights, buffers, activations, shape).emit();
}

}  // namespace attacca::step
