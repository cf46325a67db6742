// rank_team.hpp: the ranks of --ranks: threads of this process, or processes that mpirun, srun or
// torchrun started. The first one runs the command; the others compute their part of the model.
#pragma once

#include <attacca/llm.hpp>
#include <attacca/ranks.hpp>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "llm/engine_flags.hpp"

namespace attacca::tool {

class RankTeam {
 public:
  /// Gives the options this process's rank and a device. Without --ranks it does nothing.
  RankTeam(const EngineFlags& flags, llm::EngineOptions& options);
  /// REQUIRES: the engine has ended.
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;

  /// Whether this process is not the first rank.
  bool is_follower() const { return own_ && own_->rank() != 0; }
  /// Starts the ranks that are threads. Returns false in a process that is not the first rank, when
  /// its part is done: there is nothing left to do there. Throws BadArgument when called again.
  bool start(const llm::Model& model, const llm::EngineOptions& options);

 private:
  void give_device(llm::EngineOptions& options) const;

  std::string device_;  // as the command names it
  bool are_processes_ = false;
  std::optional<Group> own_;
  std::vector<Group> others_;  // that are threads
  std::vector<std::future<void>> threads_;
  unsigned threads_each_ = 1;
  bool has_started_ = false;
};

}  // namespace attacca::tool
