// Tests of the pictures of benchmarks: they are well-formed, complete, and finite for any
// measurements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "bench/gates.hpp"
#include "bench/harness.hpp"

namespace {

using bench::Benchmark;
using bench::Plot;
using bench::Row;

const Benchmark kPlotted{"test", "is 1 < 2?", bench::Needs::host, nullptr};

Row row(const char* name, double x, double median, double p10, double p90) {
  Row made{name, {{"size", x}}, {median, p10, p90}};
  made.baseline = 2;
  made.floor = 1;
  return made;
}

bench::Run run_of(const std::vector<Row>& rows, const Plot& plot) {
  bench::Run run("test", attacca::Device::host(), true);
  for (const Row& each : rows) run.add(each);
  run.add(plot);
  return run;
}
std::string svg_of(const bench::Run& run) {
  return bench::to_svg(kPlotted, {"cpu", "", "c", "d"}, run);
}
std::string svg_of(const std::vector<Row>& rows, const Plot& plot) {
  return svg_of(run_of(rows, plot));
}
Plot plot_over(const char* x) { return {"a title", x, "x label", "y label"}; }

/// Checks that every tag is closed in turn, and that no text or attribute has characters that XML
/// forbids there. It does not use <regex>, which gives warnings under the address sanitizer.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  std::string text;  // outside tags, and the values of attributes
  for (std::size_t at = 0; at < svg.size();) {
    if (svg[at] != '<') {
      text += svg[at++];
      continue;
    }
    const std::size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos) << svg.substr(at);
    std::string tag = svg.substr(at + 1, end - at - 1);
    at = end + 1;
    ASSERT_FALSE(tag.empty());
    if (tag.front() == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ(open.back(), tag.substr(1));
      open.pop_back();
      continue;
    }
    const bool is_closed = tag.back() == '/';
    if (is_closed) tag.pop_back();
    EXPECT_EQ(std::count(tag.begin(), tag.end(), '\'') % 2, 0) << tag;
    EXPECT_EQ(tag.find('<'), std::string::npos) << tag;
    text += tag.substr(std::min(tag.size(), tag.find('=')));
    if (!is_closed) open.push_back(tag.substr(0, tag.find(' ')));
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(text.find('>'), std::string::npos) << text;
  for (std::size_t at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1)) {
    const std::string entity = text.substr(at, text.find(';', at) - at + 1);
    EXPECT_THAT(entity, testing::AnyOf("&amp;", "&lt;", "&gt;", "&quot;", "&#39;"));
  }
}

void expect_finite(const std::string& svg) {
  for (const char* bad : {"nan", "inf"})
    for (std::size_t at = svg.find(bad); at != std::string::npos; at = svg.find(bad, at + 1)) {
      const auto is_letter = [&](std::size_t place) {
        return place < svg.size() && std::isalpha(static_cast<unsigned char>(svg[place]));
      };
      EXPECT_TRUE(is_letter(at - 1) || is_letter(at + 3)) << svg.substr(at > 20 ? at - 20 : 0, 60);
    }
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Plot, DrawsAndNamesEveryCurve) {
  const auto svg = svg_of({row("first", 1, 3, 2, 4), row("second", 1, 5, 4, 6),
                           row("first", 1024, 7, 6, 9), row("second", 65536, 9, 8, 9)},
                          plot_over("size"));
  expect_well_formed(svg);
  expect_finite(svg);
  EXPECT_EQ(2, count(svg, "<polyline"));
  EXPECT_EQ(4, count(svg, "<circle"));
  for (const char* text :
       {">first</text>", ">second</text>", ">a title<", ">x label<", ">y label<", ">64Ki<"})
    EXPECT_EQ(1, count(svg, text)) << text;
}

TEST(Plot, OnePointAndEqualValuesAreDrawnOnEveryScale) {
  for (const bool is_log_x : {false, true})
    for (const bool is_log_y : {false, true})
      for (const auto value : {Plot::Value::median, Plot::Value::ratio, Plot::Value::fraction})
        for (const auto& rows : {std::vector{row("one", 3, 2, 2, 2)},
                                 {row("one", 3, 2, 2, 2), row("one", 3, 2, 2, 2)},
                                 {row("one", 3, 1e-7, 1e-7, 1e-7), row("one", 3e9, 4e9, 0, 5e9)}}) {
          Plot plot = plot_over("size");
          plot.is_log_x = is_log_x;
          plot.is_log_y = is_log_y;
          plot.value = value;
          const auto svg = svg_of(rows, plot);
          expect_well_formed(svg);
          expect_finite(svg);
          EXPECT_EQ(static_cast<int>(rows.size()), count(svg, "<circle"));
        }
}

