// Tests of the roofline of a graph, of trials and of traces. A machine on paper tells the times, so
// nothing here depends on the clock of the one that runs the tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/attacca.hpp>

#include <random>

#include "roofline/paper_machine.hpp"
#include "roofline/probes.hpp"
#include "roofline/roofline.hpp"
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using roofline::Quad;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double kPrediction = 0.25;  // how far one may be off

/// An address that nobody reads: paper machines run no kernel.
Quad* paper(std::uint64_t at) { return reinterpret_cast<Quad*>((at + 1) << 32); }

const PlacedKernel& kernel_called(const Roofline& found, std::string_view name) {
  for (const PlacedKernel& kernel : found.kernels)
    if (kernel.name == name) return kernel;
  throw std::runtime_error("no kernel " + std::string(name));
}
std::vector<Tool> tools_for(const Roofline& found, const std::string& about) {
  std::vector<Tool> tools;
  for (const RoofAdvice& advice : found.advice)
    if (advice.about == about) tools.push_back(advice.tool);
  return tools;
}
const Trial& trial_of(const std::vector<Trial>& trials, Tool tool) {
  for (const Trial& trial : trials)
    if (trial.tool == tool) return trial;
  throw std::runtime_error("no trial of that tool");
}

class RooflineGraph : public testing::Test {
 protected:
  const Device device = Device::host(4);
  const Roofs roofs = paper_roofs();
  const Grid all{Dim3{4}, Dim3{1}};
  const Grid one{Dim3{1}, Dim3{1}};
  std::map<std::string, PaperMachine::Work> work;
  /// Kernels that the test does not name are those that the roofline itself times: tiny ones.
  PaperMachine::Work work_of(const graph::NodeData& node) const {
    const auto named = work.find(node.name);
    return named != work.end() ? named->second : PaperMachine::Work{roofs.tiny_us, 0.25, 0, 0};
  }
  PaperMachine machine{roofs, [this](const graph::NodeData& node) { return work_of(node); }};
};

TEST_F(RooflineGraph, kernels_built_for_a_place_land_there_and_get_its_advice) {
  Graph graph(device, "probes");
  const std::uint64_t quads = 50'000'000;  // 0.8 GB
  const Node copy =
      graph.kernel(roofline::copy_memory(), all, {paper(0), paper(1), quads}).named("copy");
  const Node compute =
      graph.kernel(roofline::multiply_add(), all, {nullptr, 1, 10e9}).named("fma").after(copy);
  graph.kernel(roofline::copy_memory(), one, {paper(2), paper(3), 1}).named("tiny").after(compute);
  // Within 3 % of what 0.8 TB/s and 10 TFLOP/s allow, as a real one would be.
  work = {{"copy", {2050, 1, 1, 0}}, {"fma", {1020, 1, 0, 1}}, {"tiny", {1.0, 0.25, 0, 0}}};
  const Roofline found = roofline::place_graph(graph, roofs, machine);
  EXPECT_NEAR(kernel_called(found, "copy").share(), 1, 0.05);
  EXPECT_NEAR(kernel_called(found, "fma").share(), 1, 0.05);
  EXPECT_EQ(kernel_called(found, "copy").limit, Limit::memory);
  EXPECT_EQ(kernel_called(found, "fma").limit, Limit::compute);
  EXPECT_EQ(kernel_called(found, "tiny").limit, Limit::launch);
  EXPECT_THAT(tools_for(found, "copy"), ElementsAre(Tool::fewer_bytes));
  EXPECT_THAT(tools_for(found, "fma"), ElementsAre(Tool::faster_arithmetic));
  EXPECT_THAT(tools_for(found, "tiny"), ElementsAre(Tool::fusion));
  EXPECT_EQ(found.kernels.front().name, "copy") << "most time first";
  EXPECT_THAT(to_text(found), HasSubstr("copy"));
}

