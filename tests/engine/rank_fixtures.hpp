// rank_fixtures.hpp: engines over ranks, for tests: small options, the ranks as threads, requests.
#pragma once

#include <gtest/gtest.h>
#include <attacca/llm.hpp>
#include <attacca/ranks.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/fixtures.hpp"
#include "engine/model_data.hpp"
#include "model/shard.hpp"

namespace attacca::engine_tests {

inline llm::EngineOptions small_options() {
  llm::EngineOptions options;
  options.device = Device::host(1);
  options.slots = 3;
  options.context = 128;
  options.step_tokens = 24;
  return options;
}

/// Runs `work` with an engine over that many ranks. Each rank opens the model for itself, and has a
/// host device of its own unless they share one.
inline void with_ranks(int count, const std::string& model, const llm::EngineOptions& options,
                       const std::function<void(llm::Engine&)>& work,
                       const std::optional<Device>& shared = {}) {
  run_loopback(count, [&](const Group& group) {
    llm::EngineOptions own = options;
    own.device = shared ? *shared : Device::host(1);
    own.ranks = group;
    const llm::Model opened(model);
    if (group.rank() != 0) return llm::follow(opened, own);
    llm::Engine engine(opened, own);
    work(engine);
  });
}

/// The counts of ranks above one that divide a model.
inline std::vector<int> counts_for(const std::string& model) {
  const auto data = llm::detail::ModelData::open(model, {});
  std::vector<int> counts;
  for (int count = 2; count <= 8; ++count) {
    try {
      model::check_ranks(data->checkpoint, count);
      counts.push_back(count);
    } catch (const BadArgument&) {
    }
  }
  return counts;
}

/// Prompts of several lengths, so that steps mix prompts with decodes.
inline std::vector<llm::Request> requests_for(const std::string& name) {
  const std::vector<std::int32_t> prompt = expected(name).prompt;
  std::vector<llm::Request> requests;
  for (std::size_t length : {prompt.size(), prompt.size() / 2, std::size_t{1}, prompt.size() - 1})
    requests.push_back(greedy({prompt.begin(), prompt.begin() + static_cast<long>(length)}, 20));
  return requests;
}

inline std::vector<std::vector<std::int32_t>> tokens_of(llm::Engine& engine,
                                                        const std::vector<llm::Request>& requests) {
  std::vector<std::vector<std::int32_t>> tokens;
  for (const llm::Reply& reply : engine.generate(requests)) {
    EXPECT_EQ(reply.error, "");
    tokens.push_back(reply.tokens);
  }
  return tokens;
}

/// Log-probabilities of the most probable tokens at each of the eight places behind a text.
inline std::vector<float> tops_of(llm::Engine& engine, const std::vector<std::int32_t>& text) {
  std::vector<float> tops;
  llm::Request request = greedy(text, 8);
  request.logprobs = 20;
  for (const llm::TokenLogprob& token : engine.generate(request).logprobs)
    for (const auto& top : token.top) tops.push_back(top.second);
  return tops;
}

/// A request with a grammar, penalties and log-probabilities has the reply of one rank.
inline void expect_the_sampled_reply_of_one_rank(const llm::EngineOptions& options) {
  llm::Request request;
  request.prompt = "The number is ";
  request.max_tokens = 12;
  request.grammar = {llm::GrammarKind::regex, "[0-9]{3}(,[0-9]{3})*"};
  request.sampling = {.temperature = 0.7f, .repetition_penalty = 1.2f, .seed = 3};
  request.logprobs = 2;
  llm::Engine whole(llm::Model(""), small_options());
  const llm::Reply one = whole.generate(request);
  with_ranks(2, "", options, [&](llm::Engine& engine) {
    const llm::Reply two = engine.generate(request);
    EXPECT_EQ(two.text, one.text);
    ASSERT_EQ(two.logprobs.size(), one.logprobs.size());
    for (std::size_t at = 0; at < one.logprobs.size(); ++at)
      EXPECT_EQ(two.logprobs[at].logprob, one.logprobs[at].logprob);
  });
}

}  // namespace attacca::engine_tests
