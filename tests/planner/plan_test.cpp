// Tests of the planner: its sizes are the best there are, as trying all of them shows; its costs
// follow the log; its settings are those that other engines read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <random>

#include "planner/costs.hpp"
#include "planner/plan.hpp"
#include "planner/read_log.hpp"
#include "planner/target.hpp"

namespace {

using namespace attacca::planner;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Traffic traffic_of(const std::string& decode, const std::string& mixed = "") {
  Traffic traffic;
  if (!decode.empty()) read_distribution(decode, Kind::decode, traffic);
  if (!mixed.empty()) read_distribution(mixed, Kind::mixed, traffic);
  return traffic;
}

/// A random case, small enough to try every choice of sizes.
struct Case {
  static constexpr std::uint32_t kMost = 5;  // tokens

  std::mt19937 random;
  Traffic traffic;
  CostOptions options;
  Rules rules;
  GraphCosts graphs;
  Budget budget;
  Limits limits{kMost, kMost};
  bool covers = false;

  explicit Case(unsigned seed) : random(seed) {
    options.padding = std::array{1.0, 0.3, 0.0}[below(3)];
    options.miss = 1 + below(4);
    rules.decodes_may_use_mixed = below(2) == 0;
    rules.most_per_list = 1 + below(kMost);
    graphs = {1.0 + below(3), 1.0 + below(3), 0, 0};
    budget.graphs = 1 + below(2 * kMost);
    budget.mebibytes = below(2) == 0 ? kInfinite : 1 + below(20);
    covers = below(4) == 0;
    const bool has_times = below(2) == 0;
    for (const Kind kind : {Kind::decode, Kind::mixed})
      for (std::uint32_t tokens = 1; tokens <= kMost; ++tokens)
        if (below(3) > 0)
          traffic.add({.kind = kind,
                       .tokens = tokens,
                       .size = below(4) == 0 ? 0 : tokens + below(2),
                       .microseconds = has_times ? 1.0 + below(50) : 0.0,
                       .count = 1 + below(9)});
  }

  std::uint32_t below(std::uint32_t end) { return random() % end; }
  const Limits* cover() const { return covers ? &limits : nullptr; }

  /// Without the planner's own functions.
  double cost_of(const Sizes& sizes, const Costs& costs) const {
    double cost = 0;
    const auto smallest = [](const std::vector<std::uint32_t>& list, std::uint32_t tokens) {
      for (const std::uint32_t size : list)
        if (size >= tokens) return size;
      return 0u;
    };
    for (const auto& [tokens, count] : traffic.decode.counts) {
      const std::uint32_t own = smallest(sizes.decode, tokens);
      const std::uint32_t other = rules.decodes_may_use_mixed ? smallest(sizes.mixed, tokens) : 0;
      cost +=
          static_cast<double>(count) * (own > 0     ? costs.in_graph(Kind::decode, tokens, own)
                                        : other > 0 ? costs.in_graph(Kind::mixed, tokens, other)
                                                    : costs.without_graph(Kind::decode, tokens));
    }
    for (const auto& [tokens, count] : traffic.mixed.counts) {
      const std::uint32_t own = smallest(sizes.mixed, tokens);
      cost += static_cast<double>(count) * (own > 0 ? costs.in_graph(Kind::mixed, tokens, own)
                                                    : costs.without_graph(Kind::mixed, tokens));
    }
    return cost;
  }

  bool allows(const Sizes& sizes) const {
    if (sizes.count() > budget.graphs || sizes.decode.size() > rules.most_per_list ||
        sizes.mixed.size() > rules.most_per_list ||
        graphs.mebibytes(sizes.decode.size(), sizes.mixed.size()) > budget.mebibytes)
      return false;
    if (sizes.decode.empty() && !traffic.decode.counts.empty()) return false;
    if (sizes.mixed.empty() && !traffic.mixed.counts.empty()) return false;
    const auto is_filled = [&](const std::vector<std::uint32_t>& list, std::uint32_t size) {
      return (&list == &sizes.decode && traffic.decode.counts.contains(size)) ||
             (&list == &sizes.mixed && traffic.mixed.counts.contains(size)) ||
             (&list == &sizes.mixed && rules.decodes_may_use_mixed && !sizes.decode.empty() &&
              size > sizes.decode.back() && traffic.decode.counts.contains(size)) ||
             (covers && size == kMost);
    };
    for (const auto* list : {&sizes.decode, &sizes.mixed})
      for (const std::uint32_t size : *list)
        if (!is_filled(*list, size)) return false;
    return !covers || gaps(sizes, rules, limits).empty();
  }

