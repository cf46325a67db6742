// models.cpp: see models.hpp.
#include "llm/models.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <filesystem>
#include <optional>

#include "model/cache.hpp"
#include "model/embedded.hpp"
#include "model/tokenizer/open.hpp"
#include "progress.hpp"

namespace attacca::tool {

namespace {

constexpr const char* kEmbedded = "small";

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
}

std::string describe(const llm::EngineMemory& memory) {
  return fmt::format(
      "weights {} mapped and {} copied, arena {}, step buffers {}, graphs {}, KV {} in {} pages",
      mebi(memory.weights_mapped), mebi(memory.weights_copied), mebi(memory.arena),
      mebi(memory.step), mebi(memory.graphs), mebi(memory.kv), memory.pages);
}

}  // namespace attacca::tool
