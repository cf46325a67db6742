// Tests that linear layers have one order of sums: the kernel for few rows gives the same bits in
// every grid, and the kernel for many rows gives those bits when asked to, for every epilogue,
// ragged sizes, whole tiles and split ones. Skipped on devices without the kernels.
#include <gtest/gtest.h>

#include <utility>

#include "kernels/on_each_hopper.hpp"

namespace attacca::test::sum_order_test {
namespace {

using kernels::Epilogue;
using kernels::StreamedLinearArgs;
using Sizes = ProductSizes;
using World = ProductWorld;

class SumOrder : public OnEachHopper {
 protected:
  void run_tiled(World& world, unsigned processors = kProcessors, unsigned times = 1) {
    OnEachHopper::run_tiled(world, {.in_order = true, .processors = processors, .times = times});
  }
  void run_streamed(World& world, unsigned processors = kProcessors, unsigned times = 1) {
    StreamedLinearArgs args = world.product;
    args.in_order = true;
    repeat(kernels::streamed_linear(args), kernels::streamed_grid(args, processors), args, times);
  }
  static void expect_same(World& many, World& few) {
    EXPECT_TRUE(many.y.read() == few.y.read());
    EXPECT_TRUE(many.rounded.read() == few.rounded.read());
    EXPECT_TRUE(many.sums.read() == few.sums.read());
  }
};
ATTACCA_ON_EACH_DEVICE(SumOrder);

// With 132 blocks, 66 pairs of them for many rows.
constexpr Sizes kSizes[] = {
    {16, 64, 17, 20},        // less than a tile; most blocks of few rows have none
    {48, 128, 64, 64},       // one class
    {256, 320, 1, 40},       // three classes, the last one half
    {576, 64, 0, 64},        // no rows
    {2048, 1024, 64, 64},    // eight pairs to a tile, a class each
    {1536, 1088, 33, 64},    // eight pairs to a tile; the first class is longer than the others
    {3072, 2048, 63, 64},    // five pairs to a tile, which have one class or two
    {3584, 512, 61, 64},     // four classes, and pairs with parts of two tiles
    {6144, 4096, 64, 64},    // three classes each, of one tile or two
    {4096, 14336, 64, 64},   // two classes each; chunks in eight orders
    {14336, 576, 61, 64},    // with gates a tall tile each, of five classes
    {29456, 192, 33, 64},    // a tall tile each, the last one ragged
    {17152, 64, 20, 32},     // a tile each, and one pair has two
    {25600, 1152, 20, 32},   // a tile and a part; with gates some have part, whole, whole, part
    {1536, 4096, 65, 65},    // from here on 128 rows: one row in x's second tile
    {272, 192, 129, 200},    // one row in x's second tile, and a ragged tile of weights
    {768, 2624, 150, 256},   // a class each
    {4608, 4096, 100, 128},  // some have parts of two tiles
    {4112, 1600, 400, 416}, {1040, 3136, 300, 320}, {48, 320, 1100, 1100}};

TEST_P(SumOrder, many_rows_have_the_bits_of_few) {
  for (const Epilogue end : {Epilogue::store, Epilogue::add, Epilogue::gate})
    for (const Sizes& s : kSizes) {
      SCOPED_TRACE(testing::Message() << s << ", end " << static_cast<int>(end));
      World many(device(), s, end), few(device(), s, end);
      run_tiled(many);
      run_streamed(few);
      expect_same(many, few);
    }
}

/// For compute-sanitizer.
class SmallKernelSumOrder : public SumOrder {};
ATTACCA_ON_EACH_DEVICE(SmallKernelSumOrder);

TEST_P(SmallKernelSumOrder, many_rows_have_the_bits_of_few) {
  for (const auto& [s, end] : {std::pair{Sizes{272, 320, 129, 200}, Epilogue::gate},
                               {{256, 1088, 33, 64}, Epilogue::add}}) {
    SCOPED_TRACE(testing::Message() << s);
    World many(device(), s, end), few(device(), s, end);
    run_tiled(many, 16);
    run_streamed(few, 16);
    expect_same(many, few);
  }
}

TEST_P(SumOrder, a_gate_may_lie_before_its_partner_or_behind_it) {
  for (const bool swaps : {false, true}) {
    World many(device(), {784, 320, 40, 64}, Epilogue::gate);
    World few(device(), {784, 320, 40, 64}, Epilogue::gate);
    for (World* world : {&many, &few})
      if (swaps) std::swap(world->product.w, world->product.up);
    run_tiled(many);
    run_streamed(few);
    expect_same(many, few);
  }
}

TEST_P(SumOrder, knows_no_grid) {
  for (const Epilogue end : {Epilogue::store, Epilogue::add, Epilogue::gate})
    for (const Sizes& s : {Sizes{784, 1344, 70, 80}, Sizes{1552, 5120, 9, 64}}) {
      World few(device(), s, end);
      run_streamed(few);
      for (const unsigned processors : {2u, 10u, 78u}) {
        SCOPED_TRACE(testing::Message() << s << ", " << processors << " blocks");
        World many(device(), s, end), fewer(device(), s, end);
        run_tiled(many, processors);
        run_streamed(fewer, processors);
        expect_same(many, few);
        expect_same(fewer, few);
      }
    }
}

TEST_P(SumOrder, a_chain_of_products_adds_up_as_among_few) {
  constexpr unsigned kTimes = 7;
  for (const Sizes& s : {Sizes{1536, 2048, 50, 64}, Sizes{768, 1024, 300, 320}}) {
    SCOPED_TRACE(testing::Message() << s);
    World many(device(), s, Epilogue::add), few(device(), s, Epilogue::add);
    run_tiled(many, kProcessors, kTimes);
    run_streamed(few, kProcessors, kTimes);
    expect_same(many, few);
  }
}

}  // namespace
}  // namespace attacca::test::sum_order_test
