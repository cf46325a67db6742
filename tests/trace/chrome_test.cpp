// Tests of Chrome's JSON format: what is written reads back, other programs' files are understood,
// and errors name the place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "trace/read_chrome.hpp"

namespace attacca::trace {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Trace sample() {
  Trace trace;
  trace.tracks = {{"engine", "steps", true}, {"host", "thread 1"}, {"host", "thread 2"}};
  trace.slices = {
      {.track = 0, .name = "decode step", .begin_ns = 0, .end_ns = 5'000'001},
      {.track = 1,
       .name = "rms \"norm\"\n\xc3\xa9",
       .begin_ns = 7,
       .end_ns = 1'234'567,
       .graph = "decode 8",
       .launch = 3,
       .iteration = 2,
       .arguments = {{"mode", "decode"}, {"tokens", -4}},
       .cost = {.flops = 1.25e15, .bytes = 0.5, .arithmetic = Arithmetic::fp8}},
      {.track = 2, .name = "", .begin_ns = 900'000'000'000'007, .end_ns = 900'000'000'000'007},
  };
  return trace;
}

std::string error_of(std::string_view text) {
  try {
    (void)read_chrome(text, "run.json");
  } catch (const BadArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ChromeTrace, reads_back_what_was_written) {
  const Trace trace = sample();
  const ReadTrace read = read_chrome(to_chrome_json(trace), "run.json");
  EXPECT_EQ(read.skipped, 0u);
  EXPECT_EQ(read.trace.tracks, trace.tracks);
  EXPECT_EQ(read.trace.slices, trace.slices);
}

TEST(ChromeTrace, an_empty_trace_reads_back) {
  EXPECT_EQ(read_chrome(to_chrome_json({}), "x").trace, Trace{});
}

TEST(ChromeTrace, times_begin_at_the_first_slice) {
  Trace trace{{{"host", "thread 1"}}, {{.name = "a", .begin_ns = 5'001, .end_ns = 6'001}}};
  EXPECT_THAT(to_chrome_json(trace), HasSubstr(R"("ts":0.000,"dur":1.000)"));
}

TEST(ChromeTrace, bytes_that_are_no_utf8_are_replaced) {
  Trace trace{{{"host", "thread 1"}}, {{.name = "a\xff", .begin_ns = 0, .end_ns = 1}}};
  EXPECT_EQ(read_chrome(to_chrome_json(trace), "x").trace.slices.at(0).name, "a\xef\xbf\xbd");
}

TEST(ChromeTrace, a_file_that_cannot_be_written_is_an_error_with_its_name) {
  EXPECT_THAT([] { write_trace({}, "/nowhere/run.json"); },
              testing::ThrowsMessage<Error>(HasSubstr("'/nowhere/run.json'")));
}

TEST(ChromeTrace, a_file_holds_the_same_text) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "attacca_trace_test.json";
  write_trace(sample(), path.string());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), to_chrome_json(sample()));
  std::filesystem::remove(path);
}

