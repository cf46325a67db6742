// checkpoint.cpp: opens the files, and checks their tensors against those the architecture needs.
#include "model/checkpoint.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "core/in_quotes.hpp"

namespace attacca::model {

using kernels::TensorType;
namespace {

constexpr std::string_view kFrequencies = ".rotary_emb.inv_freq";  // computed, not needed

std::filesystem::path path_if_there(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) ? path : std::filesystem::path();
}

std::string text_of(const std::filesystem::path& path) {
  return path.empty() ? "" : std::string(formats::MappedFile(path).text());
}

void check_shape(const std::filesystem::path& file, const formats::Tensor& tensor,
                 std::string_view name, std::span<const std::uint64_t> expected) {
  if (std::equal(tensor.shape.begin(), tensor.shape.end(), expected.begin(), expected.end()))
    return;
  throw BadArgument(fmt::format("{}: tensor {} has shape {}; {} is expected", file.string(),
                                in_quotes(name), formats::shape_text(tensor.shape),
                                formats::shape_text(expected)));
}

bool is_copy(const formats::Tensor& a, const formats::Tensor& b) {
  return a.type == b.type && a.bytes == b.bytes && std::memcmp(a.data, b.data, a.bytes) == 0;
}

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& path, const formats::Progress& progress) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  if (!std::filesystem::exists(path))
    throw BadArgument(
        fmt::format("there is no '{}'; a model is a .gguf file, a .safetensors file "
                    "or a folder with config.json",
                    path.string()));
  if (std::filesystem::is_directory(path))
    checkpoint.open_folder(path, progress);
  else if (path.extension() == ".safetensors")
    checkpoint.open_folder(path.parent_path(), progress);
  else
    checkpoint.open_gguf(progress);
  return checkpoint;
}

Checkpoint Checkpoint::parse(std::span<const std::byte> bytes, const std::string& name) {
  Checkpoint checkpoint;
  checkpoint.path_ = name;
  checkpoint.take(formats::GgufFile::parse(bytes, name));
  return checkpoint;
}

void Checkpoint::open_gguf(const formats::Progress& progress) {
  take(formats::GgufFile::open(path_));
  if (progress) progress(path_.filename().string(), gguf_->bytes().size(), gguf_->bytes().size());
}

void Checkpoint::take(formats::GgufFile file) {
  gguf_ = std::move(file);
  config_ = config_from_gguf(*gguf_);
  if (config_.name.empty()) config_.name = path_.stem().string();
  add_tensors(gguf_->tensors(), true);
}

void Checkpoint::open_folder(const std::filesystem::path& folder,
                             const formats::Progress& progress) {
  folder_ = folder;
  const std::filesystem::path config = path_if_there(folder / "config.json");
  if (config.empty())
    throw BadArgument(fmt::format("'{}' has no config.json, which says what the model is",
                                  folder.empty() ? "." : folder.string()));
  config_ = config_from_json(
      text_of(config), text_of(path_if_there(folder / "generation_config.json")), folder.string());
  config_.name = std::filesystem::canonical(config).parent_path().filename().string();
  tokenizer_files_ = {path_if_there(folder / "tokenizer.json"),
                      path_if_there(folder / "tokenizer_config.json")};
  safetensors_ = formats::Safetensors::open(path_, progress);
  add_tensors(safetensors_->tensors(), false);
}

