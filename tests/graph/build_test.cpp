// Tests of building graphs: what a Graph knows about itself before it runs.
#include <gtest/gtest.h>
#include <attacca/adopt.hpp>
#include <attacca/exec.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include "graph/difference.hpp"
#include "support/kernels.hpp"

namespace attacca::graph {
namespace {

using test::affine;

class Building : public testing::Test {
 protected:
  Graph graph{Device::host_serial(), "of tests"};
  int cells[4] = {};
};

TEST_F(Building, a_graph_counts_its_nodes_inside_and_out) {
  const Condition on = graph.condition("on");
  graph.if_("if", on, [&](Graph& body) {
    body.fill(cells, 0, 4);
    body.child("child", [&](Graph& inside) { inside.fill(cells, 0, 4); });
  });
  EXPECT_EQ(graph.node_count(), 4u);
  EXPECT_EQ(graph.name(), "of tests");
  EXPECT_EQ(graph.device(), Device::host_serial());
}

TEST_F(Building, a_graph_costs_what_its_kernels_cost) {
  graph.kernel(affine, Grid{}, {.x = cells, .count = 4, .factor = 1, .summand = 0});
  graph.kernel(affine, Grid{}, {.x = cells, .count = 2, .factor = 1, .summand = 0});
  graph.fill(cells, 0, 4);
  EXPECT_EQ(graph.cost().flops, 12.0);
  EXPECT_EQ(graph.cost().bytes, 48.0);
  EXPECT_EQ(affine.cost({.x = cells, .count = 4, .factor = 1, .summand = 0}).flops, 8.0);
}

TEST_F(Building, a_grid_covers_its_items) {
  EXPECT_EQ(Grid::covering(1000, 256).blocks.x, 4u);
  EXPECT_EQ(Grid::covering(1024, 256).blocks.x, 4u);
  EXPECT_EQ(Grid::covering(1025, 256).blocks.x, 5u);
  EXPECT_EQ(Grid::covering(0).blocks.x, 1u);
  EXPECT_EQ(Grid{}.blocks.count() * Grid{}.threads.count(), 1u);
}

TEST_F(Building, a_grid_of_more_blocks_than_there_are_is_refused) {
  constexpr std::uint64_t kMost = std::uint64_t{0x7fffffff} * 256;
  static_assert(Grid::covering(kMost).blocks.x == 0x7fffffffu);
  EXPECT_THROW(Grid::covering(kMost + 1), BadArgument);
  EXPECT_THROW(Grid::covering(std::uint64_t{1} << 40, 256), BadArgument);
  EXPECT_THROW(Grid::covering(~std::uint64_t{0}), BadArgument);
  EXPECT_THROW(Grid::covering(10, 0), BadArgument);
}

TEST_F(Building, elements_that_no_memory_holds_are_refused) {
  constexpr std::size_t kTooMany = (~std::size_t{0}) / sizeof(int) + 2;  // wraps to four bytes
  EXPECT_THROW(graph.allocate<int>("wrapped", kTooMany), BadArgument);
  EXPECT_EQ(graph.node_count(), 0u);
  EXPECT_THROW(graph.allocate<char>("all there is", ~std::size_t{0}), BadArgument);
  EXPECT_EQ(graph.node_count(), 0u);
}

/// The body adds a node of each kind everywhere it can, and throws.
TEST_F(Building, a_body_that_throws_is_taken_back_whole) {
  struct Enough {};
  const Condition on = graph.condition("on", 1);
  const auto first =
      graph.kernel(affine, Grid{}, {.x = cells, .count = 1, .factor = 1, .summand = 0});
  const std::string before = to_text(graph);
  std::optional<Node> lost;
  const Graph::Fill fill = [&](Graph& body) {
    const auto scratch = graph.allocate<int>("scratch", 4);
    const auto inside =
        body.kernel(affine, Grid{}, {.x = scratch.data(), .count = 1, .factor = 1, .summand = 0});
    (void)inside.device_updatable();
    (void)first.device_updatable();
    first.after(scratch);
    body.condition("more");
    body.child("deeper", [&](Graph& deeper) { lost = deeper.fill(cells, 0, 4); });
    throw Enough{};
  };
  EXPECT_THROW(graph.child("child", fill), Enough);
  EXPECT_EQ(to_text(graph), before);
  EXPECT_THROW(graph.if_("if", on, fill), Enough);
  EXPECT_EQ(to_text(graph), before);
  EXPECT_THROW(graph.if_(
                   "if/else", on, [&](Graph& body) { body.fill(cells, 0, 4); }, fill),
               Enough);
  EXPECT_EQ(to_text(graph), before);
  EXPECT_THROW(graph.switch_("switch", on, {fill}), Enough);
  EXPECT_EQ(to_text(graph), before);
  EXPECT_THROW(graph.while_("while", [&](Graph& body, Condition) { fill(body); }), Enough);
  EXPECT_EQ(to_text(graph), before);
  EXPECT_EQ(data_of(graph).symbols.size(), 1u);
  EXPECT_EQ(data_of(graph).scopes.size(), 1u);

  // The graph can be built on, and new nodes are not confused with those that were removed.
  (void)first.device_updatable();
  EXPECT_EQ(data_of(graph).symbols.size(), 2u);
  const auto last = graph.if_("if", on, [&](Graph& body) { body.fill(cells, 0, 4); }).after(first);
  for (int at = 0; at < 8; ++at) graph.fill(cells, 0, 4);
  EXPECT_THROW(last.after(*lost), BadArgument);
  EXPECT_THROW((void)lost->name(), BadArgument);
  EXPECT_THROW((void)fill_node(*lost), BadArgument);
  EXPECT_TRUE(graph.problems().empty());
  graph.instantiate();
}

TEST_F(Building, a_full_edge_wins_over_a_programmatic_one) {
  const auto a = graph.kernel(test::produce, Grid{}, {.to = cells, .value = 1});
  const auto b = graph.kernel(test::consume, Grid{}, {.to = cells + 1, .from = cells});
  const auto only_edge = [&] {
    const NodeData& node = data_of(graph).nodes[1];
    EXPECT_EQ(node.deps.size(), 1u);
    return *node.deps.begin();
  };
  b.after_programmatic(a);
  EXPECT_EQ(only_edge(), (Edge{0, EdgeKind::programmatic}));
  b.after(a);
  EXPECT_EQ(only_edge(), (Edge{0, EdgeKind::full}));
  b.after_programmatic(a);
  EXPECT_EQ(only_edge(), (Edge{0, EdgeKind::full}));
}

TEST_F(Building, a_kernel_says_what_it_may_do_by_the_type_of_its_thread) {
  EXPECT_FALSE(affine.info().traits.launches);
  EXPECT_FALSE(affine.info().traits.waits);
  EXPECT_TRUE(test::consume.info().traits.waits);
  EXPECT_TRUE(test::launch.info().traits.launches);
  EXPECT_STREQ(affine.info().name, "affine");
  EXPECT_EQ(affine.info().args_size, sizeof(test::AffineArgs));
}

TEST_F(Building, a_graph_moves_with_its_handles) {
  const auto a = graph.fill(cells, 0, 4).named("a");
  Graph moved = std::move(graph);
  moved.fill(cells, 1, 4).after(a);
  EXPECT_EQ(moved.node_count(), 2u);
  EXPECT_EQ(a.name(), "a");
  graph = Graph(Device::host_serial(), "anew");
  EXPECT_EQ(graph.node_count(), 0u);
}

TEST_F(Building, a_body_that_throws_while_it_is_filled_passes_it_on) {
  const Condition on = graph.condition("on");
  EXPECT_THROW(graph.if_("if", on, [](Graph&) { throw std::runtime_error("no"); }),
               std::runtime_error);
}

TEST_F(Building, every_rule_has_a_name_of_its_own) {
  std::vector<std::string> names;
  for (int rule = 0; rule <= static_cast<int>(Rule::no_body_for_backend); ++rule)
    names.push_back(rule_name(static_cast<Rule>(rule)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

// --- differences that an update allows ----------------------------------------------------------

TEST_F(Building, graphs_that_differ_in_parameters_have_the_same_structure) {
  const auto make = [&](int factor, bool is_enabled) {
    Graph made(Device::host_serial());
    const auto a = made.kernel(affine, Grid{{static_cast<unsigned>(factor)}, {}},
                               {.x = cells, .count = 4, .factor = factor, .summand = 0});
    made.fill(cells, static_cast<std::uint8_t>(factor), 4).after(a).enabled(is_enabled);
    return made;
  };
  EXPECT_FALSE(structural_difference(data_of(make(1, true)), data_of(make(2, false))));
}

TEST_F(Building, names_are_no_part_of_the_structure) {
  graph.fill(cells, 0, 4).named("one");
  Graph other(Device::host_serial(), "other");
  other.fill(cells, 0, 4).named("two");
  EXPECT_FALSE(structural_difference(data_of(graph), data_of(other)));
}

TEST_F(Building, an_edge_of_another_kind_is_another_structure) {
  const auto make = [&](bool is_programmatic) {
    Graph made(Device::host_serial());
    const auto a = made.kernel(test::produce, Grid{}, {.to = cells, .value = 1});
    const auto b = made.kernel(test::consume, Grid{}, {.to = cells + 1, .from = cells}).named("b");
    is_programmatic ? b.after_programmatic(a) : b.after(a);
    return made;
  };
  const auto refusal = structural_difference(data_of(make(false)), data_of(make(true)));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->node, "b");
}

TEST_F(Building, a_free_of_another_allocation_is_another_structure) {
  const auto make = [&](bool is_swapped) {
    Graph made(Device::host_serial());
    const auto a = made.allocate<int>("a", 4);
    const auto b = made.allocate<int>("b", 4).after(a);
    made.free(static_cast<void*>(is_swapped ? b.data() : a.data())).named("frees").after(b);
    return made;
  };
  EXPECT_FALSE(structural_difference(data_of(make(true)), data_of(make(true))));
  const auto refusal = structural_difference(data_of(make(false)), data_of(make(true)));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->node, "frees");
}

TEST_F(Building, a_node_in_another_scope_is_another_structure) {
  const auto make = [&](bool is_inside) {
    Graph made(Device::host_serial());
    made.child("child", [&](Graph& inside) {
      if (is_inside) inside.fill(cells, 0, 4).named("fill");
    });
    if (!is_inside) made.fill(cells, 0, 4).named("fill");
    return made;
  };
  EXPECT_TRUE(structural_difference(data_of(make(false)), data_of(make(true))));
}

TEST_F(Building, a_child_copied_in_brings_what_its_graph_keeps) {
  auto memory = std::make_shared<int>();
  const std::weak_ptr<int> watched = memory;
  {
    Graph inner(Device::host_serial());
    data_of(inner).keeps.push_back(std::move(memory));
    graph.child("child", inner);
  }
  EXPECT_FALSE(watched.expired());
}

}  // namespace
}  // namespace attacca::graph
