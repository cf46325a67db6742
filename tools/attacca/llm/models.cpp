// models.cpp: see models.hpp.
#include "llm/models.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <filesystem>

#include "model/cache.hpp"
#include "model/embedded.hpp"
#include "model/tokenizer/open.hpp"
#include "progress.hpp"

namespace attacca::tool {

namespace {

constexpr const char* kEmbedded = "small";

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

}  // namespace attacca::tool
