// Tests of graphs refused for wrong uses of conditions and allocations. Each is repaired by the
// edge or node that its message asks for.
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/refusals.hpp"

namespace attacca::test {
namespace {

class SmallRefusedSymbol : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    x_.emplace(device(), std::vector<int>{0});
    left_.emplace(device(), std::vector<unsigned>{2});
  }
  void TearDown() override {
    x_.reset();
    left_.reset();
    OnEachDevice::TearDown();
  }
  Graph::Fill adding(int summand) {
    return [this, summand](Graph& body) {
      body.kernel(affine, Grid{}, {.x = x_->data(), .count = 1, .factor = 1, .summand = summand});
    };
  }
  CountDownArgs counting(Condition again) { return {.again = again, .left = left_->data()}; }
  int* x() { return x_->data(); }
  void expect_gives(const Graph& graph, int value) {
    EXPECT_TRUE(graph.problems().empty());
    run(graph);
    EXPECT_EQ(x_->read().front(), value);
  }

 private:
  std::optional<Buffer<int>> x_;
  std::optional<Buffer<unsigned>> left_;
};
ATTACCA_ON_EACH_DEVICE(SmallRefusedSymbol);

TEST_P(SmallRefusedSymbol, a_condition_nobody_looks_at) {
  Graph graph(device());
  const auto first = graph.kernel(set_value, Grid{}, {.to = x(), .value = 1});
  const Condition idle = graph.condition("idle", 1);
  expect_refused(graph, {Rule::condition_unused, "idle", "use it in one"});
  graph.if_("if", idle, adding(5)).after(first);
  expect_gives(graph, 6);
}

TEST_P(SmallRefusedSymbol, a_condition_two_conditionals_look_at) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  const auto first = graph.if_("first", on, adding(1));
  const Graph before = graph;
  graph.if_("second", on, adding(10)).after(first);
  expect_refused(graph, {Rule::condition_shared, "second", "make a second condition"});

  Graph repaired = before;
  const Condition also_on = repaired.condition("also on", 1);
  repaired.if_("second", also_on, adding(10)).after(first);
  expect_gives(repaired, 11);
}

TEST_P(SmallRefusedSymbol, a_conditional_that_does_not_follow_who_sets_its_condition) {
  Graph graph(device());
  const Condition on = graph.condition("on", 0);
  const auto set =
      graph.kernel(set_condition, Grid{}, {.condition = on, .value = 1}).named("setter");
  const auto choice = graph.if_("choice", on, adding(3));
  expect_refused(graph, {Rule::condition_set_too_late, "choice", ".after(setter)"});
  choice.after(set);
  expect_gives(graph, 3);
}

TEST_P(SmallRefusedSymbol, a_condition_set_after_its_conditional) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  const auto choice = graph.switch_("choice", on, {adding(1), adding(2)});
  const Graph before = graph;
  graph.kernel(set_condition, Grid{}, {.condition = on, .value = 0}).named("setter").after(choice);
  expect_refused(graph, {Rule::condition_set_too_late, "choice", ".after(setter)"});
  expect_gives(before, 2);
}

TEST_P(SmallRefusedSymbol, an_if_whose_condition_is_set_in_its_own_body) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  graph.if_("choice", on, [&](Graph& body) {
    body.kernel(set_condition, Grid{}, {.condition = on, .value = 0}).named("setter");
  });
  expect_refused(graph, {Rule::condition_set_too_late, "choice", "setter"});
}

TEST_P(SmallRefusedSymbol, a_while_whose_body_never_sets_its_condition) {
  Graph graph(device());
  graph.while_("forever", [&](Graph& body, Condition) { adding(1)(body); });
  expect_refused(graph, {Rule::condition_never_set, "forever", "pass the condition to one"});

  Graph repaired(device());
  repaired.while_("twice", [&](Graph& body, Condition again_now) {
    const auto add = body.kernel(affine, Grid{}, {.x = x(), .count = 1, .factor = 1, .summand = 1});
    body.kernel(count_down, Grid{}, counting(again_now)).after(add);
  });
  expect_gives(repaired, 2);
}

