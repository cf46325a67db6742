// quantized.hpp: the small models of tests/engine/fixtures with their matrices in Q8_0, Q4_0 or
// Q4_1, written as GGUF files.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <filesystem>
#include <span>

#include "engine/fixtures.hpp"
#include "formats/gguf_writer.hpp"
#include "model/checkpoint.hpp"

namespace attacca::engine_tests {

/// The value rounded to a half towards 0. REQUIRES: the half is 0 or normal.
inline std::uint16_t half_towards_zero(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t size = bits & 0x7fffffffu;
  const std::uint32_t rebiased = size ? (size - (112u << 23)) >> 13 : 0;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | rebiased);
}

/// Appends 32 adjacent values as one block.
inline void append_block(kernels::TensorType type, std::span<const float, 32> values,
                         std::vector<std::byte>& to) {
  using kernels::TensorType;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const float size = std::max(std::abs(*least), std::abs(*most));
  const auto put = [&](unsigned byte) { to.push_back(static_cast<std::byte>(byte)); };
  const auto put_half = [&](float value) {
    const std::uint16_t half = half_towards_zero(value);
    put(half & 255u);
    put(half >> 8u);
  };
  const bool has_offset = type == TensorType::q4_1;
  const bool is_tiled = type == TensorType::q8_0;
  const float scale = is_tiled ? size / 127 : has_offset ? (*most - *least) / 15 : size / 7;
  put_half(scale);
  if (has_offset) put_half(*least);
  const auto q = [&](std::size_t i, int low, int high) {
    const float from = has_offset ? *least : 0;
    const float steps = scale == 0 ? 0 : (values[i] - from) / scale;
    return std::clamp(static_cast<int>(std::lround(steps)), low, high);
  };
  const auto nibble = [&](std::size_t i) {
    return static_cast<unsigned>(has_offset ? q(i, 0, 15) : q(i, -8, 7) + 8);
  };
  for (std::size_t i = 0; i < (is_tiled ? 32 : 16); ++i)
    put(is_tiled ? static_cast<unsigned>(q(i, -127, 127)) : nibble(i) | nibble(i + 16) << 4);
}

/// REQUIRES: the fixture has no RoPE scaling, and its architecture rotates halves in GGUF files
/// too.
inline void write_quantized(const std::string& name, kernels::TensorType type,
                            const std::filesystem::path& path) {
  const model::Checkpoint from = model::Checkpoint::open(fixture(name));
  const model::ModelConfig& c = from.config();
  formats::GgufWriter to;
  const std::string architecture = c.architecture->name;
  const auto set = [&](const char* key, auto value) { to.set(architecture + "." + key, value); };
  to.set("general.architecture", architecture);
  set("context_length", c.context);
  set("embedding_length", c.hidden);
  set("block_count", c.layers);
  set("feed_forward_length", c.feed_forward);
  set("attention.head_count", c.heads);
  set("attention.head_count_kv", c.kv_heads);
  set("attention.key_length", c.head_size);
  set("attention.layer_norm_rms_epsilon", c.norm_epsilon);
  set("rope.freq_base", c.rope_theta);
  std::deque<std::vector<float>> vectors;
  std::deque<std::vector<std::byte>> matrices;
  for (const formats::Tensor& tensor : from.tensors()) {
    const std::vector<float> values = formats::to_floats(tensor);
    if (tensor.shape.size() == 1) {
      to.add(tensor.name, tensor.shape, vectors.emplace_back(values));
      continue;
    }
    std::vector<std::byte>& bytes = matrices.emplace_back();
    for (std::size_t at = 0; at < values.size(); at += 32)
      append_block(type, std::span<const float, 32>(values.data() + at, 32), bytes);
    to.add(tensor.name, type, tensor.shape, bytes);
  }
  to.write(path);
}

}  // namespace attacca::engine_tests
