// transformer.cpp: eight kernels a layer; see transformer.hpp. What differs between architectures
// is data: biases and norms that are null, the pairs that rotate.
#include "model/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>

#include "kernels/attention.hpp"
#include "kernels/embed.hpp"
#include "kernels/linear.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rotate_store.hpp"

namespace attacca::model {

namespace {

using namespace kernels;

constexpr std::size_t kAlignment = 256;  // of what an Arena gives

/// Kernels one after another.
class Chain {
 public:
  explicit Chain(Graph& graph) : graph_(graph), is_cuda_(graph.device().is_cuda()) {}

  template <class Args>
  void add(const Kernel<Args>& kernel, const std::type_identity_t<Args>& args, std::string name) {
    const auto node = graph_.kernel(kernel, grid_of(args, is_cuda_), args).named(std::move(name));
    if (last_) node.after(*last_);
    last_ = node;
  }
  bool is_cuda() const { return is_cuda_; }

 private:
  Graph& graph_;
  bool is_cuda_;
  std::optional<Node> last_;
};

/// `rows` in the format that all of these weights can read, the fastest where they agree.
Rows for_weights(Rows rows, std::initializer_list<Matrix> weights, bool is_cuda) {
  const auto wants_integers = [&](const Matrix& w) {
    return row_format_for(w.type, is_cuda) == RowFormat::i16;
  };
  const bool all = std::all_of(weights.begin(), weights.end(), wants_integers);
  rows.format = all && rows.columns % RowBlock::kElements == 0 ? RowFormat::i16 : RowFormat::f32;
  return rows;
}

PagedKv layer_of(const StepBuffers& buffers, std::size_t layer) {
  PagedKv kv = buffers.kv;
  kv.keys += layer * buffers.kv_layer_stride;
  kv.values += layer * buffers.kv_layer_stride;
  return kv;
}

/// Bytes of rows in their larger format.
std::size_t rows_bytes(std::uint64_t count, std::uint64_t columns) { return count * columns * 4; }

}  // namespace

std::size_t activation_bytes(const ModelConfig& c, const StepShape& shape) {
  const std::uint64_t heads = static_cast<std::uint64_t>(c.heads) * c.head_size;
  const std::uint64_t kv_heads = static_cast<std::uint64_t>(c.kv_heads) * c.head_size;
  const std::uint64_t per_token = 2ull * c.hidden + heads + 2 * kv_heads + heads + c.feed_forward;
  const std::uint64_t per_row = static_cast<std::uint64_t>(c.hidden) + c.vocabulary;
  return rows_bytes(shape.tokens, per_token) + rows_bytes(shape.rows, per_row) + 7 * kAlignment;
}

StepActivations lay_out(const ModelConfig& c, const StepShape& shape, Arena& arena) {
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
void emit_model(Chain& chain, const ModelConfig& c, const Weights& weights, const StepBuffers& b,
                const StepActivations& a, const StepShape& shape) {
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
    const LayerWeights& w = weights.layers[i];
    const PagedKv kv = layer_of(b, i);
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
    chain.add(rotate_store(),
              {a.qkv, tokens, b.positions, b.slots, weights.frequencies, w.query_norm, w.key_norm,
               c.norm_epsilon, c.pairs, c.rotary_size, c.heads, kv},
              layer + "rotate");
    const Rows attended = for_weights(a.attended, {w.output}, chain.is_cuda());
    chain.add(attention(),
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

void emit_logits(Graph& graph, const ModelConfig& config, const Weights& weights,
                 const StepBuffers& buffers, const StepActivations& activations,
                 const StepShape& shape) {
  Chain chain(graph);
  emit_model(chain, config, weights, buffers, activations, shape);
}

void emit_step(Graph& graph, const ModelConfig& config, const Weights& weights,
               const StepBuffers& b, const StepActivations& activations, const StepShape& shape) {
  Chain chain(graph);
  emit_model(chain, config, weights, b, activations, shape);
  chain.add(sample(),
            {activations.logits,
             config.vocabulary,
             {b.row_count, shape.rows},
             b.row_slots,
             b.row_positions,
             b.row_forced,
             b.sampling,
             b.seen,
             b.sampled},
            "sample");
}

}  // namespace attacca::model
