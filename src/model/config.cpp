// config.cpp: checks the bounds of a configuration and computes its RoPE frequencies. The files are
// read in config_gguf.cpp and config_json.cpp.
#include "model/config.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <cmath>
#include <numbers>

#include "kernels/residual.hpp"

namespace attacca::model {

namespace {

constexpr std::uint32_t kHeadStep = 8;
constexpr std::uint32_t kMostHead = 256;
constexpr std::uint32_t kPart = kernels::Residual::kPart;

double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double turns = scaling.original_context / wavelength;
  if (turns > scaling.high_frequency_factor) return frequency;
  if (turns < scaling.low_frequency_factor) return frequency / scaling.factor;
  const double smooth = (turns - scaling.low_frequency_factor) /
                        (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

void check_config(const ModelConfig& config, const std::string& file, const SizeKeys& keys) {
  const auto bound = [&](const std::string& key, std::uint32_t value, std::uint32_t most) {
    if (value == 0 || value > most)
      throw BadArgument(fmt::format("{}: {} is {}; 1 to {} is possible", file, key, value, most));
  };
  bound(keys.vocabulary, config.vocabulary, 1u << 24);
  bound(keys.hidden, config.hidden, 1u << 17);
  bound(keys.layers, config.layers, 1u << 10);
  bound(keys.heads, config.heads, 1u << 10);
  bound(keys.kv_heads, config.kv_heads, 1u << 10);
  bound(keys.head_size, config.head_size, kMostHead);
  bound(keys.feed_forward, config.feed_forward, 1u << 20);
  bound(keys.context, config.context, 1u << 30);
  if (config.head_size % kHeadStep != 0)
    throw BadArgument(fmt::format("{}: {} is {}; heads of a multiple of {} up to {} are supported",
                                  file, keys.head_size, config.head_size, kHeadStep, kMostHead));
  if (config.heads % config.kv_heads != 0)
    throw BadArgument(fmt::format("{}: {} is {}, which is not a multiple of {}, {}", file,
                                  keys.heads, config.heads, keys.kv_heads, config.kv_heads));
  // Streamed steps keep one float for every 16 elements of a hidden row in a buffer that attention
  // writes later; see streamed_step.cpp.
  const std::uint64_t queries = std::uint64_t{config.heads} * config.head_size;
  if (config.hidden > kPart * queries)
    throw BadArgument(fmt::format(
        "{}: {} is {}, more than {} times the {} elements of {} heads of {}: buffers of "
        "a step would overlap; at most {} is supported",
        file, keys.hidden, config.hidden, kPart, queries, config.heads, config.head_size,
        kPart * queries));
  if (config.rotary_size == 0 || config.rotary_size % 2 != 0 ||
      config.rotary_size > config.head_size)
    throw BadArgument(fmt::format("{}: {} is {}; an even number up to the head's {} is expected",
                                  file, keys.rotary_size, config.rotary_size, config.head_size));
  if (!(config.norm_epsilon > 0 && config.norm_epsilon < 1))
    throw BadArgument(fmt::format("{}: {} is {}; a number between 0 and 1 is expected", file,
                                  keys.norm_epsilon, config.norm_epsilon));
  if (!(config.rope_theta >= 1 && config.rope_theta <= 1e12))
    throw BadArgument(fmt::format("{}: {} is {}; a number from 1 to 1e12 is expected", file,
                                  keys.rope_theta, config.rope_theta));
  const RopeScaling& scaling = config.scaling;
  const bool is_right = scaling.factor >= 1e-3 && scaling.factor <= 1e6 &&
                        scaling.low_frequency_factor > 0 &&
                        scaling.high_frequency_factor > scaling.low_frequency_factor &&
                        scaling.high_frequency_factor <= 1e6 && scaling.original_context >= 1 &&
                        scaling.original_context <= 1e9;
  if (!is_right)
    throw BadArgument(
        fmt::format("{}: {} with factor {}, frequency factors {} to {}, original context "
                    "{}: out of bounds",
                    file, keys.scaling, scaling.factor, scaling.low_frequency_factor,
                    scaling.high_frequency_factor, scaling.original_context));
}

std::vector<float> rotary_frequencies(const ModelConfig& config) {
  std::vector<float> frequencies(config.rotary_size / 2);
  for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
    const double exponent = 2.0 * static_cast<double>(pair) / config.rotary_size;
    double frequency = std::pow(config.rope_theta, -exponent);
    if (config.scaling.kind == RopeScaling::Kind::linear) frequency /= config.scaling.factor;
    if (config.scaling.kind == RopeScaling::Kind::llama3)
      frequency = llama3_frequency(frequency, config.scaling);
    if (!config.rope_divisors.empty()) frequency /= config.rope_divisors[pair];
    frequencies[pair] = static_cast<float>(frequency);
  }
  return frequencies;
}

std::uint64_t kv_bytes_per_token(const ModelConfig& config) {
  return 2 * std::uint64_t{config.layers} * config.kv_heads * config.head_size * sizeof(float);
}

}  // namespace attacca::model
