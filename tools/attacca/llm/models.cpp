// models.cpp: see models.hpp.
#include "llm/models.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "llm/yaml_config.hpp"
#include "model/cache.hpp"
#include "model/embedded.hpp"
#include "model/tokenizer/open.hpp"
#include "progress.hpp"

namespace attacca::tool {

namespace {

constexpr const char* kEmbedded = "small";

/// An option that takes one of the first `count` enumerators, by name.
template <class Enum>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, Enum& value,
                        const char* (*name)(Enum), int count, const std::string& what) {
  std::vector<std::string> names;
  for (int at = 0; at < count; ++at) names.emplace_back(name(static_cast<Enum>(at)));
  const auto choose = [&value, names](const std::string& given) {
    const auto found = std::find(names.begin(), names.end(), given);
    value = static_cast<Enum>(found - names.begin());
  };
  return command.add_option_function<std::string>(flag, choose, what)
      ->check(CLI::IsMember(names))
      ->default_str(name(value));
}

std::string mebi(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

bool is_model_name(const std::string& name) {
  if (name == kEmbedded || std::filesystem::exists(name)) return true;
  if (can_pull(name) || model::cached_model(name)) return true;
  return name.ends_with(".gguf") || name.ends_with(".safetensors");
}

std::string model_path(const std::string& name) {
  if (name.empty() || name == kEmbedded) return {};
  if (std::filesystem::exists(name)) return name;
  if (const auto cached = model::cached_model(name)) return cached->string();
  if (can_pull(name))
    throw BadArgument(
        fmt::format("{} is not here yet; fetch it with: attacca pull {}", name, name));
  throw BadArgument(fmt::format(
      "no model '{}': give a .gguf file, a folder with config.json and model.safetensors, a name "
      "of attacca pull --list, or nothing for the embedded model",
      name));
}

model::Checkpoint open_checkpoint(const std::string& name) {
  const std::string path = model_path(name);
  return path.empty() ? model::open_embedded() : model::Checkpoint::open(path);
}

model::Tokenizer open_tokenizer(const std::string& name) {
  const std::string path = model_path(name);
  return path.empty() ? model::read_tokenizer(*model::open_embedded().gguf())
                      : model::open_tokenizer(path);
}

llm::Model open_model(const std::string& name) {
  ProgressBar bar;
  return llm::Model(model_path(name), [&](std::string_view what, std::uint64_t done,
                                          std::uint64_t all) { bar.show(what, done, all); });
}

void add_engine_options(CLI::App& command, llm::EngineOptions& options, std::string& device) {
  const std::string group = "Engine";
  command.add_option("--device", device, "host, host-serial, cuda or cuda:N; the best there is")
      ->group(group);
  command.add_option("--slots", options.slots, "sequences that run at once")
      ->capture_default_str()
      ->group(group);
  command.add_option("--context", options.context, "longest sequence; 0: the model's, up to 4096")
      ->capture_default_str()
      ->group(group);
  command.add_option("--page-size", options.page_size, "tokens in a page of the KV cache")
      ->check(CLI::IsMember({16, 32, 64}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--pages", options.pages, "pages of the KV cache; 0: what memory allows")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--memory-fraction", options.memory_fraction,
                  "of the free memory, for the KV cache")
      ->capture_default_str()
      ->group(group);
  command.add_option("--step-tokens", options.step_tokens, "tokens computed in one step, at most")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--prefill-chunk", options.prefill_chunk, "of one prompt in one step, at most")
      ->capture_default_str()
      ->group(group);
  command.add_flag("!--no-prefix-cache", options.shares_prefixes, "compute equal prompts again")
      ->group(group);
  add_choice(command, "--kv-type", options.kv_type, llm::kv_type_name, llm::kKvTypes,
             "how keys and values are stored")
      ->group(group);
  add_choice(command, "--weights", options.weights, llm::weight_format_name, llm::kWeightFormats,
             "what matrices become on a GPU")
      ->group(group);
  add_choice(command, "--graphs", options.graphs, llm::graph_mode_name, 4,
             "steps that run as graphs")
      ->group(group);
  const auto add_sizes = [&](const char* name, std::vector<unsigned>& sizes, const char* what) {
    command.add_option(name, sizes, what)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("N,N,...")
        ->group(group);
  };
  add_sizes("--decode-sizes", options.decode_sizes,
            "tokens of decode steps that have graphs [1,2,4,8,16,24,... up to --slots]");
  add_sizes("--mixed-sizes", options.mixed_sizes,
            "tokens of mixed steps that have graphs [8,16,32,64,96,128,... up to --step-tokens]");
  command
      .add_option("--padding", options.pads,
                  "off: a step runs only in a graph of exactly its size [on]")
      ->type_name("on|off")
      ->group(group);
  command
      .add_option("--overlap", options.overlap,
                  "off: a step is planned only when the one before it has ended [on]")
      ->type_name("on|off")
      ->group(group);
  command
      .add_option("--same-bits", options.same_bits,
                  "off: a GPU may add up in other orders for large steps, faster; near ties may "
                  "turn [on]")
      ->type_name("on|off")
      ->group(group);
  command.add_option("--step-log", options.step_log, "write a line of JSON for each step")
      ->group(group);
  add_config_option(command, group);
}

std::string describe(const llm::EngineMemory& memory) {
  return fmt::format(
      "weights {} mapped and {} copied, arena {}, step buffers {}, graphs {}, KV {} in {} pages",
      mebi(memory.weights_mapped), mebi(memory.weights_copied), mebi(memory.arena),
      mebi(memory.step), mebi(memory.graphs + memory.graphs_device), mebi(memory.kv), memory.pages);
}

}  // namespace attacca::tool
