// plot.cpp: draws a run's curves as one SVG file. It needs no external fonts, scripts or styles,
// and has its own background, so it also reads on a dark page.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "harness.hpp"
#include "svg.hpp"

namespace bench {

namespace {

constexpr double kWidth = 760;
constexpr double kLeft = 76;
constexpr double kRight = kWidth - 24;
constexpr double kAreaTop = 44;
constexpr double kAreaHeight = 280;
constexpr double kLegendTop = kAreaTop + kAreaHeight + 62;
constexpr double kLegendLine = 19;
constexpr double kFooter = 30;
constexpr double kLeastTickGap = 44;
constexpr std::size_t kHalfLine = 50;  // characters of a name that fit half the width
// The palette of Okabe and Ito, which most eyes can tell apart. Further curves are dashed.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                 "#b8860b", "#56b4e9", "#333333", "#8c2d04"};

struct Point {
  double x, y, low, high;
};
struct Curve {
  std::string name;
  std::vector<Point> points;  // by x
};

/// REQUIRES: 0 < low.
Axis log_axis(double low, double high) {
  std::vector<double> ticks;
  const bool is_tiled = high / low > 500;
  for (double decade = std::pow(10, std::floor(std::log10(low)));
       ticks.empty() || ticks.back() < high; decade *= 10)
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (is_tiled && factor > 1) continue;
      const double tick = factor * decade;
      if (!ticks.empty() && ticks.back() >= high) break;
      if (tick <= low) ticks.clear();
      ticks.push_back(tick);
    }
  if (ticks.size() == 1) ticks.push_back(ticks.back() * 2);
  return {ticks.front(), ticks.back(), true, ticks};
}

/// A logarithmic axis labelled with the values themselves, where there is room for them.
Axis log_axis_of(std::vector<double> values, double pixels) {
  std::sort(values.begin(), values.end());
  Axis axis{values.front() / 1.1, values.back() * 1.1, true};
  for (const double value : values)
    if (axis.ticks.empty() ||
        (axis.share(value) - axis.share(axis.ticks.back())) * pixels >= kLeastTickGap)
      axis.ticks.push_back(value);
  return axis;
}

std::optional<Point> point_of(const Row& row, const Plot& plot) {
  if (!row.params.contains(plot.x) || !row.params[plot.x].is_number()) return std::nullopt;
  const auto shown = [&](double median) {
    Row as = row;
    as.value.median = median;
    if (plot.value == Plot::Value::median) return median;
    return (plot.value == Plot::Value::ratio ? as.ratio() : as.fraction()).value_or(std::nan(""));
  };
  const auto is_drawable = [&](double y) { return std::isfinite(y) && (y > 0 || !plot.is_log_y); };
  const double x = row.params[plot.x].get<double>();
  const double y = shown(row.value.median);
  if (!is_drawable(y) || !std::isfinite(x) || (plot.is_log_x && x <= 0)) return std::nullopt;
  const double p10 = is_drawable(shown(row.value.p10)) ? shown(row.value.p10) : y;
  const double p90 = is_drawable(shown(row.value.p90)) ? shown(row.value.p90) : y;
  return Point{x, y, std::min(p10, p90), std::max(p10, p90)};
}

std::vector<Curve> curves_of(const Plot& plot, const std::vector<Row>& rows) {
  std::vector<Curve> curves;
  for (const Row& row : rows) {
    const auto& wanted = plot.rows;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), row.name) == wanted.end())
      continue;
    const auto point = point_of(row, plot);
    if (!point) continue;
    auto curve = std::find_if(curves.begin(), curves.end(),
                              [&](const Curve& other) { return other.name == row.name; });
    if (curve == curves.end()) curve = curves.insert(curves.end(), Curve{row.name, {}});
    curve->points.push_back(*point);
  }
  for (Curve& curve : curves)
    std::stable_sort(curve.points.begin(), curve.points.end(),
                     [](const Point& a, const Point& b) { return a.x < b.x; });
  return curves;
}

/// An SVG document that grows downwards; the coordinates of a plot start at its own top.
class Drawing {
 public:
  void draw(const Plot& plot, const std::vector<Curve>& curves);
  std::string finished(const std::string& title, const std::string& footer) const;

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }
  void text(double x, double y, const char* anchor, const std::string& what, int size = 12,
            const char* more = "") {
    add("<text x='{:.1f}' y='{:.1f}' text-anchor='{}' font-size='{}'{}>{}</text>\n", x, top_ + y,
        anchor, size, more, escaped(what));
  }
  void draw_axes(const Plot& plot);
  void draw_curve(const Curve& curve, const std::string& stroke);
  double draw_legend(const std::vector<Curve>& curves);

  double x_of(double value) const { return kLeft + x_.share(value) * (kRight - kLeft); }
  double y_of(double value) const { return kAreaTop + (1 - y_.share(value)) * kAreaHeight; }

  std::string body_;
  double top_ = 0;
  Axis x_;
  Axis y_;
};

std::string stroke_of(std::size_t curve) {
  const char* dash = curve < kColours.size() ? "" : " stroke-dasharray='6 3'";
  return fmt::format("stroke='{0}' fill='{0}'{1}", kColours[curve % kColours.size()], dash);
}

