// Tests of declared accesses: edges are derived from them, and unordered nodes that touch the same
// bytes are named.
#include <gmock/gmock.h>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/refusals.hpp"

namespace attacca::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SmallAccesses : public OnEachDevice {
 protected:
  /// x[i] = x[i] * factor + summand over `on`, declared.
  KernelNode<AffineArgs> step(Graph& graph, std::span<int> on, int factor, int summand) {
    return graph
        .kernel(affine, Grid::covering(on.size()),
                {.x = on.data(), .count = on.size(), .factor = factor, .summand = summand})
        .writes(on);
  }
  /// How many edges lead to the nodes of a graph, by the order in which they were added.
  static std::vector<std::size_t> edge_counts(const Graph& graph) {
    std::vector<std::size_t> counts;
    const std::string text = to_json(graph);
    for (std::size_t at = text.find("\"after\": ["); at != std::string::npos;
         at = text.find("\"after\": [", at + 1)) {
      std::size_t count = 0;
      for (std::size_t i = at; text[i] != ']'; ++i) count += text[i] == '{';
      counts.push_back(count);
    }
    return counts;
  }
};
ATTACCA_ON_EACH_DEVICE(SmallAccesses);

TEST_P(SmallAccesses, derived_edges_order_reads_and_writes_as_they_were_added) {
  const Buffer<int> x = buffer<int>({1, 1});
  const Buffer<int> y = buffer<int>({0, 0});
  Graph graph(device());
  step(graph, x.span(), 2, 0);           // 0
  graph.copy(y.span(), x.span());        // 1: reads what 0 wrote
  step(graph, x.span().first(1), 3, 0);  // 2: writes what 1 reads
  step(graph, x.span().last(1), 5, 0);   // 3: the same for the other half
  graph
      .kernel(
          sum, Grid{},  // 4: reads both halves and y
          {.sum = y.data(), .in = {x.data(), x.data() + 1, y.data() + 1}, .count = 3, .more = 0})
      .reads(x.span())
      .reads(y.span().last(1))
      .writes(y.span().first(1));
  graph.derive_edges();
  EXPECT_THAT(edge_counts(graph), ElementsAre(0, 1, 1, 1, 3));
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{6, 10}));
  EXPECT_EQ(y.read(), (std::vector<int>{18, 2}));
}

TEST_P(SmallAccesses, nodes_that_only_read_or_touch_other_bytes_get_no_edge) {
  const Buffer<int> x = buffer<int>({1, 2, 3, 4});
  const Buffer<int> y = buffer(std::vector<int>(2, 0));
  Graph graph(device());
  graph.copy(y.span().first(1), x.span().first(1));
  graph.copy(y.span().last(1), x.span().first(1));
  step(graph, x.span().subspan(1, 1), 2, 0);
  step(graph, x.span().subspan(2, 2), 2, 0);
  graph.derive_edges();
  EXPECT_THAT(edge_counts(graph), ElementsAre(0, 0, 0, 0));
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{1, 4, 6, 8}));
}

TEST_P(SmallAccesses, derived_edges_reach_through_children_bodies_and_allocations) {
  const Buffer<int> x = buffer<int>({1});
  const Buffer<int> result = buffer<int>({0});
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 2);
  graph.copy(scratch.span().first(1), x.span());
  graph.child("inside", [&](Graph& inside) {
    step(inside, scratch.span().first(1), 3, 0);
    step(inside, scratch.span().first(1), 1, 4);
  });
  const Condition is_on = graph.condition("is on", 1);
  graph.if_("if", is_on, [&](Graph& body) { step(body, scratch.span().first(1), 2, 0); });
  graph.copy(result.span(), scratch.span().first(1));
  graph.free(scratch.data());
  graph.derive_edges();
  run(graph);
  EXPECT_EQ(result.read().front(), 14);
}

TEST_P(SmallAccesses, derived_edges_keep_to_the_life_of_an_allocation_inside_a_child) {
  const Buffer<int> result = buffer<int>({0});
  Graph graph(device());
  std::span<int> scratch;
  graph.child("make", [&](Graph& inside) { scratch = inside.allocate<int>("scratch", 1).span(); });
  graph.kernel(sum, Grid{}, {.sum = result.data(), .in = {scratch.data()}, .count = 1, .more = 0})
      .reads(scratch)
      .writes(result.span());
  graph.child("drop", [&](Graph& inside) { inside.free(scratch.data()); });
  EXPECT_FALSE(graph.problems().empty());
  graph.derive_edges();
  EXPECT_TRUE(graph.problems().empty());
}

TEST_P(SmallAccesses, derived_edges_follow_edges_that_are_there_and_no_priorities) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto last = step(graph, x.span(), 2, 0);
  const auto first = step(graph, x.span(), 1, 1);
  step(graph, x.span(), 3, 0).priority(1);
  last.after(first);
  graph.derive_edges();
  EXPECT_TRUE(graph.problems().empty());
  EXPECT_THAT(edge_counts(graph), ElementsAre(1, 0, 1));
  run(graph);
  EXPECT_EQ(x.read().front(), 12);
}

