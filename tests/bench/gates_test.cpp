// Tests of benchmark gates: what counts as a miss, how often a miss is tried again, and which
// misses are known.
#include "bench/gates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <attacca/error.hpp>
#include <fstream>
#include <stdexcept>

namespace {

using bench::Benchmark;
using bench::Gate;
using bench::Gates;
using bench::KnownMiss;
using bench::Measured;
using bench::Row;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kDevice = "a GPU";

Row row(const char* name, int size, double median, double limit) {
  Row made{name, {{"size", size}}, {median, median, median}};
  made.limit = limit;
  return made;
}
Row held(const char* name, int size = 1) { return row(name, size, 1, 2); }
Row missed(const char* name, int size = 1) { return row(name, size, 3, 2); }

KnownMiss known(const char* name, nlohmann::ordered_json params) {
  return {"test", kDevice, name, std::move(params), "the bus is narrow", "abc1234"};
}

/// Run n of the benchmark returns rows n; a run without rows throws.
std::vector<std::vector<Row>> rows_of_runs;
std::size_t runs_made = 0;
std::vector<bool> runs_with_peer;
const Benchmark kBenchmark{"test", "does it hold?", bench::Needs::host, [](bench::Run& run) {
                             runs_with_peer.push_back(run.engine.has_peer);
                             const std::vector<Row>& rows = rows_of_runs.at(runs_made++);
                             if (rows.empty()) throw std::runtime_error("out of memory");
                             for (const Row& each : rows) run.add(each);
                           }};

Measured measure(std::vector<std::vector<Row>> rows, const std::vector<KnownMiss>& misses = {},
                 bool is_quick = false, bool may_repeat = true) {
  rows_of_runs = std::move(rows);
  runs_made = 0;
  runs_with_peer.clear();
  return bench::measure(kBenchmark, attacca::Device::host(), is_quick, {},
                        {kDevice, "", "abc1234", "2026-11-16"}, misses, may_repeat);
}

TEST(Gates, are_run_once_where_they_hold) {
  const Measured measured = measure({{held("copy"), held("fill")}});
  EXPECT_EQ(runs_made, 1u);
  EXPECT_FALSE(measured.gates.of(0)->is_missed());
}

TEST(Gates, are_missed_where_three_of_three_runs_miss) {
  const Measured measured = measure({{held("copy"), missed("fill")},
                                     {missed("copy"), missed("fill")},
                                     {missed("copy"), missed("fill")}});
  EXPECT_EQ(runs_made, 3u);
  EXPECT_FALSE(measured.gates.of(0)->is_missed());
  EXPECT_EQ(measured.gates.of(0)->runs_missed, 2);
  EXPECT_TRUE(measured.gates.of(1)->is_failure());
  EXPECT_EQ(measured.gates.of(1)->runs_missed, 3);
}

TEST(Gates, are_not_run_again_once_each_held) {
  const Measured measured = measure({{missed("copy")}, {held("copy")}});
  EXPECT_EQ(runs_made, 2u);
  EXPECT_FALSE(measured.gates.of(0)->is_missed());
  EXPECT_EQ(measured.gates.of(0)->runs, 2);
  EXPECT_EQ(measured.gates.of(0)->runs_missed, 1);
}

TEST(Gates, keep_the_figures_of_the_first_run) {
  const Measured measured = measure({{missed("copy")}, {held("copy")}});
  ASSERT_EQ(measured.run.rows().size(), 1u);
  EXPECT_EQ(measured.run.rows()[0].value.median, 3);
}

TEST(Gates, leave_rows_without_a_limit_alone) {
  Row plain{"plain", {}, {9, 9, 9}};
  const Measured measured = measure({{plain, held("copy")}});
  EXPECT_EQ(measured.gates.of(0), nullptr);
  EXPECT_NE(measured.gates.of(1), nullptr);
}

TEST(Gates, find_a_row_again_though_its_params_hold_what_was_measured) {
  const Measured measured = measure({{missed("copy", 10), missed("copy", 20)},
                                     {held("copy", 11), missed("copy", 19)},
                                     {held("copy", 12), missed("copy", 21)}});
  EXPECT_FALSE(measured.gates.of(0)->is_missed());
  EXPECT_TRUE(measured.gates.of(1)->is_missed());
}

TEST(Gates, that_must_always_hold_are_missed_by_one_run_and_not_run_again) {
  Row forbidden = missed("message passing");
  forbidden.must_always_hold = true;
  const Measured measured = measure({{forbidden}});
  EXPECT_EQ(runs_made, 1u);
  EXPECT_TRUE(measured.gates.of(0)->is_failure());
}

TEST(Gates, that_must_always_hold_are_missed_by_a_later_run_too) {
  Row first = held("message passing"), second = missed("message passing");
  first.must_always_hold = second.must_always_hold = true;
  const Measured measured =
      measure({{first, missed("copy")}, {second, missed("copy")}, {first, held("copy")}});
  EXPECT_TRUE(measured.gates.of(0)->is_failure());
  EXPECT_FALSE(measured.gates.of(1)->is_missed());
}

TEST(Gates, of_a_rate_are_the_least_allowed) {
  Row slow = row("read", 1, 1, 2), fast = row("write", 1, 3, 2);
  slow.is_rate = fast.is_rate = true;
  const Gates gates({slow, fast}, "test", kDevice, {});
  EXPECT_TRUE(gates.of(0)->is_missed());
  EXPECT_FALSE(gates.of(1)->is_missed());
}

TEST(Gates, of_a_quick_run_are_never_tried_again) {
  measure({{missed("copy")}}, {}, true);
  EXPECT_EQ(runs_made, 1u);
}

TEST(Gates, are_tried_once_where_that_was_asked_for) {
  const Measured measured = measure({{missed("copy")}, {held("copy")}}, {}, false, false);
  EXPECT_EQ(runs_made, 1u);
  EXPECT_TRUE(measured.gates.of(0)->is_failure());
}

TEST(Gates, are_tried_again_without_the_peer) {
  measure({{missed("copy")}, {held("copy")}});
  EXPECT_THAT(runs_with_peer, ElementsAre(true, false));
}

TEST(Gates, stay_missed_where_a_repetition_fails) {
  const Measured measured = measure({{missed("copy")}, {}});
  EXPECT_EQ(runs_made, 2u);
  EXPECT_TRUE(measured.gates.of(0)->is_failure());
  EXPECT_THAT(measured.run.notes(), ElementsAre("run 2 failed: out of memory"));
}

TEST(KnownMisses, cost_no_second_run_and_fail_nothing) {
  const Measured measured = measure({{missed("copy", 8)}}, {known("copy", {{"size", 8}})});
  EXPECT_EQ(runs_made, 1u);
  EXPECT_TRUE(measured.gates.of(0)->is_missed());
  EXPECT_FALSE(measured.gates.of(0)->is_failure());
  EXPECT_EQ(measured.gates.of(0)->known->reason, "the bus is narrow");
  EXPECT_THAT(measured.gates.stale(), IsEmpty());
}

TEST(KnownMisses, cover_only_rows_with_their_name_and_params) {
  const KnownMiss entry = known("copy", {{"size", 8}});
  EXPECT_TRUE(entry.covers(missed("copy", 8)));
  EXPECT_FALSE(entry.covers(missed("copy", 9)));
  EXPECT_FALSE(entry.covers(missed("fill", 8)));
  Row more = missed("copy", 8);
  more.params["way"] = "up";
  EXPECT_TRUE(entry.covers(more));
  EXPECT_FALSE(entry.covers(Row{"copy", {}, {}}));
}

TEST(KnownMisses, of_another_device_or_benchmark_excuse_nothing) {
  KnownMiss device = known("copy", {}), benchmark = known("copy", {});
  device.device = "another GPU";
  benchmark.bench = "another test";
  const Gates gates({missed("copy")}, "test", kDevice, {device, benchmark});
  EXPECT_TRUE(gates.of(0)->is_failure());
  EXPECT_THAT(gates.stale(), IsEmpty());
}

TEST(KnownMisses, are_stale_where_no_row_is_like_them_or_all_hold) {
  const Gates gates({held("copy", 8), held("copy", 9), missed("fill", 8), held("fill", 9)}, "test",
                    kDevice, {known("copy", {}), known("gone", {{"size", 8}}), known("fill", {})});
  EXPECT_THAT(gates.stale(), ElementsAre(HasSubstr("test: copy: the gate holds now"),
                                         HasSubstr("test: gone, size 8: no row")));
}

class KnownMissesFile : public testing::Test {
 protected:
  std::vector<KnownMiss> read(const std::string& text) {
    std::ofstream(path_) << text;
    return bench::read_known_misses(path_);
  }
  void expect_refusal(const std::string& text, const char* reason) {
    try {
      read(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const attacca::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path_.string()));
      EXPECT_THAT(error.what(), HasSubstr(reason));
    }
  }
  void TearDown() override { std::filesystem::remove(path_); }

  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      ("known_misses_" +
       std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".json");
};

