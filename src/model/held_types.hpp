// held_types.hpp: decides in which type a GPU holds each matrix of a file, before anything is
// loaded. Streamed kernels read BF16, Q8_0, Q4_0 and Q4_1, so K-quants are held as Q4_1 or Q8_0.
// Quantized matrices of several types that one kernel multiplies together are held as Q8_0.
#pragma once

#include <map>
#include <string>

#include "formats/tensor.hpp"
#include "kernels/matrix.hpp"
#include "model/weights.hpp"

namespace attacca::model {

class HeldTypes {
 public:
  HeldTypes(const Checkpoint& checkpoint, WeightFormat format);

  /// The type of a matrix that is multiplied, in a layer or as the head. The embedding keeps its
  /// own.
  kernels::TensorType of(const formats::Tensor& tensor) const;
  /// Whether all layers can be streamed. If one cannot, all are held as stored.
  bool are_layers_streamed() const { return are_layers_streamed_; }

 private:
  WeightFormat format_;
  bool are_layers_streamed_ = true;
  std::map<std::string, kernels::TensorType> held_;  // by product; see product_of
};

}  // namespace attacca::model
