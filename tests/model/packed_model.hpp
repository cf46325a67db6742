// packed_model.hpp: a small model with random matrices of any types, large enough for K-quants.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "model/random_blocks.hpp"
#include "model/small_model.hpp"

namespace attacca::test {

/// The sizes of that model: rows of 256 and 512 elements.
inline model::ModelConfig packed_sizes() {
  model::ModelConfig sizes = SmallModel::sizes();
  sizes.architecture = model::find_architecture("llama");
  sizes.hidden = 256;
  sizes.heads = 4;
  sizes.head_size = 64;
  sizes.rotary_size = 64;
  sizes.feed_forward = 512;
  sizes.vocabulary = 320;
  sizes.context = 256;
  return sizes;
}

/// Sizes that every kernel takes: rows have 64n elements, as products of whole tiles need, and
/// heads have 64. K-quants need larger ones.
inline model::ModelConfig tiled_sizes() {
  model::ModelConfig sizes = packed_sizes();
  sizes.hidden = 128;
  sizes.heads = 2;
  sizes.kv_heads = 1;
  sizes.feed_forward = 192;
  return sizes;
}

/// The bytes of its file. `type_of` gives the type of each matrix by its name.
inline std::string packed_model(
    const std::function<kernels::TensorType(const std::string&)>& type_of, bool has_head = true,
    const model::ModelConfig& sizes = packed_sizes()) {
  SmallModel model("llama", true, has_head);
  std::map<std::string, std::vector<std::uint64_t>> matrices;
  for (const model::TensorRule& rule : sizes.architecture->tensors)
    for (std::uint32_t layer = 0; layer < (rule.is_per_layer() ? sizes.layers : 1); ++layer) {
      const std::string name = rule.name_in(layer);
      if (!model.shapes.contains(name)) continue;
      std::vector<std::uint64_t> shape;
      for (const model::Size size : rule.shape) shape.push_back(model::size_in(sizes, size));
      model.remove(name);
      if (shape.size() == 1) {
        model.add(name, shape);
        model.values[name].assign(shape[0], 1);
      } else {
        matrices[name] = shape;
      }
    }
  formats::GgufWriter writer = model.writer(sizes);
  std::deque<std::vector<std::byte>> all;
  for (const auto& [name, shape] : matrices) {
    const kernels::TensorType type = type_of(name);
    std::vector<std::byte>& bytes = all.emplace_back(shape[0] * kernels::row_bytes(type, shape[1]));
    model::RandomBlocks(type, all.size(), 0.06f).fill(0, bytes);
    writer.add(name, type, shape, bytes);
  }
  return text_of(writer);
}
inline std::string packed_model(kernels::TensorType type, bool has_head = true) {
  return packed_model([type](const std::string&) { return type; }, has_head);
}

}  // namespace attacca::test
