// request.cpp: checks a request's tokens, stop tokens, biases and masks, and brings them into the
// form that a slot keeps on the device.
#include "engine/request.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <attacca/error.hpp>
#include <memory>
#include <utility>

#include "kernels/sample/host/sample.hpp"

namespace attacca::engine {

namespace {

using kernels::SamplingParams;

void check_token(const char* what, std::int32_t token, const model::ModelConfig& config) {
  if (token < 0 || static_cast<std::uint32_t>(token) >= config.vocabulary)
    throw BadArgument(
        fmt::format("{} token {}; the vocabulary has 0 to {}", what, token, config.vocabulary - 1));
}

/// By token; several biases of one token add up.
std::vector<kernels::TokenBias> biases_of(const llm::Sampling& sampling,
                                          const model::ModelConfig& config) {
  std::vector<kernels::TokenBias> biases;
  for (const auto& [token, bias] : sampling.bias) {
    check_token("a bias names", token, config);
    biases.push_back({token, bias});
  }
  std::stable_sort(biases.begin(), biases.end(),
                   [](const auto& a, const auto& b) { return a.token < b.token; });
  std::size_t kept = 0;
  for (std::size_t at = 0; at < biases.size(); ++at)
    if (kept > 0 && biases[kept - 1].token == biases[at].token)
      biases[kept - 1].bias += biases[at].bias;
    else
      biases[kept++] = biases[at];
  biases.resize(kept);
  return biases;
}

/// A mask of the allowed tokens; null if all are allowed.
driver::MaskPtr mask_of(const llm::Sampling& sampling, const model::ModelConfig& config) {
  if (sampling.allowed.empty()) return nullptr;
  std::vector<std::uint32_t> mask(kernels::mask_words(config.vocabulary));
  for (const std::int32_t token : sampling.allowed) {
    check_token("the allowed tokens have", token, config);
    mask[static_cast<std::uint32_t>(token) / 32] |= 1u << (token % 32);
  }
  return std::make_shared<const std::vector<std::uint32_t>>(std::move(mask));
}

std::vector<std::int32_t> stop_tokens_of(const llm::Request& request,
                                         const model::ModelConfig& config) {
  std::vector<std::int32_t> tokens = request.stop_tokens;
  for (const std::int32_t token : tokens) check_token("the stop tokens have", token, config);
  if (!request.ignores_end)
    tokens.insert(tokens.end(), config.eos_ids.begin(), config.eos_ids.end());
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

}  // namespace

driver::SlotSampling sampling_of(const llm::Request& request, const model::ModelConfig& config) {
  const llm::Sampling& s = request.sampling;
  driver::SlotSampling sampling{.params = {},
                                .stop_tokens = stop_tokens_of(request, config),
                                .biases = biases_of(s, config),
                                .allowed = mask_of(s, config)};
  SamplingParams& p = sampling.params;
  p.temperature = s.temperature;
  p.top_k = s.top_k;
  p.top_p = s.top_p;
  p.min_p = s.min_p;
  p.repetition_penalty = s.repetition_penalty;
  p.presence_penalty = s.presence_penalty;
  p.frequency_penalty = s.frequency_penalty;
  p.seed = s.seed;
  p.wants_logprob = request.logprobs.has_value();
  p.top_logprobs = request.logprobs.value_or(0);
  p.stop_tokens = static_cast<std::uint32_t>(sampling.stop_tokens.size());
  p.biases = static_cast<std::uint32_t>(sampling.biases.size());
  if (const std::string problem = kernels::host::check_sampling(p, sampling.biases);
      !problem.empty())
    throw BadArgument(problem);
  return sampling;
}

llm::Priority priority_of(const llm::Request& request) {
  const auto number = static_cast<std::size_t>(request.priority);
  if (number >= llm::kPriorities)
    throw BadArgument(fmt::format("priority {}; use high, normal or low", number));
  return request.priority;
}

std::vector<std::int32_t> prompt_of(const llm::Request& request,
                                    const llm::detail::ModelData& model) {
  const int given = !request.prompt.empty() + !request.messages.empty() + !request.tokens.empty();
  if (given != 1)
    throw BadArgument(
        fmt::format("a request gives {} of prompt, messages and tokens; give one", given));
  if (!request.messages.empty()) return model.chat(request.messages, request.tools);
  if (!request.tools.empty())
    throw BadArgument("a request has tools and no messages, in which they would be told of");
  if (request.tokens.empty())
    return model.require_tokenizer().encode(request.prompt,
                                            {.add_special = true, .parse_special = false});
  for (const std::int32_t token : request.tokens)
    check_token("the prompt has", token, model.config());
  return request.tokens;
}

}  // namespace attacca::engine
