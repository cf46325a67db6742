// costs.cpp: takes medians of measured times and joins them to curves that never fall.
#include "planner/costs.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace attacca::planner {

namespace {

/// Samples of steps of about the same size: less than 9 % apart, an eighth of an octave. One size
/// alone often has too few.
class Samples {
 public:
  void add(double tokens, const std::vector<float>& times) {
    constexpr double kBucketsPerOctave = 8;
    Bucket& bucket = buckets_[static_cast<int>(std::floor(kBucketsPerOctave * std::log2(tokens)))];
    bucket.tokens += tokens * static_cast<double>(times.size());
    bucket.times.insert(bucket.times.end(), times.begin(), times.end());
    largest_ = std::max(largest_, tokens);
  }

  /// The mean of the sizes and the median of the times. The last point is at the largest size, so
  /// that nothing that was timed is guessed.
  std::vector<Curve::Point> points() const {
    std::vector<Curve::Point> points;
    for (const auto& [key, bucket] : buckets_) {
      std::vector<float> times = bucket.times;
      const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
      std::nth_element(times.begin(), middle, times.end());
      const auto weight = static_cast<double>(times.size());
      points.push_back({bucket.tokens / weight, *middle, weight});
    }
    if (!points.empty()) points.back().tokens = largest_;
    return points;
  }

 private:
  struct Bucket {
    double tokens = 0;
    std::vector<float> times;
  };
  std::map<int, Bucket> buckets_;
  double largest_ = 0;
};

}  // namespace

Curve::Curve(std::vector<Point> points) {
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.tokens < b.tokens; });
  struct Block {  // points that share one time
    double first, last, sum, weight;
    double mean() const { return sum / weight; }
  };
  std::vector<Block> blocks;
  for (const Point& point : points) {
    blocks.push_back({point.tokens, point.tokens, point.microseconds * point.weight, point.weight});
    while (blocks.size() > 1) {
      const Block top = blocks.back();
      Block& below = blocks[blocks.size() - 2];
      if (below.mean() < top.mean() && below.last < top.first) break;
      below = {below.first, top.last, below.sum + top.sum, below.weight + top.weight};
      blocks.pop_back();
    }
  }
  for (const Block& block : blocks) {
    points_.push_back({block.first, block.mean(), block.weight});
    if (block.last > block.first) points_.push_back({block.last, block.mean(), block.weight});
  }
}

double Curve::at(double tokens) const {
  const auto above =
      std::lower_bound(points_.begin(), points_.end(), tokens,
                       [](const Point& point, double value) { return point.tokens < value; });
  if (above == points_.begin()) return above->microseconds;
  const Point& below = *(above - 1);
  if (above == points_.end()) return below.microseconds * tokens / below.tokens;
  const double share = (tokens - below.tokens) / (above->tokens - below.tokens);
  return below.microseconds + share * (above->microseconds - below.microseconds);
}

Costs::Costs(const Traffic& traffic, const CostOptions& options)
    : padding_(options.padding), misses_{options.miss, options.miss} {
  measure(Kind::decode, traffic.decode);
  measure(Kind::mixed, traffic.mixed);
}

/// Steps without a graph tell what a miss costs where graphs of such sizes were measured too.
/// Above those, they tell what a graph would take.
void Costs::measure(Kind kind, const Steps& steps) {
  Samples hits;
  Samples misses;
  for (const auto& [key, times] : steps.times) {
    const auto [tokens, size] = key;
    if (size == 0)
      misses.add(tokens, times);
    else
      hits.add(tokens + padding_ * (size - tokens), times);
  }
  std::vector<Curve::Point> points = hits.points();
  const std::vector<Curve::Point> missed = misses.points();
  const Curve in_graphs(points);
  double ratios = 0;
  double weight = 0;
  for (const Curve::Point& point : missed)
    if (point.tokens <= in_graphs.last()) {
      ratios += point.weight * point.microseconds / in_graphs.at(point.tokens);
      weight += point.weight;
    }
  double& miss = misses_[at(kind)];
  if (weight > 0) {
    miss = std::max(1.0, ratios / weight);
    is_measured_[at(kind)] = true;
  }
  for (const Curve::Point& point : missed)
    if (point.tokens > in_graphs.last())
      points.push_back({point.tokens, point.microseconds / miss, point.weight});
  curves_[at(kind)] = Curve(points);
}

double Costs::work(Kind kind, std::uint32_t tokens) const {
  const Curve& own = curves_[at(kind)];
  const Curve& other = curves_[1 - at(kind)];
  if (own.is_empty() && other.is_empty()) return tokens;
  if (own.is_empty()) return other.at(tokens);
  const double time = own.at(tokens);
  return kind == Kind::decode && !other.is_empty() ? std::min(time, other.at(tokens)) : time;
}

}  // namespace attacca::planner
