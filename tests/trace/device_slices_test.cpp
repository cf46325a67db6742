// Tests of what graphs record of themselves while a Tracer lives: every pass, arm and graph that
// the device launches, once and under its launcher. Times are judged with records that the tests
// make; on devices only their order is.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "graph/executor.hpp"
#include "graph/marks.hpp"
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"
#include "trace/device_slices.hpp"

namespace attacca::test {
namespace {

using device::Record;
using device::SiteEvent;
using graph::MarkSite;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// --- records of the test's own -------------------------------------------------------------------

Record record(std::uint64_t at, std::uint32_t site, SiteEvent event, std::uint32_t pass = 0,
              std::uint32_t value = 0, std::uint32_t processor = 0) {
  return {at, device::SiteRef::what(site, event), value, pass, processor};
}
Record launch_record(std::uint64_t at, std::uint32_t site, SiteEvent how, std::uint64_t handle) {
  return record(at, site, how, static_cast<std::uint32_t>(handle >> 32),
                static_cast<std::uint32_t>(handle));
}

Trace read(const std::vector<Record>& records, const std::vector<MarkSite>& sites,
           const trace::ClockMap& clock = {}) {
  Trace trace;
  trace::append_device_slices(records, sites, clock, "cuda:0", "SM", trace);
  return trace;
}

/// "name pass begin end" of each slice, in the order of the trace.
std::vector<std::string> lines(const Trace& trace) {
  std::vector<std::string> lines;
  for (const TraceSlice& slice : trace.slices)
    lines.push_back(slice.name + " " + std::to_string(slice.iteration) + " " +
                    std::to_string(slice.begin_ns) + " " + std::to_string(slice.end_ns));
  return lines;
}

std::string launcher_of(const TraceSlice& slice) {
  for (const auto& [name, value] : slice.arguments)
    if (name == "launched by") return std::get<std::string>(value);
  return "";
}

TEST(DeviceSlices, passes_and_arms_have_the_times_of_their_records) {
  const std::vector<MarkSite> sites{
      {}, {.name = "loop", .is_range = true}, {.name = "arm, case 1", .is_range = true}};
  const Trace trace =
      read({record(100, 1, SiteEvent::begins, 1), record(110, 2, SiteEvent::begins, 1),
            record(180, 2, SiteEvent::ends, 1), record(200, 1, SiteEvent::ends, 1),
            record(230, 1, SiteEvent::begins, 2), record(300, 1, SiteEvent::ends, 2)},
           sites);
  EXPECT_THAT(lines(trace),
              ElementsAre("loop 1 100 200", "arm, case 1 1 110 180", "loop 2 230 300"));
  ASSERT_THAT(trace.tracks, SizeIs(1)) << "an arm lies inside its pass";
  EXPECT_TRUE(trace.tracks[0].has_ranges);
}

TEST(DeviceSlices, a_half_whose_other_half_was_overwritten_is_left_out) {
  const std::vector<MarkSite> sites{{}, {.name = "loop", .is_range = true}};
  const Trace trace =
      read({record(200, 1, SiteEvent::ends, 1), record(230, 1, SiteEvent::begins, 2),
            record(300, 1, SiteEvent::ends, 2), record(310, 1, SiteEvent::begins, 3)},
           sites);
  EXPECT_THAT(lines(trace), ElementsAre("loop 2 230 300"));
}

TEST(DeviceSlices, a_node_begins_when_the_last_one_before_it_has_ended) {
  const std::vector<MarkSite> sites{{},
                                    {.name = "loop", .is_range = true},
                                    {.name = "a", .after = {1}},
                                    {.name = "b", .after = {1}},
                                    {.name = "c", .after = {2, 3}, .cost = {.flops = 7}}};
  const Trace trace = read({record(100, 1, SiteEvent::begins, 1),
                            record(140, 2, SiteEvent::ends, 1), record(160, 3, SiteEvent::ends, 1),
                            record(190, 4, SiteEvent::ends, 1), record(200, 1, SiteEvent::ends, 1)},
                           sites);
  EXPECT_THAT(lines(trace), testing::UnorderedElementsAre("loop 1 100 200", "a 1 100 140",
                                                          "b 1 100 160", "c 1 160 190"));
  EXPECT_THAT(trace.tracks, SizeIs(3)) << "a range, and two nodes side by side";
  EXPECT_EQ(trace.slices.back().cost.flops, 7);
}

TEST(DeviceSlices, a_chain_of_tail_launches_counts_its_passes_from_the_start_by_the_host) {
  const std::uint64_t handle = 0x7f0012345678;
  const std::vector<MarkSite> sites{
      {},
      {.name = "chain", .graph = "chain", .is_range = true, .handle = handle, .launches = true},
      {.name = "again?", .graph = "chain", .inside = 1}};
  std::vector<Record> records;
  for (std::uint64_t start : {0, 1000})
    for (std::uint64_t pass = 0; pass < 2; ++pass) {
      const std::uint64_t at = start + 100 * pass;
      records.push_back(record(at, 1, SiteEvent::begins));
      if (pass == 0) records.push_back(launch_record(at + 50, 2, SiteEvent::tail, handle));
      records.push_back(record(at + 80, 1, SiteEvent::ends));
    }
  const Trace trace = read(records, sites);
  EXPECT_THAT(lines(trace), ElementsAre("chain 1 0 80", "chain 2 100 180", "chain 1 1000 1080",
                                        "chain 2 1100 1180"));
  EXPECT_EQ(launcher_of(trace.slices[0]), "");
  EXPECT_EQ(launcher_of(trace.slices[1]), "'again?' of 'chain', tail");
  EXPECT_EQ(launcher_of(trace.slices[2]), "");
}

TEST(DeviceSlices, blocks_of_one_site_are_told_apart_and_stand_on_tracks_of_their_processor) {
  const std::vector<MarkSite> sites{{}, {.name = "shade", .is_range = true, .is_persistent = true}};
  const Trace trace =
      read({record(0, 1, SiteEvent::begins, 0, 7, 3), record(10, 1, SiteEvent::begins, 0, 8, 4),
            record(20, 1, SiteEvent::begins, 0, 9, 3), record(60, 1, SiteEvent::ends, 0, 7, 3),
            record(70, 1, SiteEvent::ends, 0, 8, 4), record(90, 1, SiteEvent::ends, 0, 9, 3)},
           sites);
  EXPECT_THAT(lines(trace), ElementsAre("shade 0 0 60", "shade 0 10 70", "shade 0 20 90"));
  std::vector<std::string> tracks;
  for (const TraceTrack& track : trace.tracks) tracks.push_back(track.name);
  EXPECT_THAT(tracks, ElementsAre("workers on SM 3", "workers on SM 4", "workers on SM 3, 2"));
}

TEST(DeviceSlices, kernels_that_record_themselves_are_in_the_pass_around_them) {
  const std::vector<MarkSite> sites{
      {}, {.name = "loop", .is_range = true}, {.name = "plan", .is_range = true}};
  const Trace trace = read({record(0, 1, SiteEvent::begins, 4), record(10, 2, SiteEvent::begins),
                            record(20, 2, SiteEvent::ends), record(50, 1, SiteEvent::ends, 4),
                            record(60, 2, SiteEvent::begins), record(70, 2, SiteEvent::ends)},
                           sites);
  EXPECT_THAT(lines(trace), ElementsAre("loop 4 0 50", "plan 4 10 20", "plan 0 60 70"));
}

TEST(DeviceSlices, a_kernel_that_comes_behind_the_arm_is_in_the_pass_around_both) {
  const std::vector<MarkSite> sites{{},
                                    {.name = "loop", .is_range = true},
                                    {.name = "arm", .is_range = true},
                                    {.name = "plan", .is_range = true}};
  const Trace trace = read({record(0, 1, SiteEvent::begins, 4), record(10, 2, SiteEvent::begins, 4),
                            record(20, 2, SiteEvent::ends, 4), record(30, 3, SiteEvent::begins),
                            record(40, 3, SiteEvent::ends), record(50, 1, SiteEvent::ends, 4)},
                           sites);
  EXPECT_THAT(lines(trace), ElementsAre("loop 4 0 50", "arm 4 10 20", "plan 4 30 40"));
}

TEST(DeviceSlices, two_moments_turn_a_clock_that_drifts_into_ours) {
  const trace::ClockMap clock{{1000, 50}, {3000, 2054}};  // ours goes 0.2 % faster
  EXPECT_EQ(clock.ours(1000), 50);
  EXPECT_EQ(clock.ours(2000), 1052);
  EXPECT_EQ(clock.ours(500), 50 - 501);
}

// --- records of devices --------------------------------------------------------------------------

class TraceOfLoops : public OnEachDevice {
 protected:
  /// The slices that records made, by their track's kind.
  static std::vector<TraceSlice> ranges(const Trace& trace, const std::string& name) {
    std::vector<TraceSlice> found;
    for (const TraceSlice& slice : trace.slices)
      if (trace.tracks[slice.track].has_ranges && slice.name == name) found.push_back(slice);
    return found;
  }
  static std::vector<std::uint64_t> iterations(const std::vector<TraceSlice>& slices) {
    std::vector<std::uint64_t> all;
    for (const TraceSlice& slice : slices) all.push_back(slice.iteration);
    return all;
  }
  /// Whether every slice of `inner` lies inside the slice of `outer` with the same iteration.
  static bool lie_inside(const std::vector<TraceSlice>& inner,
                         const std::vector<TraceSlice>& outer) {
    return std::all_of(inner.begin(), inner.end(), [&](const TraceSlice& in) {
      return std::any_of(outer.begin(), outer.end(), [&](const TraceSlice& out) {
        return out.iteration == in.iteration && out.begin_ns <= in.begin_ns &&
               in.end_ns <= out.end_ns;
      });
    });
  }
  Graph work(const std::string& name) {
    Graph graph(device(), name);
    graph.kernel(set_value, Grid{}, {value_.data(), 1});
    return graph;
  }

  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    value_ = buffer<int>({0});
    tally_ = buffer(std::vector<unsigned>(kStatuses));
  }
  /// A loop of four passes, whose second and fourth run an arm.
  Graph choosing() {
    arms_ = buffer<unsigned>({9, 1, 9, 0});
    again_ = buffer<unsigned>({1, 1, 1, 0});
    at_ = buffer<unsigned>({0, 0});
    const SwitchLoop loop(
        device(), "choose",
        {.lead =
             [&](Graph& pass, Condition more, Condition chosen) {
               const auto first =
                   pass.kernel(next_condition, Grid{}, {chosen, arms_.data(), at_.data()});
               pass.kernel(next_condition, Grid{}, {more, again_.data(), at_.data() + 1})
                   .after(first);
             },
         .arms = {[&](Graph& arm) {
                    arm.kernel(set_value, Grid{}, {value_.data(), 0});
                  },
                  [&](Graph& arm) {
                    arm.kernel(set_value, Grid{}, {value_.data(), 1});
                  }},
         .arm_names = {"small", "large"}});
    return loop.graph();
  }

