// costs.hpp: what a step is expected to take, from the times in a log and what lies between them.
// Without times the unit is a token, so padding counts as the work it would be.
#pragma once

#include <vector>

#include "planner/traffic.hpp"

namespace attacca::planner {

/// Microseconds by tokens: linear between the points, constant below the first, and proportional to
/// the tokens above the last.
class Curve {
 public:
  struct Point {
    double tokens;
    double microseconds;
    double weight;
  };

  Curve() = default;
  /// Neighbours that would make the curve fall are replaced by their mean: more tokens never take
  /// less time, so what looks like it is noise.
  explicit Curve(std::vector<Point> points);

  bool is_empty() const { return points_.empty(); }
  double last() const { return points_.empty() ? 0 : points_.back().tokens; }
  double at(double tokens) const;

 private:
  std::vector<Point> points_;
};

struct CostOptions {
  /// What a token of padding costs, as a share of a real one: 1 where graphs compute their padding,
  /// 0 where they skip it.
  double padding = 1;
  /// What a step without a graph costs, in multiples of the same step in a graph of its size. It is
  /// used where the log has no such pair. 3.5 is PyTorch without and with a CUDA graph: one decode
  /// step of an 8B model on an H200 (README.md).
  double miss = 3.5;
};

class Costs {
 public:
  Costs(const Traffic& traffic, const CostOptions& options);

  /// Whether costs are microseconds; else they are tokens.
  bool are_times() const { return !curves_[0].is_empty() || !curves_[1].is_empty(); }
  double padding() const { return padding_; }
  double miss(Kind kind) const { return misses_[at(kind)]; }  // measured, or the option
  bool is_miss_measured(Kind kind) const { return is_measured_[at(kind)]; }

  /// A step in a graph of its own size. A decode graph takes no longer than a mixed one, which
  /// could do its work.
  double work(Kind kind, std::uint32_t tokens) const;
  double in_graph(Kind kind, std::uint32_t tokens, std::uint32_t size) const {
    return (1 - padding_) * work(kind, tokens) + padding_ * work(kind, size);
  }
  double without_graph(Kind kind, std::uint32_t tokens) const {
    return miss(kind) * work(kind, tokens);
  }

 private:
  static std::size_t at(Kind kind) { return static_cast<std::size_t>(kind); }
  void measure(Kind kind, const Steps& steps);

  double padding_;
  double misses_[2];
  bool is_measured_[2] = {};
  Curve curves_[2];
};

}  // namespace attacca::planner
