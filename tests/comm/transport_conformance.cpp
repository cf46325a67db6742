// Exchanges of a device's memory through one transport: transport_conformance TRANSPORT RANKS.
// Ranks are threads or, if a launcher started this program, processes. They share the GPU, or have
// host devices where there is none. It skips what is missing by name.
#include <gtest/gtest.h>
#include <attacca/mpi.hpp>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include "comm/device_conformance.hpp"

namespace attacca::test {
namespace {

Transport transport = Transport::automatic;
int ranks = 0;
std::optional<Group> processes;
std::optional<Group> process_group;  // on the device, made once: NVSHMEM starts once in a process

bool has_gpu() { return Device::cuda_count() > 0; }
Device make_device() { return has_gpu() ? Device::cuda(0) : Device::host(1); }

void on_ranks(const std::function<void(const Device&, const Group&)>& body) {
  if (processes) {
    static const Device device = make_device();
    if (!process_group) process_group = processes->on(device, transport);
    body(device, *process_group);
    return processes->barrier().run();
  }
  const Device shared = make_device();
  run_loopback(ranks, [&](const Group& group) { body(shared, group.on(shared, transport)); });
}

#define ATTACCA_SKIP_WITHOUT_LIBRARY()                                                       \
  if (transport == Transport::nccl && !has_nccl()) GTEST_SKIP() << describe_nccl();          \
  if (transport == Transport::nvshmem && !has_nvshmem()) GTEST_SKIP() << describe_nvshmem(); \
  if (transport >= Transport::nccl && !has_gpu()) GTEST_SKIP() << "there is no GPU"

TEST(TransportConformance, collectives_give_what_the_reference_gives) {
  ATTACCA_SKIP_WITHOUT_LIBRARY();
  on_ranks(collectives_give_what_the_reference_gives);
}
TEST(TransportConformance, exchanges_in_graphs_run_at_every_launch) {
  ATTACCA_SKIP_WITHOUT_LIBRARY();
  on_ranks(exchanges_in_graphs_run_at_every_launch);
}
TEST(TransportConformance, a_signal_follows_its_data) {
  ATTACCA_SKIP_WITHOUT_LIBRARY();
  if (transport != Transport::nvshmem) GTEST_SKIP() << "only NVSHMEM has one-sided exchanges";
  on_ranks(a_signal_on_a_device_follows_its_data);
}
TEST(TransportConformance, puts_gets_and_counters_reach_any_rank) {
  ATTACCA_SKIP_WITHOUT_LIBRARY();
  if (transport != Transport::nvshmem) GTEST_SKIP() << "only NVSHMEM has one-sided exchanges";
  on_ranks(puts_gets_and_counters_reach_any_rank);
}

}  // namespace
}  // namespace attacca::test

int main(int count, char** arguments) {
  using namespace attacca;
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
  test::processes = join_processes();
  const int result = RUN_ALL_TESTS();
  test::process_group.reset();
  test::processes.reset();
  return result;
}
