// Tests of models that are split over ranks: they give the same tokens as one rank, ranks that do
// not fit together are refused, and a rank that fails is named.
#include <gmock/gmock.h>
#include <attacca/llm.hpp>
#include <attacca/ranks.hpp>
#include <attacca/version.hpp>

#include <atomic>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/fixtures.hpp"
#include "engine/rank_fixtures.hpp"
#include "graph/access.hpp"
#include "support/faulty_device.hpp"

namespace attacca::engine_tests {
namespace {

using llm::Engine;
using llm::EngineOptions;
using llm::Model;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class RankedModels : public testing::TestWithParam<std::string> {};

TEST_P(RankedModels, give_the_greedy_tokens_of_one_rank) {
  const std::vector<llm::Request> requests = requests_for(GetParam());
  Engine whole(Model(fixture(GetParam())), small_options());
  const auto one = tokens_of(whole, requests);
  const std::vector<int> counts = counts_for(fixture(GetParam()));
  ASSERT_FALSE(counts.empty());
  for (const int count : counts)
    with_ranks(count, fixture(GetParam()), small_options(), [&](Engine& engine) {
      EXPECT_EQ(tokens_of(engine, requests), one) << count << " ranks";
      EXPECT_LT(engine.memory().weights_per_step, whole.memory().weights_per_step);
    });
}

TEST_P(RankedModels, give_the_tokens_of_transformers) {
  const Expected e = expected(GetParam());
  with_ranks(2, fixture(GetParam()), small_options(), [&](Engine& engine) {
    EXPECT_EQ(engine.generate(greedy(e.prompt, e.greedy.size())).tokens, e.greedy);
  });
}

/// Log-probabilities of a text, with the most probable tokens, and the mean of its hidden states.
std::vector<float> figures_of(Engine& engine, const std::vector<std::int32_t>& text) {
  std::vector<float> figures;
  for (const llm::TokenLogprob& token : engine.score(text)) figures.push_back(token.logprob);
  const std::vector<float> tops = tops_of(engine, text);
  figures.insert(figures.end(), tops.begin(), tops.end());
  llm::Request request = greedy(text, 8);
  request.embed = llm::Pooling::mean;
  const std::vector<float> hidden = engine.generate(request).embedding;
  figures.insert(figures.end(), hidden.begin(), hidden.end());
  return figures;
}

void expect_the_bits_of_one_rank(const std::string& model, const std::vector<std::int32_t>& text) {
  Engine whole(Model(model), small_options());
  const std::vector<float> one = figures_of(whole, text);
  ASSERT_GT(one.size(), text.size() + 160);
  for (const int count : counts_for(model))
    if (count == 2 || count == 4)
      with_ranks(count, model, small_options(), [&](Engine& engine) {
        EXPECT_EQ(figures_of(engine, text), one) << count << " ranks";
      });
}

TEST_P(RankedModels, give_the_bits_of_one_rank) {
  ASSERT_THAT(counts_for(fixture(GetParam())), testing::Contains(4));
  expect_the_bits_of_one_rank(fixture(GetParam()), text_of(GetParam()));
}

/// Greedy, top-k with all else, and such that need all logits, alone and beside each other.
TEST_P(RankedModels, draw_the_tokens_of_one_rank) {
  std::vector<llm::Request> requests = requests_for(GetParam());
  requests[1].sampling = {.temperature = 1.3f, .top_k = 30, .seed = 1};
  requests[2].sampling = {.temperature = 1, .top_k = 12, .top_p = 0.8f, .min_p = 0.02f, .seed = 2};
  std::vector<llm::Request> others = requests_for(GetParam());
  others[0].sampling = {.temperature = 1, .seed = 4};
  others[1].sampling = {.temperature = 0.8f, .top_k = 40, .top_p = 0.9f, .seed = 5};
  others[2].sampling = {.temperature = 0, .repetition_penalty = 1.3f};
  others[3].logprobs = 1;
  Engine whole(Model(fixture(GetParam())), small_options());
  const auto few = tokens_of(whole, requests), all = tokens_of(whole, others);
  for (const int count : {2, 4})
    with_ranks(count, fixture(GetParam()), small_options(), [&](Engine& engine) {
      EXPECT_EQ(tokens_of(engine, requests), few) << count << " ranks";
      llm::EngineStats stats = stats_when_idle(engine);
      EXPECT_EQ(stats.steps_of_highest, stats.steps) << "all of them";
      EXPECT_EQ(tokens_of(engine, others), all) << count << " ranks";
      stats = stats_when_idle(engine);
      EXPECT_LT(stats.steps_of_highest, stats.steps);
    });
}
INSTANTIATE_TEST_SUITE_P(Fixtures, RankedModels, testing::ValuesIn(kModels), [](const auto& at) {
  std::string name = at.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(RankedEngine, gives_the_same_tokens_in_every_graph_mode_with_and_without_overlap) {
  const std::vector<llm::Request> requests = requests_for("llama");
  Engine whole(Model(fixture("llama")), small_options());
  const auto one = tokens_of(whole, requests);
  for (const llm::GraphMode mode : {llm::GraphMode::full, llm::GraphMode::piecewise,
                                    llm::GraphMode::decode, llm::GraphMode::off})
    for (const bool overlap : {true, false}) {
      EngineOptions options = small_options();
      options.graphs = mode;
      options.overlap = overlap;
      with_ranks(2, fixture("llama"), options, [&](Engine& engine) {
        EXPECT_EQ(tokens_of(engine, requests), one) << llm::graph_mode_name(mode) << overlap;
      });
    }
}

TEST(RankedEngine, gives_the_same_tokens_over_copies_between_devices) {
  const std::vector<llm::Request> requests = requests_for("llama");
  Engine whole(Model(fixture("llama")), small_options());
  const auto one = tokens_of(whole, requests);
  EngineOptions options = small_options();
  options.rank_transport = Transport::peer;
  options.graphs = llm::GraphMode::off;
  with_ranks(2, fixture("llama"), options,
             [&](Engine& engine) { EXPECT_EQ(tokens_of(engine, requests), one); });
}

TEST(RankedEngine, gives_the_greedy_tokens_of_transformers_for_each_shape) {
  std::size_t split = 0;
  for (const std::string& name : kShapes) {
    const Expected e = expected(name);
    EngineOptions options = small_options();
    options.context = 256;
    for (const int count : counts_for(fixture(name)))
      with_ranks(count, fixture(name), options, [&](Engine& engine) {
        ++split;
        EXPECT_EQ(engine.generate(greedy(e.prompt, e.greedy.size())).tokens, e.greedy)
            << name << ", " << count << " ranks";
      });
  }
  EXPECT_GE(split, kShapes.size());
}

TEST(RankedEngine, splits_the_embedded_quantized_model) {
  llm::Request request;
  request.prompt = "Once upon a time";
  request.max_tokens = 24;
  Engine whole(Model(""), small_options());
  const llm::Reply one = whole.generate(request);
  const std::vector<int> counts = counts_for("");
  ASSERT_FALSE(counts.empty());
  for (const int count : counts)
    with_ranks(count, "", small_options(), [&](Engine& engine) {
      EXPECT_EQ(engine.generate(request).text, one.text) << count << " ranks";
    });
}

TEST(RankedEngine, gives_the_bits_of_one_rank_with_quantized_weights) {
  expect_the_bits_of_one_rank("", Model("").tokenize("Once upon a time there was a tiger."));
}

TEST(RankedEngine, samples_with_grammars_penalties_and_log_probabilities) {
  expect_the_sampled_reply_of_one_rank(small_options());
}

TEST(RankedEngine, gives_embeddings) {
  llm::Request request = greedy(expected("llama").prompt, 1);
  request.embed = llm::Pooling::mean;
  Engine whole(Model(fixture("llama")), small_options());
  const std::vector<float> one = whole.generate(request).embedding;
  ASSERT_FALSE(one.empty());
  with_ranks(2, fixture("llama"), small_options(), [&](Engine& engine) {
    const std::vector<float> two = engine.generate(request).embedding;
    ASSERT_EQ(two.size(), one.size());
    EXPECT_EQ(two, one);
  });
}

/// Opens an engine on rank 0 and follows on the others; returns what each was told.
std::vector<std::string> told(int count, const std::function<std::string(int)>& model_of,
                              const std::function<void(int, EngineOptions&)>& change = {},
                              const llm::Progress& progress = {}) {
  std::vector<std::string> messages(static_cast<std::size_t>(count));
  run_loopback(count, [&](const Group& group) {
    EngineOptions options = small_options();
    options.device = Device::host(1);
    options.ranks = group;
    if (change) change(group.rank(), options);
    try {
      const Model model(model_of(group.rank()));
      if (group.rank() == 0)
        const Engine engine(model, options, progress);
      else
        llm::follow(model, options, progress);
    } catch (const Error& error) {
      messages[static_cast<std::size_t>(group.rank())] = error.what();
    }
  });
  return messages;
}

TEST(RankedEngine, refuses_counts_that_do_not_divide_on_every_rank_alike) {
  const auto messages = told(3, [](int) { return fixture("llama"); });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("3 ranks cannot divide its "),
                                   HasSubstr("this model runs on 1, 2 or 4 ranks"))));
  EXPECT_THAT(messages, Each(messages[0]));
}

TEST(RankedEngine, refuses_different_models_on_every_rank_alike) {
  const auto messages = told(2, [](int rank) { return fixture(rank == 0 ? "qwen2" : "qwen3"); });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("rank 0 has the model '"), HasSubstr("rank 1 has '"),
                                   HasSubstr("give all ranks the same files"))));
  EXPECT_EQ(messages[0], messages[1]);
}

