// gates.cpp: counts missed gates over runs, and repeats a benchmark while that can change the
// outcome.
#include "gates.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace bench {

Gates::Gates(const std::vector<Row>& rows, const std::string& bench, const std::string& device,
             const std::vector<KnownMiss>& known)
    : rows_(rows), gates_(rows.size()) {
  for (const KnownMiss& entry : known)
    if (entry.bench == bench && entry.device == device) known_.push_back(entry);
  for (std::size_t at = 0; at < rows.size(); ++at) {
    if (!rows[at].limit) continue;
    Gate& gate = gates_[at].emplace();
    gate.runs_missed = !rows[at].meets_limit();
    gate.must_always_hold = rows[at].must_always_hold;
    const auto covers = [&](const KnownMiss& entry) { return entry.covers(rows[at]); };
    const auto found = std::find_if(known_.begin(), known_.end(), covers);
    if (found != known_.end()) gate.known = *found;
  }
}

void Gates::count(const std::vector<Row>& rows) {
  ++runs_;
  std::map<std::string, std::vector<bool>>
      held;  // for each name, whether its gated rows held, in order
  for (const Row& row : rows)
    if (row.limit) held[row.name].push_back(row.meets_limit());
  std::map<std::string, std::size_t> next;
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    if (!gates_[at]) continue;
    const std::string& name = rows_[at].name;
    const std::size_t place = next[name]++;
    if (place >= held[name].size()) continue;
    ++gates_[at]->runs;
    gates_[at]->runs_missed += !held[name][place];
  }
}

bool Gates::wants_another_run() const {
  return runs_ < kMostRuns &&
         std::any_of(gates_.begin(), gates_.end(), [](const std::optional<Gate>& gate) {
           return gate && gate->is_failure() && !gate->must_always_hold;
         });
}

std::vector<std::string> Gates::stale() const {
  std::vector<std::string> found;
  for (const KnownMiss& entry : known_) {
    int rows = 0, missed = 0;
    for (std::size_t at = 0; at < rows_.size(); ++at)
      if (gates_[at] && entry.covers(rows_[at])) {
        ++rows;
        missed += gates_[at]->runs_missed > 0;
      }
    if (missed) continue;
    found.push_back(fmt::format("{}: {}: {}; take it out of bench/known_misses.json", entry.bench,
                                label_of(entry.row, entry.params),
                                rows ? "the gate holds now" : "no row with a gate is like that"));
  }
  return found;
}

Measured measure(const Benchmark& benchmark, const attacca::Device& device, bool is_quick,
                 const EngineChoices& engine, const Origin& origin,
                 const std::vector<KnownMiss>& known, bool may_repeat) {
  Run first(benchmark.name, device, is_quick, engine);
  benchmark.run(first);
  Gates gates(first.rows(), benchmark.name, origin.device, known);
  EngineChoices of_repetition = engine;
  of_repetition.has_peer = false;  // no gate depends on a peer
  while (may_repeat && !is_quick && gates.wants_another_run()) {
    const std::string name =
        fmt::format("{}, run {} of {}", benchmark.name, gates.runs() + 1, Gates::kMostRuns);
    fmt::print(stderr, "{}: a gate was missed\n", name);
    try {
      Run again(name, device, is_quick, of_repetition);
      benchmark.run(again);
      gates.count(again.rows());
    } catch (const std::exception& error) {
      first.note(fmt::format("run {} failed: {}", gates.runs() + 1, error.what()));
      break;
    }
  }
  return {std::move(first), std::move(gates)};
}

}  // namespace bench
