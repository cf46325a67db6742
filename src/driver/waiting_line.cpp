// waiting_line.cpp: whose turn it is.
#include "driver/waiting_line.hpp"

#include <algorithm>
#include <utility>

namespace attacca::driver {

namespace {
constexpr std::array<std::uint64_t, llm::kPriorities> kStrides = {1, 4, 16};
}

WaitingLine::Line& WaitingLine::line_of(const Job& job) {
  return lines_[static_cast<std::size_t>(job.priority)][static_cast<std::size_t>(job.work())];
}

void WaitingLine::push(JobPtr job) {
  Line& line = line_of(*job);
  if (line.jobs.empty()) line.pass = std::max(line.pass, pass_);
  Job& pushed = *job;
  pushed.place = Job::Place::in_line;
  pushed.in_line = line.jobs.insert(line.jobs.end(), std::move(job));
  ++size_;
}

JobPtr WaitingLine::pop(const Room& room) {
  Line* next = nullptr;
  for (auto& lines_of_priority : lines_)
    for (Line& line : lines_of_priority) {
      if (line.jobs.empty()) continue;
      if (!room.has(line.jobs.front()->work()))
        line.pass = std::max(line.pass, pass_);
      else if (!next || line.pass < next->pass)
        next = &line;
    }
  if (!next) return nullptr;
  JobPtr job = next->jobs.front();
  pass_ = next->pass;
  next->pass += kStrides[static_cast<std::size_t>(job->priority)];
  remove(*job);
  return job;
}

void WaitingLine::remove(Job& job) {
  line_of(job).jobs.erase(job.in_line);
  --size_;
}

}  // namespace attacca::driver
