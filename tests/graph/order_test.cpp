// Tests of order.hpp: sweeps over a scope give the same answers as a walk from node to node.
#include "graph/order.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "support/kernels.hpp"

namespace attacca::graph {
namespace {

/// Whether `first` ends before `second` starts, found by a walk along the edges of their scope.
bool walk_finds(const GraphData& data, NodeId first, NodeId second) {
  std::vector<std::pair<NodeId, bool>> open{{second, false}};
  std::set<std::pair<NodeId, bool>> seen;
  while (!open.empty()) {
    const auto [at, is_end] = open.back();
    open.pop_back();
    for (const Edge& edge : data.nodes[at].deps) {
      const bool has_ended = is_end || edge.kind == EdgeKind::full;
      if (edge.from == first && has_ended) return true;
      if (seen.emplace(edge.from, has_ended).second) open.emplace_back(edge.from, has_ended);
    }
  }
  return false;
}

class Ordering : public testing::Test {
 protected:
  PlainNode add(Graph& in, const char* name) {
    return in.host(name, [] {});
  }
  bool is_before(const Node& first, const Node& second) const {
    return Order(data_of(graph)).is_before(first.id(), second.id());
  }
  Graph graph{Device::host_serial()};
};

TEST_F(Ordering, sweeps_agree_with_walks_on_random_graphs) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    Graph made(Device::host_serial());
    std::vector<KernelNode<test::ConsumeArgs>> nodes;
    const unsigned count = 2 + random() % 24;
    for (unsigned at = 0; at < count; ++at) nodes.push_back(made.kernel(test::consume, Grid{}, {}));
    // Some edges go from a higher number to a lower one, so the order is not that of the list.
    std::vector<unsigned> rank(count);
    for (unsigned& value : rank) value = random() % 1000;
    for (unsigned from = 0; from < count; ++from)
      for (unsigned to = 0; to < count; ++to)
        if (rank[from] < rank[to] && random() % 4 == 0) {
          if (random() % 2)
            nodes[to].after(nodes[from]);
          else
            nodes[to].after_programmatic(nodes[from]);
        }
    const GraphData& data = data_of(made);
    const Order order(data);
    for (NodeId node = 0; node < count; ++node) {
      Sweep earlier(order, node, Sweep::Of::earlier);
      Sweep later(order, node, Sweep::Of::later);
      for (int question = 0; question < 30; ++question) {
        const NodeId other = random() % count;
        EXPECT_EQ(earlier.contains(other), walk_finds(data, other, node));
        EXPECT_EQ(later.contains(other), walk_finds(data, node, other));
      }
    }
  }
}

TEST_F(Ordering, an_inside_is_as_early_as_the_node_around_it) {
  std::optional<PlainNode> inside;
  std::optional<PlainNode> deep;
  const auto first = add(graph, "first");
  const auto child = graph.child("child", [&](Graph& inner) {
    inside = add(inner, "inside");
    inner.child("nested", [&](Graph& nested) { deep = add(nested, "deep"); });
  });
  child.after(first);
  const auto last = add(graph, "last").after(child);
  EXPECT_TRUE(is_before(first, *inside));
  EXPECT_TRUE(is_before(first, *deep));
  EXPECT_TRUE(is_before(*deep, last));
  EXPECT_FALSE(is_before(*inside, *deep));
  EXPECT_FALSE(is_before(child, *inside));
  EXPECT_FALSE(is_before(*inside, child));
  EXPECT_FALSE(is_before(last, *deep));
}

TEST_F(Ordering, sorting_keeps_the_inside_of_a_node_together) {
  std::optional<PlainNode> inside;
  const auto last = add(graph, "last");
  const auto child = graph.child("child", [&](Graph& inner) { inside = add(inner, "inside"); });
  const auto first = add(graph, "first");
  child.after(first);
  last.after(child);
  std::vector<NodeId> nodes{last.id(), inside->id(), first.id(), child.id()};
  Order(data_of(graph)).sort(nodes);
  EXPECT_EQ(nodes, (std::vector<NodeId>{first.id(), child.id(), inside->id(), last.id()}));
}

}  // namespace
}  // namespace attacca::graph