  static std::vector<std::uint32_t> subset(unsigned bits) {
    std::vector<std::uint32_t> sizes;
    for (std::uint32_t size = 1; size <= kMost; ++size)
      if (bits >> (size - 1) & 1) sizes.push_back(size);
    return sizes;
  }

  /// The least cost of all choices; infinite if none is allowed.
  double least_cost(const Costs& costs) const {
    double least = kInfinite;
    for (unsigned decode = 0; decode < 1u << kMost; ++decode)
      for (unsigned mixed = 0; mixed < 1u << kMost; ++mixed) {
        const Sizes sizes{subset(decode), subset(mixed)};
        if (allows(sizes)) least = std::min(least, cost_of(sizes, costs));
      }
    return least;
  }
};

TEST(Plan, costs_as_little_as_the_best_of_all_choices) {
  int planned = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const Case tried(seed);
    const Costs costs(tried.traffic, tried.options);
    const double least = tried.least_cost(costs);
    try {
      const Sizes sizes =
          plan(tried.traffic, costs, tried.rules, tried.graphs, tried.budget, tried.cover());
      ASSERT_TRUE(tried.allows(sizes)) << seed;
      ASSERT_NEAR(least, tried.cost_of(sizes, costs), 1e-9 * least) << seed;
      ASSERT_NEAR(least, judge(tried.traffic, sizes, costs, tried.rules).cost, 1e-9 * least)
          << seed;
      ++planned;
    } catch (const attacca::BadArgument&) {
      ASSERT_EQ(kInfinite, least) << seed;
    }
  }
  EXPECT_GT(planned, 2000);
}

TEST(Plan, beats_every_other_choice_of_as_many_sizes_from_a_long_histogram) {
  std::mt19937 random(3);
  Traffic traffic;
  for (std::uint32_t tokens = 1; tokens <= 300; ++tokens)
    traffic.add({.kind = Kind::mixed, .tokens = tokens, .count = 1 + random() % 1000});
  const Costs costs(traffic, {});
  const Sizes sizes = plan(traffic, costs, {}, {}, {.graphs = 8});
  const double cost = judge(traffic, sizes, costs, {}).cost;
  EXPECT_EQ(8u, sizes.mixed.size());
  for (int other = 0; other < 2000; ++other) {
    Sizes changed = sizes;
    for (std::uint32_t& size : changed.mixed)
      size = static_cast<std::uint32_t>(
          std::clamp<long>(static_cast<long>(size + random() % 7) - 3, 1, 300));
    std::sort(changed.mixed.begin(), changed.mixed.end());
    EXPECT_GE(judge(traffic, changed, costs, {}).cost, cost * (1 - 1e-12));
  }
}

TEST(Plan, takes_no_more_sizes_than_help) {
  const Traffic traffic = traffic_of("1:10,8:3", "64:5");
  const Sizes sizes = plan(traffic, Costs(traffic, {}), {}, {}, {.graphs = 30});
  EXPECT_THAT(sizes.decode, ElementsAre(1, 8));
  EXPECT_THAT(sizes.mixed, ElementsAre(64));
}

TEST(Plan, padding_that_costs_nothing_needs_one_size_of_a_kind) {
  const Traffic traffic = traffic_of("1:10,5:10,8:3", "64:5,100:1");
  const Sizes sizes = plan(traffic, Costs(traffic, {.padding = 0}),
                           {.decodes_may_use_mixed = false}, {}, {.graphs = 30});
  EXPECT_THAT(sizes.decode, ElementsAre(8));
  EXPECT_THAT(sizes.mixed, ElementsAre(100));
}