/// A device that says it is a GPU, and computes on the host.
Device pretended_gpu() {
  return graph::Access::device(std::make_shared<test::FaultyDevice>(
      Device::host_serial(), std::make_shared<test::Faults>(), DeviceKind::cuda));
}

TEST(RankedEngine, refuses_a_gpu_beside_a_host_on_every_rank_alike) {
  const auto messages = told(
      2, [](int) { return fixture("llama"); },
      [](int rank, EngineOptions& options) {
        if (rank == 1) options.device = pretended_gpu();
      });
  EXPECT_THAT(messages, Each("rank 0 has a host device and rank 1 has a CUDA device; give all "
                             "ranks the same kind"));
}

TEST(RankedEngine, refuses_weights_in_fp8_on_every_rank_alike) {
  const auto messages = told(
      2, [](int) { return fixture("llama"); },
      [](int, EngineOptions& options) {
        options.device = pretended_gpu();
        options.weights = llm::WeightFormat::fp8;
      });
  EXPECT_THAT(messages, Each("rank 0 has weights in fp8, which models over ranks do not have; use "
                             "them as stored"));
}

TEST(RankedEngine, refuses_a_rank_of_another_version) {
  run_loopback(2, [](const Group& group) {
    // What a rank tells the others begins with its version.
    if (group.rank() == 1) {
      struct Card {
        char text[128];
      };
      const Card old{"0.0.1"};
      std::vector<Card> all(2);
      group.all_gather(std::span(&old, 1), std::span(all)).named("compare models").run();
      EXPECT_STREQ(all[0].text, version());
      return;
    }
    EngineOptions options = small_options();
    options.device = Device::host(1);
    options.ranks = group;
    const Model model(fixture("llama"));
    EXPECT_THAT([&] { Engine(model, options); },
                testing::ThrowsMessage<BadArgument>(
                    AllOf(HasSubstr("rank 1 is attacca 0.0.1"), HasSubstr("the same version"))));
  });
}

