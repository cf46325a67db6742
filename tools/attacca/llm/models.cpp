// models.cpp: finds the file behind a model's name, and suggests a name that is near.
#include "llm/models.hpp"

#include <fmt/core.h>
#include <unistd.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "model/cache.hpp"
#include "model/embedded.hpp"
#include "model/shapes.hpp"
#include "nearest.hpp"
#include "progress.hpp"
#include "text/tokenizer/open.hpp"

namespace attacca::tool {

namespace {

namespace fs = std::filesystem;

constexpr const char* kEmbedded = "small";

/// The embedded model, those of `attacca pull`, and whatever else lies in the cache.
std::vector<std::string> known_names() {
  std::vector<std::string> names = pull_names();
  names.insert(names.begin(), kEmbedded);
  std::error_code none;  // no cache: no names of it
  try {
    for (fs::directory_iterator entry(model::model_cache(), none), end; !none && entry != end;
         entry.increment(none))
      if (entry->path().extension() == ".gguf") names.push_back(entry->path().stem().string());
  } catch (const Error&) {
  }
  return names;
}

/// "llama3", "qwen2.5-7b": one word of letters, digits and the signs that join them.
bool looks_like_name(const std::string& word) {
  const auto is = [](int (*kind)(int)) {
    return [kind](char letter) { return kind(static_cast<unsigned char>(letter)) != 0; };
  };
  const auto belongs = [&](char letter) {
    return is(std::isalnum)(letter) || std::string_view("._:-").find(letter) != std::string::npos;
  };
  return !word.empty() && is(std::isalpha)(word.front()) && is(std::isalnum)(word.back()) &&
         std::all_of(word.begin(), word.end(), belongs) &&
         std::count_if(word.begin(), word.end(), is(std::isalpha)) >= 3 &&
         std::any_of(word.begin(), word.end(), is(std::isdigit));
}

/// A letter or two from a name that is known, by its length.
bool is_near(const std::string& word, const std::string& name) {
  return 3 * distance(word, name) <= name.size();
}

std::string no_model(const std::string& name) {
  return fmt::format(
      "no model '{}'; the nearest name is {}. Give a .gguf file, a folder with config.json and "
      "model.safetensors, a name of attacca pull --list, or {} for the embedded model",
      name, nearest(name, known_names()), kEmbedded);
}

/// Throws BadArgument unless a model can be read from there.
void require_readable(const std::string& path, const fs::file_status& status) {
  if (!fs::is_regular_file(status) && !fs::is_directory(status))
    throw BadArgument(fmt::format("model '{}' is a {}; give a file or a folder", path,
                                  fs::is_fifo(status) ? "named pipe" : "device or a socket"));
  if (::access(path.c_str(), R_OK | (fs::is_directory(status) ? X_OK : 0)) != 0)
    throw BadArgument(
        fmt::format("model '{}' may not be read by this user; change its permissions", path));
}

}  // namespace

bool is_model_word(const std::string& word) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  if (word.empty() || word.find_first_of(kBlanks) != std::string::npos) return false;
  if (word.find('/') != std::string::npos || word.ends_with(".gguf") ||
      word.ends_with(".safetensors"))
    return true;
  const std::vector<std::string> names = known_names();
  if (std::find(names.begin(), names.end(), word) != names.end()) return true;
  const std::string near = nearest(word, names);
  if (looks_like_name(word) || is_near(word, near))
    throw BadArgument(
        fmt::format("no model '{}'; the nearest name is {}. If it is a prompt, name the model too: "
                    "-m {} '{}'",
                    word, near, kEmbedded, word));
  return false;
}

std::string model_path(const std::string& name) {
  if (name.empty() || name == kEmbedded) return {};
  std::error_code problem;
  const fs::file_status status = fs::status(name, problem);
  if (status.type() == fs::file_type::none)
    throw BadArgument(fmt::format("model '{}': {}", name, problem.message()));
  if (fs::exists(status)) {
    require_readable(name, status);
    return name;
  }
  if (const auto cached = model::cached_model(name)) return cached->string();
  const std::vector<std::string> pulled = pull_names();
  if (std::find(pulled.begin(), pulled.end(), name) != pulled.end())
    throw BadArgument(
        fmt::format("{} is not here yet; fetch it with: attacca pull {}", name, name));
  throw BadArgument(no_model(name));
}

model::Checkpoint open_checkpoint(const std::string& name) {
  const std::string path = model_path(name);
  return path.empty() ? model::open_embedded() : model::Checkpoint::open(path);
}

text::Tokenizer open_tokenizer(const std::string& name) {
  const std::string path = model_path(name);
  return path.empty() ? text::read_tokenizer(*model::open_embedded().gguf())
                      : text::open_tokenizer(path);
}

model::ModelConfig shape_with_layers(const std::string& shape,
                                     std::optional<std::uint32_t> layers) {
  model::ModelConfig config = model::shape_called(shape);
  if (layers > config.layers)
    throw UsageError(fmt::format("--layers {}: {} has {}; give {} or fewer", *layers, shape,
                                 config.layers, config.layers));
  config.layers = layers.value_or(config.layers);
  return config;
}

llm::Model open_model(const std::string& name) {
  ProgressBar bar;
  return llm::Model(model_path(name), [&](std::string_view what, std::uint64_t done,
                                          std::uint64_t all) { bar.show(what, done, all); });
}

}  // namespace attacca::tool
