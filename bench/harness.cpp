// harness.cpp: sampling and statistics, and where a result comes from. Output is in report.cpp.
#include "harness.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "instruments/machine.hpp"

extern const char* const kBuiltCommit;  // the build writes it, see cmake/commit.cmake

namespace bench {

using namespace std::chrono_literals;

namespace {

constexpr int kQuickSamples = 5;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

}  // namespace

std::optional<std::string> output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return std::nullopt;
  std::string text;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe)) text += buffer;
  if (pclose(pipe) != 0) return std::nullopt;
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::filesystem::path source_folder() { return ATTACCA_SOURCE_DIR; }

Summary summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(samples.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, samples.size() - 1);
    return samples[below] +
           (samples[above] - samples[below]) * (place - static_cast<double>(below));
  };
  return {at(0.5), at(0.1), at(0.9)};
}

Summary scaled(const Summary& value, double factor) {
  return {value.median * factor, value.p10 * factor, value.p90 * factor};
}

std::optional<double> Row::ratio() const {
  if (!baseline || *baseline == 0) return std::nullopt;
  return value.median / *baseline;
}
std::optional<double> Row::fraction() const {
  const double over = is_rate ? floor.value_or(0) : value.median;
  if (!floor || over == 0) return std::nullopt;
  return is_rate ? value.median / over : *floor / over;
}
bool Row::meets_limit() const {
  if (!limit) return true;
  return is_rate ? value.median >= *limit : value.median <= *limit;
}

Row compared(std::string name, nlohmann::ordered_json params, const Summary& ours,
             const Summary& theirs) {
  Row row{std::move(name), std::move(params), ours};
  row.baseline = theirs.median;
  return row;
}

std::vector<Summary> Run::interleave(const std::string& what, int count,
                                     const std::vector<std::function<double()>>& variants) {
  if (is_quick_) count = std::min(count, kQuickSamples);
  for (const auto& variant : variants) variant();
  std::vector<std::vector<double>> samples(variants.size());
  for (int round = 0; round < count; ++round) {
    for (std::size_t turn = 0; turn < variants.size(); ++turn) {
      const std::size_t at = (static_cast<std::size_t>(round) + turn) % variants.size();
      samples[at].push_back(variants[at]());
    }
    show_progress(what, static_cast<std::uint64_t>(round) + 1, static_cast<std::uint64_t>(count));
  }
  std::vector<Summary> summaries;
  for (auto& list : samples) summaries.push_back(summarize(std::move(list)));
  return summaries;
}

void Run::show_progress(const std::string& what, std::uint64_t done, std::uint64_t count) {
  static const bool is_terminal = isatty(STDERR_FILENO);
  const auto now = Clock::now();
  if (now - started_ < 2s || now - last_shown_ < (is_terminal ? 200ms : 5000ms)) return;
  last_shown_ = now;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - started_).count();
  // On a terminal the line overwrites itself, and the table then overwrites it.
  fmt::print(stderr, "{}{}: {}, {} of {}, {} s{}", is_terminal ? "\r\033[K" : "", name_, what, done,
             count, seconds, is_terminal ? "\r" : "\n");
  std::fflush(stderr);
}

std::vector<Benchmark>& benchmarks() {
  static std::vector<Benchmark> all;
  return all;
}

Origin origin_of(const attacca::Device& device) {
  static const auto machine = attacca::instruments::describe_machine();
  Origin origin{machine.cpu.model, "", kBuiltCommit, today()};
  if (device.is_cuda()) {
    const auto index = static_cast<std::size_t>(std::stoi(device.name().substr(5)));
    origin.device = index < machine.gpus.size() ? machine.gpus[index].name : device.name();
    origin.driver =
        fmt::format("{} (CUDA {})", machine.driver.version, machine.driver.cuda_version);
  }
  return origin;
}

}  // namespace bench
