// Tests of Loop: one body in four forms, which of them are legal, and why the others are not.
#include <gmock/gmock.h>
#include <attacca/l2.hpp>

#include "loop/costs.hpp"
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr LoopForm kEachForm[] = {LoopForm::while_node, LoopForm::self_relaunch,
                                  LoopForm::persistent_kernel, LoopForm::host_loop};
constexpr unsigned kPasses = 5;
constexpr unsigned kThreads = 64;

class SmallLoop : public OnEachDevice {
 protected:
  /// x = 3 x + 1 for each of many x, kPasses times.
  Loop affine_loop() {
    return Loop(device(), "iterate", [this](Graph& body, Condition again) {
      const auto step =
          body.kernel(affine, Grid::covering(x_.size(), kThreads),
                      {.x = x_.data(), .count = x_.size(), .factor = 3, .summand = 1});
      body.kernel(count_down, Grid{{1}, {kThreads}}, {.again = again, .left = left_.data()})
          .after(step);
    });
  }
  void reset() {
    x_.write(std::vector<int>(x_.size(), 2));
    left_.write(std::vector<unsigned>{kPasses});
  }
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    x_ = Buffer<int>(device(), 5000);
    left_ = Buffer<unsigned>(device(), 1);
  }
  const LoopOption& option(const LoopPlan& plan, LoopForm form) {
    return plan.options[static_cast<std::size_t>(form)];
  }

  Buffer<int> x_{Device::host_serial(), 0};
  Buffer<unsigned> left_{Device::host_serial(), 0};
};
ATTACCA_ON_EACH_DEVICE(SmallLoop);

TEST_P(SmallLoop, every_form_gives_the_same_result_and_runs_again) {
  int expected = 2;
  for (unsigned pass = 0; pass < kPasses; ++pass) expected = 3 * expected + 1;
  Loop loop = affine_loop();
  loop.with(affine_and_count_down);
  for (const LoopForm form : kEachForm) {
    LoopExec exec = loop.instantiate(form);
    EXPECT_EQ(exec.form(), form);
    for (int launch = 0; launch < 2; ++launch) {
      reset();
      exec.launch(stream());
      stream().synchronize();
      EXPECT_EQ(x_.read(), std::vector<int>(x_.size(), expected)) << loop_form_name(form);
      EXPECT_EQ(left_.read().front(), 0u);
    }
  }
}

TEST_P(SmallLoop, the_body_runs_once_where_the_condition_is_zero_at_once) {
  Loop loop = affine_loop();
  loop.with(affine_and_count_down);
  for (const LoopForm form : kEachForm) {
    reset();
    left_.write(std::vector<unsigned>{1});
    LoopExec exec = loop.instantiate(form);
    exec.launch(stream());
    stream().synchronize();
    EXPECT_EQ(x_.read().front(), 7) << loop_form_name(form);
  }
}

TEST_P(SmallLoop, the_plan_takes_the_cheapest_legal_form_and_names_every_one) {
  Loop loop = affine_loop();
  const LoopPlan without = loop.plan();
  EXPECT_THAT(option(without, LoopForm::persistent_kernel).why_not, HasSubstr("make_persistent"));
  EXPECT_NE(without.chosen, LoopForm::persistent_kernel);
  const LoopPlan with = loop.with(affine_and_count_down).plan();
  EXPECT_THAT(with.explain(), HasSubstr("measured on this machine"));
  for (const LoopForm form : kEachForm) {
    EXPECT_THAT(with.explain(), HasSubstr(loop_form_name(form)));
    EXPECT_TRUE(option(with, form).is_legal) << loop_form_name(form);
    EXPECT_GE(option(with, form).microseconds_per_pass,
              option(with, with.chosen).microseconds_per_pass);
  }
}

TEST_P(SmallLoop, whichever_form_costs_least_on_a_machine_is_chosen_there) {
  const Loop loop = affine_loop().with(affine_and_count_down);
  for (const LoopForm cheapest : kEachForm) {
    std::array<loop::FormCost, kLoopForms> costs;
    costs.fill({.per_pass = 4, .per_node = 1, .per_large_node = 2});
    costs[static_cast<std::size_t>(cheapest)].per_large_node = 1;
    const loop::FixedCosts fixed(costs);
    EXPECT_EQ(loop.plan().chosen, cheapest) << loop_form_name(cheapest);
  }
}

