// gates.hpp: which gates a benchmark missed. Figures vary from run to run, so a gate is missed only
// if each of three runs misses it. A benchmark runs again only if that can change the outcome. A
// known miss, listed with its reason, needs no second run and fails nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness.hpp"
#include "known_misses.hpp"

namespace bench {

/// The outcome of one row's gate over all runs of its benchmark.
struct Gate {
  int runs = 1;
  int runs_missed = 0;
  bool must_always_hold = false;     // copied from Row
  std::optional<KnownMiss> known{};  // if the list has it

  bool is_missed() const { return must_always_hold ? runs_missed > 0 : runs_missed == runs; }
  /// Missed, and not a known miss. The exit status reports these.
  bool is_failure() const { return is_missed() && !known; }
};

/// The gates of one benchmark on one device.
class Gates {
 public:
  static constexpr int kMostRuns = 3;

  /// `rows` are the first run's; `known` may hold entries of other benchmarks and devices.
  Gates(const std::vector<Row>& rows, const std::string& bench, const std::string& device,
        const std::vector<KnownMiss>& known);

  /// Counts another run. Rows are matched by name and order: a benchmark keeps its order, while its
  /// params may hold measurements.
  void count(const std::vector<Row>& rows);
  /// Whether another run could still clear a gate.
  bool wants_another_run() const;

  /// By the row's index in the first run; null if the row has no gate.
  const Gate* of(std::size_t row) const { return gates_[row] ? &*gates_[row] : nullptr; }
  int runs() const { return runs_; }
  /// A sentence for each known miss that is out of date: no row matches it, or all matching rows
  /// hold.
  std::vector<std::string> stale() const;

 private:
  std::vector<Row> rows_;
  std::vector<std::optional<Gate>> gates_;  // parallel to rows_
  std::vector<KnownMiss> known_;
  int runs_ = 1;
};

/// What `attacca bench` reports of one benchmark: the figures, findings and pictures of the first
/// run, and the gates over all runs.
struct Measured {
  Run run;
  Gates gates;
};

/// Runs a benchmark, and repeats it while its gates need that, if it may. A quick run is never
/// repeated. If a repetition throws, that becomes a note and missed gates stay missed.
Measured measure(const Benchmark& benchmark, const attacca::Device& device, bool is_quick,
                 const EngineChoices& engine, const Origin& origin,
                 const std::vector<KnownMiss>& known, bool may_repeat = true);

}  // namespace bench
