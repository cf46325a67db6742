// roofline_chart.cpp: draws the chart as SVG, in the style of the pictures of benchmarks, and
// writes the page around it.
#include "roofline_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "bench/svg.hpp"

namespace attacca::tool {

namespace {

constexpr double kWidth = 820, kHeight = 520;
constexpr double kLeft = 84, kRight = kWidth - 24, kTop = 48, kBottom = kHeight - 64;

const char* colour_of(Limit limit) {
  static constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#999999"};
  return kColours[static_cast<std::size_t>(limit)];
}

/// Powers of ten around all values.
bench::Axis log_axis(double low, double high) {
  bench::Axis axis{std::pow(10, std::floor(std::log10(low))),
                   std::pow(10, std::ceil(std::log10(high))),
                   true,
                   {}};
  if (axis.high <= axis.low) axis.high = axis.low * 10;
  for (double tick = axis.low; tick <= axis.high * 1.001; tick *= 10) axis.ticks.push_back(tick);
  return axis;
}

class Chart {
 public:
  explicit Chart(const Roofline& found) : found_(found), roofs_(found.roofs) {
    double low = 0.1, high = 100;
    double slowest = 1e300;
    for (const PlacedKernel& kernel : found.kernels) {
      if (kernel.cost.flops <= 0 || kernel.cost.bytes <= 0) continue;
      low = std::min(low, kernel.intensity());
      high = std::max(high, kernel.intensity());
    }
    x_ = log_axis(low, 1.01 * std::max(high, 2 * most_flops() / std::max(roofs_.read, 1.0)));
    for (const PlacedKernel& kernel : found.kernels)
      if (kernel.time_us > 0 && rate_of(kernel) > 0) slowest = std::min(slowest, rate_of(kernel));
    y_ = log_axis(std::min(slowest, most_flops() / 1e4), 1.2 * most_flops());
  }

  std::string drawn() {
    draw_axes();
    for (const auto& [rate, name] :
         {std::pair{roofs_.read, "memory"}, std::pair{roofs_.cache, "cache"}})
      if (rate > 0) draw_slope(rate, name);
    for (int at = 0; at < kArithmetics; ++at)
      if (const double rate = roofs_.flops[static_cast<std::size_t>(at)]; rate > 0)
        draw_ceiling(rate, arithmetic_name(static_cast<Arithmetic>(at)));
    for (auto kernel = found_.kernels.rbegin(); kernel != found_.kernels.rend(); ++kernel)
      draw_kernel(*kernel);
    draw_legend();
    return fmt::format(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0:.0f} {1:.0f}' width='{0:.0f}' "
        "height='{1:.0f}' font-family='sans-serif' role='img'>\n<title>{2} under the roofs of "
        "{3}</title>\n<rect width='100%' height='100%' rx='6' fill='#ffffff'/>\n{4}</svg>\n",
        kWidth, kHeight, bench::escaped(found_.subject), bench::escaped(roofs_.device), body_);
  }

 private:
  double most_flops() const {
    double most = 1;
    for (const double rate : roofs_.flops) most = std::max(most, rate);
    return most;
  }
  /// FLOPs per second. A kernel without any stands at the left edge, as high as its bytes are.
  double rate_of(const PlacedKernel& kernel) const {
    const double flops = kernel.cost.flops > 0 ? kernel.cost.flops : kernel.cost.bytes * x_.low;
    return kernel.time_us > 0 ? 1e6 * flops / kernel.time_us : 0;
  }
  double x_of(double intensity) const {
    return kLeft + std::clamp(x_.share(intensity), 0.0, 1.0) * (kRight - kLeft);
  }
  double y_of(double rate) const {
    return kBottom - std::clamp(y_.share(rate), 0.0, 1.0) * (kBottom - kTop);
  }

  void text(double x, double y, const char* anchor, const std::string& what, int size,
            const char* colour = "#222222") {
    fmt::format_to(std::back_inserter(body_),
                   "<text x='{:.1f}' y='{:.1f}' text-anchor='{}' font-size='{}' fill='{}'>{}"
                   "</text>\n",
                   x, y, anchor, size, colour, bench::escaped(what));
  }
  void line(double x1, double y1, double x2, double y2, const char* colour, double width) {
    fmt::format_to(std::back_inserter(body_),
                   "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='{}' "
                   "stroke-width='{}'/>\n",
                   x1, y1, x2, y2, colour, width);
  }

