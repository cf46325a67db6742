// Exchanges of a device's memory through one transport: transport_conformance TRANSPORT RANKS.
// Ranks are threads or, if a launcher started this program, processes. They share the GPU, or have
// host devices where there is none. It skips what is missing by name, and ends with 77 if that is
// everything.
#include <gmock/gmock.h>
#include <attacca/mpi.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/device_conformance.hpp"
#include "comm/device_program.hpp"
#include "comm/group.hpp"

namespace attacca::test {
namespace {

constexpr RanksOptions kOptions{.deadline = std::chrono::seconds(15)};
Transport transport = Transport::automatic;
int ranks = 0;
std::optional<Group> processes;
std::optional<Group> process_group;  // on the device, made once: NVSHMEM starts once in a process

bool is_one_sided() { return transport == Transport::nvshmem || transport == Transport::edges; }
bool has_gpu() { return Device::cuda_count() > 0; }
Device make_device() { return has_gpu() ? Device::cuda(0) : Device::host(1); }

void on_ranks(const std::function<void(const Device&, const Group&)>& body,
              const RanksOptions& options = kOptions) {
  if (processes) {
    static const Device device = make_device();
    if (!process_group) process_group = processes->on(device, transport);
    body(device, *process_group);
    return processes->barrier().run();
  }
  const bool share = transport != Transport::peer;
  std::vector<Device> devices;
  for (int rank = 0; rank < (share ? 1 : ranks); ++rank)
    devices.push_back(has_gpu() ? Device::cuda(rank) : Device::host(1));
  run_loopback(
      ranks,
      [&](const Group& group) {
        const Device& own = devices[share ? 0 : static_cast<std::size_t>(group.rank())];
        body(own, group.on(own, transport));
      },
      options);
}

/// Why the transport cannot be tried here; empty if it can.
std::string missing() {
  if (transport == Transport::nvshmem && !has_nvshmem()) return describe_nvshmem();
  if (transport == Transport::nccl) {
    if (!has_nccl()) return describe_nccl();
    int major = 0, minor = 0;
    std::sscanf(describe_nccl().c_str(), "NCCL %d.%d", &major, &minor);
    if (major * 100 + minor < 230)
      return describe_nccl() + " refuses two ranks on one GPU; 2.30 and later do not";
  }
  if (transport == Transport::direct && has_gpu() && processes &&
      processes->on(Device::cuda(0)).backend() != "direct")
    return "MPI is " + describe_mpi();
  if (transport == Transport::peer && has_gpu() && Device::cuda_count() < ranks)
    return "there are " + std::to_string(Device::cuda_count()) + " GPUs, and peer copies need " +
           std::to_string(ranks);
  const bool needs_gpu = transport == Transport::nccl || transport == Transport::nvshmem;
  return needs_gpu && !has_gpu() ? "there is no GPU" : "";
}

class TransportConformance : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string what = missing(); !what.empty()) GTEST_SKIP() << what;
  }
};

