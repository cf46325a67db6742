// checkpoint.hpp: a model that was opened: its configuration, its tensors under one set of names
// whatever the files call them, and where its tokenizer and chat template are.
#pragma once

#include "formats/safetensors.hpp"
#include "model/config.hpp"

namespace attacca::model {

/// Where a Hugging Face model keeps its tokenizer; empty paths for what is not there.
struct TokenizerFiles {
  std::filesystem::path tokenizer_json;
  std::filesystem::path tokenizer_config_json;
};

/// What weights take, by type.
struct WeightSummary {
  struct OfType {
    kernels::TensorType type;
    std::uint64_t tensors = 0;
    std::uint64_t parameters = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<OfType> types;  // those that occur, most bytes first
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
};

/// Tensors are views of the mapped files, which live as long as this does, moved or not. Const
/// functions may be called from many threads.
class Checkpoint {
 public:
  /// A .gguf file, a .safetensors file with config.json beside it, or a folder of Hugging Face's.
  /// Every tensor the architecture needs is there afterwards, in the right shape, and no other.
  /// Throws BadArgument with the file and the field, or DeviceError where a file cannot be read.
  static Checkpoint open(const std::filesystem::path& path, const formats::Progress& progress = {});
  /// The bytes of a .gguf file, which outlive it; `name` is what messages call them.
  static Checkpoint parse(std::span<const std::byte> bytes, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  const ModelConfig& config() const { return config_; }

  /// Named as in GGUF files; those of no layer first, then layer by layer.
  const std::vector<formats::Tensor>& tensors() const { return tensors_; }
  /// Null where there is none.
  const formats::Tensor* find(std::string_view name) const;
  /// output.weight, or the embedding where that is the head too.
  const formats::Tensor& head() const;
  WeightSummary weights() const;

  /// Null for Hugging Face models.
  const formats::GgufFile* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  const TokenizerFiles& tokenizer_files() const { return tokenizer_files_; }
  /// The template that is used unless another is asked for by name.
  std::optional<std::string> chat_template() const;

  /// Reads every page once, so that the first step does not wait for the disk.
  void read_ahead(const formats::Progress& progress = {}) const;

 private:
  void open_gguf(const formats::Progress& progress);
  void take(formats::GgufFile file);
  void open_folder(const std::filesystem::path& folder, const formats::Progress& progress);
  void add_tensors(const std::vector<formats::Tensor>& found, bool is_gguf);

  std::filesystem::path path_;
  std::filesystem::path folder_;  // of a Hugging Face model
  ModelConfig config_;
  std::optional<formats::GgufFile> gguf_;
  std::optional<formats::Safetensors> safetensors_;
  TokenizerFiles tokenizer_files_;
  std::vector<formats::Tensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace attacca::model