TEST_P(SmallAccesses, a_kernel_s_own_declaration_derives_edges_from_its_arguments) {
  const Buffer<int> x = buffer<int>({1, 1});
  Graph graph(device());
  graph.kernel(declared_affine, Grid{}, {.x = x.data(), .count = 2, .factor = 2, .summand = 0});
  graph.kernel(declared_affine, Grid{}, {.x = x.data() + 1, .count = 1, .factor = 1, .summand = 3});
  EXPECT_EQ(graph.problems().at(0).rule(), Rule::unordered_access);
  graph.derive_edges();
  EXPECT_THAT(edge_counts(graph), ElementsAre(0, 1));
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{2, 5}));
}

TEST_P(SmallAccesses, two_nodes_that_touch_the_same_bytes_in_no_order_are_named) {
  const Buffer<int> x = buffer<int>({1, 1, 1, 1});
  Graph graph(device());
  const auto first = step(graph, x.span().first(3), 2, 0).named("first");
  const auto second = step(graph, x.span().last(2), 1, 1).named("second");
  expect_refused(graph, {Rule::unordered_access, "second", ".after(first)"});
  const std::string message = graph.problems().front().what();
  EXPECT_THAT(message, HasSubstr("kernel 'first' writes and kernel 'second' writes 4 bytes at "));
  second.after(first);
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{2, 2, 3, 2}));
}

TEST_P(SmallAccesses, order_through_other_nodes_and_programmatic_edges_is_order) {
  const Buffer<int> x = buffer<int>({0});
  const Buffer<int> y = buffer<int>({0});
  Graph graph(device());
  const auto first = graph.kernel(produce, Grid{}, {.to = x.data(), .value = 4}).writes(x.span());
  const auto between =
      graph.kernel(consume, Grid{}, {.to = y.data(), .from = x.data()}).after_programmatic(first);
  graph.copy(x.span(), y.span()).after(between);
  run(graph);
  EXPECT_EQ(x.read().front(), 5);
}

TEST_P(SmallAccesses, a_node_inside_and_one_outside_are_held_to_the_order_of_the_enclosing_nodes) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto outside = step(graph, x.span(), 2, 0).named("outside");
  const auto child =
      graph.child("child", [&](Graph& inside) { step(inside, x.span(), 1, 1).named("inside"); });
  expect_refused(graph, {Rule::unordered_access, "inside", ".after(outside) to 'child'"});
  child.after(outside);
  run(graph);
  EXPECT_EQ(x.read().front(), 3);
}

TEST_P(SmallAccesses, of_two_bodies_only_one_runs) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const Condition which = graph.condition("which", 1);
  const auto choice = graph.switch_("choice", which,
                                    {[&](Graph& body) { step(body, x.span(), 2, 0); },
                                     [&](Graph& body) { step(body, x.span(), 3, 0); }});
  choice.writes(x.span());
  run(graph);
  EXPECT_EQ(x.read().front(), 3);
}

TEST_P(SmallAccesses, bytes_of_an_allocation_are_named_by_it) {
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 4);
  step(graph, scratch.span(), 2, 0).named("first").after(scratch);
  step(graph, scratch.span().last(1), 2, 0).named("second").after(scratch);
  expect_refused(graph,
                 {Rule::unordered_access, "second", "bytes 12 to 16 of allocation 'scratch'"});
}

TEST_P(SmallAccesses, a_graph_that_declares_nothing_is_as_it_was) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  graph.fill(x.span(), 0);
  graph.fill(x.span(), 0);  // not ordered with the first: accepted, but it races, so never launched
  EXPECT_TRUE(graph.problems().empty());
  EXPECT_THAT(to_json(graph), testing::Not(HasSubstr("accesses")));
  EXPECT_NO_THROW(graph.instantiate());
}

TEST_P(SmallAccesses, a_child_copied_in_declares_what_it_did_for_its_own_memory) {
  Graph part(device(), "part");
  const auto scratch = part.allocate<int>("scratch", 2);
  const auto first = step(part, scratch.span(), 2, 0).after(scratch);
  step(part, scratch.span(), 2, 0).after(first);
  Graph graph(device());
  graph.child("one", part);
  graph.child("two", part);  // not ordered, but each has memory of its own
  EXPECT_TRUE(graph.problems().empty());
  run(graph);
}

TEST_P(SmallAccesses, accesses_print_as_parts_of_regions) {
  const Buffer<int> x = buffer<int>({1, 2, 3, 4});
  const Buffer<int> y = buffer<int>({0});
  Graph graph(device());
  const auto first = step(graph, x.span().last(2), 1, 0).reads(y.span());
  graph.kernel(affine, Grid{}, {.x = x.data(), .count = 4, .factor = 1, .summand = 0})
      .writes(x.span())
      .after(first);
  EXPECT_THAT(to_json(graph),
              HasSubstr(R"("accesses": [{"kind": "write", "region": 0, "offset": 8, "bytes": 8}, )"
                        R"({"kind": "read", "region": 1, "offset": 0, "bytes": 4}])"));
  EXPECT_THAT(
      to_json(graph),
      HasSubstr(R"("accesses": [{"kind": "write", "region": 0, "offset": 0, "bytes": 16}])"));
}

TEST_P(SmallAccesses, memory_that_is_not_there_cannot_be_declared) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto node = step(graph, x.span(), 1, 0);
  expect_bad([&] { node.reads(std::span<int>(static_cast<int*>(nullptr), 4)); },
             "'affine' declares that it reads 16 bytes at a null address");
}

}  // namespace
}  // namespace attacca::test
