// streamed_step.cpp: emits five kernels a layer: each product has its norm, bias, gate or residual
// in its epilogue, and decode attention rotates and stores keys itself. In mixed steps that has a
// kernel of its own, or the product of queries, keys and values does it, and attention has two
// kernels where there is one for long runs of a prompt. Where a model is split over ranks, an
// exchange stands before the residual, which then has a kernel too.
#include "step/streamed_step.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/add_residual.hpp"
#include "kernels/attention/attention_splits.hpp"
#include "kernels/attention/decode_attention.hpp"
#include "kernels/attention/mixed_attention.hpp"
#include "kernels/attention/rope_epilogue.hpp"
#include "kernels/attention/rope_store.hpp"
#include "kernels/attention/sm90_prompt_attention.hpp"
#include "kernels/embed.hpp"
#include "kernels/gather_residual.hpp"
#include "kernels/linear/half_rows.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/linear/sm90_tiled_linear.hpp"
#include "kernels/linear/streamed_linear.hpp"
#include "kernels/rms_norm.hpp"
#include "step/tensor_parallel.hpp"
#include "step/tiled_products.hpp"

namespace attacca::step {

namespace {

using namespace kernels;

// Bytes of the next weights that each block prefetches into L2. A kernel ends when they have come,
// so there are few of them, and none where a layer is small.
constexpr std::uint32_t kAhead = 32 << 10;
constexpr std::uint64_t kSmallLayer = 128 << 20;  // bytes of weights

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

class Emitter {
 public:
  Emitter(Chain& chain, const StepMemory& memory, const StepShape& shape)
      : chain_(chain),
        memory_(memory),
        c_(memory.config()),
        weights_(memory.weights()),
        in_(memory.input()),
        parallel_(memory.sizes().parallel),
        shape_(shape),
        processors_(memory.device().processors()),
        tokens_{in_.token_count, shape.tokens},
        in_order_(memory.sizes().same_bits && memory.tiled()),
        has_rest_(wants_rest(weights_) && !is_tiled(shape.tokens)),
        before_attention_(memory.residual_before_attention(shape, has_rest_)),
        after_attention_(memory.residual_after_attention(shape, has_rest_)),
        qkv_(memory.qkv(shape)),
        scaled_{before_attention_.scaled, before_attention_.rest},
        attended_(memory.attended_planes(shape, has_rest_)),
        gated_(memory.gated_planes(shape, has_rest_)),
        is_small_(bytes_of(weights_.layers[0]) <= kSmallLayer),
        ahead_(is_small_ ? 0 : kAhead),
        rotates_in_product_(can_rotate_in_product()) {}

  void emit() {
    chain_.add(Part::tokens, "embed", embed_residual(),
               {.tokens = in_.tokens,
                .rows = tokens_,
                .table = weights_.embedding,
                .residual = before_attention_,
                .next_norm = weights_.layers[0].attention_norm});
    if (rotates_in_product_) {
      chain_.add(Part::tokens, "rows to rotate", rope_rows(),
                 {.rows = tokens_,
                  .positions = in_.positions,
                  .slots = in_.slots,
                  .frequencies = weights_.frequencies,
                  .kv = memory_.kv(0),
                  .to = memory_.rotated_rows(shape_)});
    }
    for (std::size_t i = 0; i < weights_.layers.size(); ++i) emit_layer(i);
    emit_head();
  }

 private:
  void emit_layer(std::size_t i) {
    const model::LayerWeights& w = weights_.layers[i];
    const bool is_last = i + 1 == weights_.layers.size();
    const std::string layer = "layer " + std::to_string(i) + " ";

    StreamedLinearArgs in = product(scaled_, joined(w));
    in.squares = before_attention_.squares;
    in.bias = w.query_bias;
    in.y = qkv_;
    in.next[0] = upcoming(w.output, ahead_);
    add(layer + "qkv", in, rotates_in_product_ ? rotation(i) : RopeEpilogue{});

    emit_attention(i, layer);

    StreamedLinearArgs out = added(attended_, w.output, after_attention_, w.feed_forward_norm);
    out.next[0] = upcoming(w.gate, ahead_ / 2);
    out.next[1] = upcoming(w.up, ahead_ / 2);
    add_to_residual(layer + "output", out);

    StreamedLinearArgs gate = product(scaled_, w.gate);
    gate.squares = after_attention_.squares;
    gate.epilogue = Epilogue::gate;
    gate.up = w.up;
    gate.gated = gated_.rounded;
    gate.gated_rest = gated_.rest;
    gate.next[0] = upcoming(w.down, ahead_);
    add(layer + "gate and up", gate);

    StreamedLinearArgs down =
        added(gated_, w.down, before_attention_,
              is_last ? weights_.final_norm : weights_.layers[i + 1].attention_norm);
    down.next[0] = upcoming(is_last ? weights_.head : joined(weights_.layers[i + 1]), ahead_);
    add_to_residual(layer + "down", down);
  }

