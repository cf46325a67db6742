// batches.hpp: checks that greedy decoding continues a prompt alike whatever else is in the batch,
// however prompts are cut, for every page size and when pages run out. Where two runs differ, it
// tells how close the two tokens were.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/fixtures.hpp"

namespace attacca::engine_tests {

using Tokens = std::vector<std::int32_t>;

/// Two logits that are off by 2 % of a row of size 3, in nats. The order of sums decides which ties
/// are taken the other way: at most 0.05 apart in the orders that were seen.
inline constexpr double kNearTie = 0.06;

/// Checks that `got` continues the prompt as `expected` does. A token may differ if the host finds
/// it less probable by less than `tie`, in nats; tokens behind it are not compared.
inline void expect_tokens(const llm::Model& model, const Tokens& prompt, const Tokens& got,
                          const Tokens& expected, double tie = 0) {
  ASSERT_EQ(got.size(), expected.size());
  const auto [ours, theirs] = std::mismatch(got.begin(), got.end(), expected.begin());
  if (ours == got.end()) return;
  llm::EngineOptions options;
  options.device = Device::host_serial();
  options.context = 256;
  llm::Engine host(model, options);
  const auto logprob_of = [&, from = got.begin(), to = ours](std::int32_t token) {
    Tokens text = prompt;
    text.insert(text.end(), from, to);
    text.push_back(token);
    return host.score(text).back().logprob;
  };
  const double nats = logprob_of(*theirs) - logprob_of(*ours);
  EXPECT_TRUE(tie > 0 && nats < tie)
      << "step " << ours - got.begin() << " of " << got.size() << ": token " << *ours
      << " instead of " << *theirs << ", which the host holds to be more probable by " << nats;
}

/// Prompts of many lengths from one text, and the greedy continuation of each when it runs alone.
struct Batch {
  std::vector<llm::Request> requests;
  std::vector<Tokens> alone;
};

/// REQUIRES: the text has at least 90 tokens.
inline Batch batch_of(const llm::Model& model, const llm::EngineOptions& options,
                      const Tokens& text) {
  Batch result;
  llm::Engine engine(model, options);
  for (const std::size_t length : {1, 3, 16, 17, 33, 40, 64, 90, 5, 48, 31}) {
    result.requests.push_back(greedy({text.begin(), text.begin() + static_cast<long>(length)}, 20));
    result.alone.push_back(engine.generate(result.requests.back()).tokens);
  }
  return result;
}

/// Checks that replies begin as they did alone, except for ties. They may be longer.
inline void expect_same(const llm::Model& model, const Batch& batch,
                        const std::vector<llm::Reply>& replies, double tie = 0) {
  ASSERT_EQ(replies.size(), batch.alone.size());
  for (std::size_t i = 0; i < replies.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    Tokens got = replies[i].tokens;
    ASSERT_GE(got.size(), batch.alone[i].size());
    got.resize(batch.alone[i].size());
    expect_tokens(model, batch.requests[i].tokens, got, batch.alone[i], tie);
  }
}

// The next three require options with a context of 128.

inline void expect_same_in_every_batch(const llm::Model& model, const llm::EngineOptions& options,
                                       const Tokens& text) {
  const Batch all = batch_of(model, options, text);
  for (const unsigned slots : {1u, 3u, 11u}) {
    SCOPED_TRACE(std::to_string(slots) + " slots");
    llm::EngineOptions with = options;
    with.slots = slots;
    llm::Engine engine(model, with);
    expect_same(model, all, engine.generate(all.requests));
    expect_same(model, all, engine.generate(all.requests));  // now from the prefix cache
    EXPECT_GT(stats_when_idle(engine).tokens_from_cache, 0u);
  }
}

inline void expect_same_for_every_cut_and_page_size(const llm::Model& model,
                                                    const llm::EngineOptions& options,
                                                    const Tokens& text, double tie = 0) {
  const Batch all = batch_of(model, options, text);
  for (const unsigned page_size : {16u, 32u, 64u}) {
    for (const unsigned chunk : {1u, 5u, 16u}) {
      SCOPED_TRACE("pages of " + std::to_string(page_size) + ", chunks of " +
                   std::to_string(chunk));
      llm::EngineOptions with = options;
      with.page_size = page_size;
      with.prefill_chunk = chunk;
      with.step_tokens = 24;
      with.shares_prefixes = chunk != 5;
      llm::Engine engine(model, with);
      expect_same(model, all, engine.generate(all.requests), tie);
    }
  }
}

inline void expect_same_when_pages_run_out(const llm::Model& model,
                                           const llm::EngineOptions& options, const Tokens& text,
                                           double tie = 0) {
  const Batch all = batch_of(model, options, text);
  llm::EngineOptions with = options;
  with.pages = 9;  // the longest request needs eight
  for (const bool shares : {true, false}) {
    SCOPED_TRACE(shares ? "prefixes shared" : "prefixes not shared");
    with.shares_prefixes = shares;
    llm::Engine engine(model, with);
    std::vector<llm::Request> longer = all.requests;
    for (llm::Request& request : longer) request.max_tokens = 128 - request.tokens.size();
    expect_same(model, all, engine.generate(longer), tie);
    EXPECT_GT(stats_when_idle(engine).preemptions, 0u);
  }
}

}  // namespace attacca::engine_tests
