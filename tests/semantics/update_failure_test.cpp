// Tests of updates that fail half-way: the exec runs as before.
#include <gmock/gmock.h>

#include <future>

#include "support/faulty_device.hpp"
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using Kind = Faults::Kind;
using testing::HasSubstr;

class SmallUpdateFailure : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    faulty_.emplace(graph::Access::device(std::make_shared<FaultyDevice>(device(), faults_)));
    on_faulty_.emplace(*faulty_);
    x_.emplace(device(), std::vector<int>{1});
  }
  void TearDown() override {
    x_.reset();
    on_faulty_.reset();
    faulty_.reset();
    OnEachDevice::TearDown();
  }
  AffineArgs step(int factor, int summand) {
    return {.x = x_->data(), .count = 1, .factor = factor, .summand = summand};
  }
  struct Steps {
    Graph graph;
    std::vector<KernelNode<AffineArgs>> nodes;
  };
  /// Adds `each` four times.
  Steps adding(int each) {
    Steps made{Graph(*faulty_, "steps"), {}};
    for (int at = 0; at < 4; ++at) {
      const auto node = made.graph.kernel(affine, Grid{}, step(1, each));
      if (at) node.after(made.nodes.back());
      made.nodes.push_back(node);
    }
    return made;
  }
  int run_from(Exec& exec, int value) {
    x_->write(std::vector<int>{value});
    exec.launch(*on_faulty_);
    on_faulty_->synchronize();
    return x_->read().front();
  }
  Faults& faults() { return *faults_; }
  Stream& on_faulty() { return *on_faulty_; }
  Buffer<int>& x() { return *x_; }

 private:
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  std::optional<Device> faulty_;
  std::optional<Stream> on_faulty_;
  std::optional<Buffer<int>> x_;
};
ATTACCA_ON_EACH_DEVICE(SmallUpdateFailure);

TEST_P(SmallUpdateFailure, a_set_that_fails_changes_nothing) {
  const Steps old = adding(1);
  Exec exec = old.graph.instantiate();
  faults().applies = {Kind::throws};
  EXPECT_THROW(exec.set(old.nodes[2], step(1, 100)), DeviceError);
  EXPECT_EQ(run_from(exec, 0), 4);
  EXPECT_EQ(exec.counters().nodes_updated, 0u);
  EXPECT_TRUE(exec.set(old.nodes[2], step(1, 100)));
  EXPECT_EQ(run_from(exec, 0), 103);
}

TEST_P(SmallUpdateFailure, an_enable_that_fails_changes_nothing) {
  const Steps old = adding(1);
  Exec exec = old.graph.instantiate();
  faults().applies = {Kind::throws};
  EXPECT_THROW(exec.enable(old.nodes[1], false), DeviceError);
  EXPECT_EQ(run_from(exec, 0), 4);
  // A later update must not find it switched off either.
  EXPECT_TRUE(exec.update(adding(10).graph));
  EXPECT_EQ(run_from(exec, 0), 40);
}

TEST_P(SmallUpdateFailure, an_update_that_fails_half_way_is_undone) {
  const Steps old = adding(1);
  const Steps next = adding(10);
  Exec exec = old.graph.instantiate();
  faults().applies = {Kind::throws};
  EXPECT_THROW(exec.update(next.graph), DeviceError);
  EXPECT_EQ(run_from(exec, 0), 4);
  EXPECT_THROW(exec.set(next.nodes[0], step(1, 5)), BadArgument);
  EXPECT_TRUE(exec.set(old.nodes[0], step(1, 5)));
  EXPECT_EQ(run_from(exec, 0), 8);
  EXPECT_TRUE(exec.update(next.graph));
  EXPECT_EQ(run_from(exec, 0), 40);
}

TEST_P(SmallUpdateFailure, an_update_that_fails_behind_a_launch_is_undone) {
  const Steps old = adding(1);
  Exec exec = old.graph.instantiate();
  x().write(std::vector<int>{0});
  std::promise<void> gate;
  on_faulty().host("gate", [opened = gate.get_future().share()] { opened.wait(); });
  exec.launch(on_faulty());
  faults().applies = {Kind::throws};
  EXPECT_THROW(exec.update(adding(10).graph), DeviceError);
  exec.launch(on_faulty());
  EXPECT_TRUE(exec.set(old.nodes[0], step(1, 5)));
  exec.launch(on_faulty());
  gate.set_value();
  on_faulty().synchronize();
  EXPECT_EQ(x().read().front(), 4 + 4 + 8);
}

TEST_P(SmallUpdateFailure, an_update_refused_in_place_and_anew_is_undone) {
  Exec exec = adding(1).graph.instantiate();
  faults().applies = {Kind::refuses};
  faults().instantiations = {Kind::throws};
  EXPECT_THROW(exec.update(adding(10).graph), DeviceError);
  EXPECT_EQ(run_from(exec, 0), 4);
  EXPECT_EQ(exec.counters().reinstantiations, 0u);
}

TEST_P(SmallUpdateFailure, an_update_refused_in_place_is_made_anew) {
  Exec exec = adding(1).graph.instantiate();
  faults().applies = {Kind::refuses};
  const UpdateReport report = exec.update(adding(10).graph);
  EXPECT_TRUE(report.was_reinstantiated);
  EXPECT_THAT(report.reason, HasSubstr("the faulty device refused"));
  EXPECT_EQ(run_from(exec, 0), 40);
}

TEST_P(SmallUpdateFailure, where_the_way_back_is_refused_what_was_is_made_anew) {
  Exec exec = adding(1).graph.instantiate();
  faults().applies = {Kind::throws, Kind::refuses};
  EXPECT_THROW(exec.update(adding(10).graph), DeviceError);
  EXPECT_EQ(run_from(exec, 0), 4);
  EXPECT_EQ(exec.counters().reinstantiations, 1u);
}

TEST_P(SmallUpdateFailure, where_every_way_back_fails_the_exec_says_so_until_it_is_made_anew) {
  const Steps old = adding(1);
  Exec exec = old.graph.instantiate();
  faults().applies = {Kind::throws, Kind::throws};
  faults().instantiations = {Kind::throws};
  EXPECT_THROW(exec.update(adding(10).graph), DeviceError);
  try {
    run_from(exec, 0);
    FAIL() << "it was launched";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'steps'"));
    EXPECT_THAT(error.what(), HasSubstr("failed to instantiate"));
    EXPECT_THAT(error.what(), HasSubstr("update it again"));
  }
  const UpdateReport report = exec.set(old.nodes[0], step(1, 5));
  EXPECT_TRUE(report.was_reinstantiated);
  EXPECT_EQ(run_from(exec, 0), 8);
}

TEST_P(SmallUpdateFailure, another_shape_that_cannot_be_instantiated_changes_nothing) {
  const Steps old = adding(1);
  Exec exec = old.graph.instantiate();
  Steps longer = adding(10);
  longer.graph.kernel(affine, Grid{}, step(1, 1)).after(longer.nodes.back());
  faults().instantiations = {Kind::throws};
  EXPECT_THROW(exec.update(longer.graph), DeviceError);
  EXPECT_EQ(run_from(exec, 0), 4);
  EXPECT_TRUE(exec.set(old.nodes[0], step(1, 5)));
}

}  // namespace
}  // namespace attacca::test