TEST(ChromeTrace, other_programs_files_are_read_as_far_as_they_have_slices) {
  const ReadTrace read = read_chrome(
      R"([{"ph":"B","name":"outer","pid":7,"tid":"main","ts":1.5},
          {"ph":"B","name":"inner","pid":7,"tid":"main","ts":2},
          {"ph":"C","name":"counter","pid":7,"ts":2,"args":{"value":3}},
          {"ph":"E","pid":7,"tid":"main","ts":3},
          {"ph":"E","pid":7,"tid":"main","ts":4,"args":{}},
          {"ph":"E","pid":7,"tid":"main","ts":5},
          {"ph":"X","name":"k","pid":0,"tid":7,"ts":1,"args":{"grid":[1,2],"share":0.5,"big":1e300}},
          {"ph":"M","name":"process_name","pid":7,"args":{"name":"python"}}])",
      "run.json");
  EXPECT_EQ(read.skipped, 2u);
  ASSERT_EQ(read.trace.tracks.size(), 2u);
  EXPECT_EQ(read.trace.tracks[0], (TraceTrack{"python", "thread main"}));
  EXPECT_EQ(read.trace.tracks[1], (TraceTrack{"process 0", "thread 7"}));
  ASSERT_EQ(read.trace.slices.size(), 3u);
  EXPECT_EQ(read.trace.slices[0].name, "inner");
  EXPECT_EQ(read.trace.slices[0].end_ns, 3'000);
  EXPECT_EQ(read.trace.slices[1].begin_ns, 1'500);
  EXPECT_EQ(read.trace.slices[2].arguments.size(), 2u);
}

TEST(ChromeTrace, a_number_in_the_place_of_a_graph_s_name_is_passed_over) {
  const auto read = [](const std::string& text) { return read_chrome(text, "run.json").trace; };
  const Trace once = read(R"([{"ph":"X","name":"k","pid":1,"tid":1,"ts":0,"dur":1,
                              "args":{"graph":2.5e9,"arithmetic":true,"graphs":2.5,"launch":"a"}}])");
  ASSERT_EQ(once.slices.size(), 1u);
  EXPECT_EQ(once.slices[0].graph, "");
  EXPECT_EQ(once.slices[0].arguments.size(), 2u);
  EXPECT_EQ(read(to_chrome_json(once)), once);
}

TEST(ChromeTrace, broken_files_give_errors_that_name_the_place) {
  EXPECT_THAT(error_of(""), AllOf(StartsWith("run.json: "), HasSubstr("line 1, column 1")));
  EXPECT_THAT(error_of("[\n{\"ph\":\"X\",]"), HasSubstr("line 2, column 11"));
  EXPECT_THAT(error_of(R"({"traceEvents":[{"ph":"X","name":"a","ts":1}])"), HasSubstr("line 1"));
  EXPECT_THAT(error_of("{}"), HasSubstr("no list of events"));
  EXPECT_THAT(error_of("17"), HasSubstr("no list of events"));
  EXPECT_THAT(error_of(R"({"traceEvents":{}})"), HasSubstr("no list of events"));
  EXPECT_THAT(error_of(R"([{"ph":"C"},5])"), HasSubstr("event 2: it is not an object"));
  EXPECT_THAT(error_of(R"([{"ph":"C"},[]])"), HasSubstr("event 2: it is not an object"));
  EXPECT_THAT(error_of(R"([{"ph":"C"},{}])"), HasSubstr("event 2: it has no ph"));
  EXPECT_THAT(error_of(R"([{"ph":"X","ts":0}])"), HasSubstr("event 1: it has no name"));
  EXPECT_THAT(error_of(R"([{"ph":"X","name":5,"ts":0}])"), HasSubstr("name is not a text"));
  EXPECT_THAT(error_of(R"([{"ph":"X","name":"a"}])"), HasSubstr("event 1: it has no ts"));
  EXPECT_THAT(error_of(R"([{"ph":"X","name":"a","ts":"1"}])"), HasSubstr("ts is not a number"));
  EXPECT_THAT(error_of(R"([{"ph":"X","name":"a","ts":1e18}])"), HasSubstr("ts is not a number"));
  EXPECT_THAT(error_of(R"([{"ph":"X","name":"a","ts":1,"dur":-1}])"),
              HasSubstr("dur is not a number of microseconds from 0 to 1e+12"));
  EXPECT_THAT(error_of(R"([{"ph":"X","name":"a","ts":1,"pid":[]}])"), HasSubstr("pid is neither"));
  EXPECT_THAT(error_of(R"([{"ph":"B","name":"a","ts":2},{"ph":"E","ts":1}])"),
              HasSubstr("event 2: 'a' ends before it begins"));
  EXPECT_THAT(error_of(R"([{"ph":"M","name":"thread_name"}])"), HasSubstr("without args"));
  EXPECT_THAT(error_of(R"([{"ph":"X","name":"a","ts":1},{"ph":"X","name":"b","ts":2e12}])"),
              HasSubstr("'a' and 'b' are more than"));
  EXPECT_THAT(error_of(R"({"other":)" + std::string(100, '[')), HasSubstr("nested deeper than 64"));
}

}  // namespace
}  // namespace attacca::trace
