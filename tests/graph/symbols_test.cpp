// Tests of stand-in addresses of conditions, allocations and node handles while a graph is data,
// and when graphs are copied into one another.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "graph/data.hpp"
#include "graph/uses.hpp"
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
  EXPECT_EQ(data.symbols.find(a.target())->name, "a");
  EXPECT_EQ(data.symbols.find(b.target())->name, "b");
  EXPECT_EQ(data.symbols.find(number(small.data()))->name, "small");
  EXPECT_EQ(data.symbols.find(number(large.data()))->name, "large");
}

TEST_F(Symbols, an_address_inside_an_allocation_or_one_past_its_end_finds_it) {
  const auto scratch = graph.allocate<int>("scratch", 100);
  const GraphData& data = data_of(graph);
  EXPECT_EQ(data.symbols.find(number(scratch.data() + 99))->name, "scratch");
  EXPECT_EQ(data.symbols.find(number(scratch.data() + 100))->name, "scratch");
  EXPECT_EQ(data.symbols.find(number(scratch.data()) + 401), nullptr);
  EXPECT_EQ(data.symbols.find(number(scratch.data()) - 1), nullptr);
  EXPECT_EQ(data.symbols.find(number(&cell)), nullptr);
  EXPECT_EQ(data.symbols.find(0), nullptr);
}

TEST_F(Symbols, the_end_of_an_allocation_is_never_the_start_of_another) {
  // The sizes are whole pages: without a gap, one would start where the other ends.
  std::vector<Allocation<char>> pages;
  for (int at = 0; at < 20; ++at) pages.push_back(graph.allocate<char>("page", 4096));
  const GraphData& data = data_of(graph);
  for (const auto& page : pages) {
    EXPECT_EQ(data.symbols.find(number(page.data() + 4096))->address, number(page.data()));
    EXPECT_TRUE(AddressRange::is_stand_in(number(page.data() + 4096)));
  }
}

TEST_F(Symbols, a_condition_is_found_by_its_one_address) {
  const Condition first = graph.condition("first");
  const Condition second = graph.condition("second");
  const GraphData& data = data_of(graph);
  for (std::uintptr_t at = first.target() + 1; at < second.target(); ++at)
    EXPECT_EQ(data.symbols.find(at), nullptr);
}

TEST_F(Symbols, addresses_of_ranges_that_ended_are_no_stand_ins) {
  std::uintptr_t base = 0;
  {
    const AddressRange range(10000);
    base = range.base();
    EXPECT_TRUE(AddressRange::is_stand_in(base));
    EXPECT_TRUE(AddressRange::is_stand_in(base + 10000));
    EXPECT_TRUE(AddressRange::is_stand_in(base + 10000 + 4096));
    EXPECT_TRUE(range.holds(base + 10000 + 4096));
    EXPECT_FALSE(range.holds(base - 1));
    EXPECT_FALSE(range.holds(base + 10000 + 3 * 4096));
  }
  EXPECT_FALSE(AddressRange::is_stand_in(base));
  EXPECT_FALSE(AddressRange::may_be_stand_in(number(&cell)));
}

TEST_F(Symbols, the_address_of_a_graph_that_is_gone_is_not_soon_given_out_again) {
  std::set<std::uintptr_t> seen;
  for (int at = 0; at < 1000; ++at) {
    Graph gone(device);
    EXPECT_TRUE(seen.insert(gone.condition("on").target()).second);
    EXPECT_TRUE(seen.insert(number(gone.allocate<char>("memory", 100'000).data())).second);
  }
}

TEST_F(Symbols, ranges_of_all_sizes_come_and_go_and_never_overlap) {
  std::map<std::uintptr_t, std::unique_ptr<AddressRange>> ranges;
  std::mt19937 random(7);
  for (int at = 0; at < 2000; ++at) {
    if (random() % 3 == 0 && !ranges.empty()) {
      ranges.erase(std::next(ranges.begin(), static_cast<long>(random() % ranges.size())));
      continue;
    }
    auto range = std::make_unique<AddressRange>(random() % 100000);
    const std::uintptr_t base = range->base();
    ASSERT_TRUE(ranges.emplace(base, std::move(range)).second);
  }
  for (auto at = ranges.begin(); std::next(at) != ranges.end(); ++at)
    ASSERT_LT(at->first + at->second->bytes(), std::next(at)->first);
}

TEST_F(Symbols, more_addresses_than_there_are_cannot_be_reserved) {
  EXPECT_THROW(AddressRange(~std::size_t{0}), BadArgument);
  EXPECT_THROW(AddressRange(~std::size_t{0} / 2), BadArgument);
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
  EXPECT_EQ(data_of(graph).symbols.find(theirs.target()), nullptr);
  EXPECT_EQ(data_of(copy).symbols.find(shared.target())->name, "shared");
}

TEST_F(Symbols, stand_ins_outlive_the_graph_they_were_made_in_as_long_as_a_copy_does) {
  std::optional<Graph> first(std::in_place, device);
  const auto scratch = first->allocate<int>("scratch", 4);
  const Graph copy = *first;
  first.reset();
  // No later graph can get the same address while the copy lives.
  Graph later(device);
  for (int at = 0; at < 20; ++at) EXPECT_NE(later.allocate<int>("other", 4).data(), scratch.data());
  EXPECT_EQ(data_of(copy).symbols.find(number(scratch.data()))->name, "scratch");
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
  EXPECT_EQ(data.symbols.find(on.target()), nullptr);
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
  EXPECT_EQ(data_of(graph).symbols.find(conditions.front().target()), &data_of(graph).symbols[0]);
  EXPECT_EQ(data_of(graph).symbols.find(conditions.back().target()), &data_of(graph).symbols[9999]);
}

}  // namespace
}  // namespace attacca::graph
