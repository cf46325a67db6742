// Tests of stand-in addresses: conditions, allocations and node handles while a graph is data, and
// what becomes of them when graphs are copied into one another.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "graph/data.hpp"
#include "support/kernels.hpp"

namespace attacca::graph {
namespace {

using test::SetArgs;
using test::SetConditionArgs;

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

class Symbols : public testing::Test {
 protected:
  const Device device = Device::host_serial();
  Graph graph{device};
  int cell = 0;
};

TEST_F(Symbols, every_stand_in_is_another_address) {
  const Condition a = graph.condition("a");
  const Condition b = graph.condition("b");
  const auto small = graph.allocate<char>("small", 1);
  const auto large = graph.allocate<char>("large", std::size_t{1} << 30);
  const GraphData& data = data_of(graph);
  EXPECT_NE(a.target(), b.target());
  EXPECT_EQ(data.find_symbol(a.target())->name, "a");
  EXPECT_EQ(data.find_symbol(b.target())->name, "b");
  EXPECT_EQ(data.find_symbol(number(small.data()))->name, "small");
  EXPECT_EQ(data.find_symbol(number(large.data()))->name, "large");
}

TEST_F(Symbols, an_address_inside_an_allocation_finds_it_and_one_past_its_end_does_not) {
  const auto scratch = graph.allocate<int>("scratch", 100);
  const GraphData& data = data_of(graph);
  EXPECT_EQ(data.find_symbol(number(scratch.data() + 99))->name, "scratch");
  EXPECT_EQ(data.find_symbol(number(scratch.data()) + 400), nullptr);
  EXPECT_EQ(data.find_symbol(number(scratch.data()) - 1), nullptr);
  EXPECT_EQ(data.find_symbol(number(&cell)), nullptr);
  EXPECT_EQ(data.find_symbol(0), nullptr);
}

TEST_F(Symbols, uses_are_found_among_arguments_and_pointers) {
  const Condition on = graph.condition("on");
  const auto scratch = graph.allocate<int>("scratch", 4);
  graph.kernel(test::set_condition, Grid{}, {.condition = on, .value = 1});
  graph.kernel(test::set_value, Grid{}, {.to = scratch.data() + 3, .value = 1});
  graph.copy(scratch.data(), &cell, 4);
  graph.copy(scratch.data() + 1, scratch.data(), 4);
  graph.fill(&cell, 0, 4);
  const GraphData& data = data_of(graph);
  const auto uses = [&](NodeId id) { return uses_of(data, data.nodes[id]); };
  ASSERT_EQ(uses(1).size(), 1u);
  EXPECT_EQ(data.symbols[uses(1)[0].symbol].name, "on");
  EXPECT_EQ(uses(1)[0].offset, offsetof(SetConditionArgs, condition));
  ASSERT_EQ(uses(2).size(), 1u);
  EXPECT_EQ(data.symbols[uses(2)[0].symbol].name, "scratch");
  EXPECT_EQ(uses(2)[0].offset, offsetof(SetArgs, to));
  EXPECT_EQ(uses(3).size(), 1u);
  EXPECT_EQ(uses(4).size(), 2u);
  EXPECT_TRUE(uses(5).empty());
}

TEST_F(Symbols, a_copied_graph_gives_out_other_stand_ins_from_then_on) {
  const Condition shared = graph.condition("shared");
  Graph copy = graph;
  const Condition mine = graph.condition("mine");
  const Condition theirs = copy.condition("theirs");
  EXPECT_NE(mine.target(), theirs.target());
  EXPECT_EQ(data_of(graph).find_symbol(theirs.target()), nullptr);
  EXPECT_EQ(data_of(copy).find_symbol(shared.target())->name, "shared");
}

TEST_F(Symbols, stand_ins_outlive_the_graph_they_were_made_in_as_long_as_a_copy_does) {
  std::optional<Graph> first(std::in_place, device);
  const auto scratch = first->allocate<int>("scratch", 4);
  const Graph copy = *first;
  first.reset();
  // No later graph can get the same address while the copy lives.
  Graph later(device);
  for (int at = 0; at < 20; ++at) EXPECT_NE(later.allocate<int>("other", 4).data(), scratch.data());
  EXPECT_EQ(data_of(copy).find_symbol(number(scratch.data()))->name, "scratch");
}

TEST_F(Symbols, a_child_copied_in_gets_stand_ins_of_its_own) {
  Graph other(device, "other");
  const Condition on = other.condition("on", 3);
  const auto scratch = other.allocate<int>("scratch", 4);
  other.kernel(test::set_value, Grid{}, {.to = scratch.data() + 2, .value = 1}).after(scratch);
  const auto set = other.kernel(test::set_condition, Grid{}, {.condition = on, .value = 1});
  other.if_("if", on, [&](Graph& body) { body.fill(&cell, 0, 4); }).after(set);
  graph.child("first", other);
  graph.child("second", other);

  const GraphData& data = data_of(graph);
  ASSERT_EQ(data.symbols.size(), 4u);
  EXPECT_NE(data.symbols[0].address, data.symbols[2].address);
  EXPECT_EQ(data.symbols[2].initial, 3u);
  EXPECT_EQ(data.find_symbol(on.target()), nullptr);
  // Node 0 is the first child; its nodes follow, in the order of the original.
  const auto& first_set = std::get<KernelPart>(data.nodes[2].part);
  std::uintptr_t word;
  std::memcpy(&word, first_set.args.data(), sizeof word);
  EXPECT_EQ(word, data.symbols[1].address + 2 * sizeof(int));
  const auto& second_set = std::get<KernelPart>(data.nodes[8].part);
  std::memcpy(&word, second_set.args.data(), sizeof word);
  EXPECT_EQ(word, data.symbols[3].address + 2 * sizeof(int));
  EXPECT_EQ(data.symbols[3].owner, 7u);
  EXPECT_TRUE(graph.problems().empty());
}

TEST_F(Symbols, the_loop_around_a_scope_is_the_innermost_while) {
  std::optional<ScopeId> outside;
  std::optional<ScopeId> inside;
  const Condition on = graph.condition("on");
  graph.if_("if", on, [&](Graph& then) {
    outside = data_of(graph).loop_around(1);
    then.while_("loop", [&](Graph& body, Condition) {
      body.child("child", [&](Graph&) { inside = data_of(graph).loop_around(3); });
    });
  });
  EXPECT_FALSE(outside.has_value());
  EXPECT_EQ(inside, std::optional<ScopeId>(2));
}

TEST_F(Symbols, more_conditions_than_one_page_of_stand_ins_holds) {
  std::vector<Condition> conditions;
  for (int at = 0; at < 10000; ++at) conditions.push_back(graph.condition("c", 1));
  EXPECT_EQ(data_of(graph).find_symbol(conditions.front().target()), data_of(graph).symbols.data());
  EXPECT_EQ(data_of(graph).find_symbol(conditions.back().target()), &data_of(graph).symbols.back());
}

}  // namespace
}  // namespace attacca::graph