TEST_P(SmallRefusedSymbol, an_inner_while_whose_condition_is_not_set_anew) {
  // The condition's initial value applies once per launch, so in the second pass it would not run.
  const Buffer<unsigned> inner_left = buffer<unsigned>({1});
  const auto make = [&](bool sets_anew) {
    Graph graph(device());
    graph.while_("outer", [&](Graph& outer, Condition again) {
      const Condition inner_again = outer.condition("inner again", 1);
      const auto inner = outer.while_("inner", inner_again, [&](Graph& body) {
        const auto add =
            body.kernel(affine, Grid{}, {.x = x(), .count = 1, .factor = 1, .summand = 1});
        body.kernel(set_condition, Grid{}, {.condition = inner_again, .value = 0}).after(add);
      });
      outer.kernel(count_down, Grid{}, counting(again)).after(inner);
      if (sets_anew)
        inner.after(outer.kernel(set_condition, Grid{}, {.condition = inner_again, .value = 1}));
    });
    return graph;
  };
  expect_refused(make(false), {Rule::condition_never_set, "inner", "set it in each pass"});
  expect_gives(make(true), 2);
}

TEST_P(SmallRefusedSymbol, a_free_of_something_no_allocation_gave) {
  Graph graph(device());
  graph.kernel(set_value, Grid{}, {.to = x(), .value = 1});
  const Graph before = graph;
  graph.free(x());
  expect_refused(graph, {Rule::free_without_allocation, "free", "free what allocate returned"});
  expect_gives(before, 1);
}

TEST_P(SmallRefusedSymbol, a_free_of_an_address_inside_an_allocation) {
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 4);
  const Graph before = graph;
  graph.free(scratch.data() + 1).after(scratch);
  expect_refused(graph,
                 {Rule::free_without_allocation, "free scratch", "free what allocate returned"});
  run(before);
}

TEST_P(SmallRefusedSymbol, a_second_free) {
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 4);
  const auto first = graph.free(scratch);
  const Graph before = graph;
  graph.free(scratch).after(first);
  expect_refused(graph, {Rule::free_without_allocation, "free scratch", "remove one of the two"});
  run(before);
}

TEST_P(SmallRefusedSymbol, a_free_that_does_not_follow_its_allocation) {
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 4);
  const auto free = graph.free(static_cast<void*>(scratch.data()));
  expect_refused(graph, {Rule::free_without_allocation, "free scratch", ".after(scratch)"});
  free.after(scratch);
  EXPECT_TRUE(graph.problems().empty());
  run(graph);
}

TEST_P(SmallRefusedSymbol, a_use_that_does_not_follow_the_allocation) {
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 4);
  const auto use = graph.fill(scratch.data() + 3, 0, sizeof(int)).named("early");
  expect_refused(graph, {Rule::outside_allocation_life, "early", ".after(scratch)"});
  use.after(scratch);
  EXPECT_TRUE(graph.problems().empty());
  run(graph);
}

TEST_P(SmallRefusedSymbol, a_use_before_the_allocation) {
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 4);
  const Graph before = graph;
  const auto use = graph.fill(scratch.data(), 0, sizeof(int)).named("early");
  scratch.after(use);
  expect_refused(graph, {Rule::outside_allocation_life, "early", ".after(scratch)"});
  run(before);
}

TEST_P(SmallRefusedSymbol, a_use_after_the_free) {
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 4);
  const auto free = graph.free(scratch);
  const Graph before = graph;
  graph.copy(x(), scratch.data(), sizeof(int)).named("late").after(free);
  expect_refused(graph, {Rule::outside_allocation_life, "late", ".after(late)"});
  run(before);
}