TEST_F(RooflineGraph, what_counters_say_stands_beside_what_kernels_declare) {
  Graph graph(device, "copies");
  graph.kernel(roofline::copy_memory(), all, {paper(0), paper(1), 50'000'000}).named("copy 1");
  graph.kernel(roofline::copy_memory(), all, {paper(2), paper(3), 50'000'000}).named("copy 2");
  graph.kernel(roofline::multiply_add(), all, {nullptr, 1, 10e9}).named("fma");
  work = {{"copy 1", {2050, 1, 1, 0}}, {"copy 2", {2050, 1, 1, 0}}, {"fma", {1020, 1, 0, 1}}};
  const Roofline plain = roofline::place_graph(graph, roofs, machine);
  EXPECT_THAT(to_text(plain), testing::Not(HasSubstr("counted")));
  const Roofline counted = merge_numbers(roofline::place_graph(graph, roofs, machine, true));
  EXPECT_EQ(kernel_called(counted, "copy #").counted_bytes, 2e9);
  EXPECT_EQ(kernel_called(counted, "fma").counted_flops, 9e9);
  EXPECT_THAT(to_text(counted), HasSubstr("+25.0 %"));
  EXPECT_THAT(to_text(counted), HasSubstr("-10.0 %"));
  machine.refuses_counters = true;
  const Roofline refused = roofline::place_graph(graph, roofs, machine, true);
  EXPECT_LT(refused.kernels.front().counted_bytes, 0);
  EXPECT_THAT(to_text(refused), HasSubstr("bytes of memory not counted: run as root"));
  EXPECT_THAT(to_text(refused), HasSubstr("FLOPs not counted: run as root"));
}

TEST_F(RooflineGraph, a_lonely_kernel_is_told_its_best_neighbour) {
  Graph graph(device, "lonely");
  const Node first =
      graph.kernel(roofline::copy_memory(), one, {paper(0), paper(1), 10}).named("lonely");
  const Node second = graph.kernel(roofline::copy_memory(), one, {paper(2), paper(3), 10})
                          .named("short")
                          .after(first);
  const Node third = graph.kernel(roofline::copy_memory(), one, {paper(4), paper(5), 10})
                         .named("long")
                         .after(second);
  graph.kernel(roofline::copy_memory(), one, {paper(1), paper(6), 10}).named("reader").after(third);
  work = {{"lonely", {100, 0.25, 0, 0}},
          {"short", {20, 0.25, 0, 0}},
          {"long", {90, 0.25, 0, 0}},
          {"reader", {95, 0.25, 0, 0}}};
  const Roofline found = roofline::place_graph(graph, roofs, machine);
  EXPECT_EQ(kernel_called(found, "lonely").limit, Limit::neither);
  const auto advice =
      std::find_if(found.advice.begin(), found.advice.end(), [](const RoofAdvice& each) {
        return each.about == "lonely" && each.tool == Tool::concurrent_branches;
      });
  ASSERT_NE(advice, found.advice.end());
  EXPECT_THAT(advice->text, HasSubstr("'long'")) << "the reader needs what it writes";
  EXPECT_NEAR(advice->gain_us, 90, 1);
}

TEST_F(RooflineGraph, a_chain_of_tiny_kernels_is_advised_to_start_cheaper) {
  Graph graph(device, "tiny");
  std::optional<KernelNode<roofline::TinyArgs>> last;
  for (int at = 0; at < 40; ++at) {
    const auto node = graph.kernel(roofline::copy_one(), one, {paper(0), paper(at + 1)})
                          .named("wait " + std::to_string(at));
    if (last) node.after(*last);
    last = node;
    work["wait " + std::to_string(at)] = {0.6, 0.25, 0, 0};
  }
  const Roofline found = roofline::place_graph(graph, roofs, machine);
  const auto about_all = tools_for(found, "");
  EXPECT_THAT(about_all, Contains(Tool::programmatic_edges));
  EXPECT_THAT(about_all, Contains(Tool::persistent_kernel));
  const std::vector<Trial> trials =
      roofline::try_all(graph, found, machine, &roofline::tiny_program());
  const Trial& persistent = trial_of(trials, Tool::persistent_kernel);
  EXPECT_NEAR(persistent.measured_us, 14, 0.1) << "6 us and 40 steps of 0.2";
  EXPECT_LT(std::abs(persistent.error()), kPrediction);
  const Trial& graphs = trial_of(trials, Tool::graph);
  EXPECT_NEAR(graphs.before_us, 100.6, 0.1) << "40 launches of 2.5 us, and the last kernel";
  EXPECT_NEAR(graphs.measured_us, 56, 0.1) << "4 us and 40 nodes of 1.3";
  EXPECT_LT(std::abs(graphs.error()), kPrediction);
  const Trial& early = trial_of(trials, Tool::programmatic_edges);
  EXPECT_NEAR(early.before_us - early.measured_us, 39 * 0.5, 0.1);
  EXPECT_LT(std::abs(early.error()), kPrediction);
}

