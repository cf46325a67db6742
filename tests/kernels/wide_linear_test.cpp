// Tests of products of whole tiles against the host's reference, which works in doubles: every
// ending, ragged sizes, columns that blocks share and tiles that they do not. Skipped where there
// are no such products. And of the rows they are given.
#include "kernels/wide_linear.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernels/gather_residual.hpp"
#include "kernels/quantization.hpp"
#include "kernels/weights.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::Matrix;
using kernels::Residual;
using kernels::TensorType;
using kernels::ThinEnd;
using kernels::ThinLinearArgs;
using kernels::WideLinearArgs;

using Bits = std::vector<std::uint16_t>;

constexpr float kUntouched = -7;

Bits random_bits(std::size_t count, std::uint32_t seed, float scale = 1) {
  Bits bits;
  for (const float value : random_floats(count, seed))
    bits.push_back(kernels::bfloat_of_float(value * scale));
  return bits;
}

struct Sizes {
  std::uint32_t rows;
  std::uint32_t columns;
  std::uint32_t count;
  std::uint32_t capacity;
};
std::ostream& operator<<(std::ostream& out, const Sizes& s) {
  return out << s.rows << " x " << s.columns << ", " << s.count << " of " << s.capacity;
}

/// All that a product reads and writes, on one device.
struct World {
  World(const Device& device, const Sizes& s, ThinEnd end)
      : sizes(s),
        x(device, random_bits(std::size_t{s.capacity} * s.columns, 1)),
        w(device, random_bits(std::size_t{s.rows} * s.columns, 2, scale_of(s))),
        up(device, random_bits(std::size_t{s.rows} * s.columns, 3, scale_of(s))),
        squares(device, std::vector<float>(s.capacity * s.columns / Residual::kPart, 3.5f)),
        floats(device, random_floats(s.rows, 4)),
        count(device, std::vector<std::uint32_t>{s.count}),
        y(device, std::vector<float>(std::size_t{s.capacity} * s.rows, kUntouched)),
        rounded(device, Bits(std::size_t{s.capacity} * s.rows, 0x4567)),
        sums(device, std::vector<float>(s.capacity * s.rows / Residual::kPart, kUntouched)) {
    product.x = x.data();
    product.rows = {count.data(), s.capacity};
    product.w = {w.data(), TensorType::bf16, s.rows, s.columns};
    product.up = {up.data(), TensorType::bf16, s.rows, s.columns};
    product.end = end;
    product.bias = floats.data();
    product.next_norm = floats.data();
    product.y = y.data();
    product.gated = rounded.data();
    product.residual = {y.data(), rounded.data(), sums.data(), s.rows};
    product.epsilon = 0.5f;
    if (end != ThinEnd::add) product.squares = squares.data();
  }
  static float scale_of(const Sizes& s) { return 1 / std::sqrt(static_cast<float>(s.columns)); }

  Sizes sizes;
  Buffer<std::uint16_t> x, w, up;
  Buffer<float> squares, floats;
  Buffer<std::uint32_t> count;
  Buffer<float> y;
  Buffer<std::uint16_t> rounded;
  Buffer<float> sums;
  ThinLinearArgs product{};
};

