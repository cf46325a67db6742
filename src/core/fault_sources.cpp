// fault_sources.cpp: the table of living sources, by number.
#include "core/fault_sources.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace attacca::core {

namespace {

constexpr unsigned kMostNumbers = 1u << 24;

struct Sources {
  std::mutex mutex;
  unsigned next = 1;
  std::map<unsigned, std::function<std::string()>> by_number;
};
Sources& sources() {
  static auto& instance = *new Sources;  // never destroyed: static queues end late
  return instance;
}

}  // namespace

FaultSource::FaultSource(std::function<std::string()> explain) {
  const std::lock_guard lock(sources().mutex);
  unsigned& next = sources().next;
  while (sources().by_number.contains(next)) next = next + 1 == kMostNumbers ? 1 : next + 1;
  number_ = std::exchange(next, next + 1 == kMostNumbers ? 1 : next + 1);
  sources().by_number.emplace(number_, std::move(explain));
}

FaultSource::~FaultSource() {
  const std::lock_guard lock(sources().mutex);
  sources().by_number.erase(number_);
}

std::string explain_fault_source(unsigned number) {
  // Locked: the source must not be destroyed while it explains itself.
  const std::lock_guard lock(sources().mutex);
  const auto found = sources().by_number.find(number);
  return found == sources().by_number.end() ? "what it took its work from broke, and is gone now"
                                            : found->second();
}

}  // namespace attacca::core
