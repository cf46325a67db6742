// Tests of model files with all matrices in float32.
#include "model/dequantized.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "model/packed_model.hpp"

namespace attacca::test::dequantized_test {
namespace {

using kernels::TensorType;
using model::Checkpoint;
using model::WeightFormat;

/// A checkpoint that was written dequantized, and opened again.
class Written {
 public:
  Written(const Checkpoint& from, WeightFormat format) {
    const std::filesystem::path file = folder_.path() / "floats.gguf";
    model::write_dequantized(from, format, file);
    written_.emplace(Checkpoint::open(file));
  }
  const Checkpoint& checkpoint() const { return *written_; }

 private:
  TemporaryFolder folder_;
  std::optional<Checkpoint> written_;
};

TEST(Dequantized, a_file_has_the_same_elements_in_float32) {
  for (const TensorType type : {TensorType::f16, TensorType::q4_1, TensorType::q5_k}) {
    const std::string file = packed_model(type);
    const Checkpoint from = Checkpoint::parse(bytes_of(file), "packed");
    const Written floats(from, WeightFormat::as_stored);
    ASSERT_EQ(floats.checkpoint().tensors().size(), from.tensors().size());
    for (const formats::Tensor& tensor : from.tensors()) {
      const formats::Tensor& written = *floats.checkpoint().find(tensor.name);
      EXPECT_EQ(written.type, TensorType::f32);
      EXPECT_EQ(model::elements_of(matrix_of(written)), model::elements_of(matrix_of(tensor)));
    }
  }
}

TEST(Dequantized, in_fp8_all_but_the_embedding_is_rounded_to_four_bits) {
  const std::string file = packed_model(TensorType::q8_0, false);
  const Checkpoint from = Checkpoint::parse(bytes_of(file), "packed");
  const Written floats(from, WeightFormat::fp8);
  const auto elements_of = [](const formats::Tensor& tensor) {
    return model::elements_of(matrix_of(tensor));
  };
  EXPECT_EQ(elements_of(*floats.checkpoint().find("token_embd.weight")),
            elements_of(*from.find("token_embd.weight")));
  for (const char* name : {"output.weight", "blk.1.ffn_down.weight"}) {
    const formats::Tensor* before = from.find(name);
    const auto exact = elements_of(before ? *before : from.head());
    const auto rounded = elements_of(*floats.checkpoint().find(name));
    ASSERT_EQ(rounded.size(), exact.size());
    EXPECT_NE(rounded, exact);
    for (std::size_t i = 0; i < exact.size(); ++i)
      ASSERT_NEAR(rounded[i], exact[i], std::abs(exact[i]) / 16 + 1e-5) << name;
  }
}

}  // namespace
}  // namespace attacca::test::dequantized_test
