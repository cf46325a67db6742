// waiting_line.cpp: whose turn it is.
#include "driver/waiting_line.hpp"

#include <algorithm>
#include <utility>

namespace attacca::driver {

namespace {
constexpr std::array<std::uint64_t, llm::kPriorities> kStrides = {1, 4, 16};
}

void WaitingLine::push(JobPtr job) {
  Line& line = lines_[static_cast<std::size_t>(job->priority)];
  if (line.jobs.empty()) line.pass = std::max(line.pass, pass_);
  Job& pushed = *job;
  pushed.place = Job::Place::in_line;
  pushed.in_line = line.jobs.insert(line.jobs.end(), std::move(job));
  ++size_;
}

JobPtr WaitingLine::pop() {
  std::size_t next = llm::kPriorities;
  for (std::size_t at = 0; at < lines_.size(); ++at)
    if (!lines_[at].jobs.empty() &&
        (next == llm::kPriorities || lines_[at].pass < lines_[next].pass))
      next = at;
  if (next == llm::kPriorities) return nullptr;
  Line& line = lines_[next];
  pass_ = line.pass;
  line.pass += kStrides[next];
  JobPtr job = line.jobs.front();
  remove(*job);
  return job;
}

void WaitingLine::remove(Job& job) {
  lines_[static_cast<std::size_t>(job.priority)].jobs.erase(job.in_line);
  --size_;
}

}  // namespace attacca::driver
