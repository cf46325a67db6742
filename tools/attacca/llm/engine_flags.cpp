// engine_flags.cpp: describes each option of the engine, and checks them together.
#include "llm/engine_flags.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "choice.hpp"
#include "llm/yaml_config.hpp"
#include "usage.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

constexpr const char* kGroup = "Engine";
constexpr unsigned kThreadsPerCore = 4;
constexpr unsigned kMost = std::numeric_limits<unsigned>::max();

/// An option that takes one of the first `count` enumerators, by name.
template <class Enum>
void add_choice(Command& command, const std::string& flag, Enum& value, const char* (*name)(Enum),
                int count, const std::string& what, const char* group = kGroup) {
  std::vector<std::string> names;
  for (int at = 0; at < count; ++at) names.emplace_back(name(static_cast<Enum>(at)));
  const auto choose = [&value](std::size_t at) { value = static_cast<Enum>(at); };
  command.option(flag, choice_of(names, choose), what).shows_default(name(value)).group(group);
}

template <class T>
void add_number(Command& command, const std::string& flag, T& value, std::uint64_t least,
                const std::string& what) {
  command.option(flag, whole_number(value, least, kMost), what)
      .shows_default(fmt::to_string(value))
      .group(kGroup);
}

void add_sizes(Command& command, const std::string& flag, std::vector<unsigned>& sizes,
               const std::string& what) {
  command.option(flag, whole_number(sizes, 1, kMost), what).group(kGroup);
}

void add_switch(Command& command, const std::string& flag, bool& value, const std::string& what) {
  command.option(flag, on_or_off(value), what).group(kGroup);
}

