// shapes.cpp: the table of shapes, and how a row of it becomes a configuration.
#include "model/shapes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <attacca/error.hpp>
#include <iterator>

namespace attacca::model {

namespace {

struct Sizes {
  const char* name;
  const char* architecture;
  std::uint32_t vocabulary, hidden, layers, heads, kv_heads, head_size, feed_forward, context;
  float norm_epsilon;
  double rope_theta;
  bool is_tied;
};
constexpr Sizes kShapes[] = {
    // Llama-3.2-1B, Llama-3.1-8B, Qwen3-8B, SmolLM2-135M
    {"llama-1b", "llama", 128256, 2048, 16, 32, 8, 64, 8192, 131072, 1e-5f, 5e5, true},
    {"llama-8b", "llama", 128256, 4096, 32, 32, 8, 128, 14336, 131072, 1e-5f, 5e5, false},
    {"qwen3-8b", "qwen3", 151936, 4096, 36, 32, 8, 128, 12288, 40960, 1e-6f, 1e6, false},
    {"smollm2-135m", "llama", 49152, 576, 30, 9, 3, 64, 1536, 8192, 1e-5f, 1e5, true},
};

}  // namespace

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const Sizes& sizes : kShapes) names.emplace_back(sizes.name);
  return names;
}

ModelConfig shape_called(const std::string& name) {
  const auto* sizes = std::find_if(std::begin(kShapes), std::end(kShapes),
                                   [&](const Sizes& each) { return name == each.name; });
  if (sizes == std::end(kShapes))
    throw BadArgument(fmt::format("no shape '{}'; use {}", name, fmt::join(shape_names(), ", ")));
  ModelConfig config;
  config.architecture = find_architecture(sizes->architecture);
  config.name = sizes->name;
  config.vocabulary = sizes->vocabulary;
  config.hidden = sizes->hidden;
  config.layers = sizes->layers;
  config.heads = sizes->heads;
  config.kv_heads = sizes->kv_heads;
  config.head_size = sizes->head_size;
  config.rotary_size = sizes->head_size;
  config.feed_forward = sizes->feed_forward;
  config.context = sizes->context;
  config.norm_epsilon = sizes->norm_epsilon;
  config.rope_theta = sizes->rope_theta;
  config.is_tied = sizes->is_tied;
  return config;
}

double parameters_per_token(const ModelConfig& c) {
  const double queries = 1.0 * c.heads * c.head_size;
  const double keys = 1.0 * c.kv_heads * c.head_size;
  return 1.0 * c.layers * c.hidden * (2 * queries + 2 * keys + 3.0 * c.feed_forward);
}

}  // namespace attacca::model
