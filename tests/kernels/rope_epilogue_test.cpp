// Tests of RoPE in the epilogue of a product: it stores the bits that the product and rope_store
// store one after another, for every tile, head and type; and of what it takes of each row.
#include "kernels/attention/rope_epilogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "kernels/attention/prompt_runs.hpp"
#include "kernels/e4m3_weights.hpp"
#include "kernels/on_each_hopper.hpp"
#include "kernels/paged_cells.hpp"

namespace attacca::test {
namespace {

using kernels::Angle;
using kernels::RotaryPairs;
using kernels::TensorType;

/// Rows of a step: runs of these lengths, each of a slot of its own, at increasing positions.
struct Rows {
  Rows(std::uint32_t count, std::uint32_t capacity)
      : positions(capacity, 1 << 30), slots(capacity, 1 << 30) {
    constexpr std::uint32_t kLengths[] = {70, 1, 3, 64, 63, 150};
    for (std::uint32_t row = 0; row < count; ++used_slots) {
      const std::uint32_t first = 7 * used_slots;
      const std::uint32_t length =
          std::min(count - row, kLengths[used_slots % std::size(kLengths)]);
      for (std::uint32_t i = 0; i < length; ++i, ++row) {
        positions[row] = static_cast<std::int32_t>(first + i);
        slots[row] = static_cast<std::int32_t>(used_slots);
      }
      ends.push_back(first + length);
      long_runs.insert(long_runs.end(), length, length >= kernels::kLongRun);
    }
    if (ends.empty()) ends.push_back(1);
    long_runs.resize(capacity, 7);
  }
  std::vector<std::int32_t> positions, slots;
  std::vector<std::uint32_t> ends;       // of the positions of each slot
  std::vector<std::uint32_t> long_runs;  // whether a row is in one; 7: no row
  std::uint32_t used_slots = 0;
};

std::vector<float> frequencies_of(std::uint32_t half) {
  std::vector<float> frequencies;
  for (std::uint32_t i = 0; i < half; ++i)
    frequencies.push_back(std::pow(5e5f, -static_cast<float>(i) / static_cast<float>(half)));
  return frequencies;
}

class RopeRows : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(RopeRows);

TEST_P(RopeRows, have_angles_and_cells_of_their_positions_and_know_long_runs) {
  constexpr std::uint32_t kSize = 64, kHalf = kSize / 2, kNone = 7;
  for (const std::uint32_t count : {0u, 1u, 63u, 64u, 500u}) {
    const std::uint32_t capacity = count + 5;
    const Rows rows(count, capacity);
    const Tables table(rows.ends, 32);
    const Buffer<std::int32_t> positions = buffer(rows.positions), slots = buffer(rows.slots);
    const Buffer<std::int32_t> tables = buffer(table.pages);
    const Buffer<float> frequencies = buffer(frequencies_of(kHalf));
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
    const Buffer<Angle> angles = buffer(std::vector<Angle>(capacity * kHalf, {kUntouched, 0}));
    const Buffer<std::uint32_t> cells = buffer(std::vector<std::uint32_t>(capacity, kNone));
    const Buffer<std::uint32_t> long_runs = buffer(cells.read());
    const kernels::RopeRowsArgs args{
        .rows = {counts.data(), capacity},
        .positions = positions.data(),
        .slots = slots.data(),
        .frequencies = frequencies.data(),
        .kv = {nullptr, nullptr, tables.data(), table.stride, 32, 3, kSize},
        .to = {angles.data(), cells.data(), long_runs.data()}};
    stream().kernel(kernels::rope_rows(), grid_of(args, is_cuda()), args);
    stream().synchronize();
    EXPECT_EQ(long_runs.read(), rows.long_runs);
    const std::vector<Angle> got = angles.read();
    const std::vector<std::uint32_t> cell = cells.read();
    const std::vector<float> of = frequencies.read();
    for (std::uint32_t row = 0; row < capacity; ++row) {
      if (row >= count) {
        ASSERT_EQ(got[row * kHalf].cosine, kUntouched) << "a row that is not there";
        ASSERT_EQ(cell[row], kNone);
        continue;
      }
      const auto position = static_cast<std::uint32_t>(rows.positions[row]);
      const auto slot = static_cast<std::uint32_t>(rows.slots[row]);
      const auto page =
          static_cast<std::uint32_t>(table.pages[slot * table.stride + position / 32]);
      ASSERT_EQ(cell[row], page * 3 * 32 + position % 32);
      for (std::uint32_t i = 0; i < kHalf; ++i) {
        const double exact = static_cast<double>(position) * of[i];
        ASSERT_NEAR(got[row * kHalf + i].cosine, std::cos(exact), 1e-6);
        ASSERT_NEAR(got[row * kHalf + i].sine, std::sin(exact), 1e-6);
      }
    }
  }
}

struct Heads {
  std::uint32_t size;
  std::uint32_t queries;
  std::uint32_t keys;
  RotaryPairs pairs;
};
struct Step {
  Heads heads;
  std::uint32_t columns;
  std::uint32_t count;
  std::uint32_t capacity;
  std::uint32_t tile_rows;
  TensorType weights = TensorType::bf16;
  KvType kv = KvType::bf16;
  bool has_bias = true;
};
std::ostream& operator<<(std::ostream& out, const Step& s) {
  return out << s.heads.queries << " + 2 x " << s.heads.keys << " heads of " << s.heads.size
             << ", pairs " << static_cast<int>(s.heads.pairs) << ", " << s.columns << " columns, "
             << s.count << " of " << s.capacity << " rows, tiles of " << s.tile_rows << ", weights "
             << static_cast<int>(s.weights) << ", keys " << static_cast<int>(s.kv);
}

/// What one step's product, rotation and pages take and leave on a device.
struct StepWorld {
  static constexpr std::uint32_t kPageSize = 16;
  static constexpr std::uint16_t kOld = 0x4321;  // what memory holds before

