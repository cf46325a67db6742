// rank_team.cpp: starts and ends the ranks of a command.
#include "llm/rank_team.hpp"

#include <fmt/core.h>
#include <attacca/launch.hpp>
#include <attacca/mpi.hpp>
#include <attacca/nccl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "llm/rank_device.hpp"

namespace attacca::tool {

namespace {

/// How long the ranks may take to end behind their engine.
constexpr std::chrono::seconds kPatience{1};

void check_size(unsigned ranks, int processes) {
  if (processes != static_cast<int>(ranks))
    throw UsageError(fmt::format("--ranks {} in a program of {} processes; give --ranks {}", ranks,
                                 processes, processes));
}

/// This process's number on its machine; its rank if the launcher of MPI does not tell it.
int local_rank(const Group& own) {
  if (!is_mpi_launch()) return find_launch()->local_rank;
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char* value = std::getenv(name)) return std::max(0, std::atoi(value));
  return own.rank();
}

}  // namespace

RankTeam::RankTeam(const EngineFlags& flags, llm::EngineOptions& options) : device_(flags.device) {
  if (flags.ranks == 0) return;
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  threads_each_ = flags.threads > 0 ? flags.threads : std::max(1u, cores / flags.ranks);
  const RanksOptions ranks{.deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::duration<double>(flags.rank_deadline))};
  // To join takes until the last process comes, which may be never.
  if (const std::optional<Launch> launch = find_launch(); launch && !is_mpi_launch())
    check_size(flags.ranks, launch->size);
  own_ = join_processes(ranks);
  are_processes_ = own_.has_value();
  if (are_processes_) {
    check_size(flags.ranks, own_->size());
  } else {
    others_ = make_loopback(static_cast<int>(flags.ranks), ranks);
    own_ = others_.front();
    others_.erase(others_.begin());
  }
  options.ranks = own_;
  give_device(options);
}

/// Ranks on one machine must not wait for each other's worker threads, and share a GPU only if they
/// have to.
void RankTeam::give_device(llm::EngineOptions& options) const {
  if (options.device.kind() == DeviceKind::host_threads)
    options.device = Device::host(threads_each_);
  if (!options.device.is_cuda() || device_of_rank(device_, 0, 1) == device_) return;
  const int gpus = Device::cuda_count();
  int number = 0;
  if (are_processes_) {
    number = local_rank(*options.ranks);
  } else {
    Transport& transport = options.rank_transport;
    transport = transport_of_threads(transport, options.ranks->size(), gpus, has_nccl());
    if (transport != Transport::edges) number = options.ranks->rank();
  }
  options.device = Device::from_name(device_of_rank(device_, number, gpus));
}

RankTeam::~RankTeam() {
  // The ranks end with their engine, each in its own time: a word that the command has ended would
  // make them break off what they are leaving in order. Only those whose engine never started wait
  // for that word.
  const auto patience = std::chrono::steady_clock::now() + kPatience;
  const bool have_ended = std::all_of(threads_.begin(), threads_.end(), [&](const auto& thread) {
    return thread.wait_until(patience) == std::future_status::ready;
  });
  if (!have_ended) own_->give_up("the command has ended");
  for (const std::future<void>& thread : threads_) thread.wait();
}

bool RankTeam::start(const llm::Model& model, const llm::EngineOptions& options) {
  if (!own_) return true;
  if (std::exchange(has_started_, true))
    throw BadArgument("a model over ranks is loaded once; start the program again");
  if (own_->rank() != 0) {
    llm::follow(model, options);
    return false;
  }
  for (Group& group : others_) {
    llm::EngineOptions own = options;
    own.ranks = group;
    own.on_step = {};
    own.turns = {};
    give_device(own);
    threads_.push_back(std::async(std::launch::async, [model, own = std::move(own)] {
      try {
        llm::follow(model, own);
      } catch (const Error&) {  // rank 0 is told the same, and says it
      }
    }));
  }
  others_.clear();
  return true;
}

}  // namespace attacca::tool
