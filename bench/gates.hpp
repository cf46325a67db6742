// gates.hpp: which gates a benchmark missed. Figures swing from run to run, so a gate is missed
// only where each of three runs misses it. A benchmark runs again only where that can change
// something: a miss that is known, with its reason, costs no second run and fails nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness.hpp"
#include "known_misses.hpp"

namespace bench {

/// What became of the gate of one row, over all runs of its benchmark.
struct Gate {
  int runs = 1;
  int runs_missed = 0;
  bool must_always_hold = false;     // as Row has it
  std::optional<KnownMiss> known{};  // where the list has it

  bool is_missed() const { return must_always_hold ? runs_missed > 0 : runs_missed == runs; }
  /// Missed, and not known to be: what an exit status reports.
  bool is_failure() const { return is_missed() && !known; }
};

/// The gates of one benchmark on one device.
class Gates {
 public:
  static constexpr int kMostRuns = 3;

  /// `rows` are the first run's; `known` may hold entries of other benchmarks and devices.
  Gates(const std::vector<Row>& rows, const std::string& bench, const std::string& device,
        const std::vector<KnownMiss>& known);

  /// Counts another run. The nth gated row of a name is the same one in every run: a benchmark
  /// keeps its order, while its params may hold what it measured.
  void count(const std::vector<Row>& rows);
  /// Whether another run could still clear a gate.
  bool wants_another_run() const;

  /// By the row's place in the first run; null where the row has no gate.
  const Gate* of(std::size_t row) const { return gates_[row] ? &*gates_[row] : nullptr; }
  int runs() const { return runs_; }
  /// A sentence for each known miss that is none any more: no row is like it, or all hold.
  std::vector<std::string> stale() const;

 private:
  std::vector<Row> rows_;
  std::vector<std::optional<Gate>> gates_;  // as rows_
  std::vector<KnownMiss> known_;
  int runs_ = 1;
};

/// What `attacca bench` reports of one benchmark: the first run's figures, with its findings and
/// pictures, which were made from them; and its gates over all runs.
struct Measured {
  Run run;
  Gates gates;
};

/// Runs a benchmark, and again while its gates want it. A quick run is never repeated. Where a
/// repetition throws, that becomes a note and what was missed stays missed.
Measured measure(const Benchmark& benchmark, const attacca::Device& device, bool is_quick,
                 const EngineChoices& engine, const Origin& origin,
                 const std::vector<KnownMiss>& known);

}  // namespace bench