TEST_P(SmallLoop, what_a_form_costs_is_measured_once) {
  for (const LoopForm form : kEachForm) {
    const loop::FormCost once = loop::cost_of(device(), form);
    const loop::FormCost twice = loop::cost_of(device(), form);
    EXPECT_GT(once.per_pass + once.per_node, 0) << loop_form_name(form);
    EXPECT_EQ(once.per_pass, twice.per_pass) << loop_form_name(form);
  }
}

TEST(LoopCosts, a_pass_costs_its_nodes_and_a_persistent_kernel_of_many_blocks_waits_after_each) {
  const loop::FormCost cost{.per_pass = 10, .per_node = 1, .per_large_node = 5};
  const loop::BodySize body{.nodes = 3, .large_nodes = 1};
  EXPECT_EQ(loop::cost_of_pass(cost, LoopForm::while_node, body), 10 + 2 * 1 + 5);
  EXPECT_EQ(loop::cost_of_pass(cost, LoopForm::persistent_kernel, body), 10 + 3 * 5);
  EXPECT_EQ(loop::cost_of_pass(cost, LoopForm::persistent_kernel, {3, 0}), 10 + 3 * 1);
}

TEST_P(SmallLoop, a_host_call_leaves_only_the_host_loop) {
  reset();
  int calls = 0;
  const Loop loop(device(), "with the host", [&](Graph& body, Condition again) {
    const auto call = body.host("tick", [&] { ++calls; });
    body.kernel(count_down, Grid{}, {.again = again, .left = left_.data()}).after(call);
  });
  const LoopPlan plan = loop.plan();
  EXPECT_EQ(plan.chosen, LoopForm::host_loop);
  for (const LoopForm form : {LoopForm::while_node, LoopForm::self_relaunch}) {
    EXPECT_THAT(option(plan, form).why_not, HasSubstr("host call 'tick'"));
    try {
      (void)loop.instantiate(form);
      FAIL() << "not refused: " << loop_form_name(form);
    } catch (const BadArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("host call 'tick'"));
      EXPECT_THAT(error.what(), HasSubstr("with the host"));
    }
  }
  LoopExec exec = loop.instantiate();
  exec.launch(stream());
  stream().synchronize();
  EXPECT_EQ(calls, static_cast<int>(kPasses));
}

TEST_P(SmallLoop, a_conditional_in_the_body_rules_out_the_self_relaunching_graph) {
  reset();
  Buffer<int> value = buffer<int>({0});
  const Loop loop(device(), "branching", [&](Graph& body, Condition again) {
    const Condition branch = body.condition("branch");
    const auto choose = body.kernel(set_condition, Grid{}, {.condition = branch, .value = 1});
    const auto chosen =
        body.if_("chosen", branch,
                 [&](Graph& then) {
                   then.kernel(affine, Grid{},
                               {.x = value.data(), .count = 1, .factor = 1, .summand = 10});
                 })
            .after(choose);
    body.kernel(count_down, Grid{}, {.again = again, .left = left_.data()}).after(chosen);
  });
  const LoopPlan plan = loop.plan();
  EXPECT_THAT(option(plan, LoopForm::self_relaunch).why_not, HasSubstr("if 'chosen'"));
  EXPECT_TRUE(option(plan, LoopForm::while_node).is_legal);
  LoopExec exec = loop.instantiate(LoopForm::while_node);
  exec.launch(stream());
  stream().synchronize();
  EXPECT_EQ(value.read().front(), 10 * static_cast<int>(kPasses));
}