TEST(Plan, a_rare_decode_step_may_share_a_mixed_graph) {
  const Traffic traffic = traffic_of("1:1000,7:1", "8:1000");
  const Costs costs(traffic, {});
  const Sizes shared = plan(traffic, costs, {}, {}, {.graphs = 2});
  EXPECT_THAT(shared.decode, ElementsAre(1));
  EXPECT_THAT(shared.mixed, ElementsAre(8));
  EXPECT_EQ(1001 + 1000, judge(traffic, shared, costs, {}).hits);
}

TEST(Plan, memory_bounds_it_by_the_kind_of_graph) {
  const Traffic traffic = traffic_of("1:9,2:9,3:9,4:9", "10:9,20:9,30:9");
  const Costs costs(traffic, {});
  const GraphCosts graphs{.decode_mebibytes = 1, .mixed_mebibytes = 10};
  const Sizes sizes = plan(traffic, costs, {}, graphs, {.graphs = 30, .mebibytes = 24});
  EXPECT_THAT(sizes.decode, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(2u, sizes.mixed.size());
}

TEST(Plan, a_budget_that_is_too_small_is_refused_with_its_numbers) {
  const Traffic traffic = traffic_of("1:9", "10:9");
  const Costs costs(traffic, {});
  try {
    plan(traffic, costs, {}, {.decode_mebibytes = 2, .mixed_mebibytes = 3},
         {.graphs = 9, .mebibytes = 4});
    FAIL();
  } catch (const attacca::BadArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("9 graphs and 4 MiB"));
    EXPECT_THAT(error.what(), HasSubstr("at least 2 of 5 MiB"));
  }
}

TEST(Plan, covers_all_that_the_scheduler_can_form_if_asked) {
  const Traffic traffic = traffic_of("1:9,3:9", "10:9");
  const Costs costs(traffic, {});
  const Limits limits{8, 512};
  for (const bool may_use_mixed : {true, false}) {
    const Rules rules{.decodes_may_use_mixed = may_use_mixed};
    EXPECT_THAT(gaps(plan(traffic, costs, rules, {}, {.graphs = 6}), rules, limits),
                testing::SizeIs(may_use_mixed ? 1 : 2));
    const Sizes sizes = plan(traffic, costs, rules, {}, {.graphs = 6}, &limits);
    EXPECT_EQ(512u, sizes.mixed.back());
    EXPECT_THAT(gaps(sizes, rules, limits), IsEmpty());
  }
}

TEST(Gaps, names_the_steps_that_have_no_graph) {
  EXPECT_THAT(gaps({{1, 4}, {64}}, {}, {8, 512}),
              ElementsAre("the scheduler can form mixed steps of 65 to 512 tokens, and none has a "
                          "graph"));
  EXPECT_THAT(gaps({{1, 4}, {512}}, {.decodes_may_use_mixed = false}, {8, 512}),
              ElementsAre(HasSubstr("decode steps of 5 to 8 tokens")));
}

TEST(Curve, lies_on_the_points_between_them_on_lines_and_never_falls) {
  const Curve curve({{8, 30, 1}, {2, 10, 1}, {4, 20, 3}, {6, 16, 1}});
  EXPECT_DOUBLE_EQ(10, curve.at(1));
  EXPECT_DOUBLE_EQ(10, curve.at(2));
  EXPECT_DOUBLE_EQ(19, curve.at(4)) << "the mean of 20, 20, 20 and 16";
  EXPECT_DOUBLE_EQ(19, curve.at(6));
  EXPECT_DOUBLE_EQ(24.5, curve.at(7));
  EXPECT_DOUBLE_EQ(60, curve.at(16));
}

