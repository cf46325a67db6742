// Tests of graph modes: every mode gives the same tokens, every step leaves a record with a reason
// if it had no graph, and the engine's report of its graphs at start is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "engine/coverage.hpp"
#include "engine/fixtures.hpp"
#include "engine/sizing.hpp"
#include "engine/step_log.hpp"
#include "model/checkpoint.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace llm;
using engine_tests::expected;
using engine_tests::fixture;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr GraphMode kModes[] = {GraphMode::full, GraphMode::piecewise, GraphMode::decode,
                                GraphMode::off};

/// Prompts of several lengths, more than there are slots, some with penalties and draws.
std::vector<Request> requests_of(const std::vector<std::int32_t>& text) {
  std::vector<Request> requests;
  for (const std::size_t length : {1, 17, 3, 40, 33, 5, 16}) {
    Request request;
    request.tokens.assign(text.begin(),
                          text.begin() + static_cast<long>(std::min(length, text.size())));
    request.max_tokens = 6 + requests.size();
    request.ignores_end = true;
    if (requests.size() % 3 == 2)
      request.sampling = {.temperature = 1, .repetition_penalty = 1.3f, .seed = requests.size()};
    requests.push_back(request);
  }
  return requests;
}

std::vector<std::vector<std::int32_t>> tokens_of(const std::vector<Reply>& replies) {
  std::vector<std::vector<std::int32_t>> tokens;
  for (const Reply& reply : replies) tokens.push_back(reply.tokens);
  return tokens;
}

std::string report_of(const std::vector<GraphCoverage>& coverage) {
  std::string text;
  for (const GraphCoverage& part : coverage) text += describe(part) + "\n";
  return text;
}

/// Checks that records, counters and the report agree.
void expect_consistent(const Engine& engine) {
  engine.wait_until_idle();
  const EngineStats stats = engine.stats();
  const std::vector<StepRecord> records = engine.records();
  const std::vector<GraphCoverage> coverage = engine.coverage();
  ASSERT_EQ(records.size(), stats.steps);
  std::uint64_t tokens = 0, padding = 0, hits = 0;
  decltype(stats.steps_by_mode) modes = {};
  decltype(stats.graph_misses) misses = {};
  for (const StepRecord& r : records) {
    SCOPED_TRACE(to_json(r));
    EXPECT_EQ(r.step, static_cast<std::uint64_t>(&r - records.data()) + 1);
    EXPECT_GT(r.tokens, 0u);
    tokens += r.tokens;
    padding += r.padding;
    ++modes[static_cast<std::size_t>(r.mode)];
    if (r.miss == Miss::none) {
      ++hits;
      EXPECT_NE(r.mode, StepMode::kernels);
      EXPECT_EQ(r.size, r.tokens + r.padding);
      EXPECT_TRUE(engine.options().pads || r.padding == 0);
    } else {
      ++misses[static_cast<std::size_t>(r.miss)];
      EXPECT_EQ(r.mode, StepMode::kernels);
      EXPECT_EQ(r.size, 0u);
      EXPECT_EQ(r.padding, 0u);
    }
    EXPECT_TRUE(!r.is_decode || r.rows == r.tokens);
    EXPECT_TRUE(r.mode != StepMode::decode || r.is_decode);
    EXPECT_EQ(std::count_if(coverage.begin(), coverage.end(),
                            [&](const GraphCoverage& c) {
                              return c.is_decode == r.is_decode && c.mode == r.mode &&
                                     c.miss == r.miss &&
                                     std::any_of(c.tokens.begin(), c.tokens.end(), [&](auto range) {
                                       return range.first <= r.tokens && r.tokens <= range.second;
                                     });
                            }),
              1)
        << report_of(coverage);
  }
  EXPECT_EQ(tokens, stats.tokens_prefilled + stats.tokens_decoded);
  EXPECT_EQ(padding, stats.tokens_padded);
  EXPECT_EQ(hits, stats.graph_hits);
  EXPECT_EQ(modes, stats.steps_by_mode);
  EXPECT_EQ(misses, stats.graph_misses);
}

class GraphModes : public test::OnEachDevice {
 protected:
  EngineOptions options(GraphMode mode) const {
    EngineOptions options;
    options.same_bits = true;
    options.device = device();
    options.context = 64;
    options.slots = 4;
    options.step_tokens = 48;
    options.scheduler = llm::Scheduler::host;  // the only one for all modes
    options.graphs = mode;
    return options;
  }
  static std::uint64_t steps(const Engine& engine, StepMode mode) {
    return engine.stats().steps_by_mode[static_cast<std::size_t>(mode)];
  }
};
ATTACCA_ON_EACH_DEVICE(GraphModes);