TEST_P(SmallRefusedSymbol, a_use_side_by_side_with_the_free) {
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 1);
  const auto clear = graph.fill(scratch.data(), 0, sizeof(int)).after(scratch);
  const auto use = graph.copy(x(), scratch.data(), sizeof(int)).named("beside").after(clear);
  const auto free = graph.free(scratch).after(clear);
  expect_refused(graph, {Rule::outside_allocation_life, "beside", ".after(beside)"});
  free.after(use);
  expect_gives(graph, 0);
}

TEST_P(SmallRefusedSymbol, a_use_in_a_body_that_does_not_follow_the_allocation) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  const auto scratch = graph.allocate<int>("scratch", 4);
  const auto choice = graph.if_("choice", on, [&](Graph& body) {
    body.kernel(set_value, Grid{}, {.to = scratch.data() + 2, .value = 1}).named("deep");
  });
  expect_refused(graph, {Rule::outside_allocation_life, "deep", ".after(scratch)"});
  choice.after(scratch);
  EXPECT_TRUE(graph.problems().empty());
  run(graph);
}

TEST_P(SmallRefusedSymbol, a_condition_of_another_graph) {
  Graph other(device(), "other");
  const Condition foreign = other.condition("foreign");
  Graph graph(device());
  graph.kernel(set_condition, Grid{}, {.condition = foreign, .value = 1}).named("setter");
  expect_refused(graph, {Rule::foreign_handle, "setter", "make it with this graph"});
}

TEST_P(SmallRefusedSymbol, an_allocation_of_another_graph_in_a_kernel_a_copy_and_an_update) {
  Graph other(device(), "other");
  const auto foreign = other.allocate<int>("foreign", 4);
  {
    Graph graph(device());
    graph.kernel(set_value, Grid{}, {.to = foreign.data() + 1, .value = 1}).named("writer");
    expect_refused(graph, {Rule::foreign_handle, "writer", "make it with this graph"});
  }
  {
    Graph graph(device());
    graph.copy(x(), foreign.data(), sizeof(int)).named("reader");
    expect_refused(graph, {Rule::foreign_handle, "reader", "make it with this graph"});
  }
  Graph graph(device());
  const auto writer = graph.kernel(set_value, Grid{}, {.to = x(), .value = 3}).named("writer");
  Exec exec = graph.instantiate();
  expect_throws([&] { exec.set(writer, {.to = foreign.data(), .value = 4}); },
                {Rule::foreign_handle, "writer", "make it with this graph"});
  run(exec);  // the exec is unchanged
  expect_gives(graph, 3);
}

TEST_P(SmallRefusedSymbol, a_copy_or_fill_past_the_end_of_an_allocation) {
  const auto refused = [&](const auto& add, const std::string& words) {
    Graph graph(device());
    const auto scratch = graph.allocate<char>("scratch", 16);
    add(graph, scratch.data()).named("wide").after(scratch);
    expect_refused(graph, {Rule::outside_allocation_life, "wide", words});
  };
  refused([](Graph& graph, char* at) { return graph.fill(at + 8, 9, 16); },
          "writes 16 bytes from byte 8 of allocation 'scratch' on, which has 16 bytes");
  refused([&](Graph& graph, char* at) { return graph.copy(at, x(), 17); },
          "writes 17 bytes from byte 0 of allocation 'scratch'");
  refused([&](Graph& graph, char* at) { return graph.copy(x(), at + 14, sizeof(int)); },
          "reads 4 bytes from byte 14 of allocation 'scratch'");
  refused([&](Graph& graph, char* at) { return graph.fill(at + 16, 9, 1); }, "at most 0");
  refused(
      [&](Graph& graph, char* at) {
        return graph.copy_2d({at, 8}, {x(), 4}, 4, 3);
      },
      "writes 20 bytes from byte 0 of allocation 'scratch'");

  Graph graph(device());
  const auto scratch = graph.allocate<char>("scratch", 16);
  const auto whole = graph.fill(scratch.data(), 9, 16).after(scratch);
  const auto rows = graph.copy_2d({scratch.data() + 4, 8}, {scratch.data(), 8}, 4, 2).after(whole);
  graph.copy(x(), scratch.data() + 12, sizeof(int)).after(rows);
  expect_gives(graph, 0x09090909);
}

