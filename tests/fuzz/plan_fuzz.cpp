// plan_fuzz.cpp: reads any bytes as a log and as a distribution by hand. Every step that is
// believed is in range, every line is a step or is counted as skipped, and the plan keeps to its
// budget.
#include <attacca/error.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/plan.hpp"
#include "planner/read_log.hpp"
#include "planner/target.hpp"

namespace {

using namespace attacca::planner;

void require(bool claim) {
  if (!claim) std::abort();
}

void check_traffic(const Traffic& traffic) {
  for (const Steps* steps : {&traffic.decode, &traffic.mixed}) {
    for (const auto& [tokens, count] : steps->counts)
      require(tokens >= 1 && tokens <= kMostTokens && count >= 1);
    for (const auto& [key, samples] : steps->times) {
      require(steps->counts.contains(key.first) && (key.second == 0 || key.second >= key.first));
      for (const float sample : samples) require(sample > 0 && sample <= 1e12f);
    }
  }
}

void check_sizes(const std::vector<std::uint32_t>& sizes, const Steps& steps) {
  for (std::size_t at = 0; at < sizes.size(); ++at)
    require(sizes[at] >= 1 && (at == 0 || sizes[at - 1] < sizes[at]));
  require(!sizes.empty() || steps.counts.empty());
}

void check_plan(const Traffic& traffic, Target target) {
  constexpr std::size_t kGraphs = 6;
  const Costs costs(traffic, {});
  const Rules rules = rules_of(target);
  const Sizes sizes = plan(traffic, costs, rules, {}, {.graphs = kGraphs});
  require(sizes.count() <= kGraphs);
  check_sizes(sizes.decode, traffic.decode);
  check_sizes(sizes.mixed, traffic.mixed);
  const Figures figures = judge(traffic, sizes, costs, rules);
  require(figures.hits <= figures.steps && figures.cost >= 0);
  require(!settings_text(target, sizes).empty() || traffic.total() == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Traffic traffic;
  LogReader reader(traffic);
  reader.read(text, "log");
  std::uint64_t skipped = 0;
  std::uint64_t steps = 0;
  for (const LogReader::Skipped& reason : reader.skipped()) skipped += reason.count;
  for (const std::uint64_t read : reader.steps()) steps += read;
  require(steps == traffic.total() && steps + skipped >= reader.lines());
  check_traffic(traffic);
  check_plan(traffic, Target::attacca);
  check_plan(traffic, Target::sglang);
  check_plan(as_mixed(traffic), Target::vllm);
  try {
    read_distribution(text.substr(0, text.find('\n')), Kind::mixed, traffic);
    check_traffic(traffic);
  } catch (const attacca::BadArgument&) {
  }
  return 0;
}
