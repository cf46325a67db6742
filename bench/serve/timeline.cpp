// timeline.cpp: draws bars in lanes, of which there are as many as requests at once, and a curve.
// All bars of one colour are one path: a picture of ten thousand requests stays small.
#include "serve/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <utility>

#include "svg.hpp"

namespace bench::serve {

namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 70;
constexpr double kRight = kWidth - 24;
constexpr double kBarsTop = 66;
constexpr double kBarsMostHeight = 320;
constexpr double kBarsLeastHeight = 160;  // the name of the axis must fit
constexpr double kThickestLane = 14;
constexpr double kGap = 56;
constexpr double kCurveHeight = 150;
constexpr double kBottom = 62;
constexpr double kFooterLine = 15;
constexpr std::size_t kLineLength = 140;  // characters of the footer that fit the width
constexpr std::size_t kBins = 120;
constexpr const char* kWaiting = "#e69f00";  // from the palette of Okabe and Ito
constexpr const char* kStreaming = "#0072b2";
constexpr const char* kFailed = "#cc3311";

/// The lane of each request: the first one that is free when it begins.
std::vector<std::size_t> lanes_of(const std::vector<Record>& records) {
  std::vector<std::size_t> order(records.size());
  for (std::size_t at = 0; at < order.size(); ++at) order[at] = at;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return records[a].due < records[b].due; });
  using Busy = std::pair<double, std::size_t>;  // until when, lane
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> free;
  std::vector<std::size_t> lanes(records.size());
  std::size_t count = 0;
  for (const std::size_t at : order) {
    for (; !busy.empty() && busy.top().first <= records[at].due; busy.pop())
      free.push(busy.top().second);
    if (free.empty()) free.push(count++);
    lanes[at] = free.top();
    free.pop();
    busy.emplace(records[at].end, lanes[at]);
  }
  return lanes;
}

/// Tokens a second in each bin. A piece of text counts for as many tokens as the usage says.
std::vector<double> rates_of(const std::vector<Record>& records, double seconds) {
  std::vector<double> rates(kBins, 0);
  const double width = seconds / static_cast<double>(kBins);
  for (const Record& record : records)
    for (const double at : record.texts)
      rates[std::min(kBins - 1, static_cast<std::size_t>(at / width))] +=
          static_cast<double>(record.output_tokens()) / static_cast<double>(record.texts.size()) /
          width;
  return rates;
}

/// Breaks a text behind commas.
std::vector<std::string> lines_of(std::string text) {
  std::vector<std::string> lines;
  while (text.size() > kLineLength) {
    const std::size_t comma = text.rfind(", ", kLineLength);
    if (comma == std::string::npos) break;
    lines.push_back(text.substr(0, comma + 1));
    text.erase(0, comma + 2);
  }
  lines.push_back(text);
  return lines;
}

class Picture {
 public:
  Picture(const std::vector<Record>& records, double seconds)
      : records_(records),
        seconds_(seconds),
        lanes_(lanes_of(records)),
        lane_count_(*std::max_element(lanes_.begin(), lanes_.end()) + 1),
        bars_height_(std::clamp(kThickestLane * static_cast<double>(lane_count_), kBarsLeastHeight,
                                kBarsMostHeight)),
        curve_top_(kBarsTop + bars_height_ + kGap),
        x_(linear_axis(0, seconds)) {
    x_.high = seconds;
    std::erase_if(x_.ticks, [&](double tick) { return tick > seconds; });
  }

  std::string drawn(const std::string& title, const std::string& footer) {
    text(kLeft, 28, "start", title, 15, " font-weight='600'");
    draw_legend();
    draw_bars();
    draw_curve();
    double height = curve_top_ + kCurveHeight + kBottom;
    for (const std::string& line : lines_of(footer)) {
      text(kLeft, height, "start", line, 11, " fill='#666666'");
      height += kFooterLine;
    }
    return fmt::format(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0:.0f} {1:.0f}' width='{0:.0f}' "
        "height='{1:.0f}' font-family='sans-serif' fill='#222222' role='img'>\n"
        "<title>{2}</title>\n<rect width='100%' height='100%' rx='6' fill='#ffffff'/>\n{3}</svg>\n",
        kWidth, height, escaped(title), body_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }
  void text(double x, double y, const char* anchor, const std::string& what, int size = 12,
            const std::string& more = "") {
    add("<text x='{:.1f}' y='{:.1f}' text-anchor='{}' font-size='{}'{}>{}</text>\n", x, y, anchor,
        size, more, escaped(what));
  }
  double x_of(double seconds) const { return kLeft + x_.share(seconds) * (kRight - kLeft); }

