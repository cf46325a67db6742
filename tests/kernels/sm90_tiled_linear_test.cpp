// Tests of tiled linear layers against the host's reference in doubles: every epilogue, ragged
// sizes, tiles with split columns and whole tiles. Skipped on devices without the kernel. One test
// is of the rule that chooses tiles, and the last ones are of the kernel that gathers rows.
#include "kernels/linear/sm90_tiled_linear.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "kernels/e4m3_weights.hpp"
#include "kernels/gather_residual.hpp"
#include "kernels/linear/half_rows.hpp"
#include "kernels/on_each_hopper.hpp"

namespace attacca::test {
namespace {

using kernels::Epilogue;
using kernels::Residual;
using kernels::StreamedLinearArgs;
using kernels::TensorType;
using Sizes = ProductSizes;
using World = ProductWorld;

class TiledLinear : public OnEachHopper {
 protected:
  void run_tiled(World& world, unsigned times = 1, std::uint32_t tile_rows = 0) {
    OnEachHopper::run_tiled(world, {.tile_rows = tile_rows, .times = times});
  }
  /// A world for the reference: the distinct rows, and one that stays untouched.
  static World reference_of(const Sizes& s, Epilogue end, TensorType type = TensorType::bf16) {
    return World(Device::host(), {s.rows, s.columns, std::min(s.count, kDistinct), kDistinct + 1},
                 end, type);
  }
  static void run_reference(World& world) {
    Graph graph(Device::host());
    graph.kernel(streamed_linear(world.product), Grid{Dim3{64}, Dim3{1}}, world.product);
    Stream stream(Device::host());
    graph.instantiate().launch(stream);
    stream.synchronize();
  }
  /// Checks that each row equals the reference of its distinct row, and that rows behind the last
  /// are unchanged.
  template <class T>
  static void expect_rows(const Sizes& s, const std::vector<T>& got,
                          const std::vector<T>& reference, float relative, float absolute) {
    const std::size_t width = got.size() / s.capacity;
    ASSERT_EQ(reference.size(), (kDistinct + 1) * width);
    for (std::uint32_t row = 0; row < s.capacity; ++row) {
      const T* have = got.data() + row * width;
      const T* want = reference.data() + (row < s.count ? row % kDistinct : kDistinct) * width;
      for (std::size_t i = 0; i < width; ++i) {
        if (have[i] == want[i]) continue;
        const float size = std::abs(number(want[i]));
        if (row >= s.count ||
            !(std::abs(number(have[i]) - number(want[i])) <= size * relative + absolute))
          FAIL() << number(have[i]) << ", not " << number(want[i]) << ": row " << row << ", output "
                 << i;
      }
    }
  }
  void expect_agreement(const Sizes& s, Epilogue end, std::uint32_t tile_rows,
                        unsigned processors = kProcessors) {
    SCOPED_TRACE(testing::Message() << s << ", end " << static_cast<int>(end) << ", tiles of "
                                    << tile_rows << " rows");
    World world(device(), s, end);
    World reference = reference_of(s, end);
    OnEachHopper::run_tiled(world, {.tile_rows = tile_rows, .processors = processors});
    run_reference(reference);
    expect_rows(s, world.y.read(), reference.y.read(), 0, 2e-5f);
    expect_rows(s, world.rounded.read(), reference.rounded.read(), 1.0f / 120, 2e-5f);
    expect_rows(s, world.sums.read(), reference.sums.read(), 1e-4f, 1e-4f);
  }
  /// With weights in f16, and rows that half_rows made f16.
  void expect_agreement_in_f16(const Sizes& s, Epilogue end, std::uint32_t tile_rows) {
    SCOPED_TRACE(testing::Message() << s << ", end " << static_cast<int>(end) << ", tiles of "
                                    << tile_rows << " rows");
    World world(device(), s, end, TensorType::f16);
    World reference = reference_of(s, end, TensorType::f16);
    const Buffer<float> squares(device(), std::size_t{s.capacity} * s.columns / Residual::kPart);
    const kernels::HalfRowsArgs halves{.x = world.x.data(),
                                       .columns = s.columns,
                                       .squares = world.product.squares,
                                       .epsilon = world.product.epsilon,
                                       .rows = world.product.rows,
                                       .scaled_squares = squares.data()};
    repeat(kernels::half_rows(), grid_of(halves, true), halves, 1);
    world.product.squares = squares.data();
    world.product.epsilon = 0;
    run_tiled(world, 1, tile_rows);
    run_reference(reference);
    expect_rows(s, world.y.read(), reference.y.read(), 0, 2e-5f);
    expect_rows(s, world.rounded.read(), reference.rounded.read(), 1.0f / 120, 2e-5f);
  }
  /// With weights in e4m3, whose rows have scales.
  void expect_agreement_in_e4m3(const Sizes& s, Epilogue end, std::uint32_t tile_rows) {
    SCOPED_TRACE(testing::Message() << s << ", end " << static_cast<int>(end) << ", tiles of "
                                    << tile_rows << " rows");
    World world(device(), s, end), reference = reference_of(s, end);
    const auto put = [&](World& to, const E4m3Weights& w, const E4m3Weights& up) {
      to.product.w = w.packed();
      to.product.up = up.packed();
    };
    using Scales = E4m3Weights::Scales;
    const E4m3Weights w(device(), s, 5, Scales::any), up(device(), s, 6, Scales::any);
    const E4m3Weights here(Device::host(), s, 5, Scales::any),
        up_here(Device::host(), s, 6, Scales::any);
    put(world, w, up);
    put(reference, here, up_here);
    run_tiled(world, 1, tile_rows);
    run_reference(reference);
    expect_rows(s, world.y.read(), reference.y.read(), 0, 3e-5f);
    expect_rows(s, world.rounded.read(), reference.rounded.read(), 1.0f / 120, 3e-5f);
  }
  static float number(float value) { return value; }
  static float number(std::uint16_t bits) { return kernels::float_of_bfloat(bits); }
};
ATTACCA_ON_EACH_DEVICE(TiledLinear);

// How at most 66 pairs of blocks divide these products, with 64 rows of x at a time.
constexpr Sizes kSizes[] = {
    {16, 64, 17, 20},      // less than a tile
    {48, 128, 64, 64},     // two pairs share less than a tile
    {256, 64, 1, 40},      // a tile of one stage
    {576, 64, 0, 64},      // no rows
    {2048, 512, 64, 64},   // eight pairs to a tile
    {1536, 1024, 33, 64},  // eleven pairs to a tile, whose stages they cannot share equally
    {17152, 64, 20, 32},   // a tile each, and one pair has two
    {15632, 128, 20, 32},  // a whole tile each, the last one ragged; with gates a tall one
    {14336, 576, 61, 64},  // with gates a tall tile each, of nine stages
    {29456, 192, 33, 64},  // a tall tile each, the last one ragged
    {25600, 128, 20, 32},  // a tile and a part; with gates some have part, whole, whole, part
    {3584, 512, 61, 64},   // some have parts of two tiles
    {256, 4096, 60, 64}};  // 64 to one tile
// 128 rows of x at a time.
constexpr Sizes kMiddleSizes[] = {
    {272, 192, 65, 65},   // three pairs to a tile, a stage each
    {96, 576, 129, 200},  // four pairs to a tile, which cannot share equally; one row in the second
    {768, 576, 150, 256},    // four pairs to a tile
    {4096, 256, 250, 256},   // two pairs to a tile; with gates a whole tile each
    {4352, 64, 300, 320},    // three whole tiles of one stage each
    {3856, 128, 400, 416},   // two whole tiles each, the last one ragged
    {4112, 128, 400, 416},   // the same, and gates fill the GPU
    {256, 4096, 70, 128},    // 64 pairs to one tile
    {272, 192, 1023, 1024},  // three whole tiles each, or two
    {48, 320, 1100, 1100}};  // whole tiles of five stages, two or one each
// 256 rows of x at a time.
constexpr Sizes kWideSizes[] = {
    {16, 64, 17, 20},          // less than a tile
    {272, 192, 257, 260},      // a whole tile each, one row in x's second tile
    {96, 576, 513, 600},       // three pairs to a tile, one row in x's third
    {2048, 512, 256, 256},     // eight pairs to a tile
    {4096, 256, 500, 512},     // two pairs to a tile; with gates a whole tile each
    {8432, 320, 700, 768},     // two whole tiles each, or one, the last ones ragged
    {4112, 128, 1000, 1024},   // two whole tiles each, and gates fill the GPU
    {256, 4096, 250, 256},     // 64 pairs to one tile
    {1040, 1088, 1023, 1024},  // three pairs to a tile, which cannot share equally
    {48, 320, 2100, 2100}};    // whole tiles of five stages, two or one each

TEST_P(TiledLinear, every_ending_agrees_with_the_reference_and_no_other_row_is_written) {
  for (const Epilogue end : {Epilogue::store, Epilogue::add, Epilogue::gate}) {
    for (const Sizes& s : kSizes) expect_agreement(s, end, 64);
    for (const Sizes& s : kMiddleSizes) expect_agreement(s, end, 128);
    for (const Sizes& s : kWideSizes) expect_agreement(s, end, 256);
    if (HasFatalFailure()) return;
  }
}

TEST_P(TiledLinear, f16_weights_and_rows_that_were_made_f16_agree_with_the_reference) {
  for (const Epilogue end : {Epilogue::store, Epilogue::add, Epilogue::gate}) {
    for (const Sizes& s : kSizes) expect_agreement_in_f16(s, end, 64);
    for (const Sizes& s : kMiddleSizes) expect_agreement_in_f16(s, end, 128);
    for (const Sizes& s : kWideSizes) expect_agreement_in_f16(s, end, 256);
    if (HasFatalFailure()) return;
  }
}

TEST_P(TiledLinear, blocks_that_share_tiles_leave_nothing_behind_for_the_next_product) {
  constexpr unsigned kTimes = 7;
  for (const Sizes& s : {Sizes{1536, 2048, 50, 64}, Sizes{768, 1024, 300, 320}}) {
    SCOPED_TRACE(testing::Message() << s);
    World world(device(), s, Epilogue::add);
    World reference = reference_of(s, Epilogue::add);
    run_tiled(world, kTimes);
    for (unsigned i = 0; i < kTimes; ++i) run_reference(reference);
    expect_rows(s, world.y.read(), reference.y.read(), 0, 1e-4f);
  }
}

TEST_P(TiledLinear, a_product_has_the_same_bits_every_time) {
  for (const Sizes& s : {Sizes{6144, 1024, 64, 64}, Sizes{1536, 1024, 1024, 1024}}) {
    SCOPED_TRACE(testing::Message() << s);
    World world(device(), s, Epilogue::store);
    const std::vector<float> untouched = world.y.read();
    std::vector<float> first;
    for (int i = 0; i < 5; ++i) {
      world.y.write(untouched);
      run_tiled(world);
      const std::vector<float> y = world.y.read();
      if (i == 0) first = y;
      ASSERT_TRUE(y == first);
    }
  }
}

TEST_P(TiledLinear, a_block_that_waits_in_vain_for_partial_sums_gives_up_and_says_so) {
  const Sizes s{256, 4096, 60, 64};  // 64 pairs share one tile
  World world(device(), s, Epilogue::store);
  World reference = reference_of(s, Epilogue::store);
  // The counters are one short of a whole round: the first pair to count begins the next round, and
  // 63 follow.
  std::vector<std::uint32_t> counters = empty_workspace(false);
  counters[0] = counters[1] = 2 * 64 - 1;
  Buffer<std::uint32_t> workspace(device(), counters);
  const Run impatient{.patience_nanoseconds = 50'000'000};
  EXPECT_THAT([&] { OnEachHopper::run_tiled(world, impatient, workspace); },
              testing::ThrowsMessage<WaitOverdue>(testing::AllOf(
                  testing::HasSubstr("'tiled_linear'"), testing::HasSubstr("partial sums"),
                  testing::HasSubstr("wanted 64 and saw 63"))));
  EXPECT_EQ(workspace.read()[0], 127u) << "who gives up counts all the same";

  workspace.write(empty_workspace(false));
  OnEachHopper::run_tiled(world, {}, workspace);
  run_reference(reference);
  expect_rows(s, world.y.read(), reference.y.read(), 0, 2e-5f);
}

struct Tiles {
  std::uint32_t rows;
  Sizes sizes;
};
constexpr Tiles kE4m3Tiles[] = {
    {64, {16, 64, 17, 20}},       {64, {1536, 1024, 33, 64}},   // eleven pairs to a tile
    {64, {14336, 192, 61, 64}},                                 // with gates tall tiles
    {64, {29456, 64, 33, 64}},                                  // tall tiles, the last one ragged
    {128, {272, 192, 65, 65}},    {128, {768, 576, 150, 256}},  // four pairs to a tile
    {128, {3856, 128, 400, 416}}, {128, {48, 320, 1100, 1100}},
    {256, {272, 192, 257, 260}},  {256, {96, 576, 513, 600}},  // three pairs to a tile
    {256, {8432, 320, 700, 768}}};

TEST_P(TiledLinear, e4m3_weights_have_the_bits_of_the_same_numbers_in_bf16) {
  for (const Epilogue end : {Epilogue::store, Epilogue::add, Epilogue::gate})
    for (const auto& [tile_rows, s] : kE4m3Tiles) {
      SCOPED_TRACE(testing::Message() << s << ", end " << static_cast<int>(end) << ", tiles of "
                                      << tile_rows << " rows");
      const E4m3Weights w(device(), s, 5, E4m3Weights::Scales::powers_of_two);
      const E4m3Weights up(device(), s, 6, E4m3Weights::Scales::powers_of_two);
      World packed(device(), s, end), expanded(device(), s, end);
      packed.product.w = w.packed();
      packed.product.up = up.packed();
      expanded.w = w.in_bf16(device());
      expanded.up = up.in_bf16(device());
      expanded.product.w.data = expanded.w.data();
      expanded.product.up.data = expanded.up.data();
      run_tiled(packed, 1, tile_rows);
      run_tiled(expanded, 1, tile_rows);
      ASSERT_TRUE(packed.y.read() == expanded.y.read());
      ASSERT_TRUE(packed.rounded.read() == expanded.rounded.read());
      ASSERT_TRUE(packed.sums.read() == expanded.sums.read());
    }
}

TEST_P(TiledLinear, the_sums_of_e4m3_weights_get_the_scales_of_their_rows) {
  for (const Epilogue end : {Epilogue::store, Epilogue::add, Epilogue::gate})
    for (const auto& [tile_rows, s] : kE4m3Tiles) {
      expect_agreement_in_e4m3(s, end, tile_rows);
      if (HasFatalFailure()) return;
    }
}

/// For compute-sanitizer: a launch or two of each kind of tile.
class SmallKernelTiledLinear : public TiledLinear {};
ATTACCA_ON_EACH_DEVICE(SmallKernelTiledLinear);

TEST_P(SmallKernelTiledLinear, agrees_with_the_reference_in_tiles_of_every_size) {
  expect_agreement({272, 192, 61, 64}, Epilogue::add, 64, 8);
  expect_agreement({272, 192, 129, 200}, Epilogue::gate, 128, 8);
  expect_agreement({272, 192, 257, 260}, Epilogue::store, 256, 8);
}

TEST_P(SmallKernelTiledLinear, agrees_with_the_reference_in_split_and_tall_tiles) {
  expect_agreement({256, 512, 60, 64}, Epilogue::add, 64, 8);     // four pairs to a tile
  expect_agreement({256, 512, 70, 128}, Epilogue::gate, 128, 8);  // two
  expect_agreement({272, 192, 61, 64}, Epilogue::store, 64, 2);   // one pair has a tall tile
}

TEST_P(SmallKernelTiledLinear, agrees_with_the_reference_with_weights_in_f16_and_e4m3) {
  expect_agreement_in_f16({272, 192, 61, 64}, Epilogue::gate, 64);
  expect_agreement_in_f16({272, 192, 129, 200}, Epilogue::store, 128);
  expect_agreement_in_f16({48, 128, 257, 260}, Epilogue::add, 256);
  expect_agreement_in_e4m3({272, 192, 65, 65}, Epilogue::gate, 128);
  expect_agreement_in_e4m3({48, 128, 257, 260}, Epilogue::store, 256);
}

struct Chosen {
  std::uint32_t outputs;
  std::uint32_t columns;
  Epilogue end;
  std::uint32_t rows[5];  // of a tile, for 128, 256, 512, 1024 and 2048 rows of x
};

TEST(TiledRows, tiles_are_those_that_were_faster_on_an_h200) {
  constexpr Chosen kChosen[] = {{3072, 2048, Epilogue::store, {128, 128, 128, 256, 128}},
                                {2048, 2048, Epilogue::add, {128, 128, 128, 128, 256}},
                                {8192, 2048, Epilogue::gate, {128, 256, 256, 256, 256}},
                                {2048, 8192, Epilogue::add, {128, 128, 128, 128, 256}},
                                {6144, 4096, Epilogue::store, {128, 128, 256, 128, 256}},
                                {4096, 4096, Epilogue::add, {128, 128, 128, 256, 256}},
                                {14336, 4096, Epilogue::gate, {128, 256, 128, 256, 256}},
                                {4096, 14336, Epilogue::add, {128, 256, 256, 256, 256}}};
  for (const Chosen& c : kChosen) {
    StreamedLinearArgs product{};
    product.w = {nullptr, kernels::TensorType::bf16, c.outputs, c.columns};
    product.epilogue = c.end;
    std::uint32_t rows = 64;
    for (const std::uint32_t wanted : c.rows) {
      product.rows.capacity = rows *= 2;
      EXPECT_EQ(kernels::tiled_rows(product, false, 132), wanted)
          << c.outputs << " x " << c.columns << ", " << rows << " rows";
      EXPECT_EQ(kernels::tiled_rows(product, true, 132), 128u) << "in order";
    }
    product.rows.capacity = 64;
    EXPECT_EQ(kernels::tiled_rows(product, false, 132), 64u);
  }
}

TEST(TiledRows, e4m3_weights_prefer_tiles_that_convert_them_for_more_rows) {
  StreamedLinearArgs product{};
  product.epilogue = Epilogue::gate;
  product.rows.capacity = 512;
  for (const auto& [type, wanted] :
       {std::pair{kernels::TensorType::bf16, 128u}, {kernels::TensorType::e4m3, 256u}}) {
    product.w = {nullptr, type, 14336, 4096};
    EXPECT_EQ(kernels::tiled_rows(product, false, 132), wanted) << type_name(type);
  }
}

class GatherResidual : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(GatherResidual);

TEST_P(GatherResidual, rows_come_in_the_order_asked_for_and_no_other_is_written) {
  const std::uint32_t columns = 192, parts = columns / Residual::kPart;
  const Bits scaled = random_bits(9 * columns, 1);
  const std::vector<float> squares = random_floats(9 * parts, 2);
  const std::vector<std::int32_t> gather{8, 0, 3, 3, 1};
  const Buffer<std::uint16_t> from = buffer(scaled), to = buffer(Bits(5 * columns, 0x4567));
  const Buffer<float> from_squares = buffer(squares),
                      to_squares = buffer(std::vector<float>(5 * parts, kUntouched));
  const Buffer<std::int32_t> rows = buffer(gather);
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({4});
  const kernels::GatherResidualArgs args{{nullptr, from.data(), from_squares.data(), columns},
                                         rows.data(),
                                         {count.data(), 5},
                                         {nullptr, to.data(), to_squares.data(), columns}};
  Graph graph(device());
  graph.kernel(kernels::gather_residual(), grid_of(args, is_cuda()), args);
  run(graph);
  const Bits bits = to.read();
  const std::vector<float> sums = to_squares.read();
  for (std::size_t row = 0; row < 5; ++row) {
    const auto source = static_cast<std::size_t>(gather[row]);
    for (std::size_t i = 0; i < columns; ++i)
      ASSERT_EQ(bits[row * columns + i], row < 4 ? scaled[source * columns + i] : 0x4567);
    for (std::size_t i = 0; i < parts; ++i)
      ASSERT_EQ(sums[row * parts + i], row < 4 ? squares[source * parts + i] : kUntouched);
  }
}

}  // namespace
}  // namespace attacca::test
