// Tests of decode attention against doubles: shapes, types, windows, long and short contexts in one
// batch, and that a row's result has the same bits whatever else is in the batch.
#include "kernels/attention/decode_attention.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/paged_cells.hpp"
#include "kernels/quantization.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::decode_attention_test {
namespace {

using kernels::DecodeAttentionArgs;
using kernels::RotaryPairs;

constexpr float kEpsilon = 1e-6f;
constexpr std::uint16_t kUntouched = 0xffff;

struct Shape {
  std::uint32_t head_size;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  KvType type = KvType::f32;
  std::uint32_t window = 0;
  std::uint32_t page_size = 16;
  RotaryPairs pairs = RotaryPairs::halves;
  bool has_norms = false;
  std::uint32_t rotary_size = head_size;

  std::uint32_t row_size() const { return (heads + 2 * kv_heads) * head_size; }
  std::uint32_t first(std::uint32_t last) const {
    return window != 0 && last >= window ? last - window + 1 : 0;
  }
};

struct Result {
  std::vector<std::uint16_t> y;
  std::vector<std::uint16_t> rest;
  Cells keys;
  Cells values;
};

/// One head of a row, after normalization and RoPE.
std::vector<double> turned(const Shape& shape, const float* head, const float* norm,
                           std::uint32_t position, const std::vector<float>& frequencies) {
  std::vector<double> x(head, head + shape.head_size);
  if (norm) {
    double sum = 0;
    for (const double element : x) sum += element * element;
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] *= norm[i] / std::sqrt(sum / shape.head_size + kEpsilon);
  }
  for (std::size_t i = 0; i < shape.rotary_size / 2; ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    const bool is_adjacent = shape.pairs == RotaryPairs::adjacent;
    double& a = is_adjacent ? x[2 * i] : x[i];
    double& b = is_adjacent ? x[2 * i + 1] : x[i + shape.rotary_size / 2];
    const double rotated = a * std::cos(angle) - b * std::sin(angle);
    b = b * std::cos(angle) + a * std::sin(angle);
    a = rotated;
  }
  return x;
}

/// A sequence for each row: row r has slot r and position positions[r]. One more row is padding.
class World {
 public:
  World(const Shape& shape, std::vector<std::uint32_t> positions)
      : shape_(shape),
        positions_(std::move(positions)),
        qkv_(random_eighths(std::size_t{rows() + 1} * shape.row_size(), 7)),
        norms_(random_eighths(2 * shape.head_size, 8)),
        tables_(positions_, shape.page_size) {
    for (std::uint32_t i = 0; i < shape.rotary_size / 2; ++i)
      frequencies_.push_back(std::pow(
          10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(shape.rotary_size)));
  }

  const Shape& shape() const { return shape_; }
  std::uint32_t rows() const { return static_cast<std::uint32_t>(positions_.size()); }
  const std::vector<std::uint32_t>& positions() const { return positions_; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_size)); }

  /// Keys (or values) of all positions that rows see, except their own. They are the same numbers
  /// for any page size.
  Cells cells(unsigned seed) const {
    Cells cells(std::size_t{tables_.count} * shape_.kv_heads * shape_.page_size * shape_.head_size,
                shape_.type);
    for (std::uint32_t row = 0; row < rows(); ++row) {
      std::minstd_rand random(seed + positions_[row]);
      for (std::uint32_t at = shape_.first(positions_[row]); at < positions_[row]; ++at)
        for (std::uint32_t head = 0; head < shape_.kv_heads; ++head)
          for (std::uint32_t i = 0; i < shape_.head_size; ++i)
            cells[offset(row, at, head) + i] = random_eighth(random);
    }
    return cells;
  }
  std::size_t offset(std::uint32_t slot, std::uint32_t position, std::uint32_t kv_head) const {
    kernels::PagedKv kv;
    kv.tables = tables_.pages.data();
    kv.table_stride = tables_.stride;
    kv.page_size = shape_.page_size;
    kv.kv_heads = shape_.kv_heads;
    kv.head_size = shape_.head_size;
    return kv.offset(slot, position, kv_head);
  }
  std::vector<double> turned_head(std::uint32_t row, std::uint32_t head) const {
    const float* norm = !shape_.has_norms     ? nullptr
                        : head < shape_.heads ? norms_.data()
                                              : norms_.data() + shape_.head_size;
    return turned(shape_, raw_head(row, head), norm, positions_[row], frequencies_);
  }
  const float* raw_head(std::uint32_t row, std::uint32_t head) const {
    return &qkv_[std::size_t{row} * shape_.row_size() + head * shape_.head_size];
  }

  Shape shape_;
  std::vector<std::uint32_t> positions_;
  std::vector<float> qkv_;
  std::vector<float> norms_;
  std::vector<float> frequencies_;
  Tables tables_;
};

