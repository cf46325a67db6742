// Tests of conditionals inside conditionals: each kind in a loop, loops in loops, and how long a
// condition keeps its value.
#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using Tags = std::vector<int>;

class SmallNesting : public OnEachDevice {
 protected:
  /// Sets `condition` to the next value of a script each time it runs.
  struct Script {
    Script(const Device& device, const std::vector<unsigned>& of)
        : values(device, of), at(device, std::vector<unsigned>{0}) {}
    NextConditionArgs sets(Condition condition) const {
      return {.condition = condition, .values = values.data(), .at = at.data()};
    }
    Buffer<unsigned> values;
    Buffer<unsigned> at;
  };
  static Graph::Fill noting(const DeviceLog& log, int tag) {
    return [view = log.view(), tag](Graph& body) {
      body.kernel(note, Grid{}, {.log = view, .tag = tag});
    };
  }
};
ATTACCA_ON_EACH_DEVICE(SmallNesting);

TEST_P(SmallNesting, an_if_in_a_while_is_decided_anew_in_each_pass) {
  const DeviceLog log(device());
  const Script script(device(), {0, 1, 1, 0, 1});
  const Buffer<unsigned> left = buffer<unsigned>({5});
  Graph graph(device());
  graph.while_("loop", [&](Graph& body, Condition again) {
    const Condition odd = body.condition("odd");
    const auto set = body.kernel(next_condition, Grid{}, script.sets(odd));
    const auto choice = body.if_("if", odd, noting(log, 1), noting(log, 0)).after(set);
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(choice);
  });
  run(graph);
  EXPECT_EQ(log.read(), (Tags{0, 1, 1, 0, 1}));
}

TEST_P(SmallNesting, a_switch_in_a_while_is_decided_anew_in_each_pass) {
  const DeviceLog log(device());
  const Script script(device(), {2, 0, 3, 1, 9});
  const Buffer<unsigned> left = buffer<unsigned>({5});
  Graph graph(device());
  graph.while_("loop", [&](Graph& body, Condition again) {
    const Condition choice = body.condition("choice");
    const auto set = body.kernel(next_condition, Grid{}, script.sets(choice));
    const auto a_switch =
        body.switch_("switch", choice, {noting(log, 0), noting(log, 1), noting(log, 2)}).after(set);
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(a_switch);
  });
  run(graph);
  EXPECT_EQ(log.read(), (Tags{2, 0, 1}));
}

TEST_P(SmallNesting, a_while_in_an_if_loops_or_does_not) {
  const DeviceLog log(device());
  const Script script(device(), {1, 0});
  const Buffer<unsigned> left = buffer<unsigned>({3});
  Graph graph(device());
  const Condition wanted = graph.condition("wanted");
  const auto set = graph.kernel(next_condition, Grid{}, script.sets(wanted));
  graph
      .if_(
          "if", wanted,
          [&](Graph& then) {
            then.while_("loop", [&](Graph& body, Condition again) {
              const auto step = body.kernel(note, Grid{}, {.log = log.view(), .tag = 1});
              body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(step);
            });
          },
          noting(log, 0))
      .after(set);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(log.read(), (Tags{1, 1, 1}));
  run(exec);
  EXPECT_EQ(log.read(), (Tags{1, 1, 1, 0}));
}

TEST_P(SmallNesting, a_while_in_a_while_runs_anew_when_its_condition_is_set_in_each_pass) {
  const DeviceLog log(device());
  // Two outer passes, with three and with two inner ones. The outer body refills the inner counter.
  const Buffer<int> inner_left = buffer<int>({0});
  const Buffer<unsigned> outer_left = buffer<unsigned>({2});
  Graph graph(device());
  graph.while_("outer", [&](Graph& outer, Condition again) {
    const Condition inner_again = outer.condition("inner again");
    const auto start = outer.kernel(note, Grid{}, {.log = log.view(), .tag = 1});
    const auto refill =
        outer.kernel(set_value, Grid{}, {.to = inner_left.data(), .value = 3}).after(start);
    const auto arm =
        outer.kernel(set_condition, Grid{}, {.condition = inner_again, .value = 1}).after(refill);
    const auto loop =
        outer
            .while_("inner", inner_again,
                    [&](Graph& inner) {
                      const auto step = inner.kernel(note, Grid{}, {.log = log.view(), .tag = 2});
                      inner
                          .kernel(count_down, Grid{},
                                  {.again = inner_again,
                                   .left = reinterpret_cast<unsigned*>(inner_left.data())})
                          .after(step);
                    })
            .after(arm);
    outer.kernel(count_down, Grid{}, {.again = again, .left = outer_left.data()}).after(loop);
  });
  run(graph);
  EXPECT_EQ(log.read(), (Tags{1, 2, 2, 2, 1, 2, 2, 2}));
}

