// Tests of weights in both formats, from a file and random ones.
#include "model/weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/quantization.hpp"
#include "model/checkpoint.hpp"
#include "model/held_types.hpp"
#include "model/packed_model.hpp"
#include "model/small_model.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::Matrix;
using kernels::TensorType;
using model::WeightFormat;
using model::Weights;

/// Sizes that are multiples of 32, except for the vocabulary, which is a multiple of 16.
model::ModelConfig even_sizes() {
  model::ModelConfig sizes = SmallModel::sizes();
  sizes.architecture = model::find_architecture("llama");
  sizes.feed_forward = 64;
  return sizes;
}

/// The file of a model of these sizes, in F32.
std::string even_model(bool has_head) {
  const model::ModelConfig sizes = even_sizes();
  SmallModel model("llama", true, has_head);
  for (const model::TensorRule& rule : sizes.architecture->tensors)
    for (std::uint32_t layer = 0; layer < (rule.is_per_layer() ? 2 : 1); ++layer) {
      if (!model.shapes.contains(rule.name_in(layer))) continue;
      std::vector<std::uint64_t> shape;
      for (const model::Size size : rule.shape) shape.push_back(model::size_in(sizes, size));
      model.add(rule.name_in(layer), shape);
    }
  return text_of(model.writer(sizes));
}

/// Every matrix of a layer.
constexpr kernels::Matrix model::LayerWeights::*kMatrices[] = {
    &model::LayerWeights::query,  &model::LayerWeights::key,  &model::LayerWeights::value,
    &model::LayerWeights::output, &model::LayerWeights::gate, &model::LayerWeights::up,
    &model::LayerWeights::down};

class ModelWeights : public OnEachDevice {
 protected:
  /// The elements of a matrix on the device, times their rows' scales.
  std::vector<float> numbers(const Matrix& matrix) {
    std::vector<std::byte> bytes(matrix.bytes());
    std::vector<float> scales(matrix.rows, 1);
    stream().copy(bytes.data(), matrix.data, bytes.size());
    if (matrix.scales) stream().copy(scales.data(), matrix.scales, scales.size() * sizeof(float));
    stream().synchronize();
    const Matrix here{bytes.data(), matrix.type, matrix.rows, matrix.columns};
    std::vector<float> result;
    for (std::uint32_t row = 0; row < matrix.rows; ++row)
      for (std::uint32_t i = 0; i < matrix.columns; ++i)
        result.push_back(kernels::element(here.type, here.row(row), i) * scales[row]);
    return result;
  }

  /// Checks that they are the same numbers within e4m3's rounding.
  void expect_near(const Matrix& stored, const Matrix& converted) {
    ASSERT_EQ(converted.type, TensorType::e4m3);
    ASSERT_EQ(converted.rows, stored.rows);
    ASSERT_EQ(converted.columns, stored.columns);
    const std::vector<float> expected = numbers(stored);
    const std::vector<float> result = numbers(converted);
    float largest = 0;
    for (const float value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t at = 0; at < expected.size(); ++at)
      ASSERT_NEAR(result[at], expected[at], std::abs(expected[at]) / 15 + largest / 200000) << at;
  }
  void expect_near(const Weights& stored, const Weights& converted) {
    expect_near(stored.head, converted.head);
    for (std::size_t i = 0; i < stored.layers.size(); ++i) {
      const model::LayerWeights& s = stored.layers[i];
      const model::LayerWeights& c = converted.layers[i];
      for (const auto member : kMatrices) expect_near(s.*member, c.*member);
      EXPECT_EQ(c.query.row(c.query.rows), c.key.data);
      EXPECT_EQ(c.key.row(c.key.rows), c.value.data);
      EXPECT_EQ(c.query.scales + c.query.rows, c.key.scales);
      EXPECT_EQ(c.key.scales + c.key.rows, c.value.scales);
    }
  }
};
ATTACCA_ON_EACH_DEVICE(ModelWeights);

TEST_P(ModelWeights, fp8_is_refused_where_nothing_multiplies_it) {
  if (is_cuda()) GTEST_SKIP() << "a GPU does";
  const std::string file = even_model(true);
  const auto checkpoint = model::Checkpoint::parse(bytes_of(file), "small");
  const auto refusal = testing::ThrowsMessage<BadArgument>(testing::HasSubstr("fp8 need a CUDA"));
  EXPECT_THAT([&] { Weights(checkpoint, device(), {}, WeightFormat::fp8); }, refusal);
  EXPECT_THAT([&] { Weights(even_sizes(), device(), 1, WeightFormat::fp8); }, refusal);
}

TEST_P(ModelWeights, all_products_of_a_file_can_be_had_in_fp8) {
  if (!is_cuda()) GTEST_SKIP() << "for a GPU";
  for (const bool has_head : {true, false}) {
    const std::string file = even_model(has_head);
    const auto checkpoint = model::Checkpoint::parse(bytes_of(file), "small");
    const Weights stored(checkpoint, device());
    const Weights converted(checkpoint, device(), {}, WeightFormat::fp8);
    EXPECT_EQ(converted.embedding.type, TensorType::f32);
    EXPECT_EQ(numbers(converted.embedding), numbers(stored.embedding));
    expect_near(stored, converted);
    EXPECT_LT(converted.bytes_copied(), stored.bytes_copied());
  }
}

