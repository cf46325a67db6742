// Tests of the list of kernels that multiply a model's matrices: where the fastest one cannot be
// used, the list says why.
#include "engine/products.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/llm.hpp>

#include "engine/quantized.hpp"
#include "model/small_model.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using engine::ProductDevice;
using engine::products_of;
using engine_tests::fixture;
using kernels::TensorType;
using llm::Product;
using model::LayerWeights;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr ProductDevice kHost{};
constexpr ProductDevice kCuda{.is_cuda = true, .has_tiled = false, .same_bits = true};
constexpr ProductDevice kHopper{.is_cuda = true, .has_tiled = true, .same_bits = true};

constexpr ProductDevice kFast{.is_cuda = true, .has_tiled = true};

constexpr const char* kAll = "query, key, value, output, gate, up, down";

/// Three layers in bf16 whose sizes suit every kernel. They have no data; nothing multiplies them.
model::Weights whole_weights() {
  model::ModelConfig sizes = test::SmallModel::sizes();
  sizes.architecture = model::find_architecture("llama");
  sizes.layers = 3;
  sizes.hidden = 64;
  sizes.feed_forward = 128;
  return {sizes, Device::host_serial(), 1};
}

void set_type(LayerWeights& w, TensorType type) {
  w.query.type = w.key.type = w.value.type = w.output.type = type;
  w.gate.type = w.up.type = w.down.type = type;
  // Adjacent, as Weights lays them out.
  w.key.data = w.query.row(w.query.rows);
  w.value.data = w.key.row(w.key.rows);
}

std::vector<std::string> lines(const model::Weights& weights, const ProductDevice& device) {
  std::vector<std::string> all;
  for (const Product& product : products_of(weights, device)) all.push_back(describe(product));
  return all;
}

TEST(Products, of_bf16_have_the_fast_kernels_of_each_gpu) {
  const model::Weights weights = whole_weights();
  const std::string matrices = std::string(kAll) + " in BF16; head in BF16: streamed_linear";
  EXPECT_THAT(lines(weights, kCuda), ElementsAre(matrices));
  EXPECT_THAT(lines(weights, kHopper), ElementsAre(matrices + ", tiled_linear for many rows"));
  EXPECT_THAT(lines(weights, kFast), ElementsAre(matrices + ", tiled_linear for many rows"));
}

TEST(Products,
     of_quantized_weights_stream_and_are_expanded_for_many_rows_but_not_for_the_same_bits) {
  model::Weights weights = whole_weights();
  for (LayerWeights& w : weights.layers) set_type(w, TensorType::q8_0);
  const std::string matrices = std::string(kAll) + " in Q8_0; head in BF16: streamed_linear";
  EXPECT_THAT(lines(weights, kCuda), ElementsAre(matrices));
  EXPECT_THAT(lines(weights, kHopper),
              ElementsAre(matrices + " (tiled_linear for many rows is for bf16 of 64n columns in "
                                     "all matrices, and query of layer 0 is Q8_0 of 64 columns)"));
  EXPECT_THAT(lines(weights, kFast),
              ElementsAre(std::string(kAll) +
                              " in Q8_0: streamed_linear, tiled_linear for many rows, expanded to "
                              "BF16",
                          "head in BF16: streamed_linear, tiled_linear for many rows"));
}

TEST(Products, of_fp8_weights_need_no_expansion) {
  model::Weights weights = whole_weights();
  for (LayerWeights& w : weights.layers) set_type(w, TensorType::e4m3);
  EXPECT_THAT(lines(weights, kFast),
              ElementsAre(std::string(kAll) +
                          " in E4M3; head in BF16: streamed_linear, tiled_linear for many rows"));
}

TEST(Products, of_f16_stream_and_are_tiled_as_they_are_but_not_for_the_same_bits) {
  model::Weights weights = whole_weights();
  for (LayerWeights& w : weights.layers) set_type(w, TensorType::f16);
  const std::string matrices = std::string(kAll) + " in F16; head in BF16: streamed_linear";
  EXPECT_THAT(lines(weights, kFast), ElementsAre(matrices + ", tiled_linear for many rows"));
  EXPECT_THAT(lines(weights, kHopper),
              ElementsAre(matrices + " (tiled_linear for many rows is for bf16 of 64n columns in "
                                     "all matrices, and query of layer 0 is F16 of 64 columns)"));
}

