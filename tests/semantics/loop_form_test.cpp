// Tests of what the four forms of a Loop agree on besides the result: when the condition holds if
// no kernel sets it, what waits for the loop, and that an illegal form cannot be forced.
#include <gmock/gmock.h>
#include <attacca/loop.hpp>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::HasSubstr;

constexpr LoopForm kForms[] = {LoopForm::while_node, LoopForm::self_relaunch,
                               LoopForm::persistent_kernel, LoopForm::host_loop};

class SmallLoopForm : public OnEachDevice {
 protected:
  static constexpr unsigned kCount = 1000;

  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    x_.emplace(device(), std::vector<int>(kCount));
    left_.emplace(device(), std::vector<unsigned>{0});
  }
  void TearDown() override {
    x_.reset();
    left_.reset();
    OnEachDevice::TearDown();
  }
  AffineArgs step() { return {.x = x_->data(), .count = kCount, .factor = 3, .summand = 1}; }
  CountDownArgs counting(Condition again) { return {.again = again, .left = left_->data()}; }
  /// x = 3x + 1 as often as *left says, by a kernel that sets the condition each pass or only once.
  Loop affine_loop(const Kernel<CountDownArgs>& counter, const PersistentProgram& program) {
    Loop loop(device(), "relax", [this, &counter](Graph& body, Condition again) {
      const auto relax = body.kernel(affine, Grid{{4}, {64}}, step());
      body.kernel(counter, Grid{{1}, {64}}, counting(again)).after(relax);
    });
    loop.with(program);
    return loop;
  }
  void start_from(unsigned passes) {
    x_->write(expected(0));
    left_->write(std::vector<unsigned>{passes});
  }
  std::vector<int> run_loop(LoopExec& exec, unsigned passes) {
    start_from(passes);
    exec.launch(stream());
    stream().synchronize();
    EXPECT_EQ(left_->read().front(), 0u);
    return values();
  }
  std::vector<int> values() const { return x_->read(); }
  static std::vector<int> expected(unsigned passes) {
    std::vector<int> values(kCount);
    for (unsigned at = 0; at < kCount; ++at) {
      unsigned value = at;
      for (unsigned pass = 0; pass < passes; ++pass) value = value * 3 + 1;
      values[at] = static_cast<int>(value);
    }
    return values;
  }
  static const LoopOption& option(const LoopPlan& plan, LoopForm form) {
    return plan.options[static_cast<std::size_t>(form)];
  }
  /// Checks that `form` is not legal, for a reason that names `node`, and cannot be forced.
  void expect_illegal(const Loop& loop, LoopForm form, const std::string& node) {
    const LoopPlan plan = loop.plan();
    EXPECT_FALSE(option(plan, form).is_legal) << loop_form_name(form);
    EXPECT_THAT(option(plan, form).why_not, HasSubstr(node)) << loop_form_name(form);
    EXPECT_THAT(plan.explain(), HasSubstr(option(plan, form).why_not));
    EXPECT_NE(plan.chosen, form);
    try {
      (void)loop.instantiate(form);
      FAIL() << loop_form_name(form) << " was not refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(node));
      EXPECT_THAT(error.what(), HasSubstr(plan.loop));
    }
  }

 private:
  std::optional<Buffer<int>> x_;
  std::optional<Buffer<unsigned>> left_;
};
ATTACCA_ON_EACH_DEVICE(SmallLoopForm);

TEST_P(SmallLoopForm, launches_of_different_lengths_follow_one_another) {
  const Loop loop = affine_loop(count_down, affine_and_count_down);
  for (const LoopForm form : kForms) {
    LoopExec exec = loop.instantiate(form);
    for (const unsigned passes : {3u, 40u, 1u, 7u})
      EXPECT_EQ(run_loop(exec, passes), expected(passes)) << loop_form_name(form);
  }
}

TEST_P(SmallLoopForm, the_loop_goes_on_until_someone_sets_the_condition_to_zero) {
  const Loop loop = affine_loop(stop_at_zero, affine_and_stop_at_zero);
  for (const LoopForm form : kForms) {
    LoopExec exec = loop.instantiate(form);
    for (const unsigned passes : {5u, 2u, 1u})
      EXPECT_EQ(run_loop(exec, passes), expected(passes)) << loop_form_name(form);
  }
}

TEST_P(SmallLoopForm, work_behind_the_loop_on_the_stream_waits_for_its_last_pass) {
  const Loop loop = affine_loop(count_down, affine_and_count_down);
  const Buffer<int> copy = buffer(std::vector<int>(kCount));
  for (const LoopForm form : kForms) {
    LoopExec exec = loop.instantiate(form);
    start_from(9);
    exec.launch(stream());
    stream().copy(copy.data(), step().x, copy.bytes());
    stream().synchronize();
    EXPECT_EQ(copy.read(), expected(9)) << loop_form_name(form);
  }
}

TEST_P(SmallLoopForm, a_loop_waits_for_work_before_it_on_the_stream) {
  const Loop loop = affine_loop(count_down, affine_and_count_down);
  for (const LoopForm form : kForms) {
    LoopExec exec = loop.instantiate(form);
    start_from(4);
    stream().kernel(affine, Grid{{4}, {64}}, step());
    exec.launch(stream());
    stream().synchronize();
    EXPECT_EQ(values(), expected(5)) << loop_form_name(form);
  }
}

TEST_P(SmallLoopForm, a_moved_loop_runs) {
  const Loop loop = affine_loop(count_down, affine_and_count_down);
  for (const LoopForm form : kForms) {
    LoopExec exec = loop.instantiate(form);
    LoopExec moved = std::move(exec);
    EXPECT_EQ(moved.form(), form);
    EXPECT_EQ(run_loop(moved, 3), expected(3)) << loop_form_name(form);
  }
}