TEST_F(RooflineGraph, programmatic_edges_hide_a_part_of_a_kernel_that_starts_early) {
  // As an H200 measures it: a tiny kernel takes longer by itself than behind a programmatic edge.
  Roofs early_roofs = roofs;
  early_roofs.early_node_us = 0.4;
  PaperMachine early_machine(early_roofs, [](const graph::NodeData&) {
    return PaperMachine::Work{0.6, 0.25, 0, 0};
  });
  const Graph graph = roofline::tiny_chain(device, paper(0), 40);
  const Roofline found = roofline::place_graph(graph, early_roofs, early_machine);
  const Trial early =
      trial_of(roofline::try_all(graph, found, early_machine, nullptr), Tool::programmatic_edges);
  EXPECT_NEAR(early.before_us, 56, 0.1) << "4 us and 40 nodes of 1.3";
  EXPECT_NEAR(early.measured_us, 20.9, 0.1) << "4 us, a node of 1.3 and 39 of 0.4";
  EXPECT_NEAR(early.predicted_us, early.measured_us, 0.1);
}

TEST_F(RooflineGraph, a_kernel_that_starts_early_is_not_charged_for_its_wait) {
  for (unsigned at = 0; at < 40; ++at) work["tiny " + std::to_string(at + 1)] = {0.6, 0.25, 0, 0};
  const Graph early = roofline::tiny_chain(device, paper(0), 40, EdgeKind::programmatic);
  const Roofline found = roofline::place_graph(early, roofs, machine);
  EXPECT_EQ(kernel_called(found, "tiny 7").time_us, 0.6);
  EXPECT_NEAR(found.total_us, 4 + 1.3 + 39 * 0.8, 0.01);
  const Trial trial = trial_of(roofline::try_all(early, found, machine), Tool::graph);
  EXPECT_NEAR(trial.predicted_us, trial.measured_us, 0.01);
}

TEST_F(RooflineGraph, a_wide_graph_is_not_advised_where_it_costs_more_than_the_chain) {
  const auto chain = [&](unsigned nodes) { return roofline::tiny_chain(device, paper(0), nodes); };
  for (unsigned at = 0; at < 64; ++at) work["tiny " + std::to_string(at + 1)] = {0.6, 0.25, 0, 0};
  const Roofline wide = roofline::place_graph(chain(64), roofs, machine);
  EXPECT_THAT(tools_for(wide, ""), testing::Not(Contains(Tool::concurrent_branches)));
  EXPECT_THAT(
      trial_of(roofline::try_all(chain(64), wide, machine), Tool::concurrent_branches).why_not,
      HasSubstr("instead of 87.2 us are predicted"));
  const Roofline narrow = roofline::place_graph(chain(4), roofs, machine);
  EXPECT_THAT(tools_for(narrow, ""), Contains(Tool::concurrent_branches));
  const Trial trial =
      trial_of(roofline::try_all(chain(4), narrow, machine), Tool::concurrent_branches);
  EXPECT_NEAR(trial.measured_us, 4 + 1.3 + 3 * 0.5, 0.01) << "0.5 us a root in a graph of four";
  EXPECT_NEAR(trial.predicted_us, trial.measured_us, 0.01);
}

TEST_F(RooflineGraph, starting_nodes_side_by_side_costs_what_it_does_now) {
  Roofs kept = roofs;  // measured when the host was less busy
  kept.root_us = kept.branch_us = {0.1, 0.1, 0.1, 0.1};
  const auto chain = [&](unsigned nodes) { return roofline::tiny_chain(device, paper(0), nodes); };
  const Roofline wide = roofline::place_graph(chain(64), kept, machine);
  EXPECT_THAT(tools_for(wide, ""), testing::Not(Contains(Tool::concurrent_branches)));
  const Roofline narrow = roofline::place_graph(chain(4), kept, machine);
  const Trial trial =
      trial_of(roofline::try_all(chain(4), narrow, machine), Tool::concurrent_branches);
  EXPECT_NEAR(trial.predicted_us, trial.measured_us, 0.01);
}