  void emit_head() {
    if (can_stream_weights(weights_.head))
      emit_streamed_head();
    else
      emit_plain_head();
    if (parallel_ && !shape_.samples_highest)
      parallel_->gather_logits(chain_, memory_.logits(), {in_.row_count, shape_.rows});
  }
  float* logits() const { return parallel_ ? parallel_->logits_part() : memory_.logits(); }

  void emit_streamed_head() {
    StreamedLinearArgs head = product(scaled_, weights_.head);
    head.gather = in_.gather;
    head.squares = before_attention_.squares;
    head.rows = {in_.row_count, shape_.rows};
    head.y = logits();
    if (is_tiled(head.rows.capacity)) {
      const Residual last = memory_.last_residual(shape_);
      chain_.add(Part::product, "last rows", gather_residual(),
                 {.from = before_attention_, .gather = in_.gather, .rows = head.rows, .to = last});
      head.x = last.scaled;
      head.squares = last.squares;
      head.gather = nullptr;
    }
    add("logits", head);
  }

  void emit_plain_head() {
    const RowCount rows{in_.row_count, shape_.rows};
    const Rows last = memory_.last().rows(RowFormat::f32, shape_.rows, c_.hidden);
    chain_.add(Part::norm, "final norm", rms_norm(),
               {.x = before_attention_.values,
                .weight = weights_.final_norm,
                .gather = in_.gather,
                .rows = rows,
                .epsilon = c_.norm_epsilon,
                .y = last});
    chain_.add(Part::product, "logits", linear(),
               {.x = last,
                .rows = rows,
                .w = {weights_.head},
                .bias = {},
                .parts = 1,
                .adds = false,
                .y = logits()});
  }

  void emit_attention(std::size_t i, const std::string& layer) {
    const model::LayerWeights& w = weights_.layers[i];
    const PagedKv kv = memory_.kv(i);
    if (shape_.is_decode) {
      const DecodeAttentionArgs args{.qkv = qkv_,
                                     .rows = tokens_,
                                     .positions = in_.positions,
                                     .slots = in_.slots,
                                     .slot_count = memory_.sizes().slots,
                                     .frequencies = weights_.frequencies,
                                     .query_norm = w.query_norm,
                                     .key_norm = w.key_norm,
                                     .epsilon = c_.norm_epsilon,
                                     .pairs = c_.pairs,
                                     .rotary_size = c_.rotary_size,
                                     .heads = c_.heads,
                                     .scale = scale(),
                                     .window = c_.window,
                                     .kv = kv,
                                     .workspace = memory_.attention_scratch(),
                                     .y = attended_.rounded,
                                     .reads_ahead = true,
                                     .y_rest = attended_.rest};
      chain_.add(Part::attention, layer + "attention", decode_attention(args),
                 grid_of(args, true, processors_), args);
      return;
    }
    if (!rotates_in_product_)
      chain_.add(Part::attention, layer + "rope", rope_store(), memory_.rope_store(shape_, i));
    MixedAttentionArgs args = mixed_attention_args(i);
    args.has_rounded_queries = rounds_queries();
    if (has_prompt_attention(memory_.device(), args)) {
      chain_.add(Part::attention, layer + "attention of prompts", prompt_attention(args),
                 prompt_grid(args, true, processors_), args);
      args.leaves_long_runs = true;
    }
    chain_.add(Part::attention, layer + "attention", mixed_attention(args),
               grid_of(args, true, processors_), args);
  }

  MixedAttentionArgs mixed_attention_args(std::size_t i) const {
    const std::uint32_t heads = c_.heads + (rotates_in_product_ ? 0 : 2 * c_.kv_heads);
    return {.q = qkv_,
            .q_stride = heads * c_.head_size,
            .heads = c_.heads,
            .rows = tokens_,
            .positions = in_.positions,
            .slots = in_.slots,
            .slot_count = memory_.sizes().slots,
            .scale = scale(),
            .window = c_.window,
            .kv = memory_.kv(i),
            .workspace = memory_.attention_scratch(),
            .y = attended_.rounded,
            .y_rest = attended_.rest};
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(c_.head_size)); }

  /// Whether the product of queries, keys and values may rotate and store them: see RopeEpilogue.
  bool can_rotate_in_product() const {
    const KvType type = memory_.kv(0).type;
    return !shape_.is_decode && is_tiled(shape_.tokens) && !memory_.sizes().same_bits &&
           (type == KvType::bf16 || type == KvType::f16) &&
           (c_.head_size == 64 || c_.head_size == 128) && c_.rotary_size == c_.head_size &&
           memory_.has_room_to_rotate() &&
           std::none_of(weights_.layers.begin(), weights_.layers.end(),
                        [](const model::LayerWeights& w) { return w.query_norm || w.key_norm; });
  }
  /// Only the kernel for long runs takes rounded queries.
  bool rounds_queries() const {
    return rotates_in_product_ && has_prompt_attention(memory_.device(), mixed_attention_args(0));
  }
  RopeEpilogue rotation(std::size_t i) const {
    return {.rows = memory_.rotated_rows(shape_),
            .pairs = c_.pairs,
            .heads = c_.heads,
            .kv = memory_.kv(i),
            .rounds_queries = rounds_queries(),
            .query_factor = scale() * 1.4426950408889634f};
  }