  StepWorld(const Device& device, const Step& s)
      : step(s),
        rows(s.count, s.capacity),
        table(rows.ends, kPageSize),
        product(device, sizes_of(s), kernels::Epilogue::store,
                s.weights == TensorType::e4m3 ? TensorType::bf16 : s.weights),
        positions(device, rows.positions),
        slots(device, rows.slots),
        tables(device, table.pages),
        frequencies(device, frequencies_of(s.heads.size / 2)),
        keys(device, no_cells()),
        values(device, no_cells()),
        angles(device, std::size_t{s.capacity} * s.heads.size / 2),
        cells(device, s.capacity),
        long_runs(device, s.capacity) {
    if (s.weights == TensorType::e4m3)
      product.product.w = packed.emplace(device, sizes_of(s), 5, E4m3Weights::Scales::any).packed();
    if (!s.has_bias) product.product.bias = nullptr;
  }

  static std::uint32_t outputs_of(const Heads& h) { return (h.queries + 2 * h.keys) * h.size; }
  static ProductSizes sizes_of(const Step& s) {
    return {outputs_of(s.heads), s.columns, s.count, s.capacity};
  }
  std::uint32_t query_columns() const { return step.heads.queries * step.heads.size; }
  Bits no_cells() const {
    return Bits(std::size_t{table.count} * kPageSize * step.heads.keys * step.heads.size, kOld);
  }
  float factor() const {
    return static_cast<float>(1.4426950408889634 / std::sqrt(1.0 * step.heads.size));
  }
  kernels::PagedKv kv() const {
    return {keys.data(), values.data(),   tables.data(),   table.stride,
            kPageSize,   step.heads.keys, step.heads.size, step.kv};
  }
  kernels::RopeStoreArgs store_args() const {
    return {.qkv = product.y.data(),
            .rows = product.product.rows,
            .positions = positions.data(),
            .slots = slots.data(),
            .frequencies = frequencies.data(),
            .query_norm = nullptr,
            .key_norm = nullptr,
            .epsilon = 0,
            .pairs = step.heads.pairs,
            .rotary_size = step.heads.size,
            .heads = step.heads.queries,
            .kv = kv()};
  }
  kernels::RotatedRows rotated() const { return {angles.data(), cells.data(), long_runs.data()}; }
  kernels::RopeRowsArgs rows_args() const {
    return {.rows = product.product.rows,
            .positions = positions.data(),
            .slots = slots.data(),
            .frequencies = frequencies.data(),
            .kv = kv(),
            .to = rotated()};
  }
  kernels::RopeEpilogue epilogue(bool rounds_queries) const {
    return {.rows = rotated(),
            .pairs = step.heads.pairs,
            .heads = step.heads.queries,
            .kv = kv(),
            .rounds_queries = rounds_queries,
            .query_factor = factor()};
  }

  Step step;
  Rows rows;
  Tables table;
  ProductWorld product;
  std::optional<E4m3Weights> packed;
  Buffer<std::int32_t> positions, slots, tables;
  Buffer<float> frequencies;
  Buffer<std::uint16_t> keys, values;
  Buffer<Angle> angles;
  Buffer<std::uint32_t> cells, long_runs;
};

class RopeEpilogue : public OnEachHopper {
 protected:
  void check(const Step& s) {
    SCOPED_TRACE(testing::Message() << s);
    StepWorld right(device(), s);
    run_tiled(right.product, {.tile_rows = s.tile_rows});
    run(kernels::rope_store(), right.store_args());
    const std::vector<float> rotated = right.product.y.read();
    for (const bool rounds_queries : {false, true}) {
      StepWorld world(device(), s);
      run(kernels::rope_rows(), world.rows_args());
      run_tiled(world.product, {.tile_rows = s.tile_rows, .rope = world.epilogue(rounds_queries)});
      expect_same(right.keys.read(), world.keys.read(), "keys");
      expect_same(right.values.read(), world.values.read(), "values");
      expect_same(queries_of(rotated, world, rounds_queries), world.product.y.read(), "queries");
    }
  }