  void draw_axes() {
    text(kLeft, 26, "start", fmt::format("{} on {}", found_.subject, roofs_.device), 15);
    for (const double tick : x_.ticks) {
      line(x_of(tick), kTop, x_of(tick), kBottom, "#eeeeee", 1);
      text(x_of(tick), kBottom + 18, "middle", bench::label(tick), 12);
    }
    for (const double tick : y_.ticks) {
      line(kLeft, y_of(tick), kRight, y_of(tick), "#eeeeee", 1);
      text(kLeft - 8, y_of(tick) + 4, "end", rate_label(tick), 12);
    }
    text((kLeft + kRight) / 2, kBottom + 38, "middle", "FLOPs per byte", 12);
    text(kLeft - 8, kTop - 8, "end", "FLOP/s", 12);
  }
  static std::string rate_label(double rate) {
    for (const auto& [unit, name] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
      if (rate >= 0.99 * unit) return fmt::format("{:.3g}{}", rate / unit, name);
    return fmt::format("{:.3g}", rate);
  }
  /// Up to the highest ceiling.
  void draw_slope(double bytes_per_second, const char* name) {
    const double end = std::min(x_.high, most_flops() / bytes_per_second);
    const double begin = std::max(x_.low, y_.low / bytes_per_second);
    line(x_of(begin), y_of(begin * bytes_per_second), x_of(end), y_of(end * bytes_per_second),
         "#444444", 2);
    text(x_of(begin) + 6, y_of(begin * bytes_per_second) - 8, "start",
         fmt::format("{} {}B/s", name, rate_label(bytes_per_second)), 12);
  }
  void draw_ceiling(double rate, const char* name) {
    const double steepest = std::max(roofs_.cache, roofs_.read);
    line(x_of(rate / std::max(steepest, 1.0)), y_of(rate), kRight, y_of(rate), "#444444", 2);
    text(kRight, y_of(rate) - 6, "end", fmt::format("{} {}FLOP/s", name, rate_label(rate)), 12);
  }
  void draw_kernel(const PlacedKernel& kernel) {
    if (rate_of(kernel) <= 0) return;
    const double part = found_.total_us > 0
                            ? kernel.time_us * static_cast<double>(kernel.count) / found_.total_us
                            : 0;
    const double intensity = kernel.cost.flops <= 0   ? x_.low
                             : kernel.cost.bytes <= 0 ? x_.high
                                                      : kernel.intensity();
    fmt::format_to(std::back_inserter(body_),
                   "<circle class='kernel' cx='{:.1f}' cy='{:.1f}' r='{:.1f}' fill='{}' "
                   "fill-opacity='0.7' stroke='#ffffff'><title>{}: {:.3g} us, {:.0f} % of its "
                   "roof, bound by {}</title></circle>\n",
                   x_of(intensity), y_of(rate_of(kernel)),
                   4 + 14 * std::sqrt(std::clamp(part, 0.0, 1.0)), colour_of(kernel.limit),
                   bench::escaped(kernel.name), kernel.time_us, 100 * kernel.share(),
                   limit_name(kernel.limit));
  }
  void draw_legend() {
    double x = kLeft;
    for (const Limit limit : {Limit::memory, Limit::compute, Limit::launch, Limit::neither}) {
      fmt::format_to(std::back_inserter(body_),
                     "<circle cx='{:.1f}' cy='{:.1f}' r='5' fill='{}'/>\n", x + 6, kHeight - 12,
                     colour_of(limit));
      text(x + 16, kHeight - 8, "start", limit_name(limit), 12);
      x += 96;
    }
    text(kRight, kHeight - 8, "end", "area: share of the time", 12);
  }

  const Roofline& found_;
  const Roofs& roofs_;
  std::string body_;
  bench::Axis x_;
  bench::Axis y_;
};

}  // namespace

std::string roofline_svg(const Roofline& found) { return Chart(found).drawn(); }

std::string roofline_html(const Roofline& found, const std::vector<Trial>& trials) {
  std::string rows, advice, tried;
  for (const PlacedKernel& kernel : found.kernels)
    rows += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3g}</td><td>{:.3g}</td>"
        "<td>{:.0f} %</td><td>{}</td></tr>\n",
        bench::escaped(kernel.name), kernel.count, kernel.time_us, kernel.floor_us,
        kernel.cost.bytes, kernel.cost.flops, 100 * kernel.share(), limit_name(kernel.limit));
  for (const RoofAdvice& each : found.advice)
    advice += fmt::format("<li><b>{}{}</b>: {}</li>\n", tool_name(each.tool),
                          each.about.empty() ? "" : ", " + bench::escaped(each.about),
                          bench::escaped(each.text));
  for (const Trial& trial : trials)
    tried += trial.why_not.empty()
                 ? fmt::format(
                       "<tr><td>{}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td>"
                       "<td>{:+.0f} %</td></tr>\n",
                       bench::escaped(trial.what), trial.before_us, trial.predicted_us,
                       trial.measured_us, 100 * trial.error())
                 : fmt::format("<tr><td>{}</td><td colspan='4'>not tried: {}</td></tr>\n",
                               bench::escaped(trial.what), bench::escaped(trial.why_not));
  return fmt::format(
      "<!doctype html>\n<html lang='en'><meta charset='utf-8'><title>{0}: roofline</title>\n"
      "<style>body{{font:14px sans-serif;max-width:980px;margin:24px auto;padding:0 12px}}"
      "table{{border-collapse:collapse}}td,th{{padding:3px 10px;text-align:right;"
      "border-bottom:1px solid #ddd}}td:first-child,th:first-child{{text-align:left}}</style>\n"
      "<h1>{0}</h1>\n<p>{1}, kernels timed by {2}</p>\n{3}"
      "<h2>Kernels</h2>\n<table id='kernels'><tr><th>kernel</th><th>count</th><th>time, us</th>"
      "<th>floor, us</th><th>bytes</th><th>FLOPs</th><th>of roof</th><th>bound by</th></tr>\n{4}"
      "</table>\n<h2>Advice</h2>\n<ol id='advice'>\n{5}</ol>\n{6}</html>\n",
      bench::escaped(found.subject), bench::escaped(found.roofs.device),
      bench::escaped(found.timed_by), roofline_svg(found), rows, advice,
      tried.empty() ? ""
                    : "<h2>Tried</h2>\n<table id='tried'><tr><th>what</th><th>before, us</th>"
                      "<th>predicted</th><th>measured</th><th>error</th></tr>\n" +
                          tried + "</table>\n");
}

}  // namespace attacca::tool