TEST_F(RooflineGraph, predictions_hold_for_random_graphs) {
  std::mt19937 random(7);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  double worst = 0;
  std::size_t branched = 0;
  for (int round = 0; round < 200; ++round) {
    Graph graph(device, "random");
    work.clear();
    std::optional<Node> last;
    const unsigned nodes = 3 + random() % 20;
    for (unsigned at = 0; at < nodes; ++at) {
      // Each reads one of four places and writes another; so some need no order.
      const unsigned from = random() % 4, to = (from + 1 + random() % 3) % 4;
      const unsigned blocks = 1 + random() % 4;
      const double quads = std::pow(10, uniform(1, 7));
      const auto node = graph.kernel(
          roofline::copy_memory(), Grid{Dim3{blocks}, Dim3{1}},
          {paper(8 * at + from), paper(8 * (at % 5) + 4 + to), static_cast<std::uint64_t>(quads)});
      const std::string name = "node " + std::to_string(at);
      const Node named = last ? Node(node.named(name).after(*last)) : Node(node.named(name));
      last = named;
      const double memory_us = 32 * quads / roofs.copy * 1e6;
      const double time_us = std::max(0.6, memory_us / uniform(0.1, 1));
      work[name] = {time_us, blocks / 4.0, memory_us / time_us, 0};
    }
    const Roofline found = roofline::place_graph(graph, roofs, machine);
    for (const Trial& trial : roofline::try_all(graph, found, machine)) {
      if (!trial.why_not.empty()) continue;
      branched += trial.tool == Tool::concurrent_branches;
      worst = std::max(worst, std::abs(trial.error()));
      EXPECT_LT(std::abs(trial.error()), kPrediction)
          << "round " << round << ", " << trial.what << ": " << trial.before_us << " before, "
          << trial.predicted_us << " predicted, " << trial.measured_us << " measured";
    }
  }
  EXPECT_GT(branched, 20u);
  RecordProperty("worst_error", std::to_string(worst));
}

TEST_F(RooflineGraph, nodes_without_accesses_keep_their_edges) {
  Graph graph(device, "undeclared");
  const Node first = graph.kernel(set_value, Grid{}, {nullptr, 1}).named("a");
  graph.kernel(set_value, Grid{}, {nullptr, 1}).named("b").after(first);
  work = {{"a", {10, 0.25, 0, 0}}, {"b", {10, 0.25, 0, 0}}};
  const Roofline found = roofline::place_graph(graph, roofs, machine);
  const Trial trial = trial_of(roofline::try_all(graph, found, machine), Tool::concurrent_branches);
  EXPECT_THAT(trial.why_not, HasSubstr("'a' declares no accesses"));
  EXPECT_THAT(to_text({trial}), HasSubstr("not tried"));
}

class RooflineRun : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(RooflineRun);

TEST_P(RooflineRun, a_chain_runs_as_one_persistent_kernel_if_a_program_has_its_kernels) {
  std::vector<Quad> values(5);
  for (unsigned at = 0; at < values.size(); ++at) values[at] = {at, 0, 0, 0};
  const Buffer<Quad> memory = buffer<Quad>(values);
  Graph graph(device(), "chain");
  std::optional<Node> last;
  for (unsigned at = 0; at < 4; ++at) {
    const auto node = graph.kernel(roofline::copy_one(), Grid{Dim3{1}, Dim3{32}},
                                   {memory.data() + at, memory.data() + at + 1});
    if (last) node.after(*last);
    last = node;
  }
  const auto clock = roofline::clock_of(device());
  EXPECT_GT(clock->persistent(graph, roofline::tiny_program()), 0);
  for (const Quad& quad : memory.read()) EXPECT_EQ(quad.x, 0u) << "the first value, handed on";
}

TEST_P(RooflineRun, kernels_that_no_program_has_are_no_persistent_kernel) {
  const Buffer<int> value = buffer<int>({0});
  Graph graph(device(), "other");
  graph.kernel(set_value, Grid{}, {value.data(), 1}).named("stranger");
  const Roofline found = roofline_of(graph, paper_roofs());
  const Trial trial =
      trial_of(try_advice(graph, found, &roofline::tiny_program()), Tool::persistent_kernel);
  EXPECT_THAT(trial.why_not, HasSubstr("'stranger' is not in the persistent program"));
  EXPECT_THAT(trial_of(try_advice(graph, found), Tool::persistent_kernel).why_not,
              HasSubstr("make_persistent"));
}