TEST_P(GraphModes, all_give_the_same_tokens_and_use_the_graphs_they_should) {
  std::vector<std::string> models = engine_tests::kModels;
  for (std::string& name : models) name = fixture(name);
  models.push_back("");  // the embedded one
  for (const std::string& path : models) {
    SCOPED_TRACE(path);
    const Model model(path);
    const auto requests = requests_of(
        path.empty() ? model.tokenize("Once upon a time there was a fox that had no "
                                      "lantern, and it went into the wood to look for "
                                      "one, for the nights were long and dark and cold.")
                     : expected("llama").prompt);
    std::vector<std::vector<std::int32_t>> first;
    for (const GraphMode mode : kModes) {
      SCOPED_TRACE(graph_mode_name(mode));
      Engine engine(model, options(mode));
      const auto tokens = tokens_of(engine.generate(requests));
      if (first.empty()) first = tokens;
      EXPECT_EQ(tokens, first);
      expect_consistent(engine);
      const bool is_full = mode == GraphMode::full, is_off = mode == GraphMode::off;
      const bool is_piecewise = mode == GraphMode::piecewise;
      EXPECT_EQ(steps(engine, StepMode::decode) > 0, !is_off);
      EXPECT_EQ(steps(engine, StepMode::mixed) > 0, is_full);
      EXPECT_EQ(steps(engine, StepMode::piecewise) > 0, is_piecewise);
      EXPECT_EQ(steps(engine, StepMode::kernels) > 0, !is_full && !is_piecewise);
      EXPECT_EQ(engine.memory().graphs > 0, !is_off);
    }
  }
}

TEST_P(GraphModes, all_give_the_same_tokens_without_same_bits_too) {
  if (!is_cuda()) GTEST_SKIP() << "the host computes the same bits in any case";
  for (const char* name : {"llama3-rope", "qwen2", "qwen3"}) {
    SCOPED_TRACE(name);
    const Model model(fixture(name));
    const auto requests = requests_of(expected("llama").prompt);
    std::vector<std::vector<std::int32_t>> first;
    for (const GraphMode mode : kModes) {
      SCOPED_TRACE(graph_mode_name(mode));
      EngineOptions with = options(mode);
      with.same_bits = false;
      const auto tokens = tokens_of(Engine(model, with).generate(requests));
      if (first.empty()) first = tokens;
      EXPECT_EQ(tokens, first);
    }
  }
}

TEST_P(GraphModes, odd_sizes_give_the_same_tokens_and_every_miss_has_its_reason) {
  const Model model(fixture("qwen3"));
  const auto requests = requests_of(expected("qwen3").prompt);
  Engine reference(model, options(GraphMode::full));
  const auto tokens = tokens_of(reference.generate(requests));
  for (const GraphMode mode : kModes) {
    for (const bool pads : {true, false}) {
      SCOPED_TRACE(graph_mode_name(mode));
      EngineOptions with = options(mode);
      with.decode_sizes = {1, 3};
      with.mixed_sizes = {2, 20, 41};
      with.pads = pads;
      Engine engine(model, with);
      EXPECT_EQ(tokens_of(engine.generate(requests)), tokens);
      expect_consistent(engine);
      const auto misses = [&](Miss miss) {
        return engine.stats().graph_misses[static_cast<std::size_t>(miss)];
      };
      EXPECT_EQ(misses(Miss::graphs_off) > 0, mode == GraphMode::off);
      EXPECT_EQ(misses(Miss::mixed_off) > 0, mode == GraphMode::decode);
      EXPECT_EQ(misses(Miss::no_exact_size) > 0, !pads && mode != GraphMode::off);
      EXPECT_EQ(misses(Miss::above_sizes) > 0, mode != GraphMode::off);
    }
  }
}

TEST_P(GraphModes, a_decode_step_above_the_decode_sizes_runs_in_a_mixed_graph) {
  EngineOptions with = options(GraphMode::full);
  with.decode_sizes = {1};
  Engine engine(Model(fixture("llama")), with);
  engine.generate(requests_of(expected("llama").prompt));
  engine.wait_until_idle();
  EXPECT_EQ(engine.stats().graph_hits, engine.stats().steps);
  const auto records = engine.records();
  EXPECT_TRUE(std::any_of(records.begin(), records.end(), [](const StepRecord& r) {
    return r.is_decode && r.mode == StepMode::mixed && r.tokens == 4;
  }));
}

