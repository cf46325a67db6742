// weights.hpp: a checkpoint's tensors by their role, at addresses that a device can read. On the
// host matrices stay in the mapped file. A GPU gets a copy of everything, in fp8 if asked. Files
// are opened in checkpoint.hpp.
#pragma once

#include <array>
#include <attacca/memory.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "formats/progress.hpp"
#include "formats/tensor.hpp"
#include "kernels/matrix.hpp"
#include "model/config.hpp"
#include "model/shard.hpp"

namespace attacca::model {

class Checkpoint;
class HeldTypes;

/// How a GPU holds the matrices.
///  as_stored  in the file's types, or in the nearest type that the streamed kernels have; see
///             held_types.hpp
///  fp8        as e4m3 with a scale for each row; the embedding stays as stored, because a step
///             reads few of its rows
enum class WeightFormat { as_stored, fp8 };

struct LayerWeights {
  const float* attention_norm;  // [hidden]
  kernels::Matrix query;        // [heads * head_size, hidden]
  kernels::Matrix key;          // [kv_heads * head_size, hidden]
  kernels::Matrix value;        // as key; on a GPU the three are adjacent in memory
  const float* query_bias;      // [query.rows], or null; key and value alike, all adjacent on a GPU
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

/// Owns the copies. REQUIRES: the checkpoint outlives it.
class Weights {
 public:
  /// `shard`: one rank's part of all matrices but the embedding; see shard.hpp. REQUIRES:
  /// check_ranks.
  Weights(const Checkpoint& checkpoint, const Device& device,
          const formats::Progress& progress = {}, WeightFormat format = WeightFormat::as_stored,
          const Shard& shard = {});
  /// Random weights, made on the device, in bf16 if `format` is as_stored; norms are 1. The same
  /// seed gives the same weights. Without one matrices are left as memory was, for a caller who
  /// only looks at kernels.
  Weights(const ModelConfig& config, const Device& device, std::optional<std::uint64_t> seed,
          WeightFormat format = WeightFormat::as_stored);

  kernels::Matrix embedding;  // [vocabulary, hidden]
  kernels::Matrix head;       // the embedding's memory if the model ties them, but not in fp8
  const float* final_norm;    // [hidden]
  const float* frequencies;   // [rotary_size / 2]
  std::vector<LayerWeights> layers;

  /// The type that a matrix has in the file.
  kernels::TensorType type_in_file(const kernels::Matrix& matrix) const;
  std::size_t bytes_mapped() const { return bytes_mapped_; }
  std::size_t bytes_copied() const { return bytes_copied_; }

 private:
  Weights(const Device& device, WeightFormat format);

  kernels::Matrix matrix(const formats::Tensor& tensor);
  kernels::Matrix product(const formats::Tensor& tensor, const HeldTypes& held);
  /// Three matrices; on a GPU they are adjacent in memory.
  std::array<kernels::Matrix, 3> neighbours(const std::array<formats::Tensor, 3>& tensors,
                                            const HeldTypes& held);
  /// The same of vectors. Nulls if there are none.
  std::array<const float*, 3> neighbours(std::span<const formats::Tensor> tensors);
  /// Converts matrices that are all in the newest buffer, and frees that buffer.
  void replace(std::span<kernels::Matrix> matrices, kernels::TensorType type);
  /// Makes matrices of equally many columns adjacent copies of a type.
  void convert(std::span<kernels::Matrix> matrices, kernels::TensorType type);
  void convert(kernels::Matrix& matrix, kernels::TensorType type, std::byte* to, float* scales);
  /// A rank's columns of a matrix; the others stay in the file.
  kernels::Matrix columns(const formats::Tensor& tensor, const HeldTypes& held, const Shard& shard);
  const float* vector(const formats::Tensor* tensor);
  const float* keep(const std::vector<float>& values);

  Device device_;
  WeightFormat format_;
  std::vector<Buffer<std::byte>> matrices_;
  std::vector<Buffer<float>> vectors_;
  std::map<const void*, kernels::TensorType> in_file_;  // of matrices that were converted
  std::size_t bytes_mapped_ = 0;
  std::size_t bytes_copied_ = 0;
};

}  // namespace attacca::model
