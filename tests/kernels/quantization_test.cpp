// Tests of the tensor types against the `gguf` package: fixtures/quantized.json, written by
// make_quantized.py.
#include "kernels/quantization.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attacca::test {
namespace {

using kernels::TensorType;

std::vector<unsigned char> bytes_of(const std::string& hex) {
  std::vector<unsigned char> bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2)
    bytes.push_back(static_cast<unsigned char>(std::stoi(hex.substr(at, 2), nullptr, 16)));
  return bytes;
}

TEST(Quantization, each_type_means_what_the_gguf_package_says) {
  std::ifstream file("tests/kernels/fixtures/quantized.json");
  ASSERT_TRUE(file) << "run from the repository's root";
  const nlohmann::json fixture = nlohmann::json::parse(file);
  for (unsigned index = 0; index < kernels::kTensorTypes; ++index) {
    const TensorType type{index};
    SCOPED_TRACE(kernels::type_name(type));
    const auto& entry = fixture.at(kernels::type_name(type));
    const auto bytes = bytes_of(entry.at("bytes"));
    const auto raw = bytes_of(entry.at("values"));
    std::vector<float> expected(raw.size() / sizeof(float));
    std::memcpy(expected.data(), raw.data(), raw.size());
    ASSERT_EQ(bytes.size(), kernels::row_bytes(type, expected.size()));
    // A block's offset may cancel the product, so the rounding error is relative to the largest
    // value.
    float largest = 0;
    for (const float value : expected) largest = std::max(largest, std::abs(value));
    const float tolerance = kernels::is_quantized(type) ? largest * 1e-7f : 0;
    for (std::uint32_t column = 0; column < expected.size(); ++column)
      ASSERT_NEAR(kernels::element(type, bytes.data(), column), expected[column], tolerance)
          << "column " << column;
  }
}

TEST(Quantization, every_half_is_the_number_it_stands_for) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    const float value = kernels::float_of_half(static_cast<std::uint16_t>(bits));
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(value), fraction != 0) << bits;
      ASSERT_EQ(std::isinf(value), fraction == 0) << bits;
    } else {
      const float magnitude = exponent == 0
                                  ? std::ldexp(static_cast<float>(fraction), -24)
                                  : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
      ASSERT_EQ(std::abs(value), magnitude) << bits;
    }
    ASSERT_EQ(std::signbit(value), bits >> 15 == 1) << bits;
  }
}

}  // namespace
}  // namespace attacca::test
