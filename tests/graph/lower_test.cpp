// Tests of lower.hpp: the order of a scope's nodes, and inlined children.
#include "graph/lower.hpp"

#include <gtest/gtest.h>

#include "graph/data.hpp"

namespace attacca::graph {
namespace {

/// Names nodes, because ids say little in a failure.
class Lowering : public testing::Test {
 protected:
  PlainNode add(Graph& in, const std::string& name) {
    return in.host(name, [] {});
  }
  std::string name_of(NodeId id) const { return data_of(graph).nodes[id].name; }

  std::string order() const {
    std::string spelled;
    for (const NodeId id : topological_order(data_of(graph), kRootScope)) spelled += name_of(id);
    return spelled;
  }
  /// "a b<a c<ab": each node and what it depends on, in lowered order.
  std::string lowered(const LoweredScope& scope) const {
    std::string spelled;
    for (const LoweredNode& node : scope.nodes) {
      if (!spelled.empty()) spelled += ' ';
      spelled += name_of(node.id);
      if (!node.deps.empty()) spelled += '<';
      for (const Edge& edge : node.deps) spelled += name_of(edge.from);
    }
    return spelled;
  }
  std::string lowered() const { return lowered(lower(data_of(graph)).root); }

  Graph graph{Device::host_serial()};
};

TEST_F(Lowering, nodes_without_edges_keep_the_order_they_were_added_in) {
  for (const char* name : {"a", "b", "c"}) add(graph, name);
  EXPECT_EQ(order(), "abc");
}

TEST_F(Lowering, producers_come_first) {
  const auto a = add(graph, "a");
  const auto b = add(graph, "b");
  const auto c = add(graph, "c");
  a.after(b);
  b.after(c);
  EXPECT_EQ(order(), "cba");
}

TEST_F(Lowering, a_cycle_is_left_out_of_the_order) {
  const auto a = add(graph, "a");
  const auto b = add(graph, "b").after(a);
  const auto c = add(graph, "c").after(b);
  add(graph, "d").after(c);
  b.after(c);
  EXPECT_EQ(order(), "a");
}

TEST_F(Lowering, a_child_is_laid_open_between_its_neighbours) {
  const auto a = add(graph, "a");
  const auto child = graph
                         .child("child",
                                [&](Graph& inside) {
                                  const auto x = add(inside, "x");
                                  add(inside, "y").after(x);
                                  add(inside, "z");
                                })
                         .after(a);
  add(graph, "b").after(child);
  EXPECT_EQ(lowered(), "a x<a y<x z<a b<yz");
}

TEST_F(Lowering, an_empty_child_leaves_its_edges_behind) {
  const auto a = add(graph, "a");
  const auto b = add(graph, "b");
  const auto empty = graph.child("empty", [](Graph&) {}).after(a, b);
  add(graph, "c").after(empty);
  EXPECT_EQ(lowered(), "a b c<ab");
}

TEST_F(Lowering, an_empty_child_at_the_start_leaves_nothing_behind) {
  const auto empty = graph.child("empty", [](Graph&) {});
  add(graph, "a").after(empty);
  EXPECT_EQ(lowered(), "a");
}

TEST_F(Lowering, empty_children_inside_a_child_pass_order_through) {
  const auto a = add(graph, "a");
  const auto outer = graph
                         .child("outer",
                                [&](Graph& inside) {
                                  const auto x = add(inside, "x");
                                  inside.child("empty", [](Graph&) {}).after(x);
                                })
                         .after(a);
  add(graph, "b").after(outer);
  EXPECT_EQ(lowered(), "a x<a b<x");
}

TEST_F(Lowering, children_nest) {
  const auto outer = graph.child("outer", [&](Graph& middle) {
    const auto x = add(middle, "x");
    const auto inner = middle.child("inner", [&](Graph& inside) { add(inside, "y"); }).after(x);
    add(middle, "z").after(inner);
  });
  add(graph, "b").after(outer);
  EXPECT_EQ(lowered(), "x y<x z<y b<z");
}

TEST_F(Lowering, two_paths_to_one_node_are_one_edge) {
  const auto child = graph.child("child", [&](Graph& inside) { add(inside, "x"); });
  const auto also = graph.child("also", [](Graph&) {}).after(child);
  add(graph, "b").after(child, also);
  EXPECT_EQ(lowered(), "x b<x");
}

TEST_F(Lowering, a_body_is_lowered_on_its_own) {
  const Condition on = graph.condition("on", 1);
  const auto a = add(graph, "a");
  graph
      .if_("if", on,
           [&](Graph& body) {
             const auto child = body.child("child", [&](Graph& inside) { add(inside, "x"); });
             add(body, "y").after(child);
           })
      .after(a);
  const Lowered all = lower(data_of(graph));
  EXPECT_EQ(lowered(all.root), "a if<a");
  ASSERT_EQ(all.bodies.size(), data_of(graph).scopes.size());
  EXPECT_EQ(lowered(all.bodies[1]), "x y<x");
  EXPECT_TRUE(all.bodies[2].nodes.empty()) << "a child is no body";
}

}  // namespace
}  // namespace attacca::graph