TEST_P(GraphModes, the_step_log_has_a_line_of_json_for_each_step) {
  const std::string path = testing::TempDir() + "attacca_steps_" + device().name() + ".jsonl";
  EngineOptions with = options(GraphMode::decode);
  with.step_log = path;
  Engine engine(Model(fixture("llama")), with);
  engine.generate(requests_of(expected("llama").prompt));
  engine.wait_until_idle();
  const std::vector<StepRecord> records = engine.records();
  std::ifstream file(path);
  std::size_t at = 0;
  for (std::string line; std::getline(file, line); ++at) {
    const auto json = nlohmann::json::parse(line);
    ASSERT_LT(at, records.size());
    const StepRecord& r = records[at];
    EXPECT_EQ(json.at("step"), r.step);
    EXPECT_EQ(json.at("batch"), r.is_decode ? "decode" : "mixed");
    EXPECT_EQ(json.at("mode"), step_mode_name(r.mode));
    EXPECT_EQ(json.at("tokens"), r.tokens);
    EXPECT_EQ(json.at("rows"), r.rows);
    EXPECT_EQ(json.at("size"), r.size);
    EXPECT_EQ(json.at("padding"), r.padding);
    EXPECT_EQ(json.at("hit"), r.miss == Miss::none);
    EXPECT_EQ(json.value("why", ""), miss_reason(r.miss));
    EXPECT_NEAR(json.at("microseconds").get<double>(), r.microseconds, 0.06);
  }
  EXPECT_EQ(at, records.size());
  std::filesystem::remove(path);
}

// --- without a device --------------------------------------------------------------------------

EngineOptions host_options() {
  EngineOptions options;
  options.device = Device::host_serial();
  options.context = 64;
  return options;
}

/// The report of an engine with these options. Fills in the defaults.
std::string report(EngineOptions& options) {
  const model::Checkpoint checkpoint = model::Checkpoint::open(fixture("llama"));
  const schedule::Limits limits = engine::size_engine(checkpoint, options);
  return report_of(engine::coverage_of(limits, options.graphs));
}

TEST(GraphCoverage, by_default_every_step_has_a_graph) {
  for (const unsigned slots : {1u, 2u, 7u, 8u, 100u, 1024u}) {
    for (const unsigned step_tokens : {1u, 100u, 512u, 65536u}) {
      EngineOptions options = host_options();
      options.slots = slots;
      options.step_tokens = step_tokens;
      options.prefill_chunk = step_tokens;
      const unsigned chunk = std::min(step_tokens, 64u);
      const unsigned most = std::min(std::max(slots, step_tokens), slots * chunk);
      const auto up_to = [](unsigned last) {
        return last == 1 ? "1: graphs\n" : "1.." + std::to_string(last) + ": graphs\n";
      };
      EXPECT_EQ(report(options), "decode " + up_to(slots) + "mixed " + up_to(most));
    }
  }
}

TEST(GraphCoverage, the_default_sizes_pad_little) {
  EngineOptions options = host_options();
  options.slots = 40;
  options.step_tokens = 200;
  report(options);
  EXPECT_THAT(options.decode_sizes, ElementsAre(1, 2, 4, 8, 16, 24, 32, 40));
  EXPECT_THAT(options.mixed_sizes, ElementsAre(8, 16, 32, 64, 96, 128, 192, 200));
}

TEST(GraphCoverage, says_which_steps_have_no_graph_and_why) {
  EngineOptions options = host_options();
  options.slots = 16;
  options.decode_sizes = {2, 8};
  options.mixed_sizes = {16, 300};
  EXPECT_EQ(report(options),
            "decode 1..8: graphs\n"
            "decode 9..16: graphs of mixed sizes\n"
            "mixed 1..300: graphs\n"
            "mixed 301..512: no graph (the largest size is 300), launched kernel by kernel\n");
  options.pads = false;
  EXPECT_EQ(report(options),
            "decode 1, 3..7, 9..15: no graph (padding is off and no size is equal), launched "
            "kernel by kernel\n"
            "decode 2, 8: graphs\n"
            "decode 16: graphs of mixed sizes\n"
            "mixed 1..15, 17..299: no graph (padding is off and no size is equal), launched "
            "kernel by kernel\n"
            "mixed 16, 300: graphs\n"
            "mixed 301..512: no graph (the largest size is 300), launched kernel by kernel\n");
  options.pads = true;
  options.graphs = GraphMode::piecewise;
  options.mixed_sizes = {4};
  EXPECT_EQ(report(options),
            "decode 1..8: graphs\n"
            "decode 9..16: no graph (the largest size is 8), launched kernel by kernel\n"
            "mixed 1..4: graphs in pieces, attention between them\n"
            "mixed 5..512: no graph (the largest size is 4), launched kernel by kernel\n");
  options.graphs = GraphMode::decode;
  EXPECT_EQ(report(options),
            "decode 1..8: graphs\n"
            "decode 9..16: no graph (the largest size is 8), launched kernel by kernel\n"
            "mixed 1..512: no graph (graphs are for decode steps only), launched kernel by "
            "kernel\n");
  EXPECT_TRUE(options.mixed_sizes.empty()) << "they were not used";
  options.graphs = GraphMode::off;
  EXPECT_EQ(report(options),
            "decode 1..16: no graph (graphs are off), launched kernel by kernel\n"
            "mixed 1..512: no graph (graphs are off), launched kernel by kernel\n");
}

