// Tests of Tracer: what it records of graphs on the host, how often, and that it stops. Times are
// the machine's, so they are only compared with each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/attacca.hpp>

#include <algorithm>
#include <map>
#include <thread>

#include "graph/executor.hpp"
#include "support/faulty_device.hpp"
#include "support/kernels.hpp"
#include "support/meeting_kernels.hpp"
#include "support/on_each_device.hpp"
#include "trace/gpu_slices.hpp"
#include "trace/read_chrome.hpp"
#include "trace/slices.hpp"
#include "trace/summary.hpp"

namespace attacca::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// What a tracer recorded, without the calls of the host.
Trace work_of(const Tracer& tracer) {
  Trace trace = tracer.trace();
  const auto is_calls = [](const TraceTrack& track) { return track.process == trace::kHostCalls; };
  std::erase_if(trace.slices,
                [&](const TraceSlice& slice) { return is_calls(trace.tracks[slice.track]); });
  return trace;
}

class TracerTest : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!IsSkipped() && is_cuda()) GTEST_SKIP() << "nodes are recorded on the host only";
  }

  /// How often each name ran; a kernel that several threads computed counts once.
  static std::map<std::string, std::size_t> counts(const Trace& trace) {
    std::map<std::string, std::size_t> counts;
    for (const TraceSlice& slice : trace.slices)
      if (slice.arguments.empty()) ++counts[slice.name];
    return counts;
  }
  static std::vector<std::uint64_t> iterations(const Trace& trace, const std::string& name) {
    std::vector<std::uint64_t> all;
    for (const TraceSlice& slice : trace.slices)
      if (slice.name == name) all.push_back(slice.iteration);
    return all;
  }
};
ATTACCA_ON_EACH_DEVICE(TracerTest);