 private:
  template <class Args>
  void run(const Kernel<Args>& kernel, const Args& args) {
    stream().kernel(kernel, grid_of(args, true), args);
    stream().synchronize();
  }
  /// What y holds: rows of queries. `rotated`: rows of queries, keys and values.
  static std::vector<float> queries_of(const std::vector<float>& rotated, const StepWorld& world,
                                       bool rounds_queries) {
    std::vector<float> y(rotated.size(), kUntouched);
    const std::size_t outputs = StepWorld::outputs_of(world.step.heads);
    const std::size_t columns = world.query_columns();
    for (std::size_t row = 0; row < world.step.count; ++row) {
      const float* const from = rotated.data() + row * outputs;
      float* const to = y.data() + row * columns;
      std::copy_n(from, columns, to);
      if (!rounds_queries || world.rows.long_runs[row] == 0) continue;
      std::fill_n(to, columns, kUntouched);
      for (std::size_t i = 0; i < columns; ++i) {
        const std::uint16_t bits = narrow(from[i] * world.factor(), world.step.kv);
        std::memcpy(reinterpret_cast<std::uint16_t*>(to) + i, &bits, sizeof bits);
      }
    }
    return y;
  }
  static std::uint16_t narrow(float x, KvType type) {
    return type == KvType::bf16 ? kernels::bfloat_of_float(x) : kernels::half_of_float(x);
  }
  template <class T>
  static void expect_same(const std::vector<T>& right, const std::vector<T>& got,
                          const char* what) {
    ASSERT_EQ(right.size(), got.size());
    const auto is_same = [](const T& a, const T& b) { return std::memcmp(&a, &b, sizeof a) == 0; };
    const auto first = std::mismatch(right.begin(), right.end(), got.begin(), is_same);
    if (first.first != right.end())
      FAIL() << what << ": element " << first.first - right.begin() << " is " << *first.second
             << ", not " << *first.first;
  }
};
ATTACCA_ON_EACH_DEVICE(RopeEpilogue);

constexpr auto kHalves = RotaryPairs::halves;
constexpr auto kAdjacent = RotaryPairs::adjacent;

TEST_P(RopeEpilogue, stores_what_the_product_and_rope_store_do_in_tiles_of_every_size) {
  for (const RotaryPairs pairs : {kHalves, kAdjacent})
    for (const std::uint32_t size : {64u, 128u}) {
      check({{size, 2, 1, pairs}, 128, 17, 20, 64});       // a tile at most
      check({{size, 6, 2, pairs}, 1024, 61, 64, 64});      // split tiles
      check({{size, 256, 2, pairs}, 64, 33, 64, 64});      // as many as tall tiles would have
      check({{size, 6, 3, pairs}, 576, 129, 200, 128});    // one row in x's second tile
      check({{size, 32, 8, pairs}, 192, 400, 416, 128});   // whole tiles
      check({{size, 3, 1, pairs}, 320, 1023, 1024, 256});  // whole tiles of 256 rows, ragged heads
      check({{size, 16, 4, pairs}, 1088, 257, 260, 256});  // split ones
      if (HasFatalFailure()) return;
    }
}

TEST_P(RopeEpilogue, takes_weights_and_keys_of_every_type_that_it_may) {
  for (const TensorType weights : {TensorType::bf16, TensorType::e4m3, TensorType::f16})
    for (const KvType kv : {KvType::bf16, KvType::f16})
      for (const auto& [count, tile_rows] : {std::pair{50u, 64u}, {100u, 128u}, {250u, 256u}}) {
        check({{64, 8, 2, kHalves}, 576, count, 256, tile_rows, weights, kv});
        check({{128, 4, 2, kAdjacent}, 576, count, 256, tile_rows, weights, kv, false});
        if (HasFatalFailure()) return;
      }
}

/// For compute-sanitizer.
class SmallKernelRopeEpilogue : public RopeEpilogue {};
ATTACCA_ON_EACH_DEVICE(SmallKernelRopeEpilogue);

TEST_P(SmallKernelRopeEpilogue, stores_what_the_product_and_rope_store_do) {
  check({{64, 3, 1, kHalves}, 128, 61, 64, 64});
  check({{128, 2, 1, kAdjacent}, 192, 129, 200, 128});
  check({{64, 2, 1, kHalves}, 64, 257, 260, 256, TensorType::f16, KvType::f16, false});
}

TEST_P(RopeEpilogue, leaves_everything_alone_in_a_step_without_rows) {
  check({{64, 6, 2, kHalves}, 128, 0, 64, 64});
}

}  // namespace
}  // namespace attacca::test