TEST(GraphOptions, that_make_no_sense_are_refused_with_the_value_and_the_remedy) {
  const auto refused = [](auto change, const std::string& value, const std::string& remedy) {
    EngineOptions options = host_options();
    options.graphs = GraphMode::off;  // lists of sizes are checked in every mode
    change(options);
    EXPECT_THAT([&] { report(options); },
                ThrowsMessage<BadArgument>(AllOf(HasSubstr(value), HasSubstr(remedy))));
  };
  refused(
      [](EngineOptions& o) {
        o.decode_sizes = {2, 1};
      },
      "decode_sizes has 1 after 2", "ascending");
  refused([](EngineOptions& o) { o.decode_sizes = {0, 1}; }, "decode_sizes has 0", "from 1 on");
  refused([](EngineOptions& o) { o.decode_sizes = {9}; }, "decode_sizes has 9", "slots = 9");
  refused(
      [](EngineOptions& o) {
        o.mixed_sizes = {64, 64};
      },
      "mixed_sizes has 64 after 64", "ascending");
  refused([](EngineOptions& o) { o.mixed_sizes = {513}; }, "mixed_sizes has 513",
          "step_tokens = 513");
  refused([](EngineOptions& o) { o.mixed_sizes.assign(33, 1); }, "33 sizes", "at most 32");
  refused([](EngineOptions& o) { o.kv_type = KvType::bf16; }, "kv_type is bf16, and on host",
          "use f32 or automatic");
  refused([](EngineOptions& o) { o.kv_type = KvType::fp8; }, "kv_type is fp8, and on host",
          "a model in bf16 on a CUDA device");
  EngineOptions options = host_options();
  report(options);
  EXPECT_EQ(options.kv_type, KvType::f32) << "what automatic comes to";
  options.step_log = "no such folder/steps.jsonl";
  EXPECT_THAT([&] { Engine engine(Model(fixture("llama")), options); },
              ThrowsMessage<BadArgument>(HasSubstr("step_log no such folder/steps.jsonl")));
}

TEST(GraphOptions, all_graphs_are_built_at_start_and_progress_says_so) {
  std::vector<std::uint64_t> done;
  EngineOptions options = host_options();
  options.decode_sizes = {1, 2};
  options.mixed_sizes = {16, 32, 512};
  Engine engine(Model(fixture("llama")), options,
                [&](std::string_view what, std::uint64_t at, std::uint64_t all) {
                  if (what != "building graphs") return;
                  EXPECT_EQ(all, 5u);
                  done.push_back(at);
                });
  EXPECT_THAT(done, ElementsAre(0, 1, 2, 3, 4));
}

TEST(StepLog, keeps_the_last_steps_in_order_and_counts_all) {
  engine::StepLog log("");
  constexpr std::uint64_t kSteps = engine::StepLog::kKept + 1000;
  for (std::uint64_t step = 1; step <= kSteps; ++step)
    log.add({.mode = step % 2 ? StepMode::decode : StepMode::kernels,
             .miss = step % 2 ? Miss::none : Miss::above_sizes});
  const std::vector<StepRecord> records = log.records();
  ASSERT_EQ(records.size(), engine::StepLog::kKept);
  for (std::size_t at = 0; at < records.size(); ++at) EXPECT_EQ(records[at].step, 1001 + at);
  EXPECT_EQ(log.by_mode()[static_cast<std::size_t>(StepMode::decode)], kSteps / 2);
  EXPECT_EQ(std::accumulate(log.by_mode().begin(), log.by_mode().end(), 0ull), kSteps);
  EXPECT_EQ(log.by_miss()[static_cast<std::size_t>(Miss::above_sizes)], kSteps / 2);
}

}  // namespace
}  // namespace attacca
