// scaling.hpp: predicts the time of a decode step whose model is split over ranks, from the times
// of parts of it, the exchanges of its graph and the figures of a link. It measures nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

struct Link {
  std::string name;
  double latency_us = 0;        // of a message
  double bytes_per_second = 0;  // of a rank
};
/// Reads "NAME:MICROSECONDS:GIGABYTES", the latency and the gigabytes a second. None if it is
/// something else.
std::optional<Link> link_of(const std::string& text);

/// An exchange of a step's graph.
struct StepExchange {
  enum class Kind { all_reduce, all_gather, broadcast };
  Kind kind = Kind::all_reduce;
  std::uint64_t bytes = 0;  // of the result
};

struct SplitStep {
  /// What the kernels of a rank take, by the number of ranks, ascending from 1 on.
  std::vector<std::pair<unsigned, double>> compute_us;
  std::vector<StepExchange> exchanges;
};

struct Prediction {
  unsigned ranks = 1;
  double compute_us = 0;
  double exchange_us = 0;
  double step_us() const { return compute_us + exchange_us; }
};

/// The kernels' time, as it is known, or as a part that is divided by the ranks and one that is
/// not, which the time for one rank and for the most tell apart.
double compute_us(const SplitStep& step, unsigned ranks);

/// Exchanges by halving and doubling. An all-reduce is 2 log2(ranks) messages one after another,
/// and sends all but one rank's share of the data twice; a gather and a broadcast are half of that.
Prediction predict(const SplitStep& step, const Link& link, unsigned ranks);

/// For 1, 2, 4, … ranks, and those whose kernels were measured.
std::vector<Prediction> predict_all(const SplitStep& step, const Link& link, unsigned most_ranks);
/// The fastest of them, and the first whose exchanges take longer than its kernels, if one does.
Prediction fastest(const std::vector<Prediction>& all);
std::optional<Prediction> first_bound_by_exchange(const std::vector<Prediction>& all);

}  // namespace bench
