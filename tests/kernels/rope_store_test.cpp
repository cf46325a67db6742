// Tests of RoPE and of storing keys and values in pages, against doubles.
#include "kernels/attention/rope_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/paged_cells.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::rope_store_test {
namespace {

using kernels::RotaryPairs;

constexpr float kEpsilon = 1e-6f;
constexpr float kUntouched = -77;
constexpr std::uint32_t kHeads = 6;
constexpr std::uint32_t kKvHeads = 2;
constexpr std::uint32_t kPageSize = 16;

struct Case {
  std::uint32_t head_size;
  std::uint32_t rotary_size;
  RotaryPairs pairs;
  bool has_norms;
};

struct Step {
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> slots;
  std::uint32_t count;  // of rows; the others are padding
};

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// One head, normalized if there is a norm, then rotated.
std::vector<double> rotated(const float* head, const Case& c, std::int32_t position,
                            const std::vector<float>& frequencies, const float* norm) {
  std::vector<double> x(head, head + c.head_size);
  if (norm) {
    double sum = 0;
    for (const double element : x) sum += element * element;
    for (std::size_t at = 0; at < x.size(); ++at)
      x[at] *= norm[at] / std::sqrt(sum / c.head_size + kEpsilon);
  }
  const std::size_t half = c.rotary_size / 2;
  for (std::size_t at = 0; at < half; ++at) {
    const long double angle = static_cast<long double>(position) * frequencies[at];
    const double sine = static_cast<double>(std::sin(angle));
    const double cosine = static_cast<double>(std::cos(angle));
    double& a = c.pairs == RotaryPairs::adjacent ? x[2 * at] : x[at];
    double& b = c.pairs == RotaryPairs::adjacent ? x[2 * at + 1] : x[at + half];
    const double first = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = first;
  }
  return x;
}

void expect_near(const float* x, const std::vector<double>& expected) {
  for (std::size_t at = 0; at < expected.size(); ++at)
    ASSERT_NEAR(x[at], expected[at], 2e-6 * (1 + std::abs(expected[at]))) << "element " << at;
}

class RopeStore : public OnEachDevice {
 protected:
  struct Result {
    std::vector<float> qkv;
    std::vector<float> keys;
    std::vector<float> values;
  };