TEST_F(TransportConformance, collectives_give_what_the_reference_gives) {
  on_ranks(collectives_give_what_the_reference_gives);
}
TEST_F(TransportConformance, exchanges_in_graphs_run_at_every_launch) {
  if (transport == Transport::peer) GTEST_SKIP() << "peer copies are refused in graphs";
  on_ranks(exchanges_in_graphs_run_at_every_launch);
}
TEST_F(TransportConformance, random_programs_give_what_the_interpreter_gives) {
  // A subgroup of NCCL is a communicator, which takes a while to start.
  const std::uint32_t programs = transport == Transport::nccl ? 20 : 200;
  on_ranks([=](const Device& device, const Group& group) {
    programs_give_what_the_interpreter_gives(device, group, programs);
  });
}
TEST_F(TransportConformance, a_group_is_gone_behind_the_graphs_that_captured_it) {
  if (processes || transport != Transport::nccl)
    GTEST_SKIP() << "only NCCL's calls are captured and keep something";
  std::mutex mutex;
  std::vector<std::weak_ptr<comm::GroupImpl>> groups;
  on_ranks([&](const Device& device, const Group& group) {
    Buffer<float> x(device, std::vector<float>(1000, 1.0f));
    Graph graph(device, "step");
    group.all_reduce(x.span()).add_to(graph);
    Exec exec = graph.instantiate();
    const Stream stream(device);
    exec.launch(stream);
    stream.synchronize();
    const std::lock_guard lock(mutex);
    groups.push_back(comm::Access::impl(group));
  });
  ASSERT_EQ(groups.size(), static_cast<std::size_t>(ranks));
  for (const auto& group : groups) EXPECT_TRUE(group.expired());
}
TEST_F(TransportConformance, a_launch_that_waits_for_a_rank_that_gave_up_ends_with_its_reason) {
  if (processes || transport != Transport::nccl)
    GTEST_SKIP() << "others meet on the host before a launch, or have a deadline on the GPU";
  std::atomic<bool> is_launched{false};
  on_ranks([&](const Device& device, const Group& group) {
    Buffer<float> x(device, std::vector<float>(1000, 1.0f));
    Graph graph(device, "step");
    group.all_reduce(x.span()).add_to(graph);
    Exec exec = graph.instantiate();
    if (group.rank() == 1) {
      while (!is_launched) std::this_thread::yield();
      return group.give_up("its disk is full");
    }
    const Stream stream(device);
    EXPECT_THAT(
        [&] {
          exec.launch(stream);
          is_launched = true;
          stream.synchronize();
        },
        testing::ThrowsMessage<RanksBroken>("rank 1 gave up: its disk is full"));
  });
}
TEST_F(TransportConformance, launches_of_all_ranks_that_do_not_end_are_ended_at_the_deadline) {
  if (processes || transport != Transport::nccl)
    GTEST_SKIP() << "others meet on the host before a launch, or have a deadline on the GPU";
  const auto body = [](const Device& device, const Group& group) {
    Buffer<float> x(device, std::vector<float>(1000, 1.0f));
    bool stalls = false;
    Graph graph(device, "step");
    const auto work = graph.host("work", [&] {
      try {
        while (stalls) group.check();
      } catch (const RanksBroken&) {
      }
    });
    const auto first = group.all_reduce(x.span()).add_to(graph).after(work);
    group.all_reduce(x.span()).add_to(graph).after(first);
    Exec exec = graph.instantiate();
    const Stream stream(device);
    exec.launch(stream);
    stream.synchronize();
    stalls = group.rank() == 1;
    exec.launch(stream);
    stream.synchronize();
  };
  EXPECT_THAT(
      [&] { on_ranks(body, {.deadline = std::chrono::seconds(3)}); },
      testing::ThrowsMessage<RanksBroken>(
          "all ranks launched 5 exchanges through NCCL, and 3 ended; no more did within 3 s"));
}
TEST_F(TransportConformance, a_signal_follows_its_data) {
  if (!is_one_sided()) GTEST_SKIP() << "only edges and NVSHMEM have one-sided exchanges";
  on_ranks(a_signal_on_a_device_follows_its_data);
}
TEST_F(TransportConformance, signals_order_the_streams_of_ranks) {
  if (!is_one_sided()) GTEST_SKIP() << "only edges and NVSHMEM have one-sided exchanges";
  on_ranks(signals_order_the_streams_of_ranks);
}
TEST_F(TransportConformance, puts_gets_and_counters_reach_any_rank) {
  if (!is_one_sided()) GTEST_SKIP() << "only edges and NVSHMEM have one-sided exchanges";
  on_ranks(puts_gets_and_counters_reach_any_rank);
}
TEST_F(TransportConformance, kernels_of_all_ranks_go_in_step) {
  if (transport != Transport::nvshmem) GTEST_SKIP() << "only NVSHMEM's kernels can wait for others";
  on_ranks(kernels_go_in_step);
}

}  // namespace
}  // namespace attacca::test

int main(int count, char** arguments) {
  using namespace attacca;
  constexpr int kSkipped = 77;  // for CTest
  testing::InitGoogleTest(&count, arguments);
  const std::string name = count > 2 ? arguments[1] : "";
  for (int at = 0; at < kTransports; ++at)
    if (name == transport_name(static_cast<Transport>(at)))
      test::transport = static_cast<Transport>(at);
  test::ranks = count > 2 ? std::atoi(arguments[2]) : 0;
  if (name != transport_name(test::transport) || test::ranks < 1) {
    std::fprintf(stderr, "usage: %s TRANSPORT RANKS\n", arguments[0]);
    return 2;
  }
  test::processes = join_processes(test::kOptions);
  const int result = RUN_ALL_TESTS();
  test::process_group.reset();
  test::processes.reset();
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  const bool has_run_none = tests.skipped_test_count() == tests.test_to_run_count();
  return result == 0 && has_run_none ? kSkipped : result;
}