TEST_F(KnownMissesFile, is_read_with_every_field) {
  const auto misses = read(R"([{"bench": "decode", "device": "a GPU", "row": "step",
      "params": {"batch": 64}, "reason": "latency", "since": "abc1234"}])");
  ASSERT_EQ(misses.size(), 1u);
  EXPECT_EQ(misses[0].bench, "decode");
  EXPECT_EQ(misses[0].params["batch"], 64);
  EXPECT_EQ(misses[0].reason, "latency");
}

TEST_F(KnownMissesFile, names_the_entry_and_the_field_that_is_wrong) {
  expect_refusal("[{", "not a JSON list");
  expect_refusal("{}", "not a JSON list");
  expect_refusal("[1]", "entry 1: it is not an object");
  const std::string most = R"("bench": "a", "device": "b", "row": "c", "since": "d")";
  expect_refusal("[{" + most + R"(, "params": {}}])", "entry 1: 'reason' must be");
  expect_refusal("[{" + most + R"(, "params": {}, "reason": ""}])", "entry 1: 'reason' must be");
  expect_refusal("[{" + most + R"(, "reason": "e"}])", "'params' must be");
  expect_refusal("[{" + most + R"(, "reason": "e", "params": {}, "parms": {}}])",
                 "'parms' is not a field");
}

