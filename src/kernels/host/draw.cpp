// draw.cpp: see draw.hpp. Nothing sorts the vocabulary: top-k keeps a short list, top-p finds where
// to cut in a histogram of masses and sorts only what falls into the bin of the cut, and a draw
// from all tokens goes by the sums of groups.
#include "kernels/host/draw.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/sampling.hpp"

namespace attacca::kernels::host {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

bool has_more_mass(const Candidate& a, const Candidate& b) {
  return a.mass != b.mass ? a.mass > b.mass : a.token < b.token;
}
bool has_lower_token(const Candidate& a, const Candidate& b) { return a.token < b.token; }

/// Masses by size, sixteen bins for each power of two: a bin has few, however they are spread.
class Bins {
 public:
  static unsigned bin_of(std::uint64_t mass) {
    const unsigned width = static_cast<unsigned>(std::bit_width(mass | 1));
    return width << 4 | static_cast<unsigned>((mass << (64 - width)) >> 59 & 15);
  }
  static std::uint64_t least_in(unsigned bin) { return (16ull + bin % 16) << (bin / 16) >> 5; }

  void add(std::uint64_t mass) { sums_[bin_of(mass)] += mass; }
  /// The bin in which masses, highest first, reach `needed`, which becomes what it must give.
  /// REQUIRES: all together reach it.
  unsigned find(std::uint64_t& needed) const {
    unsigned bin = kBins - 1;
    for (; bin != 0 && sums_[bin] < needed; --bin) needed -= sums_[bin];
    return bin;
  }