class DecodeAttention : public OnEachDevice {
 protected:
  /// Types that the device supports.
  std::vector<KvType> types() const {
    if (!is_cuda()) return {KvType::f32};
    return {KvType::f32, KvType::bf16, KvType::f16, KvType::fp8};
  }

  /// Runs some of the world's rows, in that order, `launches` times with one workspace. The
  /// capacity is always one row more than the world has, because the capacity decides how rows are
  /// split.
  Result run_rows(const World& world, const std::vector<std::uint32_t>& rows, unsigned launches = 1,
                  bool reads_ahead = false) {
    const Buffer<unsigned char> workspace = workspace_for(world);
    return run_rows(world, rows, world.rows() + 1, workspace, launches, reads_ahead);
  }
  /// A workspace for steps of all rows and one more.
  Buffer<unsigned char> workspace_for(const World& world) {
    const Shape& shape = world.shape();
    kernels::PagedKv kv{};
    kv.table_stride = world.tables_.stride;
    kv.page_size = shape.page_size;
    kv.kv_heads = shape.kv_heads;
    kv.head_size = shape.head_size;
    return buffer(std::vector<unsigned char>(
        kernels::attention_workspace_bytes(world.rows() + 1, shape.heads, kv, shape.window, 132)));
  }
  Result run_rows(const World& world, const std::vector<std::uint32_t>& rows,
                  std::uint32_t capacity, const Buffer<unsigned char>& workspace,
                  unsigned launches = 1, bool reads_ahead = false) {
    const Shape& shape = world.shape();
    const auto count = static_cast<std::uint32_t>(rows.size());
    std::vector<float> qkv;
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> slots;
    for (const std::uint32_t row : rows) {
      qkv.insert(qkv.end(), world.raw_head(row, 0), world.raw_head(row, 0) + shape.row_size());
      positions.push_back(static_cast<std::int32_t>(world.positions()[row]));
      slots.push_back(static_cast<std::int32_t>(row));
    }
    qkv.resize(capacity * shape.row_size());  // some rows are padding
    positions.resize(capacity);
    slots.resize(capacity);
    const Buffer<float> x = buffer(qkv);
    const Buffer<unsigned char> keys = buffer(world.cells(1).bytes());
    const Buffer<unsigned char> values = buffer(world.cells(2).bytes());
    const Buffer<std::int32_t> tables = buffer(world.tables_.pages);
    const Buffer<std::int32_t> position_buffer = buffer(positions);
    const Buffer<std::int32_t> slot_buffer = buffer(slots);
    const Buffer<float> angles = buffer(world.frequencies_);
    const Buffer<float> norms = buffer(world.norms_);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
    const Buffer<std::uint16_t> y = buffer(std::vector<std::uint16_t>(
        std::size_t{capacity} * shape.heads * shape.head_size, kUntouched));
    const Buffer<std::uint16_t> rest = buffer(y.read());
    DecodeAttentionArgs args{};
    args.qkv = x.data();
    args.rows = {counts.data(), capacity};
    args.positions = position_buffer.data();
    args.slots = slot_buffer.data();
    args.slot_count = world.rows() + 1;
    args.frequencies = angles.data();
    args.query_norm = shape.has_norms ? norms.data() : nullptr;
    args.key_norm = shape.has_norms ? norms.data() + shape.head_size : nullptr;
    args.epsilon = kEpsilon;
    args.pairs = shape.pairs;
    args.rotary_size = shape.rotary_size;
    args.heads = shape.heads;
    args.scale = world.scale();
    args.window = shape.window;
    args.kv = {keys.data(),     values.data(),  tables.data(),   world.tables_.stride,
               shape.page_size, shape.kv_heads, shape.head_size, shape.type};
    args.workspace = workspace.data();
    args.y = y.data();
    args.y_rest = rest.data();
    args.reads_ahead = reads_ahead;
    const auto& kernel = kernels::decode_attention(args);
    const unsigned processors = device().processors();
    for (unsigned launch = 0; launch < launches; ++launch)
      stream().kernel(kernel, kernels::grid_of(args, is_cuda(), processors), args);
    stream().synchronize();
    return {y.read(), rest.read(), Cells(keys.read(), shape.type),
            Cells(values.read(), shape.type)};
  }
  Result run_all(const World& world, unsigned launches = 1) {
    return run_rows(world, all_of(world), launches);
  }
  static std::vector<std::uint32_t> all_of(const World& world) {
    std::vector<std::uint32_t> rows(world.rows());
    std::iota(rows.begin(), rows.end(), 0u);
    return rows;
  }

