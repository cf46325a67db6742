// harness.hpp: what all benchmarks share: samples taken in turn, medians and spread, and published
// claims with their verdicts. Results become a table and a picture for people and JSON for scripts.
// The measurements are in overhead/ (attacca against the same by hand), claims/ (common statements
// about GPUs) and llm/, one file per question.
#pragma once

#include <attacca/device.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace bench {

struct Summary {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
};
/// REQUIRES: at least one sample.
Summary summarize(std::vector<double> samples);

/// `value` in another unit: multiplied by `factor`.
Summary scaled(const Summary& value, double factor);

/// One line of a benchmark's table. All values are in `unit`; less is better unless `is_rate`.
struct Row {
  std::string name;
  nlohmann::ordered_json params;  // distinguishes rows of one name
  Summary value;
  std::string unit = "µs";
  std::optional<double> baseline{};  // the peer's median, taken in the same run
  std::optional<double> floor{};     // what the hardware allows
  std::optional<double> limit{};     // what our gate allows
  bool is_rate = false;              // more is better: floor is a ceiling, limit the least allowed
  bool must_always_hold = false;     // a single miss counts, since it is not noise

  std::optional<double> ratio() const;     // of the baseline
  std::optional<double> fraction() const;  // of the floor: 1 is as good as it gets
  bool meets_limit() const;                // in this run; true if there is none
};

/// A row of the first measurement with the second as its baseline.
Row compared(std::string name, nlohmann::ordered_json params, const Summary& ours,
             const Summary& theirs);

/// Whether a published claim held here.
enum class Verdict { held, partly, failed };

/// A published claim and the measurement of it.
struct Finding {
  std::string claim;     // a sentence, as published
  std::string source;    // who says so, with an address if there is one
  std::string measured;  // a sentence with the figures of this run
  Verdict verdict;
};

/// A picture of rows: one curve per row name, over one numeric parameter.
struct Plot {
  std::string title;
  std::string x;  // key of Row::params
  std::string x_label;
  std::string y_label;
  bool is_log_x = true;
  bool is_log_y = false;
  std::vector<std::string> rows{};  // names to draw; empty: every row that has the parameter
  enum class Value { median, ratio, fraction } value = Value::median;
};

/// What the engine's benchmarks run. Each benchmark has its own defaults for empty fields.
struct EngineChoices {
  std::string model;                // a path or a name
  std::vector<std::string> shapes;  // or models of random weights
  std::vector<unsigned> batches;
  std::vector<unsigned> contexts;
  std::vector<unsigned> tokens;      // of prompts
  std::vector<std::string> graphs;   // modes
  std::vector<std::string> steps;    // forms of a decode step: kernels, persistent
  std::vector<std::string> weights;  // types of random weights
  std::vector<unsigned> slots;       // requests at once
  std::vector<std::string> links;    // of ranks: NAME:MICROSECONDS:GIGABYTES
  bool has_peer = true;              // compare with PyTorch if it is installed
};

/// One execution of one benchmark: takes samples and collects rows.
class Run {
 public:
  Run(std::string name, attacca::Device on, bool is_quick, EngineChoices of_engine = {})
      : device(std::move(on)),
        engine(std::move(of_engine)),
        name_(std::move(name)),
        is_quick_(is_quick) {}

  /// Takes `count` samples of each variant in turn and summarizes them by variant. The variants
  /// alternate, and each round starts with another one, so drift of clocks and load from neighbours
  /// affect all alike. One warm-up round is discarded. `what` is for the progress line.
  std::vector<Summary> interleave(const std::string& what, int count,
                                  const std::vector<std::function<double()>>& variants);
  /// Prints a line on standard error if a run takes more than two seconds.
  void show_progress(const std::string& what, std::uint64_t done, std::uint64_t count);
  void add(Row row) { rows_.push_back(std::move(row)); }
  void add(Finding finding) { findings_.push_back(std::move(finding)); }
  void add(Plot plot) { plots_.push_back(std::move(plot)); }
  /// A remark under the table: what could not be measured, or how to read a figure.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<Finding>& findings() const { return findings_; }
  const std::vector<Plot>& plots() const { return plots_; }
  const std::vector<std::string>& notes() const { return notes_; }
  bool is_quick() const { return is_quick_; }

  const attacca::Device device;
  const EngineChoices engine;

 private:
  using Clock = std::chrono::steady_clock;
  std::string name_;
  bool is_quick_;
  std::vector<Row> rows_;
  std::vector<Finding> findings_;
  std::vector<Plot> plots_;
  std::vector<std::string> notes_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_shown_ = started_;
};

enum class Needs { host, cuda, either };

struct Benchmark {
  std::string name;
  std::string question;
  Needs needs;
  void (*run)(Run&);       // null if this build cannot run it; then it is only listed
  std::string why_not{};   // why it makes no sense on the other device; empty if it runs on both
  bool is_engine = false;  // measures the LLM engine
};
/// Stands for the function of a benchmark that this build cannot run.
inline constexpr void (*kNoRun)(Run&) = nullptr;

/// All benchmarks of this build. A file adds its own with a `Registered` of namespace scope.
std::vector<Benchmark>& benchmarks();
struct Registered {
  explicit Registered(Benchmark benchmark) { benchmarks().push_back(std::move(benchmark)); }
};

/// The output of `command` without its last newline; empty if it fails.
std::optional<std::string> output_of(const std::string& command);
/// The checkout that this binary was built from, for the scripts in it.
std::filesystem::path source_folder();

/// Where and with what a result was measured.
struct Origin {
  std::string device;  // GPU or processor
  std::string driver;  // empty for the host
  std::string commit;  // that this was built from
  std::string date;
};
Origin origin_of(const attacca::Device& device);

struct Measured;  // gates.hpp
void print_report(const Benchmark& benchmark, const Origin& origin, const Measured& measured);
nlohmann::ordered_json to_json(const Benchmark& benchmark, const Origin& origin,
                               const Measured& measured);
/// The run's plots, one below the other; empty if it has none.
std::string to_svg(const Benchmark& benchmark, const Origin& origin, const Run& run);

/// Several instances of a measured object, sampled in turn. The speed of a graph with a loop
/// depends on where the driver put it: one instance may be steadily 10 % faster than the next. The
/// median over several can be compared.
template <class T>
class InTurn {
 public:
  static constexpr unsigned kInstances = 5;
  /// `make` returns a std::shared_ptr<T>.
  template <class Make>
  explicit InTurn(Make&& make) {
    for (unsigned at = 0; at < kInstances; ++at) all_.push_back(make());
  }
  T& next() { return *all_[at_++ % kInstances]; }

 private:
  std::vector<std::shared_ptr<T>> all_;
  unsigned at_ = 0;
};

/// Microseconds of host time that `work` takes.
template <class F>
double microseconds(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace bench
