// small_model.hpp: models of a few kilobytes, for tests of their readers. small_folder.hpp writes
// them as Hugging Face folders.
#pragma once

#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "formats/gguf_writer.hpp"
#include "model/architecture.hpp"
#include "model/config.hpp"

namespace attacca::test {

/// A folder that is deleted afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "attacca-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string text_of(const formats::GgufWriter& writer) {
  std::ostringstream out;
  writer.write(out);
  return out.str();
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Names, shapes and values of a model's tensors, to be changed before it is written.
struct SmallModel {
  std::string architecture = "llama";
  std::map<std::string, std::vector<std::uint64_t>> shapes;  // by the name in the file
  std::map<std::string, std::vector<float>> values;

  /// Two layers, 4 heads of 16 of which 2 have keys, 48 tokens.
  SmallModel(const std::string& name, bool is_gguf, bool has_head) : architecture(name) {
    for (const model::TensorRule& rule : model::find_architecture(name)->tensors) {
      const bool is_head = rule.name == std::string_view("output.weight");
      if (rule.is_optional && !(is_head && has_head)) continue;
      for (std::uint32_t layer = 0; layer < (rule.is_per_layer() ? 2 : 1); ++layer) {
        std::vector<std::uint64_t> shape;
        for (const model::Size size : rule.shape) shape.push_back(model::size_in(sizes(), size));
        add(is_gguf ? rule.name_in(layer) : rule.hf_name_in(layer), shape);
      }
    }
  }

  static model::ModelConfig sizes() {
    model::ModelConfig config;
    config.vocabulary = 48;
    config.hidden = 32;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2;
    config.head_size = 16;
    config.feed_forward = 40;
    config.context = 128;
    config.rotary_size = 16;
    return config;
  }

  void add(const std::string& name, const std::vector<std::uint64_t>& shape) {
    shapes[name] = shape;
    std::vector<float>& floats = values[name];
    floats.assign(formats::element_count(shape).value(), 0);
    for (std::size_t at = 0; at < floats.size(); ++at)
      floats[at] = static_cast<float>((at * 7 + name.size()) % 17) / 16 - 0.5f;
  }
  void remove(const std::string& name) { shapes.erase(name); }

  /// The writer borrows the values.
  formats::GgufWriter writer(const model::ModelConfig& config = sizes()) const {
    formats::GgufWriter result;
    const auto key = [&](const char* name) { return architecture + "." + name; };
    result.set("general.architecture", architecture);
    result.set(key("context_length"), config.context);
    result.set(key("embedding_length"), config.hidden);
    result.set(key("block_count"), config.layers);
    result.set(key("feed_forward_length"), config.feed_forward);
    result.set(key("attention.head_count"), config.heads);
    result.set(key("attention.head_count_kv"), config.kv_heads);
    result.set(key("attention.key_length"), config.head_size);
    result.set(key("attention.layer_norm_rms_epsilon"), 1e-5f);
    for (const auto& [name, shape] : shapes) result.add(name, shape, values.at(name));
    return result;
  }
};

}  // namespace attacca::test
