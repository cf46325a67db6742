// outcome.cpp: the reasons of an end, as requests are told of them.
#include "engine/outcome.hpp"

#include <fmt/core.h>

#include <utility>

namespace attacca::engine {

namespace {

llm::Finish finish_of(Ending ending) {
  switch (ending) {
    case Ending::stop_token:
      return llm::Finish::stop;
    case Ending::not_finite:
      return llm::Finish::failed;
    default:
      return llm::Finish::length;
  }
}

}  // namespace

driver::Outcome outcome_of(const driver::JobPtr& job, std::int32_t token, Ending ending,
                           std::uint32_t position) {
  driver::Outcome outcome{.job = job, .at = {}, .token = token};
  if (ending == Ending::none) return outcome;
  outcome.finish = finish_of(ending);
  if (ending == Ending::not_finite) {
    outcome.token = -1;
    outcome.error = fmt::format(
        "the model's logits for position {} are infinite or not numbers; its weights, or what this "
        "device makes of them, are broken: try another file or another device",
        position);
  }
  return outcome;
}

driver::Outcome failure_of(const driver::JobPtr& job, std::string error) {
  return {.job = job,
          .at = driver::Clock::now(),
          .finish = llm::Finish::failed,
          .error = std::move(error),
          .cached_tokens = job->cached_tokens};
}

llm::TokenLogprob logprob_of(std::int32_t token, const kernels::Sampled& sampled) {
  llm::TokenLogprob entry{.token = token, .logprob = sampled.logprob, .top = {}};
  for (std::uint32_t i = 0; i < sampled.tops; ++i)
    entry.top.emplace_back(sampled.top_token[i], sampled.top_logprob[i]);
  return entry;
}

}  // namespace attacca::engine