TEST(Costs, are_tokens_without_times_and_medians_with_them) {
  Traffic traffic = traffic_of("4:5");
  EXPECT_FALSE(Costs(traffic, {}).are_times());
  EXPECT_DOUBLE_EQ(8, Costs(traffic, {}).in_graph(Kind::decode, 4, 8));
  EXPECT_DOUBLE_EQ(14, Costs(traffic, {}).without_graph(Kind::decode, 4));
  for (const double time : {900.0, 10.0, 12.0})
    traffic.add({.tokens = 4, .size = 4, .microseconds = time});
  const Costs costs(traffic, {});
  EXPECT_TRUE(costs.are_times());
  EXPECT_DOUBLE_EQ(12, costs.work(Kind::decode, 4));
  EXPECT_DOUBLE_EQ(12, costs.work(Kind::mixed, 4)) << "no mixed step was timed";
  EXPECT_DOUBLE_EQ(18, Costs(traffic, {.padding = 0.5}).in_graph(Kind::decode, 4, 8));
}

TEST(Costs, sizes_that_are_close_share_their_samples) {
  Traffic traffic;
  for (const auto& [tokens, time] : {std::pair(100u, 10.0), {101u, 50.0}, {102u, 11.0}})
    traffic.add({.tokens = tokens, .size = tokens, .microseconds = time});
  EXPECT_DOUBLE_EQ(11, Costs(traffic, {}).work(Kind::decode, 101));
}

TEST(Costs, a_miss_is_measured_where_graphs_of_such_sizes_were) {
  Traffic traffic;
  traffic.add({.tokens = 8, .size = 8, .microseconds = 100});
  EXPECT_FALSE(Costs(traffic, {}).is_miss_measured(Kind::decode));
  traffic.add({.tokens = 8, .size = 0, .microseconds = 250});
  const Costs costs(traffic, {});
  EXPECT_TRUE(costs.is_miss_measured(Kind::decode));
  EXPECT_DOUBLE_EQ(2.5, costs.miss(Kind::decode));
  traffic.add({.tokens = 16, .size = 0, .microseconds = 300});
  EXPECT_DOUBLE_EQ(120, Costs(traffic, {}).work(Kind::decode, 16)) << "what a graph would take";
}

TEST(Target, the_default_list_of_vllm_is_theirs) {
  EXPECT_THAT(vllm_default_sizes({8, 512}), ElementsAre(1, 2, 4, 8, 16));
  const std::vector<std::uint32_t> large = vllm_default_sizes({1024, 8192});
  EXPECT_EQ(51u, large.size());
  EXPECT_THAT(std::vector(large.end() - 3, large.end()), ElementsAre(480, 496, 512));
  EXPECT_EQ(1, std::count(large.begin(), large.end(), 248));
  EXPECT_EQ(0, std::count(large.begin(), large.end(), 264));
}

TEST(Target, settings_are_written_as_each_engine_reads_them) {
  const Sizes sizes{{1, 8}, {64, 512}};
  EXPECT_EQ("decode-sizes: [1, 8]\nmixed-sizes: [64, 512]\n",
            settings_text(Target::attacca, sizes));
  EXPECT_EQ(
      "cuda_graph_config:\n  enable_padding: true\n  batch_sizes: [1, 8]\n"
      "torch_compile_config:\n  enable_piecewise_cuda_graph: true\n"
      "  capture_num_tokens: [64, 512]\n",
      settings_text(Target::tensorrt_llm, sizes));
  EXPECT_EQ("--cuda-graph-bs 1 8\n--piecewise-cuda-graph-tokens 64 512\n",
            settings_text(Target::sglang, sizes));
  EXPECT_EQ("--compilation-config '{\"cudagraph_capture_sizes\": [64, 512]}'\n",
            settings_text(Target::vllm, {{}, {64, 512}}));
  EXPECT_EQ("decode-sizes: [1, 8]\n", settings_text(Target::attacca, {{1, 8}, {}}))
      << "the engine takes an empty list for its default";
}

TEST(Target, one_list_is_planned_for_all_steps_together) {
  Traffic traffic = traffic_of("1:5,8:2", "8:1,64:1");
  traffic.add({.kind = Kind::decode, .tokens = 8, .size = 8, .microseconds = 5});
  const Traffic all = as_mixed(traffic);
  EXPECT_EQ(traffic.total(), all.total());
  EXPECT_THAT(all.decode.counts, IsEmpty());
  EXPECT_EQ(4u, all.mixed.counts.at(8));
  EXPECT_THAT(all.mixed.times.at({8, 8}), ElementsAre(5.0f));
}

}  // namespace