  /// `table` is that of two slots of equal length.
  Result run_step(const Case& c, const Step& step, const std::vector<float>& qkv,
                  const std::vector<std::int32_t>& table, const std::vector<float>& frequencies,
                  const std::vector<float>& norm) {
    const auto rows = static_cast<std::uint32_t>(step.positions.size());
    const std::size_t cells = table.size() * kKvHeads * kPageSize * c.head_size;
    const Buffer<float> x = buffer(qkv);
    const Buffer<float> keys = buffer(std::vector<float>(cells, kUntouched));
    const Buffer<float> values = buffer(std::vector<float>(cells, kUntouched));
    const Buffer<std::int32_t> tables = buffer(table);
    const Buffer<std::int32_t> positions = buffer(step.positions);
    const Buffer<std::int32_t> slots = buffer(step.slots);
    const Buffer<float> angles = buffer(frequencies);
    const Buffer<float> norms = buffer(norm);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({step.count});
    const kernels::RopeStoreArgs args{
        .qkv = x.data(),
        .rows = {counts.data(), rows},
        .positions = positions.data(),
        .slots = slots.data(),
        .frequencies = angles.data(),
        .query_norm = c.has_norms ? norms.data() : nullptr,
        .key_norm = c.has_norms ? norms.data() + c.head_size : nullptr,
        .epsilon = kEpsilon,
        .pairs = c.pairs,
        .rotary_size = c.rotary_size,
        .heads = kHeads,
        .kv = {keys.data(), values.data(), tables.data(),
               static_cast<std::uint32_t>(table.size() / 2), kPageSize, kKvHeads, c.head_size}};
    stream().kernel(kernels::rope_store(), kernels::grid_of(args, is_cuda()), args);
    stream().synchronize();
    return {x.read(), keys.read(), values.read()};
  }
};
ATTACCA_ON_EACH_DEVICE(RopeStore);

TEST_P(RopeStore, queries_rotate_in_place_and_keys_and_values_reach_their_pages) {
  const Step step{{0, 5, 31, 17, 46}, {0, 0, 1, 1, 0}, 4};
  const std::vector<std::int32_t> table{3, 0, 5, 1, 4, 2};
  for (const Case& c :
       {Case{64, 64, RotaryPairs::halves, false}, Case{64, 64, RotaryPairs::adjacent, true},
        Case{8, 8, RotaryPairs::halves, false}, Case{48, 48, RotaryPairs::adjacent, false},
        Case{80, 20, RotaryPairs::halves, true}, Case{80, 20, RotaryPairs::adjacent, false},
        Case{256, 256, RotaryPairs::halves, true}}) {
    const std::uint32_t row_size = (kHeads + 2 * kKvHeads) * c.head_size;
    const auto qkv = random_floats(std::size_t{5} * row_size, 1);
    const auto norm = random_floats(2 * c.head_size, 2);
    std::vector<float> frequencies;
    for (std::uint32_t at = 0; at < c.rotary_size / 2; ++at)
      frequencies.push_back(
          std::pow(10000.0f, -2.0f * static_cast<float>(at) / static_cast<float>(c.rotary_size)));
    const Result result = run_step(c, step, qkv, table, frequencies, norm);

    std::size_t stored = 0;
    for (std::uint32_t row = 0; row < step.count; ++row) {
      const std::int32_t position = step.positions[row];
      const float* before = &qkv[std::size_t{row} * row_size];
      for (std::uint32_t head = 0; head < kHeads; ++head)
        expect_near(&result.qkv[std::size_t{row} * row_size + head * c.head_size],
                    rotated(before + head * c.head_size, c, position, frequencies,
                            c.has_norms ? norm.data() : nullptr));
      const std::int32_t page =
          table[static_cast<std::size_t>(step.slots[row] * 3 + position / 16)];
      for (std::uint32_t head = 0; head < kKvHeads; ++head, stored += c.head_size) {
        const std::size_t cell = ((static_cast<std::size_t>(page) * kKvHeads + head) * kPageSize +
                                  static_cast<std::size_t>(position % 16)) *
                                 c.head_size;
        const float* key = before + (kHeads + head) * c.head_size;
        expect_near(&result.keys[cell], rotated(key, c, position, frequencies,
                                                c.has_norms ? &norm[c.head_size] : nullptr));
        const float* value = key + kKvHeads * c.head_size;
        expect_near(&result.values[cell], {value, value + c.head_size});
      }
    }
    // Padding rows are neither rotated nor stored.
    for (std::size_t at = std::size_t{4} * row_size; at < qkv.size(); ++at)
      ASSERT_EQ(result.qkv[at], qkv[at]);
    const auto untouched = [](const std::vector<float>& cells) {
      return static_cast<std::size_t>(std::count(cells.begin(), cells.end(), kUntouched));
    };
    EXPECT_EQ(untouched(result.keys), result.keys.size() - stored);
    EXPECT_EQ(untouched(result.values), result.values.size() - stored);
  }
}

TEST_P(RopeStore, a_row_is_the_same_bits_alone_and_in_a_batch) {
  const Case c{48, 48, RotaryPairs::halves, true};
  const std::uint32_t row_size = (kHeads + 2 * kKvHeads) * c.head_size;
  const std::vector<std::int32_t> table{3, 0, 5, 1, 4, 2};
  const auto qkv = random_floats(std::size_t{40} * row_size, 4);
  const auto norm = random_floats(2 * c.head_size, 5);
  const auto frequencies = random_floats(c.rotary_size / 2, 6);
  Step step{{}, std::vector<std::int32_t>(40, 0), 40};
  for (std::int32_t row = 0; row < 40; ++row) step.positions.push_back(row);
  const Result all = run_step(c, step, qkv, table, frequencies, norm);
  for (std::size_t row = 0; row < 40; row += 13) {
    const float* first = &qkv[row * row_size];
    const Result alone = run_step(c, {{step.positions[row]}, {0}, 1}, {first, first + row_size},
                                  table, frequencies, norm);
    EXPECT_EQ(std::memcmp(alone.qkv.data(), &all.qkv[row * row_size], row_size * sizeof(float)), 0)
        << "row " << row;
  }
}

TEST_P(RopeStore, keys_and_values_are_rounded_to_the_type_of_their_pages) {
  const Case c{80, 40, RotaryPairs::halves, true};
  const Step step{{3, 30, 17}, {0, 0, 1}, 3};
  const std::vector<std::int32_t> table{3, 0, 1, 2};
  const auto qkv = random_floats(std::size_t{3} * (kHeads + 2 * kKvHeads) * c.head_size, 7);
  const auto norm = random_floats(2 * c.head_size, 8);
  const auto frequencies = random_floats(c.rotary_size / 2, 9);
  const Result exact = run_step(c, step, qkv, table, frequencies, norm);
  const Buffer<std::int32_t> tables = buffer(table);
  const Buffer<std::int32_t> positions = buffer(step.positions);
  const Buffer<std::int32_t> slots = buffer(step.slots);
  const Buffer<float> angles = buffer(frequencies);
  const Buffer<float> norms = buffer(norm);
  const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({3});
  for (const KvType type : {KvType::bf16, KvType::f16, KvType::fp8}) {
    const Cells nothing(exact.keys.size(), type);
    const Buffer<float> x = buffer(qkv);
    const Buffer<unsigned char> keys = buffer(nothing.bytes());
    const Buffer<unsigned char> values = buffer(nothing.bytes());
    const kernels::RopeStoreArgs args{
        x.data(),
        {counts.data(), 3},
        positions.data(),
        slots.data(),
        angles.data(),
        norms.data(),
        norms.data() + c.head_size,
        kEpsilon,
        c.pairs,
        c.rotary_size,
        kHeads,
        {keys.data(), values.data(), tables.data(), 2, kPageSize, kKvHeads, c.head_size, type}};
    if (!is_cuda()) {
      EXPECT_THROW(kernels::grid_of(args, false), BadArgument);
      continue;
    }
    stream().kernel(kernels::rope_store(), kernels::grid_of(args, true), args);
    stream().synchronize();
    EXPECT_EQ(x.read(), exact.qkv);
    const auto expect_rounded = [&](const Cells& cells, const std::vector<float>& expected) {
      for (std::size_t at = 0; at < expected.size(); ++at) {
        ASSERT_EQ(cells.is_number(at), expected[at] != kUntouched) << "cell " << at;
        if (cells.is_number(at)) {
          ASSERT_NEAR(*cells.at(at), expected[at], rounding_of(expected[at], type));
        }
      }
    };
    expect_rounded(Cells(keys.read(), type), exact.keys);
    expect_rounded(Cells(values.read(), type), exact.values);
  }
}

TEST_P(RopeStore, angles_of_late_positions_are_exact) {
  const Case c{16, 16, RotaryPairs::halves, false};
  const Step step{{999'999, 131'071}, {0, 0}, 2};
  const std::uint32_t row_size = (kHeads + 2 * kKvHeads) * c.head_size;
  const auto qkv = random_floats(std::size_t{2} * row_size, 3);
  const std::vector<std::int32_t> table(2 * 62'500, 0);
  const std::vector<float> frequencies{1, 0.7f, 0.31f, 0.1f, 0.03f, 0.01f, 0.001f, 0.0001f};
  // All positions are in one page; run_step would make as many pages as the table has entries.
  const Buffer<float> x = buffer(qkv);
  const Buffer<float> cells = buffer(std::vector<float>(kKvHeads * kPageSize * c.head_size));
  const Buffer<std::int32_t> tables = buffer(table);
  const Buffer<std::int32_t> positions = buffer(step.positions);
  const Buffer<std::int32_t> slots = buffer(step.slots);
  const Buffer<float> angles = buffer(frequencies);
  const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({2});
  const kernels::RopeStoreArgs args{
      x.data(),
      {counts.data(), 2},
      positions.data(),
      slots.data(),
      angles.data(),
      nullptr,
      nullptr,
      kEpsilon,
      c.pairs,
      c.rotary_size,
      kHeads,
      {cells.data(), cells.data(), tables.data(), 62'500, kPageSize, kKvHeads, c.head_size}};
  stream().kernel(kernels::rope_store(), kernels::grid_of(args, is_cuda()), args);
  stream().synchronize();
  const std::vector<float> result = x.read();
  for (std::size_t row = 0; row < 2; ++row)
    expect_near(&result[row * row_size],
                rotated(&qkv[row * row_size], c, step.positions[row], frequencies, nullptr));
}

}  // namespace
}  // namespace attacca::test::rope_store_test
