// traffic.cpp: counts steps by size, and keeps samples of their times.
#include "planner/traffic.hpp"

namespace attacca::planner {

std::uint64_t Steps::total() const {
  std::uint64_t sum = 0;
  for (const auto& [tokens, count] : counts) sum += count;
  return sum;
}

void Traffic::add(const Step& step) {
  Steps& steps = of(step.kind);
  steps.counts[step.tokens] += step.count;
  if (step.microseconds <= 0) return;
  std::vector<float>& samples = steps.times[{step.tokens, step.size}];
  if (samples.size() < Steps::kMostSamples)
    samples.push_back(static_cast<float>(step.microseconds));
}

}  // namespace attacca::planner