TEST_F(KnownMissesFile, that_is_not_there_says_so) {
  EXPECT_THROW(bench::read_known_misses("/no-such-folder/file.json"), attacca::Error);
}

TEST_F(KnownMissesFile, of_this_repository_is_valid) {
  EXPECT_NO_THROW(bench::read_known_misses(bench::source_folder() / "bench/known_misses.json"));
}

nlohmann::ordered_json json_of(const Measured& measured) {
  return bench::to_json(kBenchmark, {kDevice, "", "abc1234", "2026-11-16"}, measured);
}

TEST(Report, json_says_whether_a_limit_was_met_and_how_many_runs_missed_it) {
  const auto rows = json_of(measure({{held("copy"), missed("fill")},
                                     {held("copy"), missed("fill")},
                                     {held("copy"), missed("fill")}}))["rows"];
  EXPECT_EQ(rows[0]["meets_limit"], true);
  EXPECT_EQ(rows[0]["runs_missed"], 0);
  EXPECT_EQ(rows[1]["limit"], 2.0);
  EXPECT_EQ(rows[1]["meets_limit"], false);
  EXPECT_EQ(rows[1]["runs"], 3);
  EXPECT_EQ(rows[1]["runs_missed"], 3);
}

TEST(Report, json_of_one_run_counts_no_runs) {
  const auto rows = json_of(measure({{held("copy"), Row{"plain", {}, {}}}}))["rows"];
  EXPECT_EQ(rows[0]["meets_limit"], true);
  EXPECT_FALSE(rows[0].contains("runs"));
  EXPECT_FALSE(rows[1].contains("meets_limit"));
}

TEST(Report, prints_how_many_runs_missed_and_why_a_miss_is_known) {
  const Measured measured = measure({{missed("copy", 8), missed("fill")},
                                     {missed("copy", 8), missed("fill")},
                                     {missed("copy", 8), held("fill")}},
                                    {known("copy", {})});
  testing::internal::CaptureStdout();
  bench::print_report(kBenchmark, {kDevice, "", "abc1234", "2026-11-16"}, measured);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("MISSED in 3 of 3 runs"));
  EXPECT_THAT(text, HasSubstr("held, missed in 2 of 3 runs"));
  EXPECT_THAT(text, HasSubstr("The figures are those of the first of 3 runs."));
  EXPECT_THAT(text, HasSubstr("known miss: copy, size 8: the bus is narrow"));
}

}  // namespace