TEST(Plot, LeavesOutWhatItsScaleCannotShow) {
  Plot plot = plot_over("size");
  plot.is_log_y = true;
  const auto svg =
      svg_of({row("one", 0, 1, 1, 1), row("one", 1, 0, 0, 1), row("one", 2, 5, 4, 6)}, plot);
  expect_finite(svg);
  EXPECT_EQ(1, count(svg, "<circle"));
}

TEST(Plot, EscapesNames) {
  const auto svg = svg_of({row("a<b> & \"c\" 'd'\n", 1, 2, 2, 2)}, plot_over("size"));
  expect_well_formed(svg);
  EXPECT_EQ(1, count(svg, ">a&lt;b&gt; &amp; &quot;c&quot; 'd'</text>"));
}

TEST(Plot, DrawsOnlyTheRowsAskedFor) {
  Plot plot = plot_over("size");
  plot.rows = {"second"};
  const auto svg = svg_of({row("first", 1, 3, 2, 4), row("second", 1, 5, 4, 6)}, plot);
  EXPECT_EQ(0, count(svg, ">first<"));
  EXPECT_EQ(1, count(svg, ">second</text>"));
}

TEST(Plot, SeveralStandBelowEachOther) {
  bench::Run run = run_of({row("one", 1, 2, 2, 2)}, plot_over("size"));
  const auto height = [](const std::string& svg) {
    const std::string key = "height='";
    return std::stoi(svg.substr(svg.find(key) + key.size()));
  };
  const int once = height(svg_of(run));
  run.add(plot_over("size"));
  const auto svg = svg_of(run);
  expect_well_formed(svg);
  EXPECT_GT(height(svg), once + 300);
}

TEST(Plot, NothingToDrawIsNoPicture) {
  EXPECT_EQ("", svg_of({row("one", 1, 2, 2, 2)}, plot_over("absent")));
  EXPECT_EQ("", svg_of({}, plot_over("size")));
}

TEST(Row, ARateIsMeasuredAgainstACeilingAndALeastValue) {
  Row rate = row("rate", 1, 8, 7, 9);
  rate.is_rate = true;
  rate.floor = 10;
  rate.limit = 9;
  EXPECT_DOUBLE_EQ(0.8, *rate.fraction());
  EXPECT_FALSE(rate.meets_limit());
  rate.limit = 8;
  EXPECT_TRUE(rate.meets_limit());
}

TEST(Row, ATimeIsMeasuredAgainstAFloorAndAMostValue) {
  Row time = row("time", 1, 8, 7, 9);
  time.floor = 4;
  EXPECT_DOUBLE_EQ(0.5, *time.fraction());
  EXPECT_TRUE(time.meets_limit());
  time.limit = 7;
  EXPECT_FALSE(time.meets_limit());
}

nlohmann::ordered_json json_of(const bench::Run& run) {
  return bench::to_json(kPlotted, {"cpu", "", "c", "d"},
                        {run, bench::Gates(run.rows(), "test", "cpu", {})});
}

TEST(Report, JsonHoldsFindingsNotesAndPlotsWhereThereAreAny) {
  bench::Run bare("test", attacca::Device::host(), false);
  const auto little = json_of(bare);
  EXPECT_EQ("is 1 < 2?", little["question"]);
  for (const char* key : {"findings", "notes", "plots", "is_quick"})
    EXPECT_FALSE(little.contains(key)) << key;

  bench::Run run = run_of({row("one", 1, 2, 2, 2)}, plot_over("size"));
  run.add(bench::Finding{"it is so", "a book", "it is not", bench::Verdict::failed});
  run.note("by the way");
  const auto all = json_of(run);
  EXPECT_EQ("did not hold", all["findings"][0]["verdict"]);
  EXPECT_EQ("it is so", all["findings"][0]["claim"]);
  EXPECT_EQ("by the way", all["notes"][0]);
  EXPECT_EQ("a title", all["plots"][0]["title"]);
  EXPECT_EQ(1.0, all["rows"][0]["ratio"]);
}

}  // namespace