TEST(Products, of_columns_that_are_no_whole_stages_are_no_tiles) {
  model::Weights weights = whole_weights();
  for (LayerWeights& w : weights.layers) {
    set_type(w, TensorType::q4_1);
    w.down.columns = 96;
  }
  EXPECT_THAT(lines(weights, kFast)[0],
              HasSubstr("(tiled_linear for many rows is for 64n columns in all matrices, and down "
                        "of layer 0 is Q4_1 of 96 columns)"));
}

TEST(Products, of_a_type_without_a_streamed_kernel_are_plain_and_say_so) {
  model::Weights weights = whole_weights();
  for (LayerWeights& w : weights.layers) set_type(w, TensorType::f32);
  weights.head.type = TensorType::f32;
  const std::string reason = " (F32 has no streamed kernel)";
  EXPECT_THAT(lines(weights, kHopper),
              ElementsAre("query, key, value, output, down in F32; head in F32: linear" + reason,
                          "gate, up in F32: gated_linear" + reason));
}

TEST(Products, one_matrix_that_cannot_be_streamed_is_named_by_all_that_are_not) {
  model::Weights weights = whole_weights();
  weights.layers[1].down.type = TensorType::f32;
  const std::string others =
      " (layers are streamed all or none, and down of layer 1 is not: F32 has no streamed kernel)";
  EXPECT_THAT(
      lines(weights, kCuda),
      ElementsAre("query, key, value, output in BF16; down in BF16 of layers 0, 2; head in BF16: "
                  "linear" +
                      others,
                  "gate, up in BF16: gated_linear" + others,
                  "down in F32 of layers 1: linear (F32 has no streamed kernel)"));
}

TEST(Products, queries_keys_and_values_of_several_types_are_plain) {
  model::Weights weights = whole_weights();
  for (LayerWeights& w : weights.layers) w.value.type = TensorType::q8_0;
  EXPECT_THAT(lines(weights, kCuda)[0],
              "query, key in BF16; value in Q8_0: linear (query is BF16, key is BF16 and value is "
              "Q8_0, and one type is streamed)");
}

TEST(Products, a_head_of_odd_rows_is_plain_alone) {
  model::Weights weights = whole_weights();
  weights.head.rows = 50;
  EXPECT_THAT(
      lines(weights, kHopper),
      ElementsAre(std::string(kAll) + " in BF16: streamed_linear, tiled_linear for many rows",
                  "head in BF16: linear (50 x 64 is not 16n rows of 32n columns)"));
}

TEST(Products, the_host_multiplies_quantized_weights_as_integers_where_neighbours_agree) {
  model::Weights weights = whole_weights();
  EXPECT_THAT(lines(weights, kHost),
              ElementsAre(std::string(kAll) + " in BF16; head in BF16: float tiles"));
  for (LayerWeights& w : weights.layers) set_type(w, TensorType::q4_0);
  EXPECT_THAT(lines(weights, kHost), ElementsAre(StartsWith(std::string(kAll) + " in Q4_0: integer "
                                                                                "tiles ("),
                                                 "head in BF16: float tiles"));
  weights.layers[2].up.type = TensorType::f16;
  EXPECT_THAT(lines(weights, kHost)[1],
              "gate in Q4_0 of layers 2; up in F16 of layers 2: float tiles (gate is Q4_0 and up "
              "is F16, so quantized ones are unpacked to floats)");
}

class ProductsOfAnEngine : public test::OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(ProductsOfAnEngine);

TEST_P(ProductsOfAnEngine, are_those_of_its_weights_and_its_device) {
  const test::TemporaryFolder folder;
  const std::string quantized = folder.path() / "qwen2.gguf";
  engine_tests::write_quantized("qwen2", TensorType::q8_0, quantized);
  llm::EngineOptions options;
  options.device = device();
  options.graphs = llm::GraphMode::off;
  const auto first = [&](const std::string& path) {
    return llm::Engine(llm::Model(path), options).products().front();
  };
  const Product floats = first(fixture("llama"));
  EXPECT_THAT(floats.matrices, HasSubstr("in F32"));
  EXPECT_EQ(floats.kernel, is_cuda() ? "linear" : "float tiles");
  EXPECT_EQ(floats.reason, is_cuda() ? "F32 has no streamed kernel" : "");
  const Product blocks = first(quantized);
  EXPECT_THAT(blocks.matrices, HasSubstr("in Q8_0"));
  EXPECT_THAT(blocks.kernel,
              is_cuda() ? StartsWith("streamed_linear") : StartsWith("integer tiles"));
  EXPECT_THAT(blocks.reason, Not(HasSubstr("streamed")));
}

}  // namespace
}  // namespace attacca
