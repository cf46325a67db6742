// weights.hpp: a checkpoint's tensors by the part they play, at addresses a device can read. On the
// host matrices stay where the file is mapped; a GPU gets a copy of everything, on request in 8
// bits.
#pragma once

#include <array>
#include <attacca/memory.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/matrix.hpp"
#include "model/checkpoint.hpp"

namespace attacca::model {

/// What matrices become on a GPU.
///  as_stored  nothing else
///  fp8        e4m3 with a scale for each row; not the embedding, of which little is read
enum class WeightFormat { as_stored, fp8 };

struct LayerWeights {
  const float* attention_norm;  // [hidden]
  kernels::Matrix query;        // [heads * head_size, hidden]
  kernels::Matrix key;          // [kv_heads * head_size, hidden]
  kernels::Matrix value;        // as key; on a GPU these three are neighbours in memory
  const float* query_bias;      // [query.rows], or null; the next two alike, and its neighbours
  const float* key_bias;
  const float* value_bias;
  const float* query_norm;  // [head_size], or null
  const float* key_norm;
  kernels::Matrix output;          // [hidden, heads * head_size]
  const float* feed_forward_norm;  // [hidden]
  kernels::Matrix gate;            // [feed_forward, hidden]
  kernels::Matrix up;              // as gate
  kernels::Matrix down;            // [hidden, feed_forward]
};

/// Owns what had to be copied. REQUIRES: the checkpoint outlives it.
class Weights {
 public:
  Weights(const Checkpoint& checkpoint, const Device& device,
          const formats::Progress& progress = {}, WeightFormat format = WeightFormat::as_stored);
  /// Random numbers, bf16 if stored, made on the device; norms are 1. The same for the same seed.
  /// Without a seed matrices are left as memory was, for a caller who only looks at kernels.
  Weights(const ModelConfig& config, const Device& device, std::optional<std::uint64_t> seed,
          WeightFormat format = WeightFormat::as_stored);

  kernels::Matrix embedding;  // [vocabulary, hidden]
  kernels::Matrix head;       // as stored the same memory where the model ties them
  const float* final_norm;    // [hidden]
  const float* frequencies;   // [rotary_size / 2]
  std::vector<LayerWeights> layers;

  std::size_t bytes_mapped() const { return bytes_mapped_; }
  std::size_t bytes_copied() const { return bytes_copied_; }

 private:
  Weights(const Device& device, WeightFormat format);

  kernels::Matrix matrix(const formats::Tensor& tensor);
  kernels::Matrix product(const formats::Tensor& tensor);
  /// Tensors of one type, on a GPU one after another.
  std::array<kernels::Matrix, 3> neighbours(const std::array<formats::Tensor, 3>& tensors);
  std::array<const float*, 3> neighbours(const std::array<const formats::Tensor*, 3>& tensors);
  /// Makes of matrices, all in the newest memory, others that take its place.
  void replace(std::span<kernels::Matrix> matrices);
  /// Copies of matrices of as many columns, one after another.
  void convert(std::span<kernels::Matrix> matrices);
  const float* vector(const formats::Tensor* tensor);
  const float* keep(const std::vector<float>& values);

  Device device_;
  WeightFormat format_;
  std::vector<Buffer<std::byte>> matrices_;
  std::vector<Buffer<float>> vectors_;
  std::size_t bytes_mapped_ = 0;
  std::size_t bytes_copied_ = 0;
};

}  // namespace attacca::model
