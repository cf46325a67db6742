// Tests of streamed linear layers beside other kernels on a GPU: behind programmatic edges, on one
// processor, and while others keep memory busy.
#include <gtest/gtest.h>

#include <attacca/occupancy.hpp>
#include <cmath>
#include <optional>

#include "kernels/streamed_world.hpp"
#include "support/kernels.hpp"

namespace attacca::test::streamed_linear_test {
namespace {

class StreamedLinearInCompany : public StreamedWorld {};
ATTACCA_ON_EACH_DEVICE(StreamedLinearInCompany);

TEST_P(StreamedLinearInCompany, products_behind_programmatic_edges_read_what_came_before) {
  // A chain that adds W x to the same residual again and again. x is the residual's own scaled
  // rows.
  const std::uint32_t size = is_cuda() ? 256 : 64;
  const Sizes s{size, size, 2, 8};
  for (const TensorType type : kTypes) {
    SCOPED_TRACE(type_name(type));
    const Weights w = weights(type, s, 1, 0.02f);
    const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
    const Buffer<float> norms = buffer(std::vector<float>(s.rows, 1));
    const auto result = [&](bool is_programmatic) {
      const Buffer<float> values = buffer(random_floats(std::size_t{s.capacity} * s.rows, 5));
      const Rows scaled = rows(s.capacity, s.rows, 7);
      const Rows x = rows(s.capacity, s.rows, 9);
      const Buffer<float> squares = buffer(std::vector<float>(s.capacity * s.rows / 16, 1));
      StreamedLinearArgs args = plain(scaled, count, s.capacity, w.matrix);
      args.squares = squares.data();
      args.epsilon = 1e-5f;
      args.residual = {values.data(), scaled.x_buffer.data(), squares.data(), s.rows,
                       scaled.rest_buffer.data()};
      args.next_norm = norms.data();
      Graph graph(device());
      std::optional<Node> last;
      for (int at = 0; at < (is_cuda() ? 40 : 10); ++at) {
        StreamedLinearArgs next = args;
        if (at % 2 == 0) {  // x = gated rows of the residual
          next.epilogue = Epilogue::gate;
          next.up = next.w;
          next.gated = x.x_buffer.data();
          next.gated_rest = x.rest_buffer.data();
        } else {
          next.epilogue = Epilogue::add;
          next.x = x.x_buffer.data();
          next.x_rest = x.rest_buffer.data();
          next.squares = nullptr;
        }
        const auto node = graph.kernel(kernels::streamed_linear(next),
                                       kernels::streamed_grid(next, processors()), next);
        if (last && is_programmatic)
          node.after_programmatic(*last);
        else if (last)
          node.after(*last);
        last = node;
      }
      run(graph);
      return values.read();
    };
    const std::vector<float> one_by_one = result(false);
    for (int at = 0; at < (is_cuda() ? 5 : 1); ++at) EXPECT_EQ(result(true), one_by_one);
    for (const float value : one_by_one) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST_P(StreamedLinearInCompany,
       a_processor_has_no_room_for_two_blocks_of_a_product_unless_every_other_adds) {
  if (!is_cuda()) GTEST_SKIP() << "of a GPU's processors";
  for (const TensorType type : kTypes)
    for (const std::uint32_t capacity : {8u, 16u}) {
      StreamedLinearArgs args{};
      args.rows.capacity = capacity;
      args.w = {nullptr, type, 4096, 4096};
      const auto room_for = [&](Epilogue end, kernels::CoResident co_resident) {
        args.epilogue = end;
        const Grid grid = kernels::streamed_grid(args, processors(), co_resident);
        return occupancy(device(), kernels::streamed_linear(args), grid)
            .residency.blocks_per_processor;
      };
      SCOPED_TRACE(type_name(type));
      for (const Epilogue end : {Epilogue::store, Epilogue::gate, Epilogue::add})
        EXPECT_EQ(room_for(end, kernels::CoResident::none), 1u);
      EXPECT_EQ(room_for(Epilogue::store, kernels::CoResident::next), 1u);
      EXPECT_EQ(room_for(Epilogue::gate, kernels::CoResident::next), 1u);
      EXPECT_EQ(room_for(Epilogue::add, kernels::CoResident::next), 2u);
    }
}

TEST_P(StreamedLinearInCompany,
       no_stage_is_filled_again_while_other_kernels_keep_its_readers_waiting) {
  // A load from shared memory can wait behind loads of a kernel that started early, for longer than
  // TMA takes to fill a stage that was released too soon.
  const Sizes s{is_cuda() ? 6144u : 32u, is_cuda() ? 4096u : 64u, 8, 8};
  constexpr int kPairs = 4;
  const Weights w = weights(TensorType::bf16, s, 1);
  const Rows x = rows(s.capacity, s.columns, 2);
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
  const Grid others{Dim3{3 * processors()}, Dim3{128}};
  const Buffer<std::uint32_t> much(device(), is_cuda() ? 16u << 20 : 64);
  const Buffer<std::uint32_t> sums(device(), std::size_t{others.blocks.x} * others.threads.x);
  stream().fill(much.data(), 1, much.bytes());
  const auto products_into = [&](const Buffer<float>& y) {
    StreamedLinearArgs args = plain(x, count, s.capacity, w.matrix);
    args.y = y.data();
    return args;
  };
  const std::vector<float> nothing(std::size_t{s.capacity} * s.rows);
  const Buffer<float> alone = buffer(nothing);
  run_kernel(products_into(alone));

  std::vector<Buffer<float>> results;
  for (int i = 0; i < 2 * kPairs; ++i) results.push_back(buffer(nothing));
  // Blocks ask for no more shared memory than they need, so two of them fit on an SM.
  StreamedLinearArgs added = products_into(alone);
  added.epilogue = Epilogue::add;
  const Grid crowded = kernels::streamed_grid(added, processors());
  Graph graph(device());
  std::optional<Node> last;
  for (int i = 0; i < 2 * kPairs; ++i) {
    const StreamedLinearArgs args = products_into(results[static_cast<std::size_t>(i)]);
    auto node = graph.kernel(kernels::streamed_linear(args), crowded, args);
    if (i % 2 != 0)
      node.after_programmatic(*last);
    else if (last)
      node.after(*last);
    last = node;
    if (i % 2 != 0)
      last = graph
                 .kernel(crowd, others,
                         {.x = much.data(),
                          .count = static_cast<unsigned>(much.size()),
                          .sums = sums.data()})
                 .after_programmatic(*last);
  }
  Exec exec = graph.instantiate();
  for (int launch_number = 0; launch_number < 10; ++launch_number) {
    run(exec);
    for (const Buffer<float>& result : results) ASSERT_EQ(result.read(), alone.read());
  }
}

}  // namespace
}  // namespace attacca::test::streamed_linear_test