TEST_P(RooflineRun, sees_every_kernel_of_a_graph_and_leaves_the_graph_as_it_was) {
  const Buffer<int> x = buffer<int>(std::vector<int>(1000, 1));
  Graph graph(device(), "affine");
  const auto first =
      graph.kernel(declared_affine, Grid::covering(1000), {x.data(), 1000, 1, 1}).named("same");
  graph.kernel(declared_affine, Grid::covering(1000), {x.data(), 1000, 1, 1})
      .named("same")
      .after(first);
  const std::string before = to_json(graph);
  const Roofline found = roofline_of(graph, paper_roofs());
  ASSERT_THAT(found.kernels, SizeIs(2));
  for (const PlacedKernel& kernel : found.kernels) {
    EXPECT_EQ(kernel.name, "same");
    EXPECT_EQ(kernel.count, 1u);
    EXPECT_GE(kernel.time_us, 0);
  }
  EXPECT_GT(found.total_us, 0);
  EXPECT_FALSE(found.timed_by.empty());
  const std::vector<Trial> trials = try_advice(graph, found);
  EXPECT_GT(trial_of(trials, Tool::graph).measured_us, 0);
  EXPECT_EQ(to_json(graph), before);
}

TEST_P(RooflineRun, counts_the_passes_of_a_loop) {
  if (is_cuda()) GTEST_SKIP() << "a GPU's records do not tell passes apart";
  const Buffer<unsigned> left = buffer<unsigned>({1u << 30});
  const Buffer<int> value = buffer<int>({0});
  Graph graph(device(), "loop");
  const auto reset = graph.fill(left.data(), 0, sizeof(unsigned));
  const auto start =
      graph.kernel(set_value, Grid{}, {reinterpret_cast<int*>(left.data()), 5}).after(reset);
  graph
      .while_("passes",
              [&](Graph& body, Condition again) {
                const auto work = body.kernel(set_value, Grid{}, {value.data(), 2}).named("work");
                body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(work);
              })
      .after(start);
  const Roofline found = roofline_of(graph, paper_roofs());
  EXPECT_EQ(kernel_called(found, "work").count, 5u);
  const std::vector<Trial> trials = try_advice(graph, found);
  ASSERT_THAT(trials, SizeIs(1));
  EXPECT_THAT(trials.front().why_not, HasSubstr("no kernels, copies or fills"));
}

Trace trace_of_layers() {
  Trace trace;
  trace.tracks = {{"host", "thread 1"}};
  for (int layer = 0; layer < 4; ++layer)
    trace.slices.push_back({.name = "layer " + std::to_string(layer) + " product",
                            .begin_ns = layer * 1'000'000,
                            .end_ns = layer * 1'000'000 + 500'000,
                            .graph = "step",
                            .cost = {.flops = 1e6, .bytes = 0.45e9}});
  trace.slices.push_back(
      {.name = "sample", .begin_ns = 5'000'000, .end_ns = 5'001'000, .cost = {.bytes = 1000}});
  trace.slices.push_back({.name = "no cost", .begin_ns = 0, .end_ns = 9});
  return trace;
}

TEST(RooflineTrace, places_kernels_with_a_cost_and_merges_layers) {
  const Roofline each = roofline_of(trace_of_layers(), paper_roofs(), "run.json");
  EXPECT_THAT(each.kernels, SizeIs(5));
  const Roofline found = merge_numbers(each);
  ASSERT_THAT(found.kernels, SizeIs(2));
  const PlacedKernel& product = kernel_called(found, "layer # product");
  EXPECT_EQ(product.count, 4u);
  EXPECT_NEAR(product.share(), 0.9, 1e-6);
  EXPECT_NEAR(found.total_us, 2001, 1e-6);
  EXPECT_THAT(tools_for(found, "layer # product"), ElementsAre(Tool::fewer_bytes));
}

TEST(RooflineTrace, kernels_launched_by_themselves_are_advised_to_join_a_graph) {
  const Roofline found = roofline_of(trace_of_layers(), paper_roofs());
  EXPECT_THAT(tools_for(found, "sample"), Contains(Tool::graph));
  EXPECT_THAT(roofline_of(Trace{}, paper_roofs()).kernels, IsEmpty());
}

}  // namespace
}  // namespace attacca::test