TEST_P(SmallNesting, an_if_keeps_its_value_from_pass_to_pass) {
  // The initial value applies once per launch, so the value of the first pass holds in the others.
  const DeviceLog log(device());
  const Script first_pass(device(), {1, 0, 0, 0});
  const Buffer<unsigned> left = buffer<unsigned>({3});
  Graph graph(device());
  graph.while_("loop", [&](Graph& body, Condition again) {
    const Condition is_first = body.condition("is first");
    const Condition kept = body.condition("kept", 1);
    const auto set = body.kernel(next_condition, Grid{}, first_pass.sets(is_first));
    const auto clear =
        body.if_("first pass", is_first,
                 [&](Graph& then) {
                   then.kernel(set_condition, Grid{}, {.condition = kept, .value = 0});
                 })
            .after(set);
    const auto choice = body.if_("kept", kept, noting(log, 1), noting(log, 0)).after(clear);
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(choice);
  });
  run(graph);
  EXPECT_EQ(log.read(), (Tags{0, 0, 0}));
}

TEST_P(SmallNesting, an_initial_value_holds_in_every_pass_until_someone_sets_it) {
  const DeviceLog log(device());
  const Buffer<unsigned> left = buffer<unsigned>({3});
  Graph graph(device());
  graph.while_("loop", [&](Graph& body, Condition again) {
    const Condition on = body.condition("on", 1);
    const auto choice = body.if_("if", on, noting(log, 1), noting(log, 0));
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(choice);
  });
  run(graph);
  EXPECT_EQ(log.read(), (Tags{1, 1, 1}));
}

TEST_P(SmallNesting, conditionals_nest_three_deep) {
  const DeviceLog log(device());
  const Script script(device(), {0, 1, 2, 1});
  const Buffer<unsigned> left = buffer<unsigned>({4});
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  graph.if_("if", on, [&](Graph& then) {
    then.while_("loop", [&](Graph& body, Condition again) {
      const Condition choice = body.condition("choice");
      const auto set = body.kernel(next_condition, Grid{}, script.sets(choice));
      const auto a_switch =
          body.switch_("switch", choice,
                       {noting(log, 10),
                        [&](Graph& case_1) {
                          const Condition deep = case_1.condition("deep", 1);
                          const auto before =
                              case_1.kernel(note, Grid{}, {.log = log.view(), .tag = 11});
                          case_1.if_("deep", deep, noting(log, 111)).after(before);
                        }})
              .after(set);
      body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(a_switch);
    });
  });
  run(graph);
  EXPECT_EQ(log.read(), (Tags{10, 11, 111, 11, 111}));
}

TEST_P(SmallNesting, two_loops_side_by_side_do_not_mix_their_conditions) {
  const Buffer<unsigned> left = buffer<unsigned>({5, 9});
  const Buffer<int> x = buffer<int>({0, 0});
  Graph graph(device());
  for (int at = 0; at < 2; ++at)
    graph.while_(at == 0 ? "five" : "nine", [&](Graph& body, Condition again) {
      const auto step =
          body.kernel(affine, Grid{}, {.x = x.data() + at, .count = 1, .factor = 1, .summand = 1});
      body.kernel(count_down, Grid{}, {.again = again, .left = left.data() + at}).after(step);
    });
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{5, 9}));
}

TEST_P(SmallNesting, a_graph_with_conditionals_can_be_instantiated_twice) {
  Buffer<unsigned> left = buffer<unsigned>({2});
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device());
  graph.while_("loop", [&](Graph& body, Condition again) {
    const auto step =
        body.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 1, .summand = 1});
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(step);
  });
  Exec first = graph.instantiate();
  Exec second = graph.instantiate();
  run(first);
  left.write(std::vector<unsigned>{4});
  run(second);
  EXPECT_EQ(x.read().front(), 6);
}

}  // namespace
}  // namespace attacca::test
