// Tests of the other formats of a trace: Perfetto's protobuf, read here by a reader of its own, and
// the page. `make oracle` reads the first with Perfetto's classes and opens the second in Chromium.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/trace.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace attacca::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

/// The fields of a message of protobuf, by their numbers.
struct Fields {
  explicit Fields(std::string_view bytes) {
    const auto varint = [&] {
      std::uint64_t value = 0;
      for (unsigned shift = 0;; shift += 7) {
        if (bytes.empty() || shift > 63) throw std::runtime_error("a varint does not end");
        const auto byte = static_cast<unsigned char>(bytes.front());
        bytes.remove_prefix(1);
        value |= std::uint64_t{byte & 0x7fu} << shift;
        if (byte < 0x80) return value;
      }
    };
    while (!bytes.empty()) {
      const std::uint64_t key = varint();
      const auto field = static_cast<unsigned>(key >> 3);
      if ((key & 7) == 0) {
        numbers[field].push_back(varint());
        continue;
      }
      const std::size_t length = (key & 7) == 1 ? 8 : (key & 7) == 2 ? varint() : bytes.size() + 1;
      if (length > bytes.size()) throw std::runtime_error("a field does not end");
      texts[field].push_back(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
  }
  std::uint64_t number(unsigned field) const { return numbers.at(field).at(0); }
  std::string_view text(unsigned field) const { return texts.at(field).at(0); }
  bool has(unsigned field) const { return numbers.contains(field) || texts.contains(field); }

  std::map<unsigned, std::vector<std::uint64_t>> numbers;
  std::map<unsigned, std::vector<std::string_view>> texts;
};

Trace sample() {
  Trace trace;
  trace.tracks = {{"engine", "steps", true}, {"host", "thread 1"}};
  trace.slices = {
      {.track = 0, .name = "step", .begin_ns = 1000, .end_ns = 9000},
      {.track = 1, .name = "outer", .begin_ns = 1100, .end_ns = 5000, .graph = "g", .launch = 300},
      {.track = 1,
       .name = "inner </script>\"\xff",
       .begin_ns = 1100,
       .end_ns = 2000,
       .iteration = 2,
       .arguments = {{"tokens", std::int64_t{-4}}, {"mode", "decode"}},
       .cost = {.flops = 1.5e12, .bytes = 64}},
      {.track = 1, .name = "next", .begin_ns = 5000, .end_ns = 6000},
  };
  return trace;
}

/// Begins and ends of a track as "+name@time" and "-@time", in the order of the file.
std::vector<std::string> events_of(const std::string& file, std::uint64_t uuid) {
  std::vector<std::string> events;
  const Fields packets(file);
  for (const std::string_view bytes : packets.texts.at(1)) {
    const Fields packet(bytes);
    if (!packet.has(11)) continue;
    const Fields event(packet.text(11));
    if (event.number(11) != uuid) continue;
    const std::string at = "@" + std::to_string(packet.number(8));
    events.push_back(event.number(9) == 1 ? "+" + std::string(event.text(23)) + at : "-" + at);
  }
  return events;
}

TEST(PerfettoTrace, tracks_hang_below_their_processes) {
  const std::string file = to_perfetto(sample());
  std::map<std::uint64_t, std::string> processes;
  std::map<std::string, std::uint64_t> parents;
  const Fields packets(file);
  for (const std::string_view bytes : packets.texts.at(1)) {
    const Fields packet(bytes);
    if (!packet.has(60)) continue;
    const Fields track(packet.text(60));
    if (track.has(3))
      processes[track.number(1)] = Fields(track.text(3)).text(6);
    else
      parents[std::string(track.text(2))] = track.number(5);
  }
  EXPECT_EQ(processes.at(parents.at("steps")), "engine");
  EXPECT_EQ(processes.at(parents.at("thread 1")), "host");
}

TEST(PerfettoTrace, ends_close_the_innermost_slice_and_come_before_begins) {
  const std::string file = to_perfetto(sample());
  EXPECT_THAT(events_of(file, 4), ElementsAre("+outer@100", StartsWith("+inner"), "-@1000",
                                              "-@4000", "+next@4000", "-@5000"));
  EXPECT_THAT(events_of(file, 3), ElementsAre("+step@0", "-@8000"));
}

TEST(PerfettoTrace, slices_carry_what_is_known_of_them) {
  const std::string file = to_perfetto(sample());
  std::map<std::string, Fields> found;
  const Fields packets(file);
  for (const std::string_view bytes : packets.texts.at(1)) {
    const Fields packet(bytes);
    if (!packet.has(11)) continue;
    const Fields event(packet.text(11));
    if (const auto all = event.texts.find(4); all != event.texts.end())
      for (const std::string_view annotation : all->second)
        found.emplace(Fields(annotation).text(10), Fields(annotation));
  }
  EXPECT_EQ(found.at("graph").text(6), "g");
  EXPECT_EQ(found.at("launch").number(3), 300u);
  EXPECT_EQ(found.at("iteration").number(3), 2u);
  EXPECT_EQ(static_cast<std::int64_t>(found.at("tokens").number(4)), -4);
  EXPECT_EQ(found.at("mode").text(6), "decode");
  double flops = 0;
  std::memcpy(&flops, found.at("flops").text(5).data(), sizeof flops);
  EXPECT_EQ(flops, 1.5e12);
}

TEST(PerfettoTrace, a_slice_that_crosses_another_ends_with_it) {
  Trace trace;
  trace.tracks = {{"p", "t"}};
  trace.slices = {{.name = "a", .begin_ns = 0, .end_ns = 10},
                  {.name = "b", .begin_ns = 5, .end_ns = 20}};
  EXPECT_THAT(events_of(to_perfetto(trace), 2), ElementsAre("+a@0", "+b@5", "-@10", "-@10"));
  EXPECT_THAT(to_perfetto({}), SizeIs(0));
}

TEST(TracePage, holds_the_trace_and_nothing_in_it_ends_the_script) {
  const std::string page = to_trace_page(sample(), "a <b> & c");
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr("<title>a &#60;b> &#38; c</title>"));
  EXPECT_THAT(page, HasSubstr("\\u003c/script\\u003e"));
  EXPECT_THAT(page, Not(HasSubstr("@TRACE@;")));
  EXPECT_THAT(page, Not(HasSubstr("@TITLE@")));
  EXPECT_EQ(page.find("</script>"), page.rfind("</script>")) << "only one script ends";
  EXPECT_THAT(page, Not(HasSubstr("http:"))) << "it loads nothing";
  EXPECT_THAT(page, Not(HasSubstr("https:")));
}

TEST(TraceFile, has_the_format_of_its_ending) {
  const auto written = [](const char* name) {
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
    write_trace(sample(), path.string());
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::filesystem::remove(path);
    return text;
  };
  EXPECT_EQ(written("formats_test.pftrace"), to_perfetto(sample()));
  EXPECT_EQ(written("formats_test.perfetto-trace"), to_perfetto(sample()));
  EXPECT_EQ(written("formats_test.html"), to_trace_page(sample(), "formats_test"));
  EXPECT_EQ(written("formats_test.json"), to_chrome_json(sample()));
  EXPECT_EQ(written("formats_test"), to_chrome_json(sample()));
}

TEST(TraceFile, slices_that_no_format_can_hold_are_refused_by_name) {
  const auto refused = [](const Trace& trace, const char* why) {
    const auto refusal = testing::ThrowsMessage<BadArgument>(
        testing::AllOf(HasSubstr("slice 'odd'"), HasSubstr(why)));
    EXPECT_THAT([&] { to_chrome_json(trace); }, refusal);
    EXPECT_THAT([&] { to_perfetto(trace); }, refusal);
    EXPECT_THAT([&] { to_trace_page(trace, "odd"); }, refusal);
  };
  refused({.tracks = {}, .slices = {{.track = 7, .name = "odd"}}}, "track 7 of a trace with 0");
  const TraceSlice usual{.name = "usual", .begin_ns = 0, .end_ns = 3};
  refused({{{"host", "thread"}}, {usual, {.name = "odd", .begin_ns = INT64_MIN, .end_ns = 5}}},
          "-9223372036854775808 ns");
  refused({{{"host", "thread"}}, {usual, {.name = "odd", .begin_ns = 4, .end_ns = INT64_MAX}}},
          "9223372036854775807 ns");
}

TEST(TraceFile, the_largest_times_are_written_right) {
  const std::int64_t most = 4'000'000'000'000'000'000;
  const Trace trace{{{"host", "thread"}},
                    {{.name = "first", .begin_ns = -most, .end_ns = -most + 1},
                     {.name = "last", .begin_ns = most - 1, .end_ns = most}}};
  EXPECT_THAT(to_chrome_json(trace), HasSubstr("\"ts\":7999999999999999.999,\"dur\":0.001"));
}

}  // namespace
}  // namespace attacca::test