TEST(RankedEngine, refuses_a_transport_that_cannot_be_used_before_it_loads_anything) {
  std::atomic<bool> has_loaded{false};
  const auto messages = told(
      2, [](int) { return fixture("llama"); },
      [](int, EngineOptions& options) { options.rank_transport = Transport::nccl; },
      [&](std::string_view, std::uint64_t, std::uint64_t) { has_loaded = true; });
  EXPECT_THAT(messages,
              Each("NCCL moves memory of GPUs, and host is none; leave the transport out"));
  EXPECT_FALSE(has_loaded);
}

TEST(RankedEngine, refuses_different_schedulers_on_every_rank_alike) {
  const auto messages = told(
      2, [](int) { return fixture("llama"); },
      [](int rank, EngineOptions& options) {
        if (rank == 1) options.scheduler = llm::Scheduler::resident;
      });
  EXPECT_THAT(messages,
              Each(HasSubstr("rank 0 has the host's scheduler and rank 1 has the resident "
                             "one; give all ranks the same")));
}

TEST(RankedEngine, refuses_different_transports_on_every_rank_alike) {
  const auto messages = told(
      3, [](int) { return fixture("llama"); },
      [](int rank, EngineOptions& options) {
        if (rank == 2) options.rank_transport = Transport::staged;
      });
  EXPECT_THAT(messages, Each("rank 0 has the transport automatic and rank 2 has staged; give all "
                             "ranks the same"));
}

TEST(RankedEngine, refuses_sums_that_only_some_ranks_fuse_on_every_rank_alike) {
  const auto messages = told(
      2, [](int) { return fixture("llama"); },
      [](int rank, EngineOptions& options) { options.fuses_rank_sums = rank != 1; });
  EXPECT_THAT(messages, Each("rank 0 has fuses_rank_sums on and rank 1 has off; give all ranks the "
                             "same"));
}

TEST(RankedEngine, refuses_the_resident_scheduler_where_exchanges_join_the_ranks_graphs) {
  const Device shared = Device::host(2);
  const auto messages = told(
      2, [](int) { return fixture("llama"); },
      [&](int, EngineOptions& options) {
        options.device = shared;
        options.scheduler = llm::Scheduler::resident;
      });
  EXPECT_THAT(messages,
              Each(AllOf(HasSubstr("the resident scheduler"), HasSubstr("transport is edges"),
                         HasSubstr("a host device of its own"))));
}