  const Device any_ = Device::host();  // until SetUp
  Buffer<int> value_{any_, 0};
  Buffer<unsigned> tally_{any_, 0}, arms_{any_, 0}, again_{any_, 0}, at_{any_, 0};
};
ATTACCA_ON_EACH_DEVICE(TraceOfLoops);

TEST_P(TraceOfLoops, every_pass_and_every_arm_appears_once) {
  for (const TraceLevel level : {TraceLevel::graph, TraceLevel::node}) {
    const Tracer tracer(device(), level);
    Exec exec = choosing().instantiate();
    for (int launch = 0; launch < 2; ++launch) {
      at_.write(std::vector<unsigned>(2));
      run(exec);
    }
    const Trace trace = tracer.trace();
    const auto passes = ranges(trace, "choose");
    EXPECT_THAT(iterations(passes), ElementsAre(1, 2, 3, 4, 1, 2, 3, 4));
    EXPECT_THAT(iterations(ranges(trace, "arm, large")), ElementsAre(2, 2));
    EXPECT_THAT(iterations(ranges(trace, "arm, small")), ElementsAre(4, 4));
    EXPECT_TRUE(lie_inside(ranges(trace, "arm, large"), passes));
    EXPECT_EQ(tracer.dropped(), 0u);
  }
}

TEST_P(TraceOfLoops, a_loop_inside_a_loop_counts_from_one_each_time) {
  const Buffer<unsigned> outer = buffer<unsigned>({2});
  const Buffer<unsigned> again = buffer<unsigned>({1, 0, 1, 1, 0});
  const Buffer<unsigned> at = buffer<unsigned>({0});
  Graph graph(device(), "two");
  graph.while_("outer", [&](Graph& body, Condition more) {
    const Condition once_more = body.condition("once more", 0);
    const auto set = body.kernel(set_condition, Grid{}, {once_more, 1});
    const auto inner = body.while_("inner", once_more, [&](Graph& pass) {
      pass.kernel(next_condition, Grid{}, {once_more, again.data(), at.data()});
    });
    inner.after(set);
    body.kernel(count_down, Grid{}, {.again = more, .left = outer.data()}).after(inner);
  });
  const Tracer tracer(device(), TraceLevel::graph);
  run(graph);
  const Trace trace = tracer.trace();
  EXPECT_THAT(iterations(ranges(trace, "outer")), ElementsAre(1, 2));
  EXPECT_THAT(iterations(ranges(trace, "inner")), ElementsAre(1, 2, 1, 2, 3));
}

TEST_P(TraceOfLoops, a_graph_that_the_device_launches_appears_once_under_its_launcher) {
  const Tracer tracer(device(), TraceLevel::graph);
  DeviceExec tail = work("the tail").instantiate_for_device();
  DeviceExec fired = work("the fired").instantiate_for_device();
  Graph graph(device(), "launcher");
  const auto first =
      graph.kernel(launch, Grid{}, {tail.handle(), LaunchMode::tail, {tally_.data()}}).named("one");
  graph.kernel(launch, Grid{}, {fired.handle(), LaunchMode::fire_and_forget, {tally_.data()}})
      .named("two")
      .after(first);
  run(graph);
  const Trace trace = tracer.trace();
  ASSERT_THAT(ranges(trace, "the tail"), SizeIs(1));
  ASSERT_THAT(ranges(trace, "the fired"), SizeIs(1));
  EXPECT_EQ(launcher_of(ranges(trace, "the tail")[0]), "'one' of 'launcher', tail");
  EXPECT_EQ(launcher_of(ranges(trace, "the fired")[0]), "'two' of 'launcher', fire and forget");
}

TEST_P(TraceOfLoops, every_form_of_a_loop_records_its_passes) {
  const Buffer<int> x = buffer(std::vector<int>(8));
  Buffer<unsigned> left = buffer<unsigned>({0});
  Loop loop(device(), "relax", [&](Graph& body, Condition again) {
    const auto step = body.kernel(affine, Grid::covering(8), {x.data(), 8, 1, 1}).named("step");
    body.kernel(count_down, Grid::covering(8), {again, left.data()}).named("test").after(step);
  });
  loop.with(affine_and_count_down);
  for (const LoopForm form :
       {LoopForm::while_node, LoopForm::self_relaunch, LoopForm::persistent_kernel}) {
    const Tracer tracer(device(), TraceLevel::graph);
    LoopExec exec = loop.instantiate(form);
    left.write(std::vector<unsigned>{3});
    exec.launch(stream());
    stream().synchronize();
    const Trace trace = tracer.trace();
    EXPECT_THAT(iterations(ranges(trace, "relax")), ElementsAre(1, 2, 3)) << loop_form_name(form);
    if (form != LoopForm::persistent_kernel) continue;
    EXPECT_THAT(iterations(ranges(trace, "step")), ElementsAre(1, 2, 3));
    EXPECT_TRUE(lie_inside(ranges(trace, "test"), ranges(trace, "relax")));
  }
}

TEST_P(TraceOfLoops, graphs_instantiated_without_a_tracer_record_nothing) {
  Exec exec = choosing().instantiate();
  const Tracer tracer(device(), TraceLevel::graph);
  run(exec);
  const Trace trace = tracer.trace();
  EXPECT_THAT(ranges(trace, "choose"), IsEmpty());
}

TEST_P(TraceOfLoops, a_graph_may_run_on_when_the_tracer_is_gone) {
  std::optional<Tracer> tracer(std::in_place, device(), TraceLevel::graph);
  Exec exec = choosing().instantiate();
  tracer.reset();
  run(exec);  // it writes to a ring that nobody reads
  EXPECT_EQ(value_.read()[0], 0);
}

TEST_P(TraceOfLoops, a_graph_with_marks_can_be_updated) {
  Buffer<unsigned> left = buffer<unsigned>({2});
  const Tracer tracer(device(), TraceLevel::graph);
  Graph graph(device(), "counting");
  std::optional<KernelNode<SetArgs>> node;
  graph.while_("loop", [&](Graph& body, Condition again) {
    node = body.kernel(set_value, Grid{}, {value_.data(), 2});
    body.kernel(count_down, Grid{}, {again, left.data()}).after(*node);
  });
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_TRUE(exec.set(*node, {value_.data(), 7}));
  left.write(std::vector<unsigned>{3});
  run(exec);
  EXPECT_EQ(value_.read()[0], 7);
  EXPECT_THAT(iterations(ranges(tracer.trace(), "loop")), ElementsAre(1, 2, 1, 2, 3));
}

/// Asks for marks of all nodes, as a Tracer does on a GPU.
struct NodeMarks final : graph::Observer {
  explicit NodeMarks(const Device& device)
      : own(std::make_shared<graph::Marks>(device, graph::Marks::Level::nodes)) {}
  void ran(const graph::Execution&) override {}
  bool sees_nodes() const override { return false; }
  std::shared_ptr<graph::Marks> marks() override { return own; }
  std::shared_ptr<graph::Marks> own;
};

TEST_P(TraceOfLoops, every_node_of_every_pass_appears_at_the_level_of_nodes) {
  const auto marks = std::make_shared<NodeMarks>(device());
  graph::impl_of(device()).observe(marks);
  const Buffer<unsigned> left = buffer<unsigned>({3});
  Graph graph(device(), "counting");
  graph.while_("loop", [&](Graph& body, Condition again) {
    const auto first = body.kernel(set_value, Grid{}, {value_.data(), 2}).named("first");
    const auto early = body.kernel(produce, Grid{}, {value_.data(), 2}).named("early");
    const auto second =
        body.kernel(consume, Grid{}, {value_.data(), value_.data()}).named("second");
    early.after(first);
    second.after_programmatic(early);
    const auto inside = body.child("inner", [&](Graph& child) {
      child.kernel(set_value, Grid{}, {value_.data(), 3}).named("third");
    });
    inside.after(second);
    body.kernel(count_down, Grid{}, {again, left.data()}).named("last").after(inside);
  });
  run(graph);
  graph::impl_of(device()).observe(nullptr);
  Trace trace;
  trace::append_device_slices(marks->own->read(), marks->own->sites(), {}, "device", "SM", trace);
  std::vector<std::vector<TraceSlice>> nodes;
  for (const char* name : {"first", "early to second", "third", "last"}) {
    std::vector<TraceSlice>& found = nodes.emplace_back();
    for (const TraceSlice& slice : trace.slices)
      if (slice.name == name) found.push_back(slice);
    EXPECT_THAT(iterations(found), ElementsAre(1, 2, 3)) << name;
    EXPECT_TRUE(lie_inside(found, ranges(trace, "loop"))) << name;
  }
  for (std::size_t pass = 0; pass < 3; ++pass)
    for (std::size_t at = 1; at < nodes.size(); ++at)
      EXPECT_EQ(nodes[at][pass].begin_ns, nodes[at - 1][pass].end_ns);
}

}  // namespace
}  // namespace attacca::test
