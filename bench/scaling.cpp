// scaling.cpp: the arithmetic of the scaling model.
#include "ranks/scaling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

namespace bench {

std::optional<Link> link_of(const std::string& text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (first == 0 || second == std::string::npos) return std::nullopt;
  const auto number = [](const std::string& word) -> std::optional<double> {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0' || !std::isfinite(value) || value <= 0) return std::nullopt;
    return value;
  };
  const auto latency = number(text.substr(first + 1, second - first - 1));
  const auto rate = number(text.substr(second + 1));
  if (!latency || !rate) return std::nullopt;
  return Link{text.substr(0, first), *latency, *rate * 1e9};
}

double compute_us(const SplitStep& step, unsigned ranks) {
  for (const auto& [known, time] : step.compute_us)
    if (known == ranks) return time;
  const double one = step.compute_us.front().second;
  const auto [most, of_most] = step.compute_us.back();
  const double fixed =
      most == 1 ? 0 : std::clamp((most * of_most - one) / (most - 1), 0.0, of_most);
  return fixed + (one - fixed) / ranks;
}

Prediction predict(const SplitStep& step, const Link& link, unsigned ranks) {
  Prediction result{.ranks = ranks, .compute_us = compute_us(step, ranks), .exchange_us = 0};
  if (ranks == 1) return result;
  const double rounds = std::ceil(std::log2(static_cast<double>(ranks)));
  const double share = static_cast<double>(ranks - 1) / ranks;
  for (const StepExchange& exchange : step.exchanges) {
    const double data_us =
        share * static_cast<double>(exchange.bytes) / link.bytes_per_second * 1e6;
    const double times = exchange.kind == StepExchange::Kind::all_reduce ? 2 : 1;
    result.exchange_us += times * (rounds * link.latency_us + data_us);
  }
  return result;
}

std::vector<Prediction> predict_all(const SplitStep& step, const Link& link, unsigned most_ranks) {
  std::set<unsigned> counts;
  for (unsigned ranks = 1; ranks <= most_ranks; ranks *= 2) counts.insert(ranks);
  for (const auto& [ranks, time] : step.compute_us) counts.insert(ranks);
  std::vector<Prediction> all;
  for (const unsigned ranks : counts) all.push_back(predict(step, link, ranks));
  return all;
}

Prediction fastest(const std::vector<Prediction>& all) {
  return *std::min_element(all.begin(), all.end(), [](const Prediction& a, const Prediction& b) {
    return a.step_us() < b.step_us();
  });
}

std::optional<Prediction> first_bound_by_exchange(const std::vector<Prediction>& all) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [](const Prediction& p) { return p.exchange_us > p.compute_us; });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

}  // namespace bench
