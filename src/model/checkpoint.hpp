// checkpoint.hpp: an opened model: its configuration, its tensors under GGUF names whatever the
// files call them, and where its tokenizer and chat template are. Weights are mapped, not copied;
// that is weights.hpp.
#pragma once

#include "formats/gguf.hpp"
#include "formats/safetensors.hpp"
#include "model/config.hpp"

namespace attacca::model {

/// Where a Hugging Face model keeps its tokenizer. The path of a missing file is empty.
struct TokenizerFiles {
  std::filesystem::path tokenizer_json;
  std::filesystem::path tokenizer_config_json;
};

/// Counts and bytes of the weights, by type.
struct WeightSummary {
  struct OfType {
    kernels::TensorType type;
    std::uint64_t tensors = 0;
    std::uint64_t parameters = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<OfType> types;  // the types that occur, most bytes first
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
};

/// Owns the mapped files. Tensors are views of them, and a move keeps them valid. Const functions
/// may be called from many threads.
class Checkpoint {
 public:
  /// `path`: a .gguf file, a .safetensors file with config.json beside it, or a Hugging Face
  /// folder. Afterwards every tensor that the architecture needs is there in the right shape, and
  /// no other. Throws BadArgument with the file and the field, or DeviceError if a file cannot be
  /// read.
  static Checkpoint open(const std::filesystem::path& path, const formats::Progress& progress = {});
  /// Reads the bytes of a .gguf file. Messages call them `name`. REQUIRES: the bytes outlive it.
  static Checkpoint parse(std::span<const std::byte> bytes, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  const ModelConfig& config() const { return config_; }

  /// Under their GGUF names: first the tensors outside layers, then layer by layer.
  const std::vector<formats::Tensor>& tensors() const { return tensors_; }
  /// Null if there is none.
  const formats::Tensor* find(std::string_view name) const;
  /// output.weight, or the embedding if the model ties them.
  const formats::Tensor& head() const;
  WeightSummary weights() const;

  /// Null for Hugging Face models.
  const formats::GgufFile* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  const TokenizerFiles& tokenizer_files() const { return tokenizer_files_; }
  /// The default template, if the files have several.
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
