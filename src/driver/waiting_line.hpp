// waiting_line.hpp: jobs that the schedule has no room for yet, in a line for each priority.
//
// The lines take turns by stride scheduling. Each line has a pass, and the line with the smallest
// pass is served next; then its pass grows by its stride. A line of stride 1 so gets 16 turns while
// one of stride 16 gets one. A line that was empty starts at the pass of the last turn: it has not
// saved up turns.
#pragma once

#include <array>
#include <cstdint>
#include <list>

#include "driver/job.hpp"

namespace attacca::driver {

/// Not thread-safe.
class WaitingLine {
 public:
  void push(JobPtr job);
  /// Takes the job whose turn it is; null if nobody waits.
  JobPtr pop();
  /// REQUIRES: the job is in the line.
  void remove(Job& job);
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Line {
    std::list<JobPtr> jobs;
    std::uint64_t pass = 0;
  };

  std::array<Line, llm::kPriorities> lines_;
  std::uint64_t pass_ = 0;  // of the last turn
  std::size_t size_ = 0;
};

}  // namespace attacca::driver