void Drawing::draw_axes(const Plot& plot) {
  constexpr double kBottom = kAreaTop + kAreaHeight;
  text(kLeft, 26, "start", plot.title, 15, " font-weight='600'");
  for (const double tick : y_.ticks) {
    add("<line x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}' stroke='#dddddd'/>\n", kLeft, kRight,
        top_ + y_of(tick), top_ + y_of(tick));
    text(kLeft - 8, y_of(tick) + 4, "end", label(tick));
  }
  for (const double tick : x_.ticks) {
    add("<line x1='{0:.1f}' x2='{0:.1f}' y1='{1:.1f}' y2='{2:.1f}' stroke='#888888'/>\n",
        x_of(tick), top_ + kBottom, top_ + kBottom + 5);
    text(x_of(tick), kBottom + 19, "middle", label(tick));
  }
  if (plot.value != Plot::Value::median)
    add("<line x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}' stroke='#888888' "
        "stroke-dasharray='4 4'/>\n",
        kLeft, kRight, top_ + y_of(1), top_ + y_of(1));
  add("<path d='M{:.1f} {:.1f}V{:.1f}H{:.1f}' fill='none' stroke='#888888'/>\n", kLeft,
      top_ + kAreaTop, top_ + kBottom, kRight);
  text((kLeft + kRight) / 2, kBottom + 40, "middle", plot.x_label);
  const double middle = kAreaTop + kAreaHeight / 2;
  text(18, middle, "middle", plot.y_label, 12,
       fmt::format(" transform='rotate(-90 18 {:.1f})'", top_ + middle).c_str());
}

void Drawing::draw_curve(const Curve& curve, const std::string& stroke) {
  add("<g {}><title>{}</title>\n", stroke, escaped(curve.name));
  std::string line;
  for (const Point& point : curve.points) {
    const double x = x_of(point.x);
    fmt::format_to(std::back_inserter(line), "{:.1f},{:.1f} ", x, top_ + y_of(point.y));
    add("<line x1='{0:.1f}' x2='{0:.1f}' y1='{1:.1f}' y2='{2:.1f}' stroke-width='5' "
        "stroke-opacity='0.3' stroke-dasharray='none'/>\n",
        x, top_ + y_of(point.low), top_ + y_of(point.high));
    add("<circle cx='{:.1f}' cy='{:.1f}' r='3' stroke='none'/>\n", x, top_ + y_of(point.y));
  }
  add("<polyline points='{}' fill='none' stroke-width='2'/>\n</g>\n", line);
}

/// Returns the y coordinate of its end.
double Drawing::draw_legend(const std::vector<Curve>& curves) {
  const bool is_long = std::any_of(curves.begin(), curves.end(), [](const Curve& curve) {
    return curve.name.size() > kHalfLine;
  });
  const std::size_t columns = is_long || curves.size() == 1 ? 1 : 2;
  const double step = (kRight - kLeft) / static_cast<double>(columns);
  for (std::size_t at = 0; at < curves.size(); ++at) {
    const double x = kLeft + static_cast<double>(at % columns) * step;
    const double y = kLegendTop + static_cast<double>(at / columns) * kLegendLine;
    add("<line x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}' stroke-width='3' {}/>\n", x, x + 24,
        top_ + y, top_ + y, stroke_of(at));
    text(x + 32, y + 4, "start", curves[at].name);
  }
  const std::size_t lines = (curves.size() + columns - 1) / columns;
  return kLegendTop + static_cast<double>(lines) * kLegendLine;
}

void Drawing::draw(const Plot& plot, const std::vector<Curve>& curves) {
  std::vector<double> xs;
  const bool is_relative = plot.value != Plot::Value::median;
  const Point& first = curves.front().points.front();
  double low = is_relative ? std::min(1.0, first.low) : first.low;
  double high = is_relative ? std::max(1.0, first.high) : first.high;
  for (const Curve& curve : curves)
    for (const Point& point : curve.points) {
      xs.push_back(point.x);
      low = std::min({low, point.y, point.low});
      high = std::max({high, point.y, point.high});
    }
  const auto [least, most] = std::minmax_element(xs.begin(), xs.end());
  x_ = plot.is_log_x ? log_axis_of(xs, kRight - kLeft) : linear_axis(*least, *most);
  y_ = plot.is_log_y ? log_axis(low, high) : linear_axis(std::min(0.0, low), std::max(0.0, high));

  draw_axes(plot);
  for (std::size_t at = 0; at < curves.size(); ++at) draw_curve(curves[at], stroke_of(at));
  top_ += draw_legend(curves);
}

std::string Drawing::finished(const std::string& title, const std::string& footer) const {
  const double height = top_ + kFooter;
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0:.0f} {1:.0f}' width='{0:.0f}' "
      "height='{1:.0f}' font-family='sans-serif' fill='#222222' role='img'>\n"
      "<title>{2}</title>\n"
      "<rect width='100%' height='100%' rx='6' fill='#ffffff'/>\n"
      "{3}<text x='{4:.1f}' y='{5:.1f}' font-size='11' fill='#666666'>{6}</text>\n</svg>\n",
      kWidth, height, escaped(title), body_, kLeft, height - 12, escaped(footer));
}

}  // namespace

std::string to_svg(const Benchmark& benchmark, const Origin& origin, const Run& run) {
  Drawing drawing;
  bool is_empty = true;
  for (const Plot& plot : run.plots()) {
    const auto curves = curves_of(plot, run.rows());
    if (curves.empty()) continue;
    drawing.draw(plot, curves);
    is_empty = false;
  }
  if (is_empty) return "";
  return drawing.finished(benchmark.name + ": " + benchmark.question,
                          fmt::format("attacca bench {}: {}, commit {}, {}; bars from p10 to p90",
                                      benchmark.name, origin.device, origin.commit, origin.date));
}

}  // namespace bench
