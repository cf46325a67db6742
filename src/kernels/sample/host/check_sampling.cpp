// check_sampling.cpp: validates sampling parameters before a sequence starts. It only describes the
// first problem; the caller throws.
#include <fmt/core.h>

#include <limits>

#include "kernels/sample/host/sample.hpp"

namespace attacca::kernels::host {

std::string check_sampling(const SamplingParams& p, std::span<const TokenBias> biases) {
  const auto is_in = [](float value, float low, float high) {
    return value >= low && value <= high;
  };
  if (!is_in(p.temperature, 0, std::numeric_limits<float>::max()))
    return fmt::format("temperature {} is not a number from 0 up; 0 takes the most probable token",
                       p.temperature);
  if (p.top_k < 0) return fmt::format("top_k {} is below 0; 0 keeps all tokens", p.top_k);
  if (!is_in(p.top_p, std::numeric_limits<float>::min(), 1))
    return fmt::format("top_p {} is not above 0 and at most 1; 1 keeps all tokens", p.top_p);
  if (!is_in(p.min_p, 0, 1))
    return fmt::format("min_p {} is not from 0 to 1; 0 keeps all tokens", p.min_p);
  // Outside this range a logit could become infinite.
  if (!is_in(p.repetition_penalty, 0.01f, 100))
    return fmt::format("repetition_penalty {} is not from 0.01 to 100; 1 has no effect",
                       p.repetition_penalty);
  if (!is_in(p.presence_penalty, -100, 100))
    return fmt::format("presence_penalty {} is not from -100 to 100; 0 has no effect",
                       p.presence_penalty);
  if (!is_in(p.frequency_penalty, -100, 100))
    return fmt::format("frequency_penalty {} is not from -100 to 100; 0 has no effect",
                       p.frequency_penalty);
  if (p.top_logprobs > SamplingParams::kMaxTop)
    return fmt::format("top_logprobs {} is more than {}, the most there are", p.top_logprobs,
                       SamplingParams::kMaxTop);
  if (p.stop_tokens > SamplingParams::kMaxStopTokens)
    return fmt::format(
        "{} stop tokens, the model's end tokens among them, are more than {}; pass fewer",
        p.stop_tokens, SamplingParams::kMaxStopTokens);
  if (p.biases > SamplingParams::kMaxBiases)
    return fmt::format("logit biases for {} tokens are more than {}; pass fewer", p.biases,
                       SamplingParams::kMaxBiases);
  for (const TokenBias& bias : biases)
    if (!is_in(bias.bias, -1000, 1000))
      return fmt::format("logit bias {} of token {} is not from -1000 to 1000", bias.bias,
                         bias.token);
  return {};
}

}  // namespace attacca::kernels::host
