// Tests of the readers of logs: each format, what is passed over, and what is skipped and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include <string>

#include "planner/read_log.hpp"

namespace {

using namespace attacca::planner;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

struct Reading {
  Traffic traffic;
  LogReader reader{traffic};

  explicit Reading(const std::string& text) { reader.read(text, "log"); }
  std::uint64_t skipped(Skip why) const {
    return reader.skipped()[static_cast<std::size_t>(why)].count;
  }
  std::string first(Skip why) const {
    return reader.skipped()[static_cast<std::size_t>(why)].first;
  }
  std::uint64_t steps(Source source) const {
    return reader.steps()[static_cast<std::size_t>(source)];
  }
  std::uint64_t all_skipped() const {
    std::uint64_t sum = 0;
    for (const auto& skipped : reader.skipped()) sum += skipped.count;
    return sum;
  }
};

constexpr const char* kIteration =
    R"({"gpuMemUsage":7,"iter":3,"iterLatencyMS":8.5,"kvCacheStats":{"maxNumBlocks":9,"x":[1,{}]},)"
    R"("inflightBatchingStats":{"numContextRequests":1,"numCtxTokens":60,"numGenRequests":4}})";

TEST(ReadLog, a_step_log_of_ours_is_read_with_sizes_and_times) {
  const Reading read(
      R"({"step":1,"batch":"mixed","mode":"mixed","tokens":12,"rows":1,"size":16,"padding":4,"hit":true,"microseconds":17962.9})"
      "\n"
      R"({"step":9,"batch":"mixed","mode":"kernels","tokens":80,"rows":1,"size":0,"padding":0,"hit":false,"why":"above the largest size","microseconds":9113.0})"
      "\n"
      R"({"step":10,"batch":"decode","mode":"decode","tokens":3,"rows":3,"size":4,"padding":1,"hit":true,"microseconds":20.5})");
  EXPECT_THAT(read.traffic.mixed.counts, ElementsAre(Pair(12, 1), Pair(80, 1)));
  EXPECT_THAT(read.traffic.decode.counts, ElementsAre(Pair(3, 1)));
  EXPECT_THAT(read.traffic.mixed.times, ElementsAre(Pair(Pair(12, 16), ElementsAre(17962.9f)),
                                                    Pair(Pair(80, 0), ElementsAre(9113.0f))));
  EXPECT_EQ(3u, read.steps(Source::attacca));
  EXPECT_EQ(0u, read.all_skipped());
}

TEST(ReadLog, fields_that_are_missing_or_unknown_do_no_harm) {
  const Reading read(R"({"tokens":2,"mode":"decode","new":{"tokens_of":[1,2,"}"]},"v":null})"
                     "\n"
                     R"({"batch":"decode","tokens":2,"count":40})");
  EXPECT_THAT(read.traffic.decode.counts, ElementsAre(Pair(2, 41)));
  EXPECT_THAT(read.traffic.decode.times, IsEmpty());
}

TEST(ReadLog, an_iteration_of_tensorrt_llm_is_read_as_json_and_as_python_prints_it) {
  std::string python = kIteration;
  std::replace(python.begin(), python.end(), '"', '\'');
  python.replace(python.find("'gpuMemUsage':7"), 15, "'gpuMemUsage': None, 'ok': True");
  const Reading read(std::string(kIteration) + "\n" + python + "\n[" + kIteration + "," +
                     kIteration + "]\n[TRT-LLM] [I] " + kIteration);
  EXPECT_THAT(read.traffic.mixed.counts, ElementsAre(Pair(64, 5)));
  EXPECT_THAT(read.traffic.mixed.times.at({64, 64}), testing::Each(8500.0f));
  EXPECT_EQ(5u, read.steps(Source::tensorrt_llm));
}

TEST(ReadLog, an_iteration_without_context_is_a_decode_step_and_one_without_tokens_is_none) {
  const Reading read(R"({"inflightBatchingStats":{"numCtxTokens":0,"numGenRequests":7}})"
                     "\n"
                     R"({"inflightBatchingStats":{"numCtxTokens":0,"numGenRequests":0}})");
  EXPECT_THAT(read.traffic.decode.counts, ElementsAre(Pair(7, 1)));
  EXPECT_EQ(1u, read.skipped(Skip::idle));
  EXPECT_EQ("log:2", read.first(Skip::idle));
}

constexpr const char* kTable =
    "INFO 11-17 [cuda_graph.py:95] **CUDAGraph Config Settings:**\n\n"
    "- Mode: FULL_AND_PIECEWISE\n"
    "- Capture sizes: [1, 2, 4, 8]\n\n"
    "**CUDAGraph Stats:**\n\n"
    "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |\n"
    "|-----------------|---------------|--------------|--------------|-------|\n"
    "| 6               | 8             | 2            | FULL         | 31    |\n"
    "INFO 11-17 [cuda_graph.py:95] | 3 | 4 | 1 | PIECEWISE | 2 |\n"
    "| 415             | 415           | 0            | NONE         | 1     |\n";