TEST_P(SmallRefusedSymbol, an_update_past_the_end_of_an_allocation) {
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 4);
  const auto fill = graph.fill(scratch.data(), 1, 16).named("fill").after(scratch);
  const auto copy = graph.copy(x(), scratch.data(), 4).named("copy").after(fill);
  const auto write =
      graph.kernel(set_value, Grid{}, {.to = x(), .value = 3}).named("write").after(copy);
  Exec exec = graph.instantiate();
  const Rule rule = Rule::outside_allocation_life;
  expect_throws([&] { exec.set(fill, scratch.data(), 9, 1 << 20); },
                {rule, "fill", "writes 1048576 bytes from byte 0 of allocation 'scratch'"});
  expect_throws([&] { exec.set(copy, x(), scratch.data() + 3, 5); },
                {rule, "copy", "reads 5 bytes from byte 12 of allocation 'scratch'"});
  expect_throws([&] { exec.set(write, {.to = scratch.data() + 400, .value = 4}); },
                {rule, "write", "1584 bytes past the end of allocation 'scratch' of 16 bytes"});
  run(exec);  // the exec is unchanged
  expect_gives(graph, 3);
}

TEST_P(SmallRefusedSymbol, an_address_a_little_behind_an_allocation) {
  const auto refused = [&](const auto& add) {
    Graph graph(device());
    const auto scratch = graph.allocate<int>("scratch", 4);
    add(graph, scratch.data() + 400).named("far").after(scratch);
    expect_refused(graph, {Rule::outside_allocation_life, "far",
                           "1584 bytes past the end of allocation 'scratch' of 16 bytes"});
  };
  refused([](Graph& graph, int* at) {
    return graph.kernel(set_value, Grid{}, {.to = at, .value = 1});
  });
  refused([](Graph& graph, int* at) { return graph.fill(at, 0, 4); });
  refused([&](Graph& graph, int* at) { return graph.copy(at, x(), 4); });
  refused([&](Graph& graph, int* at) { return graph.copy(x(), at, 4); });

  Graph graph(device());
  const auto first = graph.allocate<char>("first", 16);
  const auto second = graph.allocate<char>("second", 16);
  const auto& later = first.data() < second.data() ? second : first;
  const auto& earlier = first.data() < second.data() ? first : second;
  graph.fill(later.data() + 20, 0, 4).named("behind both").after(first).after(second);
  const std::string words = earlier.data() == first.data() ? "'second'" : "'first'";
  expect_refused(graph, {Rule::outside_allocation_life, "behind both",
                         "4 bytes past the end of allocation " + words});
}

TEST_P(SmallRefusedSymbol, a_condition_that_two_unordered_kernels_set) {
  Graph graph(device());
  const Condition on = graph.condition("on");
  const auto first =
      graph.kernel(set_condition, Grid{}, {.condition = on, .value = 1}).named("first");
  const auto second =
      graph.kernel(set_condition, Grid{}, {.condition = on, .value = 0}).named("second");
  graph.if_("if", on, adding(5), adding(7)).after(first, second);
  expect_refused(graph, {Rule::condition_race, "second", ".after(first)"});
  second.after(first);
  expect_gives(graph, 7);
}

TEST_P(SmallRefusedSymbol, but_not_one_that_two_branches_set) {
  Graph graph(device());
  const Condition branch = graph.condition("branch", 1);
  const Condition on = graph.condition("on");
  const auto setting = [&](unsigned value) {
    return [on, value](Graph& body) {
      body.kernel(set_condition, Grid{}, {.condition = on, .value = value});
    };
  };
  const auto either = graph.if_("either", branch, setting(1), setting(0));
  graph.if_("if", on, adding(5), adding(7)).after(either);
  expect_gives(graph, 5);
}

}  // namespace
}  // namespace attacca::test