  /// y is rounded to bf16. With the remainder of that rounding it is nearly exact, because queries,
  /// weights and floats are each multiplied as two 16-bit numbers.
  static void expect_attended(const World& world, const Result& result) {
    const Shape& shape = world.shape();
    const std::uint32_t group = shape.heads / shape.kv_heads;
    for (std::uint32_t row = 0; row < world.rows(); ++row) {
      const std::uint32_t last = world.positions()[row];
      for (std::uint32_t head = 0; head < shape.heads; ++head) {
        const Seen seen = seen_by(
            world.turned_head(row, head), world.scale(), shape.first(last), last, result.keys,
            result.values, [&](std::uint32_t at) { return world.offset(row, at, head / group); });
        for (std::uint32_t i = 0; i < shape.head_size; ++i) {
          const std::size_t at = (std::size_t{row} * shape.heads + head) * shape.head_size + i;
          const double y = kernels::float_of_bfloat(result.y[at]);
          ASSERT_NEAR(y, seen.sum[i], std::abs(y) / 250 + seen.magnitude[i] * 1e-4 + 1e-6);
          ASSERT_NEAR(y + kernels::float_of_bfloat(result.rest[at]), seen.sum[i],
                      seen.magnitude[i] * 1e-4 + 1e-6)
              << "head size " << shape.head_size << ", type " << static_cast<int>(shape.type)
              << ", window " << shape.window << ", position " << last << ", head " << head
              << ", element " << i;
        }
      }
    }
  }
  /// Checks that new keys and values are in their cells, and that no other cell was written.
  static void expect_stored(const World& world, const Result& result) {
    const Shape& shape = world.shape();
    std::size_t written = 0;
    for (std::uint32_t row = 0; row < world.rows(); ++row) {
      const std::uint32_t last = world.positions()[row];
      written += std::size_t{last - shape.first(last) + 1} * shape.kv_heads * shape.head_size;
      for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
        const auto key = world.turned_head(row, shape.heads + head);
        const float* value = world.raw_head(row, shape.heads + shape.kv_heads + head);
        for (std::uint32_t i = 0; i < shape.head_size; ++i) {
          const std::size_t at = world.offset(row, last, head) + i;
          ASSERT_NEAR(*result.keys.at(at), key[i],
                      rounding_of(key[i], shape.type) * 1.01 + 4e-6 * (1 + std::abs(key[i])))
              << "row " << row << ", element " << i;
          ASSERT_EQ(*result.values.at(at), value[i]) << "row " << row << ", element " << i;
        }
      }
    }
    std::size_t numbers = 0;
    for (std::size_t at = 0; at < result.keys.count(); ++at)
      numbers += result.keys.is_number(at) || result.values.is_number(at);
    EXPECT_EQ(numbers, written);
  }
  static void expect_right(const World& world, const Result& result) {
    expect_stored(world, result);
    expect_attended(world, result);
    const std::size_t columns = std::size_t{world.shape().heads} * world.shape().head_size;
    for (std::size_t i = 0; i < columns; ++i)
      ASSERT_EQ(result.y[world.rows() * columns + i], kUntouched) << "a row that is not real";
  }
};
ATTACCA_ON_EACH_DEVICE(DecodeAttention);

TEST_P(DecodeAttention, every_head_size_and_type_agrees_with_doubles) {
  const std::vector<std::uint32_t> positions{0, 1, 15, 16, 17, 63, 64, 130};
  for (const KvType type : types())
    for (const std::uint32_t size : {16u, 24u, 64u, 80u, 96u, 128u, 256u}) {
      const World world({size, 4, 2, type}, positions);
      expect_right(world, run_all(world));
    }
}