void Checkpoint::add_tensors(const std::vector<formats::Tensor>& found, bool is_gguf) {
  std::unordered_map<std::string_view, const formats::Tensor*> left;
  for (const formats::Tensor& tensor : found) left.emplace(tensor.name, &tensor);
  if (!is_gguf && !config_.is_tied) config_.is_tied = !left.contains("lm_head.weight");
  if (is_gguf) config_.is_tied = !left.contains("output.weight");

  const auto add = [&](const TensorRule& rule, std::uint32_t layer) {
    if (!is_gguf && !*rule.hf_name) return;
    const std::string source = is_gguf ? rule.name_in(layer) : rule.hf_name_in(layer);
    std::vector<std::uint64_t> shape;
    for (const Size size : rule.shape) shape.push_back(size_in(config_, size));
    const bool is_head = std::string_view(rule.name) == "output.weight";
    const auto entry = left.find(source);
    if (entry == left.end()) {
      if (rule.is_optional && !(is_head && !*config_.is_tied)) return;
      throw BadArgument(fmt::format("{}: tensor {} {} is missing; {} needs it", path_.string(),
                                    in_quotes(source), formats::shape_text(shape),
                                    config_.architecture->name));
    }
    formats::Tensor tensor = *entry->second;
    left.erase(entry);
    check_shape(path_, tensor, source, shape);
    if (shape.size() == 1 && kernels::is_quantized(tensor.type))
      throw BadArgument(fmt::format("{}: tensor {} is {}; F32, F16 or BF16 is expected",
                                    path_.string(), in_quotes(source),
                                    kernels::type_name(tensor.type)));
    if (is_head && *config_.is_tied) {
      if (is_copy(tensor, *find("token_embd.weight"))) return;
      config_.is_tied = false;
      config_.notes.push_back(fmt::format(
          "{}: 'tie_word_embeddings' is true, but tensor {} is not the embedding; it is used",
          path_.string(), in_quotes(source)));
    }
    tensor.name = rule.name_in(layer);
    index_.emplace(tensor.name, tensors_.size());
    tensors_.push_back(std::move(tensor));
  };
  const std::vector<TensorRule>& rules = config_.architecture->tensors;
  for (const TensorRule& rule : rules)
    if (!rule.is_per_layer()) add(rule, 0);
  for (std::uint32_t layer = 0; layer < config_.layers; ++layer)
    for (const TensorRule& rule : rules)
      if (rule.is_per_layer()) add(rule, layer);

  for (const formats::Tensor& tensor : found)
    if (left.contains(tensor.name) && !tensor.name.ends_with(kFrequencies))
      throw BadArgument(fmt::format(
          "{}: tensor {} is no part of {} with {} layers; without it the model would be another",
          path_.string(), in_quotes(tensor.name), config_.architecture->name, config_.layers));
}

const formats::Tensor* Checkpoint::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const formats::Tensor& Checkpoint::head() const {
  const formats::Tensor* head = find("output.weight");
  return head ? *head : *find("token_embd.weight");
}

WeightSummary Checkpoint::weights() const {
  WeightSummary summary;
  for (const formats::Tensor& tensor : tensors_) {
    const auto is_type = [&](const auto& entry) { return entry.type == tensor.type; };
    auto entry = std::find_if(summary.types.begin(), summary.types.end(), is_type);
    if (entry == summary.types.end()) entry = summary.types.insert(entry, {.type = tensor.type});
    ++entry->tensors;
    entry->parameters += tensor.count();
    entry->bytes += tensor.bytes;
    ++summary.tensors;
    summary.parameters += tensor.count();
    summary.bytes += tensor.bytes;
  }
  std::stable_sort(summary.types.begin(), summary.types.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return summary;
}

std::optional<std::string> Checkpoint::chat_template() const {
  if (gguf_) return gguf_->find<std::string>("tokenizer.chat_template");
  if (const auto file = path_if_there(folder_ / "chat_template.jinja"); !file.empty())
    return text_of(file);
  if (tokenizer_files_.tokenizer_config_json.empty()) return std::nullopt;
  const std::filesystem::path& path = tokenizer_files_.tokenizer_config_json;
  return chat_template_from_json(text_of(path), path.string());
}

void Checkpoint::read_ahead(const formats::Progress& progress) const {
  constexpr std::uint64_t kPage = 4096;
  constexpr std::uint64_t kStep = 32u << 20;
  std::vector<std::span<const std::byte>> files;
  if (gguf_) files.push_back(gguf_->bytes());
  if (safetensors_)
    for (const formats::MappedFile& file : safetensors_->files()) files.push_back(file.bytes());
  std::uint64_t total = 0;
  for (const auto& file : files) total += file.size();

  std::uint64_t done = 0;
  for (const auto& file : files)
    for (std::uint64_t start = 0; start < file.size(); start += kStep) {
      const std::uint64_t end = std::min<std::uint64_t>(start + kStep, file.size());
      for (std::uint64_t at = start; at < end; at += kPage)
        static_cast<void>(*static_cast<const volatile std::byte*>(&file[at]));
      done += end - start;
      if (progress) progress("reading weights", done, total);
    }
}

}  // namespace attacca::model
