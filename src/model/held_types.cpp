// held_types.cpp: joins the matrices of each product, gives them a type that can be streamed, and
// asks the streamed kernels whether they take it.
#include "model/held_types.hpp"

#include "kernels/linear/streamed_linear.hpp"
#include "model/checkpoint.hpp"

namespace attacca::model {

namespace {

using kernels::Matrix;
using kernels::TensorType;

constexpr const char* kQkv = ".qkv";

/// The name of the product that multiplies a tensor. Query, key and value of a layer are one
/// product, and so are gate and up.
std::string product_of(const std::string& tensor) {
  const auto with = [&](const char* name, const char* instead) -> std::string {
    const std::size_t at = tensor.find(name);
    return at == std::string::npos ? "" : tensor.substr(0, at) + instead;
  };
  for (const char* name : {".attn_q.weight", ".attn_k.weight", ".attn_v.weight"})
    if (const std::string product = with(name, kQkv); !product.empty()) return product;
  for (const char* name : {".ffn_gate.weight", ".ffn_up.weight"})
    if (const std::string product = with(name, ".gate_up"); !product.empty()) return product;
  return tensor;
}

/// The nearest type that can be streamed; F32 has none.
TensorType streamed_type(TensorType stored) {
  switch (stored) {
    case TensorType::q4_k:
      return TensorType::q4_1;
    case TensorType::q5_k:
    case TensorType::q6_k:
      return TensorType::q8_0;
    default:
      return stored;
  }
}

}  // namespace

HeldTypes::HeldTypes(const Checkpoint& checkpoint, WeightFormat format) : format_(format) {
  std::map<std::string, Matrix> products;
  const std::string head = product_of(checkpoint.head().name);
  for (const formats::Tensor& tensor : checkpoint.tensors()) {
    const bool is_head = &tensor == &checkpoint.head();
    if (tensor.shape.size() != 2 || (tensor.name == "token_embd.weight" && !is_head)) continue;
    Matrix matrix = formats::matrix_of(tensor);
    matrix.type = format == WeightFormat::fp8 ? TensorType::e4m3 : streamed_type(matrix.type);
    const auto [found, is_first] = products.try_emplace(product_of(tensor.name), matrix);
    if (is_first) continue;
    Matrix& joint = found->second;
    if (joint.type != matrix.type) {
      are_layers_streamed_ &= is_quantized(joint.type) && is_quantized(matrix.type);
      joint.type = TensorType::q8_0;
    }
    if (found->first.ends_with(kQkv)) joint.rows += matrix.rows;  // stacked as one matrix
  }
  for (const auto& [name, matrix] : products)
    if (name != head) are_layers_streamed_ &= kernels::can_stream_weights(matrix);
  for (const auto& [name, matrix] : products)
    if (kernels::can_stream_weights(matrix) && (are_layers_streamed_ || name == head))
      held_.emplace(name, matrix.type);
}

TensorType HeldTypes::of(const formats::Tensor& tensor) const {
  if (format_ == WeightFormat::fp8) return TensorType::e4m3;
  const auto found = held_.find(product_of(tensor.name));
  return found == held_.end() ? tensor.type : found->second;
}

}  // namespace attacca::model
