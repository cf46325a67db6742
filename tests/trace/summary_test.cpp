// Tests of summary.hpp, on traces whose clock the tests control: busy, idle, gaps, time by name and
// the comparison of two traces.
#include "trace/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "trace/report.hpp"

namespace attacca::trace {
namespace {

using testing::HasSubstr;
using testing::Not;

TraceSlice slice(std::string name, std::int64_t begin, std::int64_t end, std::size_t track = 0) {
  return {.track = track, .name = std::move(name), .begin_ns = begin, .end_ns = end};
}

Trace on_one_track(std::vector<TraceSlice> slices) {
  return {{{"host", "thread 1"}}, std::move(slices)};
}

TEST(TraceSummary, of_an_empty_trace_is_empty) {
  const Summary summary = summarize({});
  EXPECT_EQ(summary.wall_ns, 0);
  EXPECT_TRUE(summary.gaps.empty());
  EXPECT_THAT(summary_report(summary, 5), HasSubstr("0 slices"));
}

TEST(TraceSummary, finds_planted_gaps_with_their_length_and_neighbours) {
  const Summary summary = summarize(
      on_one_track({slice("a", 1000, 1100), slice("b", 1150, 1200), slice("c", 1500, 1600)}));
  ASSERT_EQ(summary.gaps.size(), 2u);
  EXPECT_EQ(summary.gaps[0].length_ns, 300);
  EXPECT_EQ(summary.gaps[0].begin_ns, 200);
  EXPECT_EQ(summary.gaps[0].before, "b");
  EXPECT_EQ(summary.gaps[0].after, "c");
  EXPECT_EQ(summary.gaps[1].length_ns, 50);
  EXPECT_EQ(summary.gaps[1].before, "a");
  EXPECT_EQ(summary.gaps[1].after, "b");
}

TEST(TraceSummary, has_a_gap_only_where_every_track_of_the_device_is_idle) {
  Trace trace = on_one_track({slice("a", 0, 10), slice("d", 90, 100)});
  trace.tracks.push_back({"host", "thread 2"});
  trace.slices.push_back(slice("b", 5, 40, 1));
  trace.slices.push_back(slice("c", 60, 95, 1));
  const Summary summary = summarize(trace);
  ASSERT_EQ(summary.gaps.size(), 1u);
  EXPECT_EQ(summary.gaps[0].length_ns, 20);
  EXPECT_EQ(summary.gaps[0].before, "b");
  EXPECT_EQ(summary.gaps[0].after, "c");
  EXPECT_EQ(summary.tracks.at(0).busy_ns, 20);
  EXPECT_EQ(summary.tracks.at(1).busy_ns, 70);
  EXPECT_EQ(summary.processes.at(0).busy_ns, 80);
}

TEST(TraceSummary, the_slice_that_ended_last_stands_before_a_gap) {
  Trace trace = on_one_track({slice("long", 0, 50), slice("next", 70, 80)});
  trace.tracks.push_back({"host", "thread 2"});
  trace.slices.push_back(slice("short", 10, 20, 1));
  EXPECT_EQ(summarize(trace).gaps.at(0).before, "long");
}

TEST(TraceSummary, a_slice_with_an_empty_name_is_a_neighbour_of_a_gap) {
  const Trace trace = on_one_track({slice("a", 0, 10), slice("", 30, 40), slice("c", 90, 100)});
  const Summary summary = summarize(trace);
  ASSERT_EQ(summary.gaps.size(), 2u);
  EXPECT_EQ(summary.gaps[0].before, "");
  EXPECT_EQ(summary.gaps[1].after, "");
  const std::string report = summary_report(summary, 5);
  EXPECT_THAT(report, HasSubstr("'' | 'c'"));
  EXPECT_THAT(report, HasSubstr("'a' | ''"));
}

TEST(TraceSummary, ranges_are_shown_and_count_neither_as_busy_nor_as_neighbours) {
  Trace trace = on_one_track({slice("a", 0, 10), slice("b", 30, 40)});
  trace.tracks.push_back({"engine", "steps", true});
  trace.slices.push_back(slice("decode step", -5, 50, 1));
  const Summary summary = summarize(trace);
  EXPECT_EQ(summary.wall_ns, 55);
  ASSERT_EQ(summary.processes.size(), 1u);
  EXPECT_EQ(summary.processes[0].busy_ns, 20);
  ASSERT_EQ(summary.gaps.size(), 3u);
  EXPECT_EQ(summary.gaps[0].before, "a");
  EXPECT_EQ(summary.gaps[1].after, std::nullopt);   // the trace ends
  EXPECT_EQ(summary.gaps[2].before, std::nullopt);  // the trace begins
  ASSERT_EQ(summary.ranges.size(), 1u);
  EXPECT_EQ(summary.ranges[0].self_ns, 55);
}

TEST(TraceSummary, calls_of_the_host_stand_by_kind_and_by_token) {
  Trace trace = on_one_track({slice("a", 0, 10), slice("b", 30, 40)});
  trace.tracks.push_back({"engine", "steps", true});
  trace.tracks.push_back({"host calls", "thread 1", true});
  for (std::int64_t at = 0; at < 4; ++at) {
    trace.slices.push_back(slice("decode step", 10 * at, 10 * at + 10, 1));
    trace.slices.back().arguments = {{"rows", std::int64_t{2}}};
    trace.slices.push_back(slice("launch a graph", 10 * at, 10 * at + 3, 2));
  }
  trace.slices.push_back(slice("synchronize", 40, 41, 2));
  const Summary summary = summarize(trace);
  EXPECT_EQ(summary.tokens, 8);
  EXPECT_EQ(summary.ranges.size(), 1u) << "of the steps alone";
  ASSERT_EQ(summary.calls.size(), 2u);
  EXPECT_EQ(summary.calls[0].name, "launch a graph");
  EXPECT_EQ(summary.calls[0].count, 4u);
  EXPECT_EQ(summary.calls[0].self_ns, 12);
  const std::string text = summary_report(summary, 5);
  EXPECT_THAT(text, HasSubstr("5 host calls, 0.62 for each of 8 tokens"));
  EXPECT_THAT(text, HasSubstr("per token"));
  EXPECT_THAT(comparison_report(summary, summarize(on_one_track({slice("a", 0, 10)})), 5),
              HasSubstr("host calls"));
}

TEST(TraceSummary, shares_of_the_floor_have_a_column_where_they_are_known) {
  Summary summary = summarize(on_one_track({slice("a", 0, 10), slice("b", 30, 40)}));
  EXPECT_THAT(summary_report(summary, 5), Not(HasSubstr("floor")));
  summary.names[0].floor_share = 0.42;
  EXPECT_THAT(summary_report(summary, 5), HasSubstr("42 %"));
}

TEST(TraceSummary, keeps_the_ten_longest_gaps) {
  std::vector<TraceSlice> slices;
  std::int64_t now = 0;
  for (int gap = 0; gap < 30; ++gap) {
    slices.push_back(slice("a", now, now + 5));
    now += 5 + (gap * 7) % 30 + 1;
  }
  slices.push_back(slice("a", now, now + 5));
  const Summary summary = summarize(on_one_track(slices));
  ASSERT_EQ(summary.gaps.size(), 10u);
  EXPECT_EQ(summary.gaps.front().length_ns, 30);
  EXPECT_EQ(summary.gaps.back().length_ns, 21);
}

TEST(TraceSummary, gives_the_time_of_inner_slices_to_them) {
  const Summary summary =
      summarize(on_one_track({slice("outer", 0, 100), slice("inner", 10, 40),
                              slice("innermost", 20, 25), slice("inner", 50, 60)}));
  ASSERT_EQ(summary.names.size(), 3u);
  EXPECT_EQ(summary.names[0].name, "outer");
  EXPECT_EQ(summary.names[0].self_ns, 60);
  EXPECT_EQ(summary.names[0].longest_ns, 100);
  EXPECT_EQ(summary.names[1].name, "inner");
  EXPECT_EQ(summary.names[1].count, 2u);
  EXPECT_EQ(summary.names[1].self_ns, 35);
  EXPECT_EQ(summary.names[2].self_ns, 5);
  EXPECT_EQ(summary.total_ns(), 100);
  EXPECT_TRUE(summary.gaps.empty());
}

TEST(TraceSummary, parts_of_a_kernel_add_time_and_are_not_counted) {
  Trace trace = on_one_track({slice("a", 0, 10), slice("a", 20, 30)});
  trace.tracks.push_back({"host", "thread 2"});
  trace.slices.push_back(slice("a", 5, 10, 1));
  trace.slices.back().arguments = {{"part", 1}};
  const Summary summary = summarize(trace);
  ASSERT_EQ(summary.names.size(), 1u);
  EXPECT_EQ(summary.names[0].count, 2u);
  EXPECT_EQ(summary.names[0].self_ns, 25);
}

TEST(TraceSummary, names_that_differ_only_in_numbers_can_be_one) {
  const Summary summary =
      summarize(on_one_track({slice("layer 1 norm", 0, 10), slice("layer 12 norm", 10, 30),
                              slice("sample", 30, 55), slice("fp8", 55, 56)}));
  const std::vector<NameTime> merged = merge_numbers(summary.names);
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[0].name, "layer # norm");
  EXPECT_EQ(merged[0].count, 2u);
  EXPECT_EQ(merged[0].self_ns, 30);
  EXPECT_EQ(merged[0].longest_ns, 20);
  EXPECT_EQ(merged[1].name, "sample");
  EXPECT_EQ(merged[2].name, "fp8");
}

TEST(TraceSummary, busy_and_idle_add_up_to_the_wall_time_of_any_slices) {
  std::mt19937 random(7);
  const auto below = [&](unsigned most) { return static_cast<std::int64_t>(random() % most); };
  for (int round = 0; round < 200; ++round) {
    Trace trace{{{"host", "1"}, {"host", "2"}, {"gpu", "3"}}, {}};
    for (std::int64_t count = below(30); count >= 0; --count) {
      const std::int64_t begin = below(500);
      trace.slices.push_back(slice(std::string(1, static_cast<char>('a' + below(5))), begin,
                                   begin + below(40), static_cast<std::size_t>(below(3))));
    }
    const Summary summary = summarize(trace, 1000);
    std::int64_t busy = 0;
    for (const Usage& track : summary.tracks) {
      EXPECT_EQ(track.busy_ns + track.idle_ns, summary.wall_ns);
      busy += track.busy_ns;
    }
    EXPECT_EQ(summary.total_ns(), busy);
    for (const Usage& process : summary.processes) {
      EXPECT_EQ(process.busy_ns + process.idle_ns, summary.wall_ns);
      // Counted moment by moment.
      std::int64_t idle = 0;
      const std::int64_t first = std::min_element(trace.slices.begin(), trace.slices.end(),
                                                  [](const TraceSlice& a, const TraceSlice& b) {
                                                    return a.begin_ns < b.begin_ns;
                                                  })
                                     ->begin_ns;
      for (std::int64_t at = first; at < first + summary.wall_ns; ++at)
        idle += std::none_of(trace.slices.begin(), trace.slices.end(), [&](const TraceSlice& s) {
          return trace.tracks[s.track].process == process.name && s.begin_ns <= at && at < s.end_ns;
        });
      EXPECT_EQ(process.idle_ns, idle);
    }
  }
}

TEST(TraceComparison, says_what_became_slower_faster_and_longer_idle) {
  const Summary before = summarize(on_one_track(
      {slice("norm", 0, 1000), slice("linear", 1000, 3000), slice("old", 3000, 3100)}));
  const Summary after = summarize(on_one_track(
      {slice("norm", 0, 2000), slice("linear", 2600, 4100), slice("new", 4100, 4200)}));
  const std::vector<NameChange> changes = compare_names(before, after);
  ASSERT_EQ(changes.size(), 4u);
  EXPECT_EQ(changes[0].name(), "norm");
  EXPECT_EQ(changes[0].total_ns(), 1000);
  EXPECT_EQ(changes[1].name(), "linear");
  EXPECT_EQ(changes[1].total_ns(), -500);
  const std::string text = comparison_report(before, after, 5);
  const auto part = [&](const char* from, const char* to) {
    return text.substr(text.find(from), text.find(to) - text.find(from));
  };
  EXPECT_THAT(part("host idle", "longest gap"), HasSubstr("600 ns"));
  EXPECT_THAT(part("\nslower", "\nfaster"), HasSubstr("norm"));
  EXPECT_THAT(part("\nslower", "\nfaster"), Not(HasSubstr("linear")));
  EXPECT_THAT(part("\nfaster", "\nonly before"), HasSubstr("-25.0 %"));
  EXPECT_THAT(part("\nonly before", "\nonly after"), HasSubstr("old"));
  EXPECT_THAT(part("\nonly after", "\n\n\n"), HasSubstr("new"));
}

TEST(TraceReport, shows_times_in_units_that_fit) {
  EXPECT_EQ(duration_text(0), "0 ns");
  EXPECT_EQ(duration_text(999), "999 ns");
  EXPECT_EQ(duration_text(1234), "1.23 us");
  EXPECT_EQ(duration_text(45.6e6), "45.6 ms");
  EXPECT_EQ(duration_text(999.6e6), "1.00 s");
}

TEST(TraceReport, escapes_names_that_cannot_be_printed) {
  const std::string text = summary_report(summarize(on_one_track({slice("a\x1b[31m", 0, 9)})), 5);
  EXPECT_THAT(text, HasSubstr("a\\x1b[31m"));
}

}  // namespace
}  // namespace attacca::trace