 private:
  static constexpr unsigned kBins = 42 * 16;
  std::array<std::uint64_t, kBins> sums_{};
};

/// Keeps what is above `bin`, and of the bin the most probable tokens that give it `needed`.
void cut_in_bin(std::vector<Candidate>& candidates, unsigned bin, std::uint64_t needed,
                std::vector<Candidate>& ties) {
  ties.clear();
  for (const Candidate& candidate : candidates)
    if (Bins::bin_of(candidate.mass) == bin) ties.push_back(candidate);
  if (ties.empty()) return;
  std::sort(ties.begin(), ties.end(), has_more_mass);
  auto last = ties.begin();
  while (last + 1 != ties.end() && last->mass < needed) needed -= (last++)->mass;
  std::erase_if(candidates, [&](const Candidate& c) { return has_more_mass(*last, c); });
}

/// The token at a point of the masses laid end to end.
std::int32_t draw_from(const std::vector<Candidate>& candidates, const SamplingParams& params,
                       std::int32_t position) {
  std::uint64_t total = 0;
  for (const Candidate& candidate : candidates) total += candidate.mass;
  std::uint64_t point = point_in(total, params, position);
  auto at = candidates.begin();
  for (; point >= at->mass; ++at) point -= at->mass;
  return at->token;
}

/// Calls `take(group, its masses)` for the groups that can hold masses from `least` up.
template <class Take>
void for_masses(const LogitGroups& logits, float temperature, std::uint64_t least, Take take) {
  const double distance = std::log(static_cast<double>(kFullMass) / static_cast<double>(least));
  const float lowest = logits.max() - (static_cast<float>(distance) + 0.01f) * temperature;
  std::uint64_t masses[LogitGroups::kSize];
  for (std::size_t group = 0; group < logits.count(); ++group)
    if (logits.max(group) >= lowest) take(group, logits.masses(group, temperature, masses));
}

std::int32_t draw_from_top_k(const LogitGroups& logits, const SamplingParams& params,
                             std::int32_t position, DrawScratch& scratch) {
  std::vector<Candidate>& candidates = scratch.candidates;
  find_highest(logits, static_cast<std::size_t>(params.top_k), candidates);
  std::sort(candidates.begin(), candidates.end(), has_lower_token);
  std::uint64_t total = 0;
  for (Candidate& candidate : candidates)
    total += candidate.mass = mass_of(candidate.logit, logits.max(), params.temperature);
  if (params.top_p < 1) {
    Bins bins;
    for (const Candidate& candidate : candidates) bins.add(candidate.mass);
    std::uint64_t needed = mass_of_top_p(total, params.top_p);
    const unsigned bin = bins.find(needed);
    cut_in_bin(candidates, bin, needed, scratch.ties);
  }
  const std::uint64_t least = mass_of_min_p(params.min_p);
  std::erase_if(candidates, [&](const Candidate& c) { return c.mass < least; });
  return draw_from(candidates, params, position);
}

std::int32_t draw_from_all(const LogitGroups& logits, const SamplingParams& params,
                           std::int32_t position, DrawScratch& scratch) {
  Bins bins;
  std::uint64_t total = 0;
  scratch.masses.assign(logits.count(), 0);
  for_masses(logits, params.temperature, 1, [&](std::size_t group, auto masses) {
    for (const std::uint64_t mass : masses) scratch.masses[group] += mass;
    total += scratch.masses[group];
    if (params.top_p < 1)
      for (const std::uint64_t mass : masses) bins.add(mass);
  });

  if (params.top_p == 1 && params.min_p == 0) {
    std::uint64_t point = point_in(total, params, position);
    std::size_t group = 0;
    for (; point >= scratch.masses[group]; ++group) point -= scratch.masses[group];
    std::uint64_t memory[LogitGroups::kSize];
    const auto masses = logits.masses(group, params.temperature, memory);
    std::size_t at = 0;
    for (; point >= masses[at]; ++at) point -= masses[at];
    return logits.first_token(group) + static_cast<std::int32_t>(at);
  }

  std::uint64_t least = std::max<std::uint64_t>(1, mass_of_min_p(params.min_p));
  std::uint64_t needed = params.top_p < 1 ? mass_of_top_p(total, params.top_p) : total;
  unsigned bin = 0;
  if (params.top_p < 1) {
    bin = bins.find(needed);
    least = std::max(least, Bins::least_in(bin));
  }
  std::vector<Candidate>& candidates = scratch.candidates;
  candidates.clear();
  for_masses(logits, params.temperature, least, [&](std::size_t group, auto masses) {
    const auto values = logits.logits(group);
    for (std::size_t at = 0; at < masses.size(); ++at)
      if (masses[at] >= least)
        candidates.push_back(
            {values[at], logits.first_token(group) + static_cast<std::int32_t>(at), masses[at]});
  });
  if (params.top_p < 1) cut_in_bin(candidates, bin, needed, scratch.ties);
  return draw_from(candidates, params, position);
}

}  // namespace

bool has_higher_logit(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

void find_highest(const LogitGroups& logits, std::size_t count, std::vector<Candidate>& to) {
  const std::size_t room = count + std::max<std::size_t>(count, 64);
  float threshold = kLowest;
  const auto keep_highest = [&] {
    if (to.size() <= count) return;
    const auto last = to.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(to.begin(), last, to.end(), has_higher_logit);
    threshold = last->logit;
    to.resize(count);
  };
  to.clear();
  for (std::size_t group = 0; group < logits.count(); ++group) {
    if (!(logits.max(group) > threshold)) continue;
    std::int32_t token = logits.first_token(group);
    for (const float logit : logits.logits(group)) {
      // Later ones have higher ids: one that only equals the threshold comes too late.
      if (logit > threshold) to.push_back({logit, token, 0});
      if (to.size() == room) keep_highest();
      ++token;
    }
  }
  keep_highest();
}

std::int32_t draw(const LogitGroups& logits, const SamplingParams& params, std::int32_t position,
                  DrawScratch& scratch) {
  if (!(logits.max() > kLowest)) return 0;
  return params.top_k > 0 ? draw_from_top_k(logits, params, position, scratch)
                          : draw_from_all(logits, params, position, scratch);
}

}  // namespace attacca::kernels::host