  StreamedLinearArgs product(const Planes& x, const Matrix& w) const {
    StreamedLinearArgs args{};
    args.x = x.rounded;
    args.x_rest = x.rest;
    args.epsilon = c_.norm_epsilon;
    args.rows = tokens_;
    args.in_order = in_order_;
    args.w = w;
    args.epilogue = Epilogue::store;
    return args;
  }
  StreamedLinearArgs added(const Planes& x, const Matrix& w, const Residual& residual,
                           const float* next_norm) const {
    StreamedLinearArgs args = product(x, w);
    args.epilogue = Epilogue::add;
    args.residual = residual;
    args.next_norm = next_norm;
    return args;
  }
  /// `args`: as `added` makes them.
  void add_to_residual(const std::string& name, StreamedLinearArgs args) {
    if (!parallel_) return add(name, args);
    sum_ ^= 1;
    args.epilogue = Epilogue::store;
    args.y = parallel_->partial(sum_);
    add(name, args);
    parallel_->add_to_residual(chain_, name, sum_, {{}, 0, tokens_, args.residual, args.next_norm});
  }
  static Upcoming upcoming(const Matrix& w, std::uint32_t most) {
    return {w.data, w.bytes(), most};
  }
  bool is_tiled(std::uint32_t rows) const {
    return memory_.tiled() && memory_.tiled()->takes(rows);
  }
  /// `rope`: only if the product is tiled.
  void add(std::string name, StreamedLinearArgs args, const RopeEpilogue& rope = {}) {
    const bool is_tiled = this->is_tiled(args.rows.capacity);
    if (is_tiled) {
      if (args.w.type == TensorType::f16) make_halves(name, args);
      for (const ExpandArgs& expansion : memory_.tiled()->expansions(args))
        chain_.add(Part::expansion, name + ", expanded", expand(expansion), expansion);
      const TiledLinearArgs tiled = memory_.tiled()->arguments(args, rope);
      chain_.add(Part::product, std::move(name), tiled_linear(tiled, processors_),
                 tiled_grid(tiled, processors_), tiled);
    } else {
      // With more rows attention leaves the next product no room to start early, and large products
      // are better off one after the other.
      const CoResident co_resident =
          is_small_ || args.rows.capacity <= kFewRows ? CoResident::next : CoResident::none;
      chain_.add(Part::product, std::move(name), streamed_linear(args),
                 streamed_grid(args, processors_, co_resident), args);
    }
  }

  /// Makes f16 of a product's x. Rows have room for floats (see StepMemory), so behind those of 16
  /// bits there is room for their squares.
  void make_halves(const std::string& name, StreamedLinearArgs& args) {
    auto* x = const_cast<std::uint16_t*>(args.x);
    const std::size_t elements = std::size_t{args.rows.capacity} * args.w.columns;
    auto* squares = reinterpret_cast<float*>(x + elements);
    chain_.add(Part::norm, name + ", x in f16", half_rows(),
               {.x = x,
                .columns = args.w.columns,
                .squares = args.squares,
                .epsilon = args.epsilon,
                .rows = args.rows,
                .scaled_squares = squares});
    args.squares = squares;
    args.epsilon = 0;
  }

  Chain& chain_;
  const StepMemory& memory_;
  const model::ModelConfig& c_;
  const model::Weights& weights_;
  const StepInput& in_;
  const TensorParallel* parallel_;  // null: one rank has the whole model
  StepShape shape_;
  unsigned processors_;
  RowCount tokens_;
  bool in_order_;     // few rows have the bits of many
  bool has_rest_;     // some product of the step wants more of x than its rounded rows
  unsigned sum_ = 0;  // see TensorParallel::partial
  Residual before_attention_;
  Residual after_attention_;
  float* qkv_;
  Planes scaled_;  // of the residual
  Planes attended_;
  Planes gated_;
  bool is_small_;  // each layer
  std::uint32_t ahead_;
  bool rotates_in_product_;
};

}  // namespace

Matrix joined(const model::LayerWeights& w) {
  Matrix all = w.query;
  all.rows += w.key.rows + w.value.rows;
  return all;
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

void emit_streamed(Chain& chain, const StepMemory& memory, const StepShape& shape) {
  Emitter(chain, memory, shape).emit();
}

}  // namespace attacca::step
