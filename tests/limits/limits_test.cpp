// Tests of limits of nested launches that are set with success. On CUDA that is only possible
// before the first launch of the process. So these tests are a binary of their own, and none uses
// the shared fixture, which launches.
#include <gmock/gmock.h>

#include "support/log.hpp"
#include "support/nested_kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::HasSubstr;

class SetLimits : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (GetParam() == DeviceKind::cuda && Device::cuda_count() == 0)
      GTEST_SKIP() << "needs a GPU, and this machine has none";
  }
};
ATTACCA_ON_EACH_DEVICE(SetLimits);

TEST_P(SetLimits, more_launches_may_be_pending_and_stacks_be_deeper) {
  // One test for both, because in one process the second would come after a launch. The default of
  // 2048 pending launches refuses some of these, as SpawnBudget shows.
  const Device device = device_of(GetParam());
  nested::set_limits(device, {.pending_launches = 8192, .stack_bytes = 16 * 1024});
  Stream stream(device);
  const Buffer<unsigned> count(device, std::vector<unsigned>{0});
  const DeviceTally statuses(device);
  Graph graph(device, "flood");
  graph
      .kernel(
          spawn, Grid{},
          {.count = count.data(), .times = 4096, .mode = SpawnMode::tail, .tally = statuses.view()})
      .named("spawner");
  Exec exec = graph.instantiate();
  exec.launch(stream);
  stream.synchronize();
  EXPECT_EQ(statuses.of(LaunchStatus::launched), 4096u);
  EXPECT_EQ(count.read().front(), 4096u);

  // The driver decides whether this is too late. Either way the device works on.
  try {
    nested::set_limits(device, {.pending_launches = 10});
    nested::set_limits(device, {.pending_launches = 8192});
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("before the first launch"));
  }
  exec.launch(stream);
  stream.synchronize();
  EXPECT_EQ(count.read().front(), 8192u);
}

}  // namespace
}  // namespace attacca::test
