// small_folder.hpp: writes the small models of small_model.hpp as Hugging Face folders.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/model/small_model.hpp"

namespace attacca::test {

/// The bytes of a safetensors file with the tensors whose names `is_in` accepts.
inline std::string safetensors_of(
    const SmallModel& small,
    const std::function<bool(const std::string&)>& is_in = [](const auto&) { return true; }) {
  nlohmann::ordered_json header;
  std::string data;
  for (const auto& [name, shape] : small.shapes) {
    if (!is_in(name)) continue;
    const std::vector<float>& floats = small.values.at(name);
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
}

inline nlohmann::json config_json_of(const SmallModel& small) {
  const model::ModelConfig config = SmallModel::sizes();
  return {{"architectures", {model::find_architecture(small.architecture)->hf_names.front()}},
          {"vocab_size", config.vocabulary},
          {"hidden_size", config.hidden},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"num_key_value_heads", config.kv_heads},
          {"head_dim", config.head_size},
          {"intermediate_size", config.feed_forward},
          {"max_position_embeddings", config.context},
          {"rms_norm_eps", 1e-5}};
}

}  // namespace attacca::test
