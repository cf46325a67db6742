// rank_team.cpp: starts and ends the ranks of a command.
#include "llm/rank_team.hpp"

#include <fmt/core.h>
#include <attacca/mpi.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace attacca::tool {

RankTeam::RankTeam(const EngineFlags& flags, llm::EngineOptions& options) {
  if (flags.ranks == 0) return;
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  threads_each_ = flags.threads > 0 ? flags.threads : std::max(1u, cores / flags.ranks);
  const RanksOptions ranks{.deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::duration<double>(flags.rank_deadline))};
  own_ = join_processes(ranks);
  if (own_) {
    if (own_->size() != static_cast<int>(flags.ranks))
      throw UsageError(fmt::format("--ranks {} in a program of {} processes; give --ranks {}",
                                   flags.ranks, own_->size(), own_->size()));
  } else {
    others_ = make_loopback(static_cast<int>(flags.ranks), ranks);
    own_ = others_.front();
    others_.erase(others_.begin());
  }
  options.ranks = own_;
  give_device(options);
}

/// Ranks on one machine must not wait for each other's worker threads.
void RankTeam::give_device(llm::EngineOptions& options) const {
  if (options.device.kind() == DeviceKind::host_threads)
    options.device = Device::host(threads_each_);
}

RankTeam::~RankTeam() {
  // Ranks whose engine never started wait for it; the others have ended.
  if (!threads_.empty()) own_->give_up("the command has ended");
  for (std::thread& thread : threads_) thread.join();
}

bool RankTeam::start(const llm::Model& model, const llm::EngineOptions& options) {
  if (!own_) return true;
  if (std::exchange(has_started_, true))
    throw BadArgument("a model over ranks is loaded once; start the program again");
  if (own_->rank() != 0) {
    llm::follow(model, options);
    return false;
  }
  for (Group& group : others_)
    threads_.emplace_back([this, model, own = options, group]() mutable {
      give_device(own);
      own.ranks = group;
      own.on_step = {};
      own.turns = {};
      try {
        llm::follow(model, own);
      } catch (const Error&) {  // rank 0 is told the same, and says it
      }
    });
  others_.clear();
  return true;
}

}  // namespace attacca::tool