class WideLinear : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!is_cuda()) GTEST_SKIP() << "the host's body is the reference";
    if (!IsSkipped() && !kernels::has_wide_linear(device()))
      GTEST_SKIP() << "products of whole tiles: not on this GPU";
  }

  /// Runs the product with the kernel under test, `times` times one after another.
  void run_wide(World& world, unsigned times = 1) {
    constexpr unsigned kProcessors = 132;
    const Buffer<std::byte> workspace(
        device(), std::vector<std::byte>(kernels::wide_workspace_bytes(kProcessors)));
    const ThinLinearArgs& p = world.product;
    const bool gate_is_second = std::less<>{}(p.up.data, p.w.data);
    const Matrix& first = gate_is_second ? p.up : p.w;
    const std::vector<TensorMap> maps{
        p.end == ThinEnd::gate ? map_weights(device(), first, gate_is_second ? p.w : p.up)
                               : map_weights(device(), p.w),
        kernels::map_rows(device(), p.x, world.sizes.capacity, p.w.columns, world.sizes.capacity)};
    const Buffer<TensorMap> on_device(device(), maps);
    const WideLinearArgs args{on_device.data(), on_device.data() + 1, workspace.data(),
                              gate_is_second, p};
    Graph graph(device());
    Node last = graph.kernel(wide_linear(args), wide_grid(args, kProcessors), args);
    for (unsigned i = 1; i < times; ++i)
      last = graph.kernel(wide_linear(args), wide_grid(args, kProcessors), args)
                 .after_programmatic(last);
    run(graph);
  }
  /// Runs it with the reference.
  static void run_reference(World& world) {
    Graph graph(Device::host());
    graph.kernel(thin_linear(world.product), Grid{Dim3{64}, Dim3{1}}, world.product);
    Stream stream(Device::host());
    graph.instantiate().launch(stream);
    stream.synchronize();
  }
};
ATTACCA_ON_EACH_DEVICE(WideLinear);

constexpr Sizes kSizes[] = {{16, 64, 17, 20},     {48, 128, 64, 64},     {256, 64, 1, 40},
                            {272, 192, 65, 65},   {96, 576, 129, 200},   {576, 64, 0, 64},
                            {2048, 512, 64, 64},  {1536, 1024, 33, 64},  {17152, 64, 20, 64},
                            {768, 576, 150, 512}, {4352, 64, 300, 1024}, {256, 4096, 70, 128}};

TEST_P(WideLinear, every_ending_agrees_with_the_reference_and_no_other_row_is_written) {
  for (const ThinEnd end : {ThinEnd::store, ThinEnd::add, ThinEnd::gate})
    for (const Sizes& s : kSizes) {
      SCOPED_TRACE(testing::Message() << s << ", end " << static_cast<int>(end));
      World world(device(), s, end);
      World reference(Device::host(), s, end);
      run_wide(world);
      run_reference(reference);
      const std::vector<float> y = world.y.read(), expected = reference.y.read();
      for (std::size_t i = 0; i < y.size(); ++i)
        ASSERT_NEAR(y[i], expected[i], 2e-5) << i / s.rows << ", " << i % s.rows;
      const Bits bits = world.rounded.read(), expected_bits = reference.rounded.read();
      for (std::size_t i = 0; i < bits.size(); ++i) {
        const float want = kernels::float_of_bfloat(expected_bits[i]);
        ASSERT_NEAR(kernels::float_of_bfloat(bits[i]), want, std::abs(want) / 120 + 2e-5)
            << i / s.rows << ", " << i % s.rows;
      }
      const std::vector<float> sums = world.sums.read(), expected_sums = reference.sums.read();
      for (std::size_t i = 0; i < sums.size(); ++i)
        ASSERT_NEAR(sums[i], expected_sums[i], std::abs(expected_sums[i]) * 1e-4 + 1e-4) << i;
    }
}

TEST_P(WideLinear, blocks_that_share_tiles_leave_nothing_behind_for_the_next_product) {
  const Sizes s{1536, 4096, 50, 64};
  constexpr unsigned kTimes = 7;
  World world(device(), s, ThinEnd::add);
  World reference(Device::host(), s, ThinEnd::add);
  run_wide(world, kTimes);
  for (unsigned i = 0; i < kTimes; ++i) run_reference(reference);
  const std::vector<float> y = world.y.read(), expected = reference.y.read();
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-4) << i;
}

TEST_P(WideLinear, a_product_has_the_same_bits_every_time) {
  const Sizes s{6144, 1024, 64, 64};
  std::vector<float> first;
  for (int i = 0; i < 5; ++i) {
    World world(device(), s, ThinEnd::store);
    run_wide(world);
    const std::vector<float> y = world.y.read();
    if (i == 0) first = y;
    ASSERT_EQ(y, first);
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