TEST(ReadLog, the_table_of_vllm_is_read_and_full_graphs_are_decode_steps) {
  const Reading read(kTable);
  EXPECT_THAT(read.traffic.decode.counts, ElementsAre(Pair(6, 31)));
  EXPECT_THAT(read.traffic.mixed.counts, ElementsAre(Pair(3, 2), Pair(415, 1)));
  EXPECT_EQ(34u, read.steps(Source::vllm));
  EXPECT_EQ(6u, read.skipped(Skip::other_text));
}

TEST(ReadLog, vllm_with_full_graphs_for_all_steps_does_not_tell_decode_steps_apart) {
  std::string table = kTable;
  table.replace(table.find("FULL_AND_PIECEWISE"), 18, "CUDAGraphMode.FULL");
  const Reading read(table);
  EXPECT_THAT(read.traffic.decode.counts, IsEmpty());
  EXPECT_THAT(read.traffic.mixed.counts, ElementsAre(Pair(3, 2), Pair(6, 31), Pair(415, 1)));
}

TEST(ReadLog, one_file_may_mix_formats_and_other_text) {
  const Reading read(std::string("starting up\r\n\r\n") + kTable + kIteration +
                     "\n{\"config\": {'a': 1}}\n" + R"({"batch":"decode","tokens":1})" + "\r\n");
  EXPECT_EQ(1u, read.steps(Source::attacca));
  EXPECT_EQ(1u, read.steps(Source::tensorrt_llm));
  EXPECT_EQ(34u, read.steps(Source::vllm));
  EXPECT_EQ(1u, read.skipped(Skip::no_step));
  EXPECT_EQ("log:1", read.first(Skip::other_text));
}

TEST(ReadLog, a_line_that_was_cut_off_is_skipped_wherever_the_cut_is) {
  const std::string line =
      R"({"step":1,"batch":"decode","mode":"decode","tokens":128,"size":128,"microseconds":9.5})";
  for (std::size_t end = 1; end < line.size(); ++end) {
    const Reading read(line.substr(0, end));
    EXPECT_EQ(0u, read.traffic.total()) << line.substr(0, end);
    EXPECT_EQ(1u, read.skipped(Skip::cut_off)) << line.substr(0, end);
  }
  EXPECT_EQ(1u, Reading(line + "{" + line).traffic.total()) << "what was whole still counts";
}

TEST(ReadLog, values_that_make_no_sense_are_skipped_and_a_bad_time_only_loses_the_time) {
  for (const char* bad :
       {R"({"batch":"decode","tokens":-1})", R"({"batch":"decode","tokens":"many"})",
        R"({"batch":"decode","tokens":0})", R"({"batch":"decode","tokens":99999999999})",
        R"({"batch":"decode","tokens":1048577})", R"({"batch":"prefill","tokens":3})",
        R"({"batch":"decode","tokens":3,"size":2})", R"({"batch":"decode","tokens":3,"count":0})",
        R"({"numCtxTokens":4000000000,"numGenRequests":1})", "| 6 | x | 0 | FULL | 3 |",
        "| 6 | 8 | 2 | FULL | 0 |"}) {
    const Reading read(bad);
    EXPECT_EQ(0u, read.traffic.total()) << bad;
    EXPECT_EQ(1u, read.skipped(Skip::bad_value)) << bad;
  }
  for (const char* time : {"nan", "-5", "1e300", "\"soon\""}) {
    const Reading read(std::string(R"({"batch":"decode","tokens":3,"microseconds":)") + time + "}");
    EXPECT_EQ(1u, read.traffic.total()) << time;
    EXPECT_THAT(read.traffic.decode.times, IsEmpty()) << time;
  }
}

TEST(ReadLog, brackets_that_do_not_match_or_nest_without_end_are_refused) {
  EXPECT_EQ(1u, Reading(R"({"batch":"decode","tokens":3])").skipped(Skip::cut_off));
  EXPECT_EQ(1u, Reading(std::string(100000, '{')).skipped(Skip::cut_off));
}

TEST(ReadLog, samples_of_one_size_are_bounded_and_steps_are_not) {
  std::string text;
  for (int step = 0; step < 5000; ++step)
    text += "{\"batch\":\"decode\",\"tokens\":1,\"microseconds\":2}\n";
  const Reading read(text);
  EXPECT_EQ(5000u, read.traffic.total());
  EXPECT_EQ(Steps::kMostSamples, read.traffic.decode.times.at({1, 1}).size());
}

TEST(ReadDistribution, takes_tokens_and_counts) {
  Traffic traffic;
  read_distribution("1:900, 8:30,8", Kind::decode, traffic);
  EXPECT_THAT(traffic.decode.counts, ElementsAre(Pair(1, 900), Pair(8, 31)));
}

TEST(ReadDistribution, names_what_it_cannot_read) {
  for (const char* bad :
       {"", "x", "1:", ":5", "1:900,,2", "0:5", "3:0", "1:2:3", "2000000:1", "-1:2"}) {
    Traffic traffic;
    try {
      read_distribution(bad, Kind::decode, traffic);
      FAIL() << bad;
    } catch (const attacca::BadArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("is no TOKENS:COUNT; give the tokens")) << bad;
    }
  }
}

}  // namespace