TEST_P(DecodeAttention, norms_and_both_kinds_of_pairs_and_parts_that_do_not_rotate) {
  for (const KvType type : types()) {
    Shape shape{80, 2, 1, type};
    shape.has_norms = true;
    shape.rotary_size = 20;
    for (const RotaryPairs pairs : {RotaryPairs::adjacent, RotaryPairs::halves}) {
      shape.pairs = pairs;
      const World world(shape, {3, 70});
      expect_right(world, run_all(world));
    }
  }
}

TEST_P(DecodeAttention, any_number_of_heads_shares_a_kv_head) {
  for (const auto& [heads, kv_heads] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {2, 2}, {6, 2}, {4, 1}, {16, 2}, {7, 1}, {12, 1}, {40, 2}}) {
    const World world({64, heads, kv_heads, types().back()}, {0, 40, 200});
    expect_right(world, run_all(world));
  }
}

TEST_P(DecodeAttention, a_window_hides_what_lies_further_back) {
  for (const std::uint32_t window : {1u, 5u, 16u, 17u, 100u, 1000u}) {
    const World world({16, 3, 1, types().front(), window}, {0, 4, 15, 16, 100, 1100});
    expect_right(world, run_all(world));
  }
}

TEST_P(DecodeAttention, long_and_short_contexts_in_one_batch_and_counters_that_count_again) {
  for (const KvType type : types()) {
    const World world({16, 2, 2, type}, {5000, 0, 1, 2, 700, 1024, 3, 64, 4096, 2049, 8, 511, 512});
    const Result once = run_all(world);
    expect_right(world, once);
    EXPECT_EQ(run_all(world, 3).y, once.y) << "after three launches";
    EXPECT_EQ(run_rows(world, all_of(world), 1, true).y, once.y) << "reading ahead";
  }
}

TEST_P(DecodeAttention, a_row_alone_and_many_rows_are_cut_otherwise) {
  std::vector<std::uint32_t> many(20, 70);
  for (const std::uint32_t position : {700u, 1100u, 4096u, 5000u}) {
    const World alone({16, 2, 1, types().back()}, {position});
    expect_right(alone, run_all(alone));
    many.push_back(position);
  }
  const World world({16, 2, 1, types().back()}, many);
  expect_right(world, run_all(world));
}

TEST_P(DecodeAttention, steps_of_all_sizes_share_a_workspace) {
  const World world({16, 16, 8, types().back()}, std::vector<std::uint32_t>(9, 700));
  const Buffer<unsigned char> workspace = workspace_for(world);
  const Result expected = run_all(world);
  for (const std::uint32_t alone : {0u, 8u}) {
    run_rows(world, {alone}, 1, workspace);
    const Result result = run_rows(world, all_of(world), world.rows() + 1, workspace);
    expect_right(world, result);
    EXPECT_EQ(result.y, expected.y) << "after row " << alone << " in a step of one";
  }
}

TEST_P(DecodeAttention, more_splits_than_a_warp_has_pages_at_hand) {
  if (!is_cuda()) GTEST_SKIP() << "the host has no splits";
  const World world({16, 2, 1, KvType::bf16}, {70'000, 131'071});
  expect_attended(world, run_all(world));
}

TEST_P(DecodeAttention, a_row_is_the_same_bits_in_any_batch_and_page_size) {
  for (const KvType type : types()) {
    Shape shape{48, 6, 2, type};
    const std::vector<std::uint32_t> positions{90, 700, 16, 300, 7, 64, 65};
    const World world(shape, positions);
    const std::size_t columns = std::size_t{shape.heads} * shape.head_size;
    const Result expected = run_all(world);
    for (const std::uint32_t page_size : {32u, 64u}) {
      shape.page_size = page_size;
      const World other(shape, positions);
      EXPECT_EQ(run_all(other).y, expected.y) << "page size " << page_size;
    }
    std::vector<std::uint32_t> reversed = all_of(world);
    std::reverse(reversed.begin(), reversed.end());
    const Result backwards = run_rows(world, reversed);
    for (std::uint32_t row = 0; row < world.rows(); ++row) {
      const std::uint16_t* bits = &expected.y[row * columns];
      EXPECT_EQ(std::memcmp(&backwards.y[(world.rows() - 1 - row) * columns], bits, columns * 2), 0)
          << "row " << row << " in a reversed batch";
      EXPECT_EQ(std::memcmp(run_rows(world, {row}).y.data(), bits, columns * 2), 0)
          << "row " << row << " alone";
    }
  }
}

