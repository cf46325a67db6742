// Tests that the kernel for many rows gives the same bits as the kernel for few: every epilogue,
// ragged sizes, blocks with more tiles than they take at a time and with none. Skipped on devices
// without the kernel.
#include "kernels/linear/sm90_same_bits_linear.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "kernels/product_world.hpp"

namespace attacca::test {
namespace {

using kernels::Epilogue;
using kernels::SameBitsLinearArgs;
using kernels::StreamedLinearArgs;
using Sizes = ProductSizes;
using World = ProductWorld;

class SameBitsLinear : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!is_cuda()) GTEST_SKIP() << "the host's body is the reference";
    if (!IsSkipped() && !kernels::has_same_bits_linear(device(), 2))
      GTEST_SKIP() << "products of many rows: not on this GPU";
  }

  void run_same_bits(World& world, unsigned processors, unsigned times = 1) {
    const StreamedLinearArgs& p = world.product;
    const std::vector<TensorMap> maps{
        p.epilogue == Epilogue::gate ? map_tiles(device(), p.w, p.up) : map_tiles(device(), p.w),
        kernels::map_same_bits_rows(device(), p.x, world.sizes.capacity, p.w.columns)};
    const Buffer<TensorMap> on_device(device(), maps);
    const SameBitsLinearArgs args{on_device.data(), on_device.data() + 1, gate_is_second(p.w, p.up),
                                  p};
    repeat(kernels::same_bits_linear(), kernels::same_bits_grid(processors), args, times);
  }
  void run_streamed(World& world, unsigned processors, unsigned times = 1) {
    repeat(kernels::streamed_linear(world.product),
           kernels::streamed_grid(world.product, processors), world.product, times);
  }
  static void expect_same(World& many, World& few) {
    EXPECT_TRUE(many.y.read() == few.y.read());
    EXPECT_TRUE(many.rounded.read() == few.rounded.read());
    EXPECT_TRUE(many.sums.read() == few.sums.read());
  }

 private:
  template <class Args>
  void repeat(const Kernel<Args>& kernel, const Grid& grid, const Args& args, unsigned times) {
    Graph graph(device());
    Node last = graph.kernel(kernel, grid, args);
    for (unsigned i = 1; i < times; ++i)
      last = graph.kernel(kernel, grid, args).after_programmatic(last);
    run(graph);
  }
};
ATTACCA_ON_EACH_DEVICE(SameBitsLinear);

// With 132 blocks.
constexpr Sizes kSizes[] = {
    {16, 64, 17, 20},      // most blocks have no tile
    {48, 128, 64, 64},     // half of a stage
    {256, 320, 1, 40},     // a stage and a part of one
    {576, 64, 0, 64},      // no rows
    {2048, 1024, 64, 64},  // two tiles each, or one
    {4096, 1088, 33, 64},  // four tiles each, and a chunk that is nearly empty
    {3072, 2048, 63, 64},  // chunks in two orders
    {8448, 448, 40, 64},   // eight tiles each; with gates sixteen, in two turns of eight
    {8704, 256, 40, 64},   // one of a pair has a tile more than eight
    {17152, 64, 20, 32},   // many tiles of one stage
    {1536, 4096, 65, 65},  // one row in a second tile of x
    {272, 192, 129, 200},  // one row in a third tile of x
    {768, 576, 150, 256}, {1040, 3136, 300, 320}, {48, 320, 1100, 1100}};

TEST_P(SameBitsLinear, every_row_is_the_same_bits_as_among_few) {
  for (const Epilogue end : {Epilogue::store, Epilogue::add, Epilogue::gate})
    for (const Sizes& s : kSizes) {
      SCOPED_TRACE(testing::Message() << s << ", end " << static_cast<int>(end));
      World many(device(), s, end), few(device(), s, end);
      run_same_bits(many, 132);
      run_streamed(few, 132);
      expect_same(many, few);
    }
}

TEST_P(SameBitsLinear, a_gate_may_lie_before_its_partner_or_behind_it) {
  for (const bool swaps : {false, true}) {
    World many(device(), {784, 320, 40, 64}, Epilogue::gate);
    World few(device(), {784, 320, 40, 64}, Epilogue::gate);
    for (World* world : {&many, &few})
      if (swaps) std::swap(world->product.w, world->product.up);
    run_same_bits(many, 132);
    run_streamed(few, 132);
    expect_same(many, few);
  }
}

TEST_P(SameBitsLinear, a_grid_of_any_even_size_computes_all) {
  for (const unsigned processors : {2u, 10u}) {
    World many(device(), {784, 1344, 70, 80}, Epilogue::gate);
    World few(device(), {784, 1344, 70, 80}, Epilogue::gate);
    run_same_bits(many, processors);
    run_streamed(few, processors);
    expect_same(many, few);
  }
}

TEST_P(SameBitsLinear, a_chain_of_products_adds_up_as_among_few) {
  constexpr unsigned kTimes = 7;
  for (const Sizes& s : {Sizes{1536, 2048, 50, 64}, Sizes{768, 1024, 300, 320}}) {
    SCOPED_TRACE(testing::Message() << s);
    World many(device(), s, Epilogue::add), few(device(), s, Epilogue::add);
    run_same_bits(many, 132, kTimes);
    run_streamed(few, 132, kTimes);
    expect_same(many, few);
  }
}

}  // namespace
}  // namespace attacca::test