  void draw_legend() {
    double x = kLeft;
    for (const auto& [colour, name] : {std::pair{kWaiting, "waits for its first token"},
                                       {kStreaming, "streams"},
                                       {kFailed, "failed"}}) {
      add("<rect x='{:.1f}' y='42' width='16' height='8' fill='{}'/>\n", x, colour);
      text(x + 22, 50, "start", name);
      x += 200;
    }
  }

  void draw_time(double top, double height) {
    for (const double tick : x_.ticks) {
      add("<line x1='{0:.1f}' x2='{0:.1f}' y1='{1:.1f}' y2='{2:.1f}' stroke='#dddddd'/>\n",
          x_of(tick), top, top + height);
      text(x_of(tick), top + height + 17, "middle", label(tick));
    }
    add("<path d='M{:.1f} {:.1f}V{:.1f}H{:.1f}' fill='none' stroke='#888888'/>\n", kLeft, top,
        top + height, kRight);
  }

  void draw_name(double top, double height, const std::string& name) {
    const double middle = top + height / 2;
    text(18, middle, "middle", name, 12, fmt::format(" transform='rotate(-90 18 {:.1f})'", middle));
  }

  void draw_bars() {
    const double lane = std::min(kThickestLane, bars_height_ / static_cast<double>(lane_count_));
    draw_time(kBarsTop, bars_height_);
    draw_name(kBarsTop, bars_height_, fmt::format("requests, up to {} at once", lane_count_));
    std::string waiting, streaming, failed;
    const auto bar = [&](std::string& path, std::size_t at, double from, double to,
                         double least_width) {
      const double y = kBarsTop + (static_cast<double>(lanes_[at]) + 0.5) * lane;
      fmt::format_to(std::back_inserter(path), "M{:.1f} {:.2f}H{:.1f}", x_of(from), y,
                     std::max(x_of(to), x_of(from) + least_width));
    };
    for (std::size_t at = 0; at < records_.size(); ++at) {
      const Record& record = records_[at];
      const double first = record.texts.empty() ? record.end : record.texts.front();
      bar(waiting, at, record.due, first, 0.4);
      if (!record.texts.empty()) bar(streaming, at, first, record.end, 0.4);
      if (!record.is_complete()) bar(failed, at, record.end, record.end, 3);
    }
    for (const auto& [colour, path] :
         {std::pair{kWaiting, &waiting}, {kStreaming, &streaming}, {kFailed, &failed}})
      if (!path->empty())
        add("<path d='{}' fill='none' stroke='{}' stroke-width='{:.2f}'/>\n", *path, colour,
            lane * 0.85);
  }

  void draw_curve() {
    const std::vector<double> rates = rates_of(records_, seconds_);
    const Axis y = linear_axis(0, std::max(1.0, *std::max_element(rates.begin(), rates.end())));
    const auto y_of = [&](double rate) { return curve_top_ + (1 - y.share(rate)) * kCurveHeight; };
    draw_time(curve_top_, kCurveHeight);
    draw_name(curve_top_, kCurveHeight, "output tokens/s");
    for (const double tick : y.ticks) text(kLeft - 8, y_of(tick) + 4, "end", label(tick));
    std::string path = fmt::format("M{:.1f} {:.1f}", kLeft, y_of(0));
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      const double share = static_cast<double>(bin + 1) / static_cast<double>(kBins);
      fmt::format_to(std::back_inserter(path), "V{:.1f}H{:.1f}", y_of(rates[bin]),
                     kLeft + share * (kRight - kLeft));
    }
    add("<path d='{}V{:.1f}Z' fill='{}' fill-opacity='0.25' stroke='{}'/>\n", path, y_of(0),
        kStreaming, kStreaming);
    text((kLeft + kRight) / 2, curve_top_ + kCurveHeight + 36, "middle", "seconds");
  }

  const std::vector<Record>& records_;
  double seconds_;
  std::vector<std::size_t> lanes_;
  std::size_t lane_count_;
  double bars_height_;
  double curve_top_;
  Axis x_;
  std::string body_;
};

}  // namespace

std::string timeline_svg(const std::vector<Record>& records, const std::string& title,
                         const std::string& footer) {
  double seconds = 1e-3;
  for (const Record& record : records) seconds = std::max(seconds, record.end);
  std::vector<Record> none(1);  // an empty run still has axes
  return Picture(records.empty() ? none : records, seconds).drawn(title, footer);
}

}  // namespace bench::serve