TEST_P(SmallLoop, a_kernel_that_launches_rules_out_the_while_node) {
  reset();
  Buffer<int> value = buffer<int>({0});
  Buffer<unsigned> tally = buffer(std::vector<unsigned>(kStatuses, 0));
  Graph work(device(), "work");
  work.kernel(affine, Grid{}, {.x = value.data(), .count = 1, .factor = 1, .summand = 1});
  const DeviceExec launched = work.instantiate_for_device();
  const Loop loop(device(), "launching", [&](Graph& body, Condition again) {
    const auto launcher = body.kernel(
        launch, Grid{},
        {.graph = launched.handle(), .mode = LaunchMode::fire_and_forget, .tally = {tally.data()}});
    body.kernel(count_down, Grid{}, {.again = again, .left = left_.data()}).after(launcher);
  });
  const LoopPlan plan = loop.plan();
  EXPECT_THAT(option(plan, LoopForm::while_node).why_not, HasSubstr("launches graphs"));
  EXPECT_TRUE(option(plan, LoopForm::self_relaunch).is_legal);
  LoopExec exec = loop.instantiate(LoopForm::self_relaunch);
  exec.launch(stream());
  stream().synchronize();
  EXPECT_EQ(value.read().front(), static_cast<int>(kPasses));
}

TEST_P(SmallLoop, a_body_that_never_sets_the_condition_is_refused) {
  const Loop loop(device(), "endless", [&](Graph& body, Condition) {
    body.kernel(set_value, Grid{}, {.to = x_.data(), .value = 1});
  });
  try {
    (void)loop.plan();
    FAIL() << "not refused";
  } catch (const GraphError& error) {
    EXPECT_EQ(error.rule(), Rule::condition_never_set);
    EXPECT_THAT(error.what(), HasSubstr("endless"));
  }
}

TEST_P(SmallLoop, a_loop_prints_as_a_graph_with_a_while) {
  EXPECT_THAT(to_text(affine_loop().graph()), HasSubstr("while"));
}

TEST_P(SmallLoop, blocks_of_two_sizes_rule_out_the_persistent_kernel) {
  Loop loop(device(), "uneven", [this](Graph& body, Condition again) {
    const auto step = body.kernel(affine, Grid::covering(x_.size(), 32),
                                  {.x = x_.data(), .count = x_.size(), .factor = 1, .summand = 0});
    body.kernel(count_down, Grid{}, {.again = again, .left = left_.data()}).after(step);
  });
  const LoopPlan plan = loop.with(affine_and_count_down).plan();
  EXPECT_THAT(option(plan, LoopForm::persistent_kernel).why_not,
              HasSubstr("blocks of another size"));
}

TEST_P(SmallLoop, a_kernel_with_an_l2_window_rules_out_the_persistent_kernel) {
  Loop loop(device(), "windowed", [this](Graph& body, Condition again) {
    body.kernel(count_down, Grid{}, {.again = again, .left = left_.data()})
        .l2_window(L2Window::streaming(x_.data(), x_.bytes()));
  });
  const LoopPlan plan = loop.with(affine_and_count_down).plan();
  EXPECT_THAT(option(plan, LoopForm::persistent_kernel).why_not, HasSubstr("L2 window"));
}

TEST_P(SmallLoop, a_block_that_does_not_come_to_the_grid_barrier_is_named) {
  Buffer<std::uint64_t> nanoseconds = buffer<std::uint64_t>({0});
  PersistentProgram program = linger_and_count_down;
  program.patience = std::chrono::milliseconds(200);
  Loop loop(device(), "dawdling", [&](Graph& body, Condition again) {
    const auto stay = body.kernel(linger, Grid{{4}, {kThreads}}, {2, nanoseconds.data()});
    body.kernel(count_down, Grid{{1}, {kThreads}}, {.again = again, .left = left_.data()})
        .after(stay);
  });
  LoopExec exec = loop.with(program).instantiate(LoopForm::persistent_kernel);
  const auto run_loop = [&](std::uint64_t milliseconds) {
    reset();
    nanoseconds.write(std::vector<std::uint64_t>{milliseconds * 1'000'000});
    exec.launch(stream());
    stream().synchronize();
  };
  run_loop(0);
  EXPECT_EQ(left_.read().front(), 0u);
  if (is_cuda()) {  // the host runs all blocks of a step before the next, so no block waits
    try {
      run_loop(600);
      FAIL() << "nobody lost patience";
    } catch (const LaunchRefused& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'dawdling'"), HasSubstr("block 2 ")));
    }
    run_loop(0);
    EXPECT_EQ(left_.read().front(), 0u) << "as new";
  }
  program.patience = std::chrono::milliseconds(0);
  EXPECT_THROW(loop.with(program), BadArgument);
}

}  // namespace
}  // namespace attacca::test