std::string mebi(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

void add_rank_flags(Command& command, EngineFlags& flags) {
  constexpr const char* kRanks = "Ranks";
  command
      .option("--ranks", whole_number(flags.ranks, 1, 1024),
              "split the model over this many ranks: threads or, under mpirun, srun or torchrun, "
              "processes; with --device cuda they take the machine's GPUs in turn")
      .group(kRanks);
  command
      .option("--rank-deadline", real_number(flags.rank_deadline, 0.001, 1e9),
              "seconds after which a rank that does not come counts as lost")
      .shows_default(fmt::to_string(flags.rank_deadline))
      .group(kRanks);
  add_choice(command, "--rank-transport", flags.engine.rank_transport, transport_name, kTransports,
             "how ranks exchange a device's memory", kRanks);
}

void add_engine_flags(Command& command, EngineFlags& flags) {
  llm::EngineOptions& engine = flags.engine;
  command
      .option("--device", device_name(flags.device),
              "host, host-serial, cuda or cuda:N [the best there is]")
      .group(kGroup);
  command
      .option("--threads", whole_number(flags.threads, 1, kMost),
              "threads that compute, with --device host [one a core]")
      .group(kGroup);
  add_number(command, "--slots", engine.slots, 1, "sequences that run at once");
  add_number(command, "--context", engine.context, 0,
             "longest sequence; 0: the model's, up to 4096");
  command
      .option("--page-size",
              choice_of({"16", "32", "64"}, [&](std::size_t at) { engine.page_size = 16u << at; }),
              "tokens in a page of the KV cache")
      .shows_default(fmt::to_string(engine.page_size))
      .group(kGroup);
  add_number(command, "--pages", engine.pages, 0,
             "pages of the KV cache; 0: as many as memory allows");
  command
      .option("--memory-fraction", real_number(engine.memory_fraction, 0.01, 1),
              "share of the free memory that the KV cache takes")
      .shows_default(fmt::to_string(engine.memory_fraction))
      .group(kGroup);
  add_number(
      command, "--step-tokens", engine.step_tokens, 0,
      "tokens computed in one step, at most; 0: 2048 on a GPU, else 512, or --slots if more");
  add_number(
      command, "--decode-step-tokens", engine.decode_step_tokens, 0,
      "tokens of a step in which a sequence decodes, at most, which bounds how long a prompt "
      "delays a decode; 0: --step-tokens on a GPU, 128 on the host, or --slots if more");
  add_number(command, "--prefill-chunk", engine.prefill_chunk, 0,
             "tokens of one prompt in one step, at most; 0: --step-tokens");
  command.off_flag("--no-prefix-cache", engine.shares_prefixes, "compute equal prompts again")
      .group(kGroup);
  add_choice(command, "--kv-type", engine.kv_type, llm::kv_type_name, llm::kKvTypes,
             "how keys and values are stored");
  add_choice(command, "--weights", engine.weights, llm::weight_format_name, llm::kWeightFormats,
             "the type of matrices on a GPU");
  add_choice(command, "--graphs", engine.graphs, llm::graph_mode_name, 4,
             "steps that run as graphs");
  add_sizes(command, "--decode-sizes", engine.decode_sizes,
            "tokens of decode steps that have graphs [1,2,4,8,16,24,... up to --slots]");
  add_sizes(command, "--mixed-sizes", engine.mixed_sizes,
            "tokens of mixed steps that have graphs [8,16,32,64,96,128,... up to --step-tokens]");
  add_switch(command, "--padding", engine.pads,
             "off: a step runs only in a graph of exactly its size [on]");
  add_choice(command, "--scheduler", engine.scheduler, llm::scheduler_name, llm::kSchedulers,
             "where the loop runs that plans and commits steps; resident: on the device; "
             "automatic: there on a GPU, if every step has a graph and there is one rank");
  add_choice(command, "--resident-loop", engine.resident_loop, llm::resident_loop_name,
             llm::kResidentLoops, "the form of the resident scheduler's loop");
  add_choice(
      command, "--step", engine.step_form, llm::step_form_name, llm::kStepForms,
      "decode steps of up to 16 tokens on a GPU: kernels of a graph, or one persistent kernel; "
      "automatic: one kernel where it was measured faster");
  add_switch(command, "--overlap", engine.overlap,
             "off: a step is planned only when the one before it has ended [on]");
  command
      .flag("--same-bits", engine.same_bits,
            "the same bits whatever else is in the batch; on or off may follow. Default off "
            "on a GPU, for speed; on the host results are the same bits always")
      .group(kGroup);
  command.option("--step-log", file_name(engine.step_log), "write a line of JSON for each step")
      .group(kGroup);
  add_config_option(command, kGroup);
  flags.names = command.long_options();
}

namespace {

/// Throws UsageError for options that contradict each other, whatever the model.
void check_together(const EngineFlags& flags, const llm::EngineOptions& options) {
  // The engine would raise both to the slots.
  for (const auto& [name, tokens] : {std::pair{"--step-tokens", options.step_tokens},
                                     std::pair{"--decode-step-tokens", options.decode_step_tokens}})
    if (tokens != 0 && tokens < options.slots)
      throw UsageError(
          fmt::format("{0} {1} is less than --slots {2}, and each slot may decode a token in a "
                      "step; use {0} {2}, or --slots {1}",
                      name, tokens, options.slots));
  try {
    llm::check(options);
  } catch (const BadArgument& error) {
    throw UsageError(in_words_of_options(flags.names, error.what()));
  }
}

/// The host's device, with that many threads.
Device host_with_threads(unsigned threads, const Device& chosen) {
  if (chosen.kind() != DeviceKind::host_threads)
    throw UsageError(
        fmt::format("--threads {} does nothing on {}; leave it out, or say --device host", threads,
                    chosen.name()));
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  if (threads > kThreadsPerCore * cores)
    throw BadArgument(fmt::format(
        "--threads {} is more than {} for each of this machine's {} cores; give {} or fewer",
        threads, kThreadsPerCore, cores, kThreadsPerCore * cores));
  return Device::host(threads);
}

}  // namespace

llm::EngineOptions engine_options(const EngineFlags& flags) {
  llm::EngineOptions options = flags.engine;
  options.device = device_called(flags.device);
  if (flags.ranks == 0 && flags.engine.rank_transport != Transport::automatic)
    throw UsageError(fmt::format("--rank-transport {} does nothing with one rank; give --ranks too",
                                 transport_name(flags.engine.rank_transport)));
  if (flags.ranks == 0 && flags.rank_deadline != EngineFlags{}.rank_deadline)
    throw UsageError(fmt::format("--rank-deadline {} does nothing with one rank; give --ranks too",
                                 flags.rank_deadline));
  check_together(flags, options);
  if (flags.threads > 0) options.device = host_with_threads(flags.threads, options.device);
  return options;
}

std::string describe(const llm::EngineMemory& memory) {
  return fmt::format(
      "weights {} mapped and {} copied, arena {}, step buffers {}, graphs {}, KV {} in {} pages",
      mebi(memory.weights_mapped), mebi(memory.weights_copied), mebi(memory.arena),
      mebi(memory.step), mebi(memory.graphs + memory.graphs_device), mebi(memory.kv), memory.pages);
}

}  // namespace attacca::tool
