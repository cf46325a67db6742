// safetensors.hpp: reads the tensors of a safetensors file, or of all files that an index names, as
// views of the mapped bytes. It writes none.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/mapped_file.hpp"
#include "formats/progress.hpp"
#include "formats/tensor.hpp"

namespace attacca::formats {

/// The tensors of one file's bytes, in the order of their names. Messages call the file `name`.
/// Throws BadArgument with the tensor and the field.
std::vector<Tensor> parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

class Safetensors {
 public:
  /// `path`: a .safetensors file, or a folder with model.safetensors or
  /// model.safetensors.index.json.
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
