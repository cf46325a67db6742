// safetensors.hpp: tensors of safetensors files, one or the shards that an index names, as views of
// the mapped bytes.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/mapped_file.hpp"
#include "formats/tensor.hpp"

namespace attacca::formats {

/// Called while a model is opened: what is done, and how much of it.
using Progress =
    std::function<void(std::string_view what, std::uint64_t done, std::uint64_t total)>;

/// The tensors of one file's bytes, in the order of their names. Throws BadArgument with the tensor
/// and the field for what it cannot use; `name` is what messages call the file.
std::vector<Tensor> parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

class Safetensors {
 public:
  /// A .safetensors file, or a folder with model.safetensors or model.safetensors.index.json.
  static Safetensors open(const std::filesystem::path& path, const Progress& progress = {});

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* tensor(const std::string& name) const;
  const std::vector<MappedFile>& files() const { return files_; }

 private:
  void add(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& index, const Progress& progress);

  std::vector<MappedFile> files_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t> index_;
};

}  // namespace attacca::formats
