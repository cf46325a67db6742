// Tests of copies and fills with typed spans and of copies of rows, in graphs, on streams and set
// in an exec.
#include <gmock/gmock.h>

#include <limits>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/refusals.hpp"

namespace attacca::test {
namespace {

using testing::HasSubstr;

class SmallCopies : public OnEachDevice {
 protected:
  static constexpr std::size_t kInt = sizeof(int);
};
ATTACCA_ON_EACH_DEVICE(SmallCopies);

TEST_P(SmallCopies, spans_are_copied_and_filled_by_a_graph_and_a_stream) {
  const Buffer<int> x = buffer<int>({1, 2, 3, 4});
  const Buffer<int> y = buffer<int>({0, 0, 0, 0});
  Graph graph(device());
  const auto copy = graph.copy(y.span().first(2), x.span().last(2));
  const auto fill = graph.fill(x.span().first(1), 0xff);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(y.read(), (std::vector<int>{3, 4, 0, 0}));
  EXPECT_EQ(x.read(), (std::vector<int>{-1, 2, 3, 4}));

  EXPECT_TRUE(exec.set(copy, y.span().subspan(1, 3), x.span().first(3)));
  EXPECT_TRUE(exec.set(fill, x.span().last(1), 0));
  run(exec);
  EXPECT_EQ(y.read(), (std::vector<int>{3, -1, 2, 3}));
  EXPECT_EQ(x.read(), (std::vector<int>{-1, 2, 3, 0}));

  stream().fill(y.span(), 0);
  stream().copy(y.span().last(1), x.span().first(1));
  stream().synchronize();
  EXPECT_EQ(y.read(), (std::vector<int>{0, 0, 0, -1}));
}

TEST_P(SmallCopies, spans_of_two_sizes_are_refused_with_both) {
  const Buffer<int> x = buffer<int>({1, 2, 3});
  const Buffer<int> y = buffer<int>({0, 0});
  Graph graph(device());
  const auto copy = graph.copy(y.span(), x.span().first(2));
  expect_bad([&] { graph.copy(y.span(), x.span()); }, "copy of 3 elements to a span of 2");
  expect_bad([&] { stream().copy(x.span(), y.span()); }, "copy of 2 elements to a span of 3");
  Exec exec = graph.instantiate();
  expect_bad([&] { exec.set(copy, x.span(), y.span()); }, "copy of 2 elements to a span of 3");
}

TEST_P(SmallCopies, a_buffer_refuses_what_does_not_fit_and_keeps_what_it_has) {
  Buffer<int> x = buffer<int>({1, 2});
  expect_bad([&] { x.write(std::vector<int>{7, 8, 9}); }, "3 values written to a buffer of 2");
  EXPECT_EQ(x.read(), (std::vector<int>{1, 2}));
  x.write(std::vector<int>{7});
  EXPECT_EQ(x.read(), (std::vector<int>{7, 2}));
}

TEST_P(SmallCopies, rows_are_copied_from_pitch_to_pitch) {
  // The middle column of a matrix of 3 x 3, and back into another of 3 x 2.
  const Buffer<int> from = buffer<int>({1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Buffer<int> to = buffer(std::vector<int>(6, 0));
  Graph graph(device());
  const auto copy = graph.copy_2d({to.data(), 2 * kInt}, {from.data() + 1, 3 * kInt}, kInt, 3);
  EXPECT_THAT(to_text(graph), HasSubstr("3 rows of 4 bytes"));
  EXPECT_THAT(to_dot(graph), HasSubstr("3 rows of 4 bytes"));
  EXPECT_THAT(to_json(graph), HasSubstr("\"bytes\": 12, \"rows\": 3"));
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(to.read(), (std::vector<int>{2, 0, 5, 0, 8, 0}));

  // CUDA cannot change a copy of rows in place, and says so. The result is right either way.
  const UpdateReport report =
      exec.set(copy, {to.data() + 1, 2 * kInt}, {from.data(), 3 * kInt}, kInt, 2);
  if (report.was_reinstantiated) {
    EXPECT_EQ(report.node, "copy");
  }
  EXPECT_TRUE(is_cuda() || !report.was_reinstantiated);
  run(exec);
  EXPECT_EQ(to.read(), (std::vector<int>{2, 1, 5, 4, 8, 0}));

  stream().fill(to.span(), 0);
  stream().copy_2d({to.data(), 2 * kInt}, {from.data() + 1, 3 * kInt}, 2 * kInt, 3);
  stream().synchronize();
  EXPECT_EQ(to.read(), (std::vector<int>{2, 3, 5, 6, 8, 9}));
}

TEST_P(SmallCopies, a_captured_copy_of_rows_is_the_same_node) {
  const Buffer<int> from = buffer<int>({1, 2, 3, 4});
  const Buffer<int> to = buffer<int>({0, 0});
  const Graph graph = capture(stream(), [&](StreamRef on) {
    on.copy_2d({to.data(), kInt}, {from.data() + 1, 2 * kInt}, kInt, 2);
  });
  EXPECT_EQ(graph.nodes().at(0).kind(), NodeKind::copy);
  run(graph);
  EXPECT_EQ(to.read(), (std::vector<int>{2, 4}));
}

TEST_P(SmallCopies, rows_that_lie_side_by_side_are_one_copy) {
  const Buffer<int> from = buffer<int>({1, 2, 3, 4});
  const Buffer<int> to = buffer(std::vector<int>(4, 0));
  Graph graph(device());
  const auto copy = graph.copy_2d({to.data(), 2 * kInt}, {from.data(), 2 * kInt}, 2 * kInt, 2);
  EXPECT_THAT(to_text(graph), HasSubstr("16 bytes"));
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(to.read(), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_TRUE(exec.set(copy, {to.data(), kInt}, {from.data() + 1, kInt}, kInt, 2));
  run(exec);
  EXPECT_EQ(to.read(), (std::vector<int>{2, 3, 3, 4}));
}

TEST_P(SmallCopies, rows_of_a_graph_s_own_memory_are_copied) {
  const Buffer<int> from = buffer<int>({1, 2, 3, 4});
  const Buffer<int> to = buffer<int>({0, 0});
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 6);
  const auto in = graph.copy_2d({scratch.data(), 3 * kInt}, {from.data(), 2 * kInt}, 2 * kInt, 2)
                      .after(scratch);
  graph.copy_2d({to.data(), kInt}, {scratch.data() + 1, 3 * kInt}, kInt, 2).after(in);
  run(graph);
  EXPECT_EQ(to.read(), (std::vector<int>{2, 4}));
}

TEST_P(SmallCopies, rows_that_overlap_or_do_not_exist_are_refused_with_the_numbers) {
  const Buffer<int> x = buffer(std::vector<int>(16, 0));
  Graph graph(device());
  expect_bad(
      [&] {
        graph.copy_2d({x.data(), 4}, {x.data() + 8, 16}, 8, 2);
      },
      "rows of 8 bytes with pitches of 16 to 4");
  expect_bad(
      [&] {
        stream().copy_2d({x.data(), 16}, {x.data() + 8, 4}, 8, 2);
      },
      "rows of 8 bytes with pitches of 4 to 16");
  expect_bad([&] { graph.copy_2d({x.data(), 16}, {x.data() + 8, 16}, 8, 0); }, "copy of 0 rows");
  expect_bad([&] { graph.copy_2d({nullptr, 16}, {x.data(), 16}, 8, 2); }, "give it two addresses");
  const std::size_t many = std::numeric_limits<std::size_t>::max() / 8;
  expect_bad([&] { graph.copy_2d({x.data(), 16}, {x.data() + 8, 16}, 8, many); }, "fewer rows");
  EXPECT_EQ(graph.node_count(), 0u);
}

TEST_P(SmallCopies, more_bytes_than_any_memory_holds_are_refused) {
  const Buffer<int> x = buffer(std::vector<int>(16, 0));
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  Graph graph(device());
  expect_bad([&] { graph.copy(x.data(), x.data(), kMost); },
             "copy of 18446744073709551615 bytes: more than any memory holds");
  expect_bad([&] { graph.fill(x.data(), 0, kMost - 63); }, "more than any memory holds");
  expect_bad([&] { stream().copy(x.data(), x.data(), kMost); }, "more than any memory holds");
  expect_bad([&] { graph.copy_2d({x.data(), kMost}, {x.data(), kMost}, kMost, 1); }, "fewer rows");
  EXPECT_EQ(graph.node_count(), 0u);
}

}  // namespace
}  // namespace attacca::test
