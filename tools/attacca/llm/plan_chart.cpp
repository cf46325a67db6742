// plan_chart.cpp: draws histograms as SVG, in the style of the pictures of benchmarks.
#include "llm/plan_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "bench/svg.hpp"

namespace attacca::tool {

namespace {

using planner::Steps;

constexpr double kWidth = 760;
constexpr double kLeft = 76;
constexpr double kRight = kWidth - 24;
constexpr double kTop = 62;
constexpr double kHeight = 180;
constexpr double kPanel = kTop + kHeight + 68;
constexpr double kLeastLabelGap = 26;
constexpr const char* kBars = "#56b4e9";
constexpr const char* kPlanned = "#d55e00";
constexpr const char* kToday = "#333333";

class Chart {
 public:
  void draw(const char* kind, const Steps& steps, const std::vector<std::uint32_t>& today,
            const std::vector<std::uint32_t>& planned) {
    std::uint64_t highest = 1;
    for (const auto& [tokens, count] : steps.counts) highest = std::max(highest, count);
    const double total = static_cast<double>(steps.total());
    y_ = bench::linear_axis(0, 100 * static_cast<double>(highest) / total);
    x_ = {steps.counts.begin()->first / 1.1, steps.largest() * 1.1, true, {}};
    for (const auto* sizes : {&today, &planned})
      for (const std::uint32_t size : *sizes) {
        x_.low = std::min(x_.low, size / 1.1);
        x_.high = std::max(x_.high, size * 1.1);
      }
    text(kLeft, 24, "start",
         fmt::format("{} {} steps: planned sizes {}, today's {}", steps.total(), kind,
                     planned.size(), today.size()),
         15, "#222222");
    for (const double tick : y_.ticks) {
      line(kLeft, y_of(tick), kRight, y_of(tick), "#dddddd", 1);
      text(kLeft - 8, y_of(tick) + 4, "end", bench::label(tick) + " %", 12, "#222222");
    }
    for (const auto& [tokens, count] : steps.counts)
      line(x_of(tokens), y_of(0), x_of(tokens), y_of(100 * static_cast<double>(count) / total),
           kBars, 4);
    double labelled = -kWidth;
    for (const std::uint32_t size : planned) {
      line(x_of(size), kTop - 8, x_of(size), kTop + kHeight, kPlanned, 1);
      if (x_of(size) - labelled < kLeastLabelGap) continue;
      labelled = x_of(size);
      text(labelled, kTop - 12, "middle", fmt::to_string(size), 11, kPlanned);
    }
    labelled = -kWidth;
    for (const std::uint32_t size : today) {
      line(x_of(size), kTop + kHeight, x_of(size), kTop + kHeight + 8, kToday, 1.5);
      if (x_of(size) - labelled < kLeastLabelGap) continue;
      labelled = x_of(size);
      text(labelled, kTop + kHeight + 22, "middle", fmt::to_string(size), 11, kToday);
    }
    text((kLeft + kRight) / 2, kTop + kHeight + 42, "middle",
         "tokens of a step; above: planned sizes, below: today's", 12, "#222222");
    top_ += kPanel;
  }

  std::string finished() const {
    return fmt::format(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0:.0f} {1:.0f}' width='{0:.0f}' "
        "height='{1:.0f}' font-family='sans-serif' role='img'>\n"
        "<title>steps by tokens, and the sizes that have graphs</title>\n"
        "<rect width='100%' height='100%' rx='6' fill='#ffffff'/>\n{2}</svg>\n",
        kWidth, top_, body_);
  }

 private:
  double x_of(double tokens) const { return kLeft + x_.share(tokens) * (kRight - kLeft); }
  double y_of(double percent) const { return kTop + (1 - y_.share(percent)) * kHeight; }

  void text(double x, double y, const char* anchor, const std::string& what, int size,
            const char* colour) {
    fmt::format_to(std::back_inserter(body_),
                   "<text x='{:.1f}' y='{:.1f}' text-anchor='{}' font-size='{}' fill='{}'>{}"
                   "</text>\n",
                   x, top_ + y, anchor, size, colour, bench::escaped(what));
  }
  void line(double x1, double y1, double x2, double y2, const char* colour, double width) {
    fmt::format_to(std::back_inserter(body_),
                   "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='{}' "
                   "stroke-width='{}'/>\n",
                   x1, top_ + y1, x2, top_ + y2, colour, width);
  }

  std::string body_;
  double top_ = 0;
  bench::Axis x_;
  bench::Axis y_;
};

}  // namespace

std::string plan_chart(const planner::Traffic& traffic, const planner::Sizes& today,
                       const planner::Sizes& planned) {
  Chart chart;
  if (!traffic.decode.counts.empty())
    chart.draw("decode", traffic.decode, today.decode, planned.decode);
  if (!traffic.mixed.counts.empty()) chart.draw("mixed", traffic.mixed, today.mixed, planned.mixed);
  return chart.finished();
}

}  // namespace attacca::tool
