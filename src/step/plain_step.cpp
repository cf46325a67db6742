// plain_step.cpp: emits eight kernels a layer. What differs between architectures is data: biases
// and norms that are null, the pairs that rotate.
#include "step/plain_step.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/rope_store.hpp"
#include "kernels/embed.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/rms_norm.hpp"
#include "step/tensor_parallel.hpp"

namespace attacca::step {

using namespace kernels;

RowFormat row_format_for(std::span<const Matrix> weights, bool is_cuda) {
  const bool all = std::all_of(weights.begin(), weights.end(), [&](const Matrix& w) {
    return kernels::row_format_for(w.type, is_cuda) == RowFormat::i16 &&
           w.columns % RowBlock::kElements == 0;
  });
  return all ? RowFormat::i16 : RowFormat::f32;
}

namespace {

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
        tokens_{in_.token_count, shape.tokens},
        hidden_(memory.hidden(shape)),
        qkv_(memory.qkv(shape)) {}

  void emit() {
    chain_.add(Part::tokens, "embed", embed(),
               {.tokens = in_.tokens, .rows = tokens_, .table = weights_.embedding, .y = hidden_});
    for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
      const std::string layer = "layer " + std::to_string(i) + " ";
      emit_attention(i, layer);
      emit_feed_forward(weights_.layers[i], layer);
    }
    emit_head();
  }

 private:
  void emit_attention(std::size_t i, const std::string& layer) {
    const model::LayerWeights& w = weights_.layers[i];
    const PagedKv kv = memory_.kv(i);
    const Rows normed = rows(memory_.normed(), c_.hidden, {w.query, w.key, w.value});
    norm(w.attention_norm, normed, layer + "norm");
    chain_.add(Part::product, layer + "qkv", linear(),
               {.x = normed,
                .rows = tokens_,
                .w = {w.query, w.key, w.value},
                .bias = {w.query_bias, w.key_bias, w.value_bias},
                .parts = 3,
                .adds = false,
                .y = qkv_});
    chain_.add(Part::attention, layer + "rope", rope_store(), memory_.rope_store(shape_, i));
    const Rows attended = rows(memory_.attended(), c_.heads * c_.head_size, {w.output});
    chain_.add(Part::attention, layer + "attention", attention(),
               {.q = qkv_,
                .q_stride = (c_.heads + 2 * c_.kv_heads) * c_.head_size,
                .heads = c_.heads,
                .rows = tokens_,
                .positions = in_.positions,
                .slots = in_.slots,
                .scale = 1.0f / std::sqrt(static_cast<float>(c_.head_size)),
                .window = c_.window,
                .kv = kv,
                .y = attended});
    add_to_hidden(attended, w.output, layer + "output");
  }

  void emit_feed_forward(const model::LayerWeights& w, const std::string& layer) {
    const Rows normed = rows(memory_.normed(), c_.hidden, {w.gate, w.up});
    norm(w.feed_forward_norm, normed, layer + "feed-forward norm");
    const Rows gated = rows(memory_.gated(), c_.feed_forward, {w.down});
    chain_.add(Part::product, layer + "gate and up", gated_linear(),
               {.x = normed, .rows = tokens_, .gate = w.gate, .up = w.up, .y = gated});
    add_to_hidden(gated, w.down, layer + "down");
  }

  void emit_head() {
    const RowCount count{in_.row_count, shape_.rows};
    const Rows last = memory_.last().rows(
        row_format_for(std::span(&weights_.head, 1), chain_.is_cuda()), shape_.rows, c_.hidden);
    chain_.add(Part::norm, "final norm", rms_norm(),
               {.x = hidden_,
                .weight = weights_.final_norm,
                .gather = in_.gather,
                .rows = count,
                .epsilon = c_.norm_epsilon,
                .y = last});
    chain_.add(Part::product, "logits", linear(),
               {.x = last,
                .rows = count,
                .w = {weights_.head},
                .bias = {},
                .parts = 1,
                .adds = false,
                .y = parallel_ ? parallel_->logits_part() : memory_.logits()});
    if (parallel_ && !shape_.samples_highest)
      parallel_->gather_logits(chain_, memory_.logits(), count);
  }

  Rows rows(const Region& region, std::uint32_t columns,
            std::initializer_list<Matrix> weights) const {
    const std::span<const Matrix> read_by(weights.begin(), weights.size());
    return region.rows(row_format_for(read_by, chain_.is_cuda()), shape_.tokens, columns);
  }
  void norm(const float* weight, const Rows& y, std::string name) {
    chain_.add(Part::norm, std::move(name), rms_norm(),
               {.x = hidden_,
                .weight = weight,
                .gather = nullptr,
                .rows = tokens_,
                .epsilon = c_.norm_epsilon,
                .y = y});
  }
  /// Where ranks share a model, `w` has only this rank's columns, and the product is a part of the
  /// sum.
  void add_to_hidden(const Rows& x, const Matrix& w, const std::string& name) {
    chain_.add(Part::product, name, linear(),
               {.x = x,
                .rows = tokens_,
                .w = {w},
                .bias = {},
                .parts = 1,
                .adds = !parallel_ || parallel_->is_root(),
                .y = parallel_ ? parallel_->part_of(hidden_) : hidden_,
                .sections = sections_for(w, parallel_ ? parallel_->ranks() : 1, chain_.is_cuda())});
    if (parallel_)
      parallel_->add_sum(chain_, name + " sum", parallel_->part_of(hidden_), hidden_, tokens_);
  }

  Chain& chain_;
  const StepMemory& memory_;
  const model::ModelConfig& c_;
  const model::Weights& weights_;
  const StepInput& in_;
  const TensorParallel* parallel_;  // null: one rank has the whole model
  StepShape shape_;
  RowCount tokens_;
  float* hidden_;
  float* qkv_;
};

}  // namespace

void emit_plain(Chain& chain, const StepMemory& memory, const StepShape& shape) {
  Emitter(chain, memory, shape).emit();
}

}  // namespace attacca::step