TEST_P(SmallLoopForm, the_chosen_form_is_what_one_gets) {
  const Loop loop = affine_loop(count_down, affine_and_count_down);
  LoopExec exec = loop.instantiate();
  EXPECT_EQ(exec.form(), loop.plan().chosen);
  EXPECT_EQ(run_loop(exec, 4), expected(4));
}

TEST_P(SmallLoopForm, without_a_program_there_is_no_persistent_kernel) {
  const Loop loop(device(), "plain", [this](Graph& body, Condition again) {
    body.kernel(count_down, Grid{}, counting(again));
  });
  expect_illegal(loop, LoopForm::persistent_kernel, "program");
  for (const LoopForm form : {LoopForm::while_node, LoopForm::self_relaunch, LoopForm::host_loop})
    EXPECT_TRUE(option(loop.plan(), form).is_legal) << option(loop.plan(), form).why_not;
}

TEST_P(SmallLoopForm, a_kernel_the_program_does_not_have_rules_out_the_persistent_kernel) {
  Loop loop(device(), "strange", [this](Graph& body, Condition again) {
    const auto set = body.kernel(set_value, Grid{}, {.to = step().x, .value = 1}).named("stranger");
    body.kernel(count_down, Grid{}, counting(again)).after(set);
  });
  loop.with(affine_and_count_down);
  expect_illegal(loop, LoopForm::persistent_kernel, "stranger");
}

TEST_P(SmallLoopForm, a_host_call_in_the_body_cannot_be_forced_onto_the_device) {
  Loop loop(device(), "talkative", [this](Graph& body, Condition again) {
    const auto call = body.host("report", [] {});
    body.kernel(count_down, Grid{}, counting(again)).after(call);
  });
  loop.with(affine_and_count_down);
  for (const LoopForm form :
       {LoopForm::while_node, LoopForm::self_relaunch, LoopForm::persistent_kernel})
    expect_illegal(loop, form, "report");
}

TEST_P(SmallLoopForm, a_conditional_leaves_the_while_node_and_the_host_loop) {
  Loop loop(device(), "branching", [this](Graph& body, Condition again) {
    const Condition on = body.condition("on", 1);
    const auto choice =
        body.if_("choice", on, [this](Graph& then) { then.kernel(affine, Grid{}, step()); });
    body.kernel(count_down, Grid{}, counting(again)).after(choice);
  });
  loop.with(affine_and_count_down);
  expect_illegal(loop, LoopForm::self_relaunch, "choice");
  expect_illegal(loop, LoopForm::persistent_kernel, "choice");
  for (const LoopForm form : {LoopForm::while_node, LoopForm::host_loop}) {
    LoopExec exec = loop.instantiate(form);
    EXPECT_EQ(run_loop(exec, 6), expected(6)) << loop_form_name(form);
  }
}

TEST_P(SmallLoopForm, a_launching_kernel_leaves_self_relaunch_and_the_host_loop) {
  const Buffer<int> fired = buffer<int>({0});
  Graph inner(device(), "inner");
  inner.kernel(affine, Grid{}, {.x = fired.data(), .count = 1, .factor = 1, .summand = 1});
  const DeviceExec target = inner.instantiate_for_device();
  Loop loop(device(), "launching", [&](Graph& body, Condition again) {
    const auto fire =
        body.kernel(launch, Grid{},
                    {.graph = target.handle(), .mode = LaunchMode::fire_and_forget, .tally = {}})
            .named("fire");
    const auto relax = body.kernel(affine, Grid{}, step()).after(fire);
    body.kernel(count_down, Grid{}, counting(again)).after(relax);
  });
  loop.with(affine_and_count_down);
  expect_illegal(loop, LoopForm::while_node, "fire");
  expect_illegal(loop, LoopForm::persistent_kernel, "fire");
  int passes = 0;
  for (const LoopForm form : {LoopForm::self_relaunch, LoopForm::host_loop}) {
    LoopExec exec = loop.instantiate(form);
    EXPECT_EQ(run_loop(exec, 6), expected(6)) << loop_form_name(form);
    passes += 6;
    EXPECT_EQ(fired.read().front(), passes) << loop_form_name(form);
  }
}

TEST_P(SmallLoopForm, an_allocation_in_the_body_leaves_only_the_host_loop) {
  Loop loop(device(), "allocating", [this](Graph& body, Condition again) {
    const auto scratch = body.allocate<int>("scratch", kCount);
    const auto in = body.copy(scratch.data(), step().x, kCount * sizeof(int)).after(scratch);
    const auto relax =
        body.kernel(affine, Grid{},
                    {.x = scratch.data(), .count = kCount, .factor = 3, .summand = 1})
            .after(in);
    const auto out = body.copy(step().x, scratch.data(), kCount * sizeof(int)).after(relax);
    const auto free = body.free(scratch).after(out);
    body.kernel(count_down, Grid{}, counting(again)).after(free);
  });
  loop.with(affine_and_count_down);
  for (const LoopForm form :
       {LoopForm::while_node, LoopForm::self_relaunch, LoopForm::persistent_kernel})
    expect_illegal(loop, form, "scratch");
  LoopExec exec = loop.instantiate();
  EXPECT_EQ(exec.form(), LoopForm::host_loop);
  EXPECT_EQ(run_loop(exec, 5), expected(5));
}

TEST_P(SmallLoopForm, a_loop_without_a_body_is_refused) {
  EXPECT_THROW(Loop(device(), "hollow", nullptr), BadArgument);
  const Loop empty(device(), "empty", [](Graph&, Condition) {});
  EXPECT_THROW((void)empty.plan(), GraphError);
}

}  // namespace
}  // namespace attacca::test
