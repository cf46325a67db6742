// step_log.cpp: keeps a ring of step records and writes them as lines of JSON.
#include "engine/step_log.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace attacca::engine {

StepLog::StepLog(const std::string& path, OnStep on_step)
    : path_(path), on_step_(std::move(on_step)) {
  if (path_.empty()) return;
  file_.open(path_, std::ios::trunc);
  if (!file_)
    throw BadArgument(
        fmt::format("step_log {}: cannot write it: {}; give a file in a folder that "
                    "is there",
                    path_, std::strerror(errno)));
}

void StepLog::add(llm::StepRecord record) {
  ++by_mode_[static_cast<std::size_t>(record.mode)];
  ++by_miss_[static_cast<std::size_t>(record.miss)];
  {
    const std::lock_guard lock(mutex_);
    record.step = ++steps_;
    if (ring_.size() < kKept)
      ring_.push_back(record);
    else
      ring_[(steps_ - 1) % kKept] = record;
  }
  if (file_.is_open()) file_ << llm::to_json(record) << '\n';
  if (on_step_) on_step_(record);
}

void StepLog::flush() {
  if (file_.is_open() && !file_.flush())
    throw DeviceError(fmt::format("the step log {} cannot be written: {}; is the disk full?", path_,
                                  std::strerror(errno)));
}

std::vector<llm::StepRecord> StepLog::records(std::size_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<llm::StepRecord> records;
  for (std::uint64_t step = steps_ - std::min<std::uint64_t>(most, ring_.size()); step < steps_;
       ++step)
    records.push_back(ring_[step % kKept]);
  return records;
}

}  // namespace attacca::engine

namespace attacca::llm {

const char* miss_reason(Miss miss) {
  constexpr const char* kReasons[] = {"", "graphs are off", "graphs are for decode steps only",
                                      "above the largest size",
                                      "padding is off and no size is equal"};
  return kReasons[static_cast<std::size_t>(miss)];
}

std::string to_json(const StepRecord& r) {
  std::string text = fmt::format(
      R"({{"step":{},"batch":"{}","mode":"{}","tokens":{},"rows":{},"size":{},"padding":{},"hit":{})",
      r.step, r.is_decode ? "decode" : "mixed", step_mode_name(r.mode), r.tokens, r.rows, r.size,
      r.padding, r.miss == Miss::none);
  if (r.miss != Miss::none) text += fmt::format(R"(,"why":"{}")", miss_reason(r.miss));
  return text + fmt::format(R"(,"microseconds":{:.1f}}})", r.microseconds);
}

}  // namespace attacca::llm