TEST_P(DecodeAttention, a_key_is_the_same_bits_whether_rotate_store_stored_it) {
  if (!is_cuda()) GTEST_SKIP() << "the host's body is a reference in doubles";
  for (const KvType type : types()) {
    Shape shape{80, 3, 3, type};
    shape.has_norms = true;
    const World world(shape, {0, 9, 77, 9'000});
    const Result expected = run_all(world);
    std::vector<std::int32_t> positions(world.positions().begin(), world.positions().end());
    std::vector<std::int32_t> slots(world.rows());
    std::iota(slots.begin(), slots.end(), 0);
    const Buffer<float> x = buffer(world.qkv_);
    const Buffer<unsigned char> keys = buffer(world.cells(1).bytes());
    const Buffer<unsigned char> values = buffer(world.cells(2).bytes());
    const Buffer<std::int32_t> tables = buffer(world.tables_.pages);
    const Buffer<std::int32_t> position_buffer = buffer(positions);
    const Buffer<std::int32_t> slot_buffer = buffer(slots);
    const Buffer<float> angles = buffer(world.frequencies_);
    const Buffer<float> norms = buffer(world.norms_);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({world.rows()});
    const kernels::RopeStoreArgs args{
        .qkv = x.data(),
        .rows = {counts.data(), world.rows()},
        .positions = position_buffer.data(),
        .slots = slot_buffer.data(),
        .frequencies = angles.data(),
        .query_norm = norms.data(),
        .key_norm = norms.data() + shape.head_size,
        .epsilon = kEpsilon,
        .pairs = shape.pairs,
        .rotary_size = shape.rotary_size,
        .heads = shape.heads,
        .kv = {keys.data(), values.data(), tables.data(), world.tables_.stride, shape.page_size,
               shape.kv_heads, shape.head_size, type}};
    stream().kernel(kernels::rope_store(), kernels::grid_of(args, true), args);
    stream().synchronize();
    EXPECT_EQ(Cells(keys.read(), type).bytes(), expected.keys.bytes());
    EXPECT_EQ(Cells(values.read(), type).bytes(), expected.values.bytes());
  }
}

TEST_P(DecodeAttention, many_rows_have_more_tiles_than_the_device_has_blocks) {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t row = 0; row < 300; ++row) positions.push_back(row * 7 % 97);
  const World world({8, 4, 4, types().back()}, positions);
  expect_right(world, run_all(world));
}

TEST_P(DecodeAttention, a_step_without_rows_writes_nothing) {
  const World world({16, 2, 1, types().back()}, {5});
  const Result result = run_rows(world, {});
  for (std::size_t at = 0; at < result.keys.count(); ++at)
    ASSERT_EQ(result.keys.is_number(at), world.cells(1).is_number(at));
  EXPECT_EQ(result.y, std::vector<std::uint16_t>(64, kUntouched));
}

TEST(DecodeAttentionGrid, shapes_that_it_does_not_know_are_refused) {
  const std::uint32_t count = 1;
  DecodeAttentionArgs args{};
  args.heads = 9;
  args.rows = {&count, 1};
  args.rotary_size = 64;
  args.kv.kv_heads = 3;
  args.kv.head_size = 64;
  args.kv.page_size = 16;
  args.kv.table_stride = 64;
  const auto message = [&](bool is_cuda) -> std::string {
    try {
      kernels::grid_of(args, is_cuda, 132);
      return "";
    } catch (const BadArgument& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message(true), "");
  EXPECT_EQ(kernels::decode_attention(args).cost(args).flops, 4.0 * 9 * 64 * 512);
  args.window = 100;
  EXPECT_EQ(kernels::decode_attention(args).cost(args).flops, 4.0 * 9 * 64 * 100);
  args.kv.head_size = 100;
  EXPECT_NE(message(true).find("head size 100"), std::string::npos);
  args.kv.head_size = 64;
  args.kv.page_size = 48;
  EXPECT_NE(message(true).find("page size 48"), std::string::npos);
  args.kv.page_size = 16;
  args.heads = 10;
  EXPECT_NE(message(true).find("10 heads cannot share 3 kv heads"), std::string::npos);
  args.heads = 9;
  args.rotary_size = 66;
  EXPECT_NE(message(true).find("rotary size 66"), std::string::npos);
  args.rotary_size = 64;
  args.kv.type = KvType::bf16;
  EXPECT_EQ(message(true), "");
  EXPECT_NE(message(false).find("f32 only"), std::string::npos);
}

TEST(AttentionSplits, cover_every_span_within_their_bounds) {
  constexpr kernels::Splits kWays[] = {kernels::splits_of(false, 1), kernels::splits_of(false, 8),
                                       kernels::splits_of(false, 64), kernels::splits_of(true, 1)};
  for (std::uint32_t i = 0; i < 160'000; ++i) {
    const std::uint32_t span = i / 4;
    const kernels::Splits& splits = kWays[i % 4];
    const std::uint32_t size = splits.size(span);
    const std::uint32_t count = splits.count(span);
    ASSERT_EQ(size % kernels::kSplitStep, 0u) << span;
    ASSERT_GE(size * count, span);
    ASSERT_GE(count, 1u);
    ASSERT_TRUE(count == 1 || size * (count - 1) < span) << span;
    ASSERT_LE(count, kernels::most_splits(span)) << span;
    ASSERT_LE(kernels::most_splits(span), kernels::most_splits(span + 1)) << span;
    ASSERT_LE(kernels::most_splits(span), kernels::kMaxSplits);
  }
}

TEST(FixedSplits, follow_each_other_without_a_gap_and_grow_with_the_position) {
  constexpr std::uint32_t kLeast = kernels::FixedSplits::kLeast;
  constexpr std::uint32_t kEven = kernels::FixedSplits::kEven;
  for (const std::uint32_t window : {0u, 1u, 100u, 2048u, 5000u, 100'000u}) {
    const kernels::FixedSplits splits = kernels::FixedSplits::of_window(window);
    std::uint32_t end = 0;
    for (std::uint32_t split = 0; end < 300'000; ++split) {
      ASSERT_EQ(splits.begin(split), end) << "split " << split << ", window " << window;
      const std::uint32_t size = splits.size(split);
      ASSERT_TRUE(size == kLeast || size * kEven <= end) << split;
      ASSERT_TRUE(size == kLeast || window == 0 || size * kEven <= window) << split;
      ASSERT_EQ(splits.at(end), split);
      end += size;
      ASSERT_EQ(splits.at(end - 1), split);
    }
  }
}

TEST(FixedSplits, of_blocks_cut_no_split) {
  for (const std::uint32_t window : {0u, 1u, 100u, 2048u, 5000u, 100'000u}) {
    const kernels::FixedSplits splits = kernels::FixedSplits::of_window(window);
    for (const std::uint32_t bits : {7u, 8u, 9u}) {
      const kernels::FixedSplits blocks = kernels::FixedSplits::of_window(window, bits);
      for (std::uint32_t block = 0; blocks.begin(block) < 300'000; ++block) {
        const std::uint32_t begin = blocks.begin(block), end = blocks.begin(block + 1);
        ASSERT_EQ(splits.begin(splits.at(begin)), begin) << "window " << window;
        ASSERT_EQ(splits.bits_at(begin), splits.bits_at(end - 1)) << begin;
        ASSERT_GE(end - begin, splits.size(splits.at(begin))) << begin;
      }
    }
  }
}

TEST(FixedSplits, of_any_row_are_no_more_than_the_workspace_has_room_for) {
  for (const std::uint32_t window : {0u, 1u, 100u, 2048u, 5000u}) {
    const kernels::FixedSplits splits = kernels::FixedSplits::of_window(window);
    for (std::uint32_t position = 0; position < 20'000; ++position) {
      const std::uint32_t first = window != 0 && position >= window ? position - window + 1 : 0;
      const std::uint32_t span = window == 0 ? position + 1 : window + 15;
      ASSERT_LE(splits.at(position) - splits.at(first) + 1,
                kernels::most_fixed_splits(span, window))
          << "position " << position << ", window " << window;
    }
  }
  EXPECT_LE(kernels::most_fixed_splits(131'072, 0), 66u);
}

}  // namespace
}  // namespace attacca::test::decode_attention_test