TEST_P(ModelWeights, random_weights_are_the_same_in_fp8) {
  if (!is_cuda()) GTEST_SKIP() << "for a GPU";
  for (const bool is_tied : {true, false}) {
    model::ModelConfig sizes = even_sizes();
    sizes.is_tied = is_tied;
    const Weights stored(sizes, device(), 5);
    const Weights converted(sizes, device(), 5, WeightFormat::fp8);
    EXPECT_EQ(converted.embedding.type, TensorType::bf16);
    expect_near(stored, converted);
  }
}

/// Types as llama.cpp mixes them: most of a file in Q4_K, values and `down` of some layers in Q6_K.
TensorType mixed_type(const std::string& name) {
  return name == "blk.1.attn_v.weight" || name == "blk.1.ffn_down.weight" ||
                 name == "token_embd.weight"
             ? TensorType::q6_k
             : TensorType::q4_k;
}

TEST_P(ModelWeights, k_quants_are_held_in_types_that_a_gpu_streams_and_nearly_the_same_numbers) {
  const std::string file = packed_model(mixed_type, false);
  const auto checkpoint = model::Checkpoint::parse(bytes_of(file), "packed");
  const Weights stored(checkpoint, Device::host());
  const Weights held(checkpoint, device());
  const TensorType wide = is_cuda() ? TensorType::q8_0 : TensorType::q6_k;
  const TensorType narrow = is_cuda() ? TensorType::q4_1 : TensorType::q4_k;
  EXPECT_EQ(held.embedding.type, TensorType::q6_k);
  EXPECT_EQ(held.head.type, wide);
  EXPECT_EQ(held.type_in_file(held.head), TensorType::q6_k);
  EXPECT_EQ(held.layers[0].value.type, narrow);
  EXPECT_EQ(held.layers[1].query.type, is_cuda() ? TensorType::q8_0 : TensorType::q4_k)
      << "query, key and value are one product";
  EXPECT_EQ(held.type_in_file(held.layers[1].key), TensorType::q4_k);
  EXPECT_EQ(held.layers[1].output.type, narrow);
  EXPECT_EQ(held.layers[1].down.type, wide);
  const auto expect_close = [&](const Matrix& there, const Matrix& here) {
    std::vector<float> expected;
    for (std::uint32_t row = 0; row < here.rows; ++row)
      for (std::uint32_t i = 0; i < here.columns; ++i)
        expected.push_back(kernels::element(here.type, here.row(row), i));
    const std::vector<float> result = numbers(there);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(result[i] - expected[i], 2);
      size += std::pow(expected[i], 2);
    }
    EXPECT_LT(std::sqrt(difference / size), 5e-3);
  };
  expect_close(held.head, stored.head);
  for (std::size_t i = 0; i < stored.layers.size(); ++i)
    for (const auto matrix : kMatrices)
      expect_close(held.layers[i].*matrix, stored.layers[i].*matrix);
}

TEST(HeldTypes, of_a_model_that_cannot_be_streamed_are_those_of_the_file) {
  const std::string file = packed_model([](const std::string& name) {
    return name == "blk.0.ffn_up.weight" ? TensorType::f16 : TensorType::q4_k;
  });
  const auto checkpoint = model::Checkpoint::parse(bytes_of(file), "packed");
  const model::HeldTypes held(checkpoint, WeightFormat::as_stored);
  EXPECT_FALSE(held.are_layers_streamed());
  EXPECT_EQ(held.of(*checkpoint.find("blk.0.ffn_up.weight")), TensorType::f16);
  EXPECT_EQ(held.of(*checkpoint.find("blk.0.ffn_gate.weight")), TensorType::q4_k);
  EXPECT_EQ(held.of(*checkpoint.find("blk.1.attn_q.weight")), TensorType::q4_k);
  EXPECT_EQ(held.of(checkpoint.head()), TensorType::q4_1) << "the head is a product of its own";
  const model::HeldTypes in_fp8(checkpoint, WeightFormat::fp8);
  EXPECT_TRUE(in_fp8.are_layers_streamed());
  EXPECT_EQ(in_fp8.of(*checkpoint.find("blk.0.ffn_up.weight")), TensorType::e4m3);
}

TEST_P(ModelWeights, a_matrix_that_is_not_whole_tiles_is_refused_in_fp8_with_its_size) {
  if (!is_cuda()) GTEST_SKIP() << "for a GPU";
  const std::string file = text_of(SmallModel("llama", true, true).writer());
  const auto checkpoint = model::Checkpoint::parse(bytes_of(file), "small");
  EXPECT_THAT([&] { Weights(checkpoint, device(), {}, WeightFormat::fp8); },
              testing::ThrowsMessage<BadArgument>(testing::HasSubstr("40 x 32")));
}

}  // namespace
}  // namespace attacca::test
