// engine_flags.cpp: see engine_flags.hpp.
#include "llm/engine_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "choice.hpp"
#include "llm/yaml_config.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

constexpr const char* kGroup = "Engine";
constexpr unsigned kMost = std::numeric_limits<unsigned>::max();

/// An option that takes one of the first `count` enumerators, by name.
template <class Enum>
void add_choice(CLI::App& command, const std::string& flag, Enum& value, const char* (*name)(Enum),
                int count, const std::string& what) {
  std::vector<std::string> names;
  for (int at = 0; at < count; ++at) names.emplace_back(name(static_cast<Enum>(at)));
  const auto choose = [&value, names](const std::string& given) {
    const auto found = std::find(names.begin(), names.end(), given);
    value = static_cast<Enum>(found - names.begin());
  };
  command.add_option_function<std::string>(flag, choose, what)
      ->check(CLI::IsMember(names))
      ->default_str(name(value))
      ->group(kGroup);
}

template <class T>
CLI::Option* add_number(CLI::App& command, const std::string& flag, T& value, std::uint64_t least,
                        std::uint64_t most, const std::string& what) {
  return command.add_option(flag, value, what)
      ->transform(whole_number(least, most))
      ->capture_default_str()
      ->group(kGroup);
}

void add_sizes(CLI::App& command, const std::string& flag, std::vector<unsigned>& sizes,
               const std::string& what) {
  command.add_option(flag, sizes, what)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(whole_number(1, kMost))
      ->type_name("N,N,...")
      ->group(kGroup);
}

void add_switch(CLI::App& command, const std::string& flag, bool& value, const std::string& what) {
  command.add_option(flag, value, what)->check(on_or_off())->type_name("on|off")->group(kGroup);
}

std::string mebi(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  llm::EngineOptions& engine = flags.engine;
  command
      .add_option("--device", flags.device, "host, host-serial, cuda or cuda:N; the best there is")
      ->group(kGroup);
  command
      .add_option("--threads", flags.threads, "of the host that compute, with --device host [all]")
      ->transform(whole_number(1, 4096))
      ->group(kGroup);
  add_number(command, "--slots", engine.slots, 1, kMost, "sequences that run at once");
  add_number(command, "--context", engine.context, 0, kMost,
             "longest sequence; 0: the model's, up to 4096");
  add_number(command, "--page-size", engine.page_size, 1, kMost, "tokens in a page of the KV cache")
      ->check(CLI::IsMember({16, 32, 64}));
  add_number(command, "--pages", engine.pages, 0, kMost,
             "pages of the KV cache; 0: what memory allows");
  command
      .add_option("--memory-fraction", engine.memory_fraction,
                  "of the free memory, for the KV cache")
      ->transform(real_number(0.01, 1))
      ->capture_default_str()
      ->group(kGroup);
  add_number(command, "--step-tokens", engine.step_tokens, 0, kMost,
             "tokens computed in one step, at most; 0: 2048 on a GPU, else 512");
  add_number(command, "--prefill-chunk", engine.prefill_chunk, 0, kMost,
             "of one prompt in one step, at most; 0: --step-tokens");
  command.add_flag("!--no-prefix-cache", engine.shares_prefixes, "compute equal prompts again")
      ->group(kGroup);
  add_choice(command, "--kv-type", engine.kv_type, llm::kv_type_name, llm::kKvTypes,
             "how keys and values are stored");
  add_choice(command, "--weights", engine.weights, llm::weight_format_name, llm::kWeightFormats,
             "what matrices become on a GPU");
  add_choice(command, "--graphs", engine.graphs, llm::graph_mode_name, 4,
             "steps that run as graphs");
  add_sizes(command, "--decode-sizes", engine.decode_sizes,
            "tokens of decode steps that have graphs [1,2,4,8,16,24,... up to --slots]");
  add_sizes(command, "--mixed-sizes", engine.mixed_sizes,
            "tokens of mixed steps that have graphs [8,16,32,64,96,128,... up to --step-tokens]");
  add_switch(command, "--padding", engine.pads,
             "off: a step runs only in a graph of exactly its size [on]");
  add_switch(command, "--overlap", engine.overlap,
             "off: a step is planned only when the one before it has ended [on]");
  command
      .add_flag_function(
          "--same-bits", [&engine](std::int64_t asked) { engine.same_bits = asked > 0; },
          "the same bits whatever else is in the batch; may be followed by on or off. Default off "
          "on a GPU, for speed; on the host results are the same bits always")
      ->group(kGroup);
  command.add_option("--step-log", engine.step_log, "write a line of JSON for each step")
      ->group(kGroup);
  add_config_option(command, kGroup);
}

llm::EngineOptions engine_options(const EngineFlags& flags) {
  llm::EngineOptions options = flags.engine;
  options.device = device_called(flags.device);
  if (flags.threads == 0) return options;
  if (options.device.kind() != DeviceKind::host_threads)
    throw CLI::ValidationError(
        fmt::format("--threads {} is of no use on {}; leave it out, or say --device host",
                    flags.threads, options.device.name()));
  options.device = Device::host(flags.threads);
  return options;
}

std::string describe(const llm::EngineMemory& memory) {
  return fmt::format(
      "weights {} mapped and {} copied, arena {}, step buffers {}, graphs {}, KV {} in {} pages",
      mebi(memory.weights_mapped), mebi(memory.weights_copied), mebi(memory.arena),
      mebi(memory.step), mebi(memory.graphs + memory.graphs_device), mebi(memory.kv), memory.pages);
}

}  // namespace attacca::tool
