// One rank of a program in which rank 1 misbehaves: process_faults_test.py starts it. Each
// surviving rank prints "rank R after T s: " and what it was told.
#include <attacca/attacca.hpp>
#include <attacca/mpi.hpp>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/device_events.hpp"
#include "support/kernels.hpp"
#include "support/lock_step_kernels.hpp"

namespace {

using attacca::Device;
using attacca::Graph;
using attacca::Group;

/// The launcher numbers processes before they meet.
std::string rank_of_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "RANK"})
    if (const char* rank = std::getenv(name)) return rank;
  return {};
}
bool is_culprit() { return rank_of_launcher() == "1"; }

void die() { std::raise(SIGKILL); }

void sum(const Group& group, std::size_t count) {
  std::vector<float> values(count, 1.0f);
  group.all_reduce(std::span(values)).named("gradients").run();
}

/// A kernel that goes in step with that of rank 1, which ends instead.
void step_alone(const Group& group) {
  const Device device = Device::host(1);
  const attacca::Stream stream(device);
  const auto words = group.symmetric<std::uint32_t>(static_cast<std::size_t>(group.size()));
  const auto cells = group.symmetric<int>(2);
  attacca::test::LockStepArgs args{.barrier = rank_barrier(group, words),
                                   .turns = is_culprit() ? 0u : 1u,
                                   .own = cells.data(),
                                   .next = cells.data(),
                                   .sum = cells.data() + 1,
                                   .patience_nanoseconds = 500'000'000};
  group.launch_together(attacca::test::lock_step, attacca::Grid{}, args, stream);
  if (is_culprit()) die();
  stream.synchronize();
}

/// Sums in a graph on the GPU, through NVSHMEM, in the middle of which rank 1 is killed.
void sum_on_gpu(const Group& group) {
  if (Device::cuda_count() == 0 || !attacca::has_nvshmem()) {
    std::printf("rank %d: cannot try it here: no GPU or %s\n", group.rank(),
                attacca::describe_nvshmem().c_str());
    return;
  }
  const Device device = Device::cuda(0);
  const Group there = group.on(device, attacca::Transport::nvshmem);
  const attacca::Stream stream(device);
  attacca::Buffer<float> values(device, std::vector<float>(100'000, 1.0f));
  Graph graph(device, "sums");
  there.all_reduce(values.span()).named("gradients").add_to(graph);
  attacca::Exec exec = graph.instantiate();
  for (int launch = 0;; ++launch) {
    exec.launch(stream);
    stream.synchronize();
    if (launch == 100 && is_culprit()) die();
  }
}

/// A kernel with a wrong address, which loses this process its GPU as the end of rank 1 may under
/// MPS.
void lose_gpu(const Group& group) {
  if (Device::cuda_count() == 0) {
    std::printf("rank %d: cannot try it here: no GPU\n", group.rank());
    return;
  }
  const Device device = Device::cuda(0);
  const attacca::Stream stream(device);
  group.barrier().run();
  if (is_culprit()) die();
  stream.kernel(attacca::test::set_value, attacca::Grid{}, {reinterpret_cast<int*>(64), 1});
  stream.synchronize();
}

/// Stops this process when it has said that it waits, until rank 2 could blame it.
void stop_for_a_while(std::chrono::nanoseconds deadline) {
  const pid_t stopped = getpid();
  if (fork() != 0) return;
  std::this_thread::sleep_for(deadline / 2);
  kill(stopped, SIGSTOP);
  std::this_thread::sleep_for(deadline * 7 / 10);
  kill(stopped, SIGCONT);
  _exit(0);
}

void misbehave(const std::string& how, const Group& group) {
  if (how == "killed-before") {
    if (is_culprit()) die();
    sum(group, 1000);
  } else if (how == "killed-before-direct") {
    const Device device = Device::host(1);
    const Group there = group.on(device, attacca::Transport::direct);
    attacca::Buffer<float> values(device, 1000);
    if (is_culprit()) die();
    there.all_reduce(values.span()).named("gradients").run();
  } else if (how == "killed-during") {
    std::atomic<bool> is_running{false};
    std::thread killer([&] {
      while (!is_running) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      if (is_culprit()) die();
    });
    is_running = true;
    try {
      for (;;) sum(group, 1'000'000);
    } catch (...) {
      killer.join();
      throw;
    }
  } else if (how == "killed-after") {
    sum(group, 1000);
    if (is_culprit()) die();
  } else if (how == "stalled") {
    if (is_culprit()) std::this_thread::sleep_for(group.deadline() * 2);
    sum(group, 1000);
  } else if (how == "mismatched") {
    sum(group, is_culprit() ? 10 : 1000);  // in one message and in two
  } else if (how == "mismatched-send") {
    std::vector<int> values(3);
    if (group.rank() == 0) group.send(std::span(values), 1).run();
    if (group.rank() == 1) group.receive(std::span(values).subspan(1), 0).run();
    group.barrier().run();
  } else if (how == "device-lost") {
    // What the backend does when CUDA says that the GPU is lost, maybe before the rank has ended.
    if (is_culprit()) std::this_thread::sleep_for(group.deadline() / 10);
    if (is_culprit()) die();
    attacca::core::Listener<attacca::core::DeviceFailed>::tell({"cudaErrorIllegalAddress", true});
  } else if (how == "killed-in-step") {
    step_alone(group);
  } else if (how == "killed-on-gpu") {
    sum_on_gpu(group);
  } else if (how == "gpu-lost") {
    lose_gpu(group);
  } else if (how == "left") {
    if (!is_culprit()) sum(group, 1000);
  } else if (how == "chain" || how == "chain-stopped") {
    // Rank 2 waits for rank 0, and rank 0 for rank 1, which does not come.
    if (group.rank() == 0 && how == "chain-stopped") stop_for_a_while(group.deadline());
    if (is_culprit()) std::this_thread::sleep_for(group.deadline() * 2);
    int value = 0;
    if (group.rank() == 2) group.receive(std::span(&value, 1), 0).run();
    std::this_thread::sleep_for(group.deadline() / 10);  // so rank 2 is the first to wait
    group.barrier().run();
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string how = count > 1 ? arguments[1] : "";
  const std::string rank = rank_of_launcher();
  if (how == "lost-bootstrap" && is_culprit()) die();
  auto start = std::chrono::steady_clock::now();
  const auto say = [&](const char* told) {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    std::printf("rank %s after %.2f s: %s\n", rank.c_str(), time.count(), told);
    std::fflush(stdout);
  };
  try {
    // NVSHMEM and GPUs take a while to start.
    const bool uses_gpu = how.find("gpu") != std::string::npos;
    const std::chrono::milliseconds deadline(uses_gpu ? 10'000 : 1'500);
    const Group group = *attacca::join_processes({.deadline = deadline});
    start = std::chrono::steady_clock::now();
    misbehave(how, group);
    say("was told nothing");
  } catch (const attacca::RanksBroken& error) {
    say(error.what());
    // mpirun must not end the others before they have spoken.
    if (attacca::is_mpi_launch()) std::_Exit(0);
  }
  return 0;
}
