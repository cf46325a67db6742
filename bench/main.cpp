// main.cpp: the command line of attacca_bench: which benchmarks to run, where, and what to write.
#include <fmt/format.h>
#include <attacca/error.hpp>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "harness.hpp"

namespace {

using attacca::Device;
using bench::Benchmark;

/// The device a benchmark runs on: the one asked for where it suits, the machine's own where none
/// was asked for, nothing where the benchmark cannot run.
std::optional<Device> device_for(const Benchmark& benchmark, const std::string& asked) {
  const bool needs_cuda = benchmark.needs == bench::Needs::cuda;
  if (asked.empty()) {
    if (!needs_cuda) return Device::host();
    return Device::cuda_count() > 0 ? std::optional(Device::cuda(0)) : std::nullopt;
  }
  const Device device = Device::from_name(asked);
  return device.is_cuda() == needs_cuda ? std::optional(device) : std::nullopt;
}

void write_json(const std::filesystem::path& folder, const nlohmann::ordered_json& result) {
  const auto path = folder / (result["bench"].get<std::string>() + ".json");
  std::ofstream file(path);
  file << result.dump(2) << '\n';
  file.close();
  if (!file) throw attacca::Error(fmt::format("cannot write {}", path.string()));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures attacca against the raw CUDA API and oneTBB.", "attacca_bench");
  bool is_list = false;
  bool is_quick = false;
  std::string filter;
  std::string json_dir;
  std::string asked;
  std::string commit;
  app.add_flag("--list", is_list, "name the benchmarks and what each asks, and run nothing");
  app.add_option("--filter", filter, "run only benchmarks whose name contains this");
  app.add_option("--json-dir", json_dir, "write each result to <folder>/<benchmark>.json");
  app.add_flag("--quick", is_quick, "a few samples each: to see that it runs, not to publish");
  app.add_option("--device", asked, "host or cuda:N; run only the benchmarks of that device");
  app.add_option("--commit", commit, "what was built, where the checkout cannot say it itself");
  CLI11_PARSE(app, argc, argv);

  try {
    if (!json_dir.empty()) std::filesystem::create_directories(json_dir);
    int matched = 0;
    int ran = 0;
    for (const Benchmark& benchmark : bench::benchmarks()) {
      if (benchmark.name.find(filter) == std::string::npos) continue;
      ++matched;
      const auto device = device_for(benchmark, asked);
      if (is_list) {
        fmt::print("{:<14} {}{}\n", benchmark.name, benchmark.question,
                   device          ? ""
                   : asked.empty() ? " (needs a GPU)"
                                   : " (not on " + asked + ")");
        continue;
      }
      if (!device) continue;
      bench::Origin origin = bench::origin_of(*device);
      if (!commit.empty()) origin.commit = commit;
      bench::Run run(benchmark.name, *device, is_quick);
      benchmark.run(run);
      ++ran;
      bench::print_table(benchmark, origin, run.rows());
      if (!json_dir.empty()) write_json(json_dir, bench::to_json(benchmark, origin, run.rows()));
    }
    if (matched == 0)
      throw attacca::BadArgument(
          fmt::format("no benchmark's name contains '{}'; --list names them all", filter));
    if (!is_list && ran == 0)
      throw attacca::BadArgument(
          fmt::format("nothing to run{}: --list says what each benchmark needs",
                      asked.empty() ? "" : " on " + asked));
  } catch (const std::exception& error) {
    fmt::print(stderr, "attacca_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
