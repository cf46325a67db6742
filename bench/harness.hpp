// harness.hpp: what every benchmark shares: repeated samples taken in turn, medians and spread, a
// table for people and JSON for scripts/tables.py. What is measured lives in the other files, one
// per question.
#pragma once

#include <attacca/device.hpp>
#include <chrono>
#include <functional>
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

/// `value` in another unit: times `factor`.
Summary scaled(const Summary& value, double factor);

/// One line of a benchmark's table. Everything is in `unit`, and less is better.
struct Row {
  std::string name;
  nlohmann::ordered_json params;  // what tells rows of one name apart
  Summary value;
  std::string unit = "µs";
  std::optional<double> baseline{};  // the peer's median, taken in the same run
  std::optional<double> floor{};     // what the hardware allows
  std::optional<double> limit{};     // the most our gate allows; in the table, not in the JSON

  std::optional<double> ratio() const;     // of the baseline
  std::optional<double> fraction() const;  // of the floor: 1 is as good as it gets
};

/// A row of what was measured first, with what was measured second as its baseline.
Row compared(std::string name, nlohmann::ordered_json params, const Summary& ours,
             const Summary& theirs);

/// One execution of one benchmark: takes samples and collects rows.
class Run {
 public:
  Run(std::string name, attacca::Device on, bool is_quick)
      : device(std::move(on)), name_(std::move(name)), is_quick_(is_quick) {}

  /// Takes `count` samples of each variant in turn and summarizes each variant's. Taking turns,
  /// and starting each round with another variant, makes drift of clocks and neighbours hit all
  /// alike. One round before the first is thrown away. `what` is for the progress line.
  std::vector<Summary> interleave(const std::string& what, int count,
                                  const std::vector<std::function<double()>>& variants);
  void add(Row row) { rows_.push_back(std::move(row)); }
  const std::vector<Row>& rows() const { return rows_; }

  const attacca::Device device;

 private:
  void show_progress(const std::string& what, int done, int count);

  using Clock = std::chrono::steady_clock;
  std::string name_;
  bool is_quick_;
  std::vector<Row> rows_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_shown_ = started_;
};

enum class Needs { host, cuda };

struct Benchmark {
  std::string name;
  std::string question;
  Needs needs;
  void (*run)(Run&);
};
/// All benchmarks of this build. A file adds its own with a `Registered` of namespace scope.
std::vector<Benchmark>& benchmarks();
struct Registered {
  explicit Registered(Benchmark benchmark) { benchmarks().push_back(std::move(benchmark)); }
};

/// Where and with what a result was measured.
struct Origin {
  std::string device;  // GPU or processor
  std::string driver;  // empty for the host
  std::string commit;
  std::string date;
};
Origin origin_of(const attacca::Device& device);

void print_table(const Benchmark& benchmark, const Origin& origin, const std::vector<Row>& rows);
nlohmann::ordered_json to_json(const Benchmark& benchmark, const Origin& origin,
                               const std::vector<Row>& rows);

/// Microseconds of host time that `work` takes.
template <class F>
double microseconds(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace bench
