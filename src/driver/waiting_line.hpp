// waiting_line.hpp: jobs that the schedule has no room for yet, in a line for each priority and
// kind of work.
//
// The lines take turns by stride scheduling. Each line has a pass, and the line with the smallest
// pass is served next; then its pass grows by its stride. A line of stride 1 so gets 16 turns while
// one of stride 16 gets one, and the generations and embeddings of one priority alternate, however
// many of either wait. A line that was empty, or whose kind had no room, goes on at the pass of the
// last turn: it has not saved up turns.
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
  /// Takes the job whose turn it is; null if nobody waits for what there is room for.
  JobPtr pop(const Room& room = {});
  /// REQUIRES: the job is in the line.
  void remove(Job& job);
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Line {
    std::list<JobPtr> jobs;
    std::uint64_t pass = 0;
  };

  Line& line_of(const Job& job);

  std::array<std::array<Line, kWorks>, llm::kPriorities> lines_;
  std::uint64_t pass_ = 0;  // of the last turn
  std::size_t size_ = 0;
};

}  // namespace attacca::driver