TEST_P(TracerTest, every_iteration_of_a_while_appears_once) {
  const Buffer<unsigned> left = buffer<unsigned>({5});
  const Buffer<int> value = buffer<int>({0});
  Graph graph(device(), "counting");
  const auto first = graph.kernel(set_value, Grid{}, {value.data(), 1}).named("before");
  graph
      .while_("loop",
              [&](Graph& body, Condition again) {
                const auto work = body.kernel(set_value, Grid{}, {value.data(), 2}).named("work");
                body.kernel(count_down, Grid{}, {.again = again, .left = left.data()})
                    .named("count")
                    .after(work);
              })
      .after(first);
  const Tracer tracer(device());
  ASSERT_EQ(tracer.why_not(), "");
  run(graph);
  const Trace trace = work_of(tracer);
  EXPECT_THAT(iterations(trace, "before"), ElementsAre(0));
  EXPECT_THAT(iterations(trace, "work"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(iterations(trace, "count"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(iterations(trace, "loop"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(trace.slices, SizeIs(16));
  for (const TraceSlice& slice : trace.slices) {
    EXPECT_EQ(slice.graph, "counting");
    EXPECT_EQ(slice.launch, slice.name == "loop" ? 0u : 1u);
    EXPECT_LE(slice.begin_ns, slice.end_ns);
  }
}

TEST_P(TracerTest, launches_are_numbered_from_one) {
  const Buffer<int> value = buffer<int>({0});
  Graph graph(device());
  graph.kernel(set_value, Grid{}, {value.data(), 1}).named("node");
  Exec exec = graph.instantiate();
  for (int session = 0; session < 2; ++session) {
    const Tracer tracer(device());
    run(exec);
    run(exec);
    const Trace trace = work_of(tracer);
    ASSERT_THAT(trace.slices, SizeIs(2));
    EXPECT_EQ(trace.slices[0].launch, 1u);
    EXPECT_EQ(trace.slices[1].launch, 2u);
  }
}

TEST_P(TracerTest, nothing_is_recorded_before_it_lives_or_after) {
  const Buffer<int> value = buffer<int>({0});
  Graph graph(device());
  graph.kernel(set_value, Grid{}, {value.data(), 1}).named("node");
  run(graph);
  {
    const Tracer tracer(device());
    EXPECT_THAT(work_of(tracer).slices, IsEmpty());
    run(graph);
  }
  run(graph);
  const Tracer second(device());
  EXPECT_THAT(second.trace().slices, IsEmpty());
}

TEST_P(TracerTest, a_second_one_of_the_same_device_is_refused) {
  {
    const Tracer first(device());
    EXPECT_THAT([&] { Tracer(device(), TraceLevel::graph); },
                testing::ThrowsMessage<BadArgument>(HasSubstr("is being traced already")));
    const Buffer<int> value = buffer<int>({0});
    Graph graph(device());
    graph.kernel(set_value, Grid{}, {value.data(), 1}).named("node");
    run(graph);
    EXPECT_THAT(work_of(first).slices, SizeIs(1)) << "the first one goes on";
  }
  EXPECT_NO_THROW(Tracer(device(), TraceLevel::graph));
}

TEST_P(TracerTest, slices_have_the_cost_that_their_kernel_declares) {
  const Buffer<int> x = buffer<int>(std::vector<int>(100));
  Graph graph(device(), "costs");
  const AffineArgs args{x.data(), 100, 1, 1};
  const auto node = graph.kernel(affine, Grid::covering(100), args);
  graph.fill(x.data(), 0, x.bytes()).after(node);
  const Tracer tracer(device());
  run(graph);
  stream().kernel(affine, Grid::covering(100), args);
  stream().synchronize();
  const Trace trace = work_of(tracer);
  ASSERT_THAT(trace.slices, SizeIs(3));
  EXPECT_GT(affine.cost(args).bytes, 0);
  EXPECT_EQ(trace.slices[0].cost, affine.cost(args));
  EXPECT_EQ(trace.slices[1].cost, Cost{}) << "a fill declares none";
  EXPECT_EQ(trace.slices[2].cost, affine.cost(args)) << "outside graphs too";
}

TEST_P(TracerTest, of_the_level_of_graphs_sees_launches_and_no_nodes) {
  const Buffer<int> value = buffer<int>({0});
  Graph graph(device(), "whole");
  const auto first = graph.kernel(set_value, Grid{}, {value.data(), 1}).named("a");
  graph.kernel(set_value, Grid{}, {value.data(), 2}).named("b").after(first);
  Exec exec = graph.instantiate();
  const Tracer tracer(device(), TraceLevel::graph);
  run(exec);
  run(exec);
  stream().kernel(set_value, Grid{}, {value.data(), 3});
  stream().synchronize();
  const Trace trace = work_of(tracer);
  ASSERT_THAT(trace.slices, SizeIs(3));
  EXPECT_EQ(trace.slices[0].name, "whole");
  EXPECT_EQ(trace.slices[0].graph, "whole");
  EXPECT_EQ(trace.slices[0].launch, 1u);
  EXPECT_EQ(trace.slices[1].launch, 2u);
  EXPECT_LE(trace.slices[0].end_ns, trace.slices[1].begin_ns);
  EXPECT_EQ(trace.slices[2].graph, "") << "a kernel that was launched by itself";
  EXPECT_EQ(tracer.dropped(), 0u);
}

TEST_P(TracerTest, kernels_outside_graphs_have_no_graph) {
  const Buffer<int> value = buffer<int>({0});
  const Tracer tracer(device());
  stream().kernel(set_value, Grid{}, {value.data(), 1});
  stream().synchronize();
  const Trace trace = work_of(tracer);
  ASSERT_THAT(trace.slices, SizeIs(1));
  EXPECT_EQ(trace.slices[0].graph, "");
  EXPECT_EQ(trace.slices[0].launch, 1u);
}

TEST_P(TracerTest, nodes_of_a_wide_graph_appear_once_and_slices_of_a_thread_never_cross) {
  constexpr int kWidth = 40;
  const Buffer<int> values = buffer<int>(std::vector<int>(kWidth));
  Graph graph(device());
  for (int at = 0; at < kWidth; ++at)
    graph.kernel(set_value, Grid{}, {values.data() + at, at}).named("node " + std::to_string(at));
  const Tracer tracer(device());
  run(graph);
  const Trace trace = work_of(tracer);
  EXPECT_THAT(counts(trace), SizeIs(kWidth));
  EXPECT_THAT(trace.slices, SizeIs(kWidth));
  for (std::size_t track = 0; track < trace.tracks.size(); ++track) {
    std::vector<std::int64_t> ends;
    for (const TraceSlice& slice : trace.slices) {
      if (slice.track != track) continue;
      while (!ends.empty() && ends.back() <= slice.begin_ns) ends.pop_back();
      EXPECT_TRUE(ends.empty() || slice.end_ns <= ends.back());
      ends.push_back(slice.end_ns);
    }
  }
  const trace::Summary summary = trace::summarize(trace);
  for (const trace::Usage& row : summary.tracks)
    EXPECT_EQ(row.busy_ns + row.idle_ns, summary.wall_ns);
}

TEST_P(TracerTest, slices_of_the_caller_stand_beside_the_nodes) {
  Tracer tracer(device());
  const std::int64_t begin = Tracer::now_ns();
  const Buffer<int> value = buffer<int>({0});
  Graph graph(device());
  graph.kernel(set_value, Grid{}, {value.data(), 1}).named("node");
  run(graph);
  const TraceTrack phases{"program", "phases", true};
  tracer.add(phases, {.name = "phase", .begin_ns = begin, .end_ns = Tracer::now_ns()});
  const Trace trace = work_of(tracer);
  ASSERT_THAT(trace.slices, SizeIs(2));
  EXPECT_EQ(trace.slices[0].name, "phase");
  EXPECT_EQ(trace.tracks.at(trace.slices[0].track), phases);
  EXPECT_LE(trace.slices[1].end_ns, trace.slices[0].end_ns);
  EXPECT_EQ(trace::read_chrome(to_chrome_json(trace), "x").trace.tracks, trace.tracks);
}

TEST(Tracer, a_kernel_that_several_threads_compute_has_a_slice_on_each) {
  constexpr unsigned kThreads = 4;
  constexpr std::uint64_t kPatience = 30'000'000'000;
  const Device device = Device::host(kThreads);
  Buffer<MeetingCount> counts(device, 2);
  counts.write(std::vector<MeetingCount>(2));
  Graph graph(device, "meeting");
  // The blocks wait for each other, so each needs a thread of its own.
  graph.kernel(meet, Grid{{kThreads}, {1}}, {counts.data(), counts.data() + 1, kPatience});
  const Tracer tracer(device);
  Exec exec = graph.instantiate();
  const Stream stream(device);
  exec.launch(stream);
  stream.synchronize();
  const Trace trace = work_of(tracer);
  EXPECT_THAT(trace::summarize(trace).tracks, SizeIs(kThreads));
  EXPECT_THAT(trace.slices, SizeIs(kThreads));
  std::size_t parts = 0;
  for (const TraceSlice& slice : trace.slices) {
    EXPECT_EQ(slice.name, "meet");
    EXPECT_EQ(slice.graph, "meeting");
    parts += slice.arguments.size();
  }
  EXPECT_EQ(parts, kThreads - 1);
}

TEST(Tracer, threads_that_launch_at_once_lose_no_node) {
  constexpr int kThreads = 4, kLaunches = 50;
  const Device device = Device::host(2);
  const Tracer tracer(device);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      Graph graph(device);
      graph.host("call " + std::to_string(thread), [] {});
      Exec exec = graph.instantiate();
      const Stream stream(device);
      for (int launch = 0; launch < kLaunches; ++launch) exec.launch(stream);
      stream.synchronize();
    });
  for (std::thread& thread : threads) thread.join();
  const Trace trace = work_of(tracer);
  EXPECT_THAT(trace.slices, SizeIs(kThreads * kLaunches));
  std::vector<std::uint64_t> launches;
  for (const TraceSlice& slice : trace.slices) launches.push_back(slice.launch);
  std::sort(launches.begin(), launches.end());
  for (std::size_t at = 0; at < launches.size(); ++at) EXPECT_EQ(launches[at], at + 1);
}

/// What a GPU tells too.
class TracerOfAnyDevice : public OnEachDevice {
 protected:
  static std::size_t count(const Trace& trace, const std::string& name) {
    return static_cast<std::size_t>(
        std::count_if(trace.slices.begin(), trace.slices.end(),
                      [&](const TraceSlice& slice) { return slice.name == name; }));
  }
};
ATTACCA_ON_EACH_DEVICE(TracerOfAnyDevice);

TEST_P(TracerOfAnyDevice, shows_the_nodes_of_a_graph_by_their_names) {
  const Tracer tracer(device());
  if (!tracer.why_not().empty()) GTEST_SKIP() << tracer.why_not();
  const Buffer<int> x = buffer<int>(std::vector<int>(100));
  const AffineArgs args{x.data(), 100, 1, 1};
  Graph graph(device(), "named");
  const auto first = graph.kernel(affine, Grid::covering(100), args).named("first product");
  const auto second = graph.kernel(affine, Grid::covering(100), args).named("second product");
  second.after(first);
  Exec exec = graph.instantiate();
  const std::int64_t before = Tracer::now_ns();
  run(exec);
  run(exec);
  const std::int64_t after = Tracer::now_ns();
  const Trace trace = work_of(tracer);
  EXPECT_EQ(count(trace, "first product"), 2u);
  EXPECT_EQ(count(trace, "second product"), 2u);
  constexpr std::int64_t kSlack = 1'000'000;  // between the clock of a GPU and the host's
  for (const TraceSlice& slice : trace.slices) {
    if (slice.name != "second product") continue;
    EXPECT_EQ(slice.graph, "named");
    EXPECT_EQ(slice.cost, affine.cost(args));
    EXPECT_GE(slice.begin_ns, before - kSlack);
    EXPECT_LE(slice.end_ns, after + kSlack);
  }
}

TEST_P(TracerOfAnyDevice, of_the_level_of_graphs_has_a_slice_for_each_launch) {
  const Tracer tracer(device(), TraceLevel::graph);
  EXPECT_EQ(tracer.why_not(), "");
  const Buffer<int> value = buffer<int>({0});
  Graph graph(device(), "whole");
  graph.kernel(set_value, Grid{}, {value.data(), 1}).named("node");
  Exec exec = graph.instantiate();
  for (int launch = 0; launch < 3; ++launch) run(exec);
  const Trace trace = work_of(tracer);
  EXPECT_EQ(count(trace, "whole"), 3u);
  EXPECT_EQ(count(trace, "node"), 0u);
  for (std::size_t at = 1; at < trace.slices.size(); ++at)
    EXPECT_LE(trace.slices[at - 1].end_ns, trace.slices[at].begin_ns);
}

TEST_P(TracerOfAnyDevice, hears_of_the_calls_that_the_host_makes) {
  const Buffer<int> value = buffer<int>({0});
  Graph graph(device(), "whole");
  graph.kernel(set_value, Grid{}, {value.data(), 1});
  Exec exec = graph.instantiate();
  const auto calls_at = [&](TraceLevel level) {
    const Tracer tracer(device(), level);
    const Stream other(Device::host(2));  // of a device that is not traced
    for (int launch = 0; launch < 3; ++launch) exec.launch(stream());
    other.synchronize();
    stream().fill(value.data(), 0, sizeof(int));
    std::thread([&] { stream().synchronize(); }).join();
    return trace::summarize(tracer.trace()).calls;
  };
  std::map<std::string, std::size_t> counts;
  for (const trace::NameTime& call : calls_at(TraceLevel::node)) counts[call.name] = call.count;
  const std::map<std::string, std::size_t> expected{
      {"launch a graph", 3}, {"fill", 1}, {"synchronize", 1}};
  EXPECT_EQ(counts, expected);
  EXPECT_THAT(calls_at(TraceLevel::graph), IsEmpty());
}

/// A device that says it is CUDA. It tells nothing of its nodes, and what it launches is told here.
class SilentDevice : public testing::Test {
 protected:
  std::shared_ptr<graph::EventImpl> event_now() {
    auto event = graph::impl_of(device).make_event(true);
    stream->record(*event);
    stream->synchronize();
    return event;
  }
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  Device device = graph::Access::device(
      std::make_shared<FaultyDevice>(Device::host_serial(), faults, DeviceKind::cuda));
  std::unique_ptr<graph::StreamImpl> stream = graph::impl_of(device).make_stream(0);
};

TEST_F(SilentDevice, has_its_launches_timed_by_events_and_says_why) {
  const std::int64_t before = Tracer::now_ns();
  const Tracer tracer(device);
  EXPECT_THAT(tracer.why_not(), HasSubstr("CUPTI"));
  ASSERT_TRUE(faults->observer);
  ASSERT_TRUE(faults->observer->times_launches());
  for (const char* name : {"first", "second"}) {
    const auto start = event_now();
    faults->observer->launched(name, *stream, start, event_now());
  }
  const Trace trace = work_of(tracer);
  ASSERT_THAT(trace.slices, SizeIs(2));
  EXPECT_EQ(trace.slices[0].name, "first");
  EXPECT_EQ(trace.slices[1].launch, 2u);
  EXPECT_THAT(trace.tracks[0].name, HasSubstr("timed by events"));
  EXPECT_GE(trace.slices[0].begin_ns, before);
  EXPECT_LT(trace.slices[0].begin_ns, trace.slices[0].end_ns);
  EXPECT_LE(trace.slices[0].end_ns, trace.slices[1].begin_ns);
  EXPECT_LE(trace.slices[1].end_ns, Tracer::now_ns() + 10'000'000) << "by the same clock";
}

TEST_F(SilentDevice, is_no_longer_observed_when_the_tracer_is_gone) {
  { const Tracer tracer(device, TraceLevel::graph); }
  EXPECT_FALSE(faults->observer);
}

TEST(GpuNodes, records_have_the_names_and_costs_of_their_nodes) {
  trace::GpuNodes nodes;
  const AffineArgs args{nullptr, 100, 1, 1};
  nodes.add(7, {.node = "layer 1", .graph = "step", .kernel = &affine.info(), .args = &args});
  nodes.add(0, {.node = "unknown", .graph = "step"});
  Trace trace;
  trace.tracks = {{"engine", "steps", true}};
  nodes.append({{"Affine", 100, 200, 3, 7}, {"memcpy", 200, 250, 4, 0}, {"Other", 300, 310, 3, 8}},
               {}, "cuda:0", trace);
  ASSERT_THAT(trace.tracks, SizeIs(3));
  EXPECT_EQ(trace.tracks[1].name, "stream 3");
  ASSERT_THAT(trace.slices, SizeIs(3));
  EXPECT_EQ(trace.slices[0].name, "layer 1");
  EXPECT_EQ(trace.slices[0].graph, "step");
  EXPECT_EQ(trace.slices[0].cost, affine.cost(args));
  EXPECT_EQ(trace.slices[1].name, "memcpy");
  EXPECT_EQ(trace.slices[1].track, 2u);
  EXPECT_EQ(trace.slices[2].name, "Other") << "a node of a graph that was there before";
}

}  // namespace
}  // namespace attacca::test
