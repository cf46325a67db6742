// Tests of child graphs: both ways to make one, nesting, copies, and the order of their nodes.
#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

class SmallChild : public OnEachDevice {
 protected:
  AffineArgs times(const Buffer<int>& x, int factor, int summand) const {
    return {.x = x.data(), .count = x.size(), .factor = factor, .summand = summand};
  }
};
ATTACCA_ON_EACH_DEVICE(SmallChild);

TEST_P(SmallChild, a_child_built_in_place_runs_between_its_neighbours) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto before = graph.kernel(affine, Grid{}, times(x, 2, 0));
  const auto child = graph
                         .child("child",
                                [&](Graph& inside) {
                                  const auto a = inside.kernel(affine, Grid{}, times(x, 1, 3));
                                  inside.kernel(affine, Grid{}, times(x, 4, 0)).after(a);
                                })
                         .after(before);
  graph.kernel(affine, Grid{}, times(x, 1, -1)).after(child);
  run(graph);
  EXPECT_EQ(x.read().front(), (1 * 2 + 3) * 4 - 1);
}

TEST_P(SmallChild, a_copied_child_runs_like_the_graph_it_came_from) {
  const Buffer<int> x = buffer<int>({1});
  Graph other(device(), "other");
  const auto a = other.kernel(affine, Grid{}, times(x, 3, 0));
  other.kernel(affine, Grid{}, times(x, 1, 1)).after(a);

  Graph graph(device());
  const auto before = graph.kernel(affine, Grid{}, times(x, 1, 1));
  graph.child("copy", other).after(before);
  run(graph);
  EXPECT_EQ(x.read().front(), 7);
  run(other);
  EXPECT_EQ(x.read().front(), 22);
}

TEST_P(SmallChild, one_graph_can_be_a_child_twice) {
  const Buffer<int> x = buffer<int>({1});
  Graph other(device(), "other");
  other.kernel(affine, Grid{}, times(x, 2, 1));
  Graph graph(device());
  const auto first = graph.child("first", other);
  graph.child("second", other).after(first);
  run(graph);
  EXPECT_EQ(x.read().front(), 7);
}

TEST_P(SmallChild, changing_the_original_does_not_change_the_copy) {
  const Buffer<int> x = buffer<int>({1});
  Graph other(device(), "other");
  const auto only = other.kernel(affine, Grid{}, times(x, 2, 0));
  Graph graph(device());
  graph.child("copy", other);
  other.kernel(affine, Grid{}, times(x, 100, 0)).after(only);
  run(graph);
  EXPECT_EQ(x.read().front(), 2);
}

TEST_P(SmallChild, children_nest) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto outer = graph.child("outer", [&](Graph& middle) {
    const auto a = middle.kernel(affine, Grid{}, times(x, 2, 0));
    const auto b =
        middle.child("inner", [&](Graph& inner) { inner.kernel(affine, Grid{}, times(x, 1, 5)); })
            .after(a);
    middle.kernel(affine, Grid{}, times(x, 3, 0)).after(b);
  });
  graph.kernel(affine, Grid{}, times(x, 1, 1)).after(outer);
  run(graph);
  EXPECT_EQ(x.read().front(), 22);
}

TEST_P(SmallChild, an_empty_child_passes_order_through) {
  DeviceLog log(device());
  Graph graph(device());
  const auto before = graph.kernel(note, Grid{}, {.log = log.view(), .tag = 1});
  const auto empty = graph.child("empty", [](Graph&) {}).after(before);
  const auto hollow =
      graph.child("hollow", [](Graph& inside) { inside.child("also empty", [](Graph&) {}); })
          .after(empty);
  graph.kernel(note, Grid{}, {.log = log.view(), .tag = 2}).after(hollow);
  run(graph);
  EXPECT_EQ(log.read(), (std::vector<int>{1, 2}));
}

TEST_P(SmallChild, a_node_after_a_child_waits_for_all_its_ends) {
  const Buffer<int> x = buffer<int>({0, 0, 0, 0});
  const Buffer<int> total = buffer<int>({0});
  Graph graph(device());
  const auto child = graph.child("fan", [&](Graph& inside) {
    for (int at = 0; at < 4; ++at)
      inside.kernel(set_value, Grid{}, {.to = x.data() + at, .value = 10 + at});
  });
  int* p = x.data();
  graph
      .kernel(sum, Grid{},
              {.sum = total.data(), .in = {p, p + 1, p + 2, p + 3}, .count = 4, .more = 0})
      .after(child);
  run(graph);
  EXPECT_EQ(total.read().front(), 46);
}

TEST_P(SmallChild, a_child_may_hold_an_allocation) {
  const Buffer<int> result = buffer<int>({0});
  Graph other(device(), "with scratch");
  const auto scratch = other.allocate<int>("scratch", 4);
  const auto write =
      other.kernel(set_value, Grid{}, {.to = scratch.data() + 2, .value = 8}).after(scratch);
  const auto read = other
                        .kernel(sum, Grid{},
                                {.sum = result.data(),
                                 .in = {scratch.data() + 2, result.data()},
                                 .count = 2,
                                 .more = 0})
                        .after(write);
  other.free(scratch).after(read);

  Graph graph(device());
  const auto first = graph.child("first", other);
  graph.child("second", other).after(first);
  run(graph);
  EXPECT_EQ(result.read().front(), 16);
}

TEST_P(SmallChild, a_child_may_hold_conditionals) {
  const Buffer<unsigned> left = buffer<unsigned>({3});
  const Buffer<int> x = buffer<int>({0});
  Graph other(device(), "looping");
  other.while_("three times", [&](Graph& body, Condition again) {
    const auto step = body.kernel(affine, Grid{}, times(x, 1, 1));
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(step);
  });
  Graph graph(device());
  const auto before = graph.kernel(affine, Grid{}, times(x, 1, 10));
  graph.child("loop", other).after(before);
  run(graph);
  EXPECT_EQ(x.read().front(), 13);
}

TEST_P(SmallChild, a_child_inside_a_body_runs_in_each_pass) {
  const Buffer<unsigned> left = buffer<unsigned>({4});
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  graph.while_("four times", [&](Graph& body, Condition again) {
    const auto child =
        body.child("double", [&](Graph& inside) { inside.kernel(affine, Grid{}, times(x, 2, 0)); });
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(child);
  });
  run(graph);
  EXPECT_EQ(x.read().front(), 16);
}

TEST_P(SmallChild, a_graph_cannot_be_its_own_child) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device(), "serpent");
  graph.kernel(affine, Grid{}, times(x, 2, 0));
  EXPECT_THROW(graph.child("tail", graph), BadArgument);
  EXPECT_EQ(graph.node_count(), 1u);
  run(graph);
  EXPECT_EQ(x.read().front(), 2);
}

}  // namespace
}  // namespace attacca::test
