// scaling.hpp: predicts the time of a decode step whose model is split over ranks, from the time on
// one rank and the figures of a link. It measures nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

/// A step on one rank.
struct SplitStep {
  double compute_us = 0;         // the part that is divided by the ranks
  unsigned all_reduces = 0;      // two a layer
  std::uint64_t bytes_each = 0;  // hidden size times the batch, in f32
};

struct Prediction {
  unsigned ranks = 1;
  double compute_us = 0;
  double exchange_us = 0;
  double step_us() const { return compute_us + exchange_us; }
};

/// An all-reduce by halving and doubling: 2 log2(ranks) messages one after another, and all but one
/// rank's share of the data sent twice.
Prediction predict(const SplitStep& step, const Link& link, unsigned ranks);

/// For 1, 2, 4, … ranks.
std::vector<Prediction> predict_all(const SplitStep& step, const Link& link, unsigned most_ranks);
/// The fastest of them, and the first whose exchanges take longer than its kernels, if one does.
Prediction fastest(const std::vector<Prediction>& all);
std::optional<Prediction> first_bound_by_exchange(const std::vector<Prediction>& all);

}  // namespace bench