TEST(RankedEngine, refuses_graphs_where_ranks_copy_between_devices_if_rank_0_has_them) {
  const auto over_peers = [](bool first, bool others) {
    return told(
        2, [](int) { return fixture("llama"); },
        [=](int rank, EngineOptions& options) {
          options.rank_transport = Transport::peer;
          if (!(rank == 0 ? first : others)) options.graphs = llm::GraphMode::off;
        });
  };
  EXPECT_THAT(over_peers(true, true), Each(HasSubstr("use graphs off")));
  EXPECT_THAT(over_peers(true, false), Each(HasSubstr("use graphs off")));
  EXPECT_THAT(over_peers(false, true), Each(""));
}

TEST(RankedEngine, refuses_the_resident_scheduler_on_gpus_without_nvshmem) {
  for (const Transport transport : {Transport::automatic, Transport::edges, Transport::staged,
                                    Transport::nccl, Transport::peer, Transport::direct}) {
    const auto messages = told(
        2, [](int) { return fixture("llama"); },
        [&](int, EngineOptions& options) {
          options.device = pretended_gpu();
          options.rank_transport = transport;
          options.scheduler = llm::Scheduler::resident;
        });
    EXPECT_THAT(messages, Each(AllOf(HasSubstr("rank 0 has the resident scheduler"),
                                     HasSubstr(transport_name(transport)),
                                     HasSubstr("use NVSHMEM, or the host's scheduler"))));
  }
}

TEST(RankedEngine, tells_all_ranks_if_the_sizes_of_the_first_do_not_fit) {
  const auto messages = told(
      2, [](int) { return fixture("llama"); },
      [](int rank, EngineOptions& options) {
        if (rank == 0) options.slots = 5000;
      });
  EXPECT_EQ(messages[0], "slots is 5000; use 1 to 1024");
  EXPECT_EQ(messages[1], "rank 0 gave up: slots is 5000; use 1 to 1024");
}

TEST(RankedEngine, takes_requests_on_rank_0_only) {
  std::vector<Group> groups = make_loopback(2);
  EngineOptions options = small_options();
  const Model model(fixture("llama"));
  EXPECT_THROW(llm::follow(model, options), BadArgument);
  options.ranks = groups[1];
  EXPECT_THROW(Engine(model, options), BadArgument);
  options.ranks = groups[0];
  EXPECT_THROW(llm::follow(model, options), BadArgument);
}

TEST(RankedEngine, names_a_rank_that_gives_up_while_it_runs_and_takes_no_more_requests) {
  std::vector<Group> groups = make_loopback(2);
  EngineOptions options = small_options();
  const Model model(fixture("llama"));
  std::string follower_told;
  const Group outside = groups[1];
  std::jthread follower([&, group = groups[1]] {
    EngineOptions own = options;
    own.device = Device::host(1);
    own.ranks = group;
    try {
      llm::follow(model, own);
    } catch (const RanksBroken& error) {
      follower_told = error.what();
    }
  });
  options.ranks = groups[0];
  {
    Engine engine(model, options);
    const llm::Request request = greedy(expected("llama").prompt, 10);
    EXPECT_EQ(engine.generate(std::vector{request})[0].error, "");
    outside.give_up("its machine is shut down");
    EXPECT_THAT([&] { engine.generate(request); },
                testing::ThrowsMessage<RanksBroken>("rank 1 gave up: its machine is shut down"));
    EXPECT_THAT([&] { engine.generate(request); },
                testing::ThrowsMessage<Error>(HasSubstr("takes no more requests")));
  }
  follower.join();
  EXPECT_EQ(follower_told, "rank 1 gave up: its machine is shut down");
}

TEST(RankedEngine, stays_ready_while_it_is_idle_for_longer_than_the_deadline) {
  std::vector<Group> groups = make_loopback(2, {.deadline = std::chrono::seconds(3)});
  EngineOptions options = small_options();
  const Model model(fixture("llama"));
  std::jthread follower([&, group = groups[1]] {
    EngineOptions own = options;
    own.device = Device::host(1);
    own.ranks = group;
    EXPECT_NO_THROW(llm::follow(model, own));
  });
  options.ranks = groups[0];
  {
    Engine engine(model, options);
    std::this_thread::sleep_for(std::chrono::seconds(4));
    EXPECT_EQ(engine.generate(std::vector{greedy(expected("llama").prompt, 4)})[0].error, "");
  }
}

}  // namespace
}  // namespace attacca::engine_tests
