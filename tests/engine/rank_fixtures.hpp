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

}  // namespace attacca::engine_tests
