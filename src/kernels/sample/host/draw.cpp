// draw.cpp: the draw of draw.hpp. Nothing sorts the vocabulary: top-k keeps a short list, and top-p
// only tests the token that was drawn (see sampling.hpp).
#include "kernels/sample/host/draw.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/sample/sampling.hpp"

namespace attacca::kernels::host {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

bool has_higher_logit(const Candidate& a, const Candidate& b) {
  return comes_before(a.logit, static_cast<std::uint32_t>(a.token), b.logit,
                      static_cast<std::uint32_t>(b.token));
}

std::int32_t draw_from_top_k(const LogitGroups& logits, const SamplingParams& params,
                             std::int32_t position, DrawScratch& scratch) {
  std::vector<Candidate>& candidates = scratch.candidates;
  find_highest(logits, static_cast<std::size_t>(params.top_k), candidates);
  std::uint64_t all = 0;
  scratch.masses.clear();  // mass of the candidates before each one
  for (Candidate& candidate : candidates) {
    scratch.masses.push_back(all);
    all += candidate.mass = mass_of(candidate.logit, logits.max(), 1.0f / params.temperature);
  }
  std::vector<std::size_t>& by_token = scratch.by_token;
  by_token.resize(candidates.size());
  std::iota(by_token.begin(), by_token.end(), 0);
  std::sort(by_token.begin(), by_token.end(), [&](std::size_t a, std::size_t b) {
    return candidates[a].token < candidates[b].token;
  });
  const std::uint64_t least = mass_of_min_p(params.min_p);
  std::size_t end = candidates.size();
  const auto mass_at_place = [&](std::size_t at) {
    return at < end && candidates[at].mass >= least ? candidates[at].mass : 0;
  };
  for (std::uint32_t attempt = 0;; ++attempt) {
    std::uint64_t total = 0;
    for (std::size_t at = 0; at < end; ++at) total += mass_at_place(at);
    std::uint64_t point = point_in(total, params, position, attempt);
    auto drawn = by_token.begin();
    for (; point >= mass_at_place(*drawn); ++drawn) point -= mass_at_place(*drawn);
    end = *drawn;
    if (params.top_p == 1 || scratch.masses[end] < mass_of_top_p(all, params.top_p))
      return candidates[end].token;
  }
}

/// The masses of all tokens, or of those before one, laid end to end by token id.
class MassLine {
 public:
  MassLine(const LogitGroups& logits, const SamplingParams& params,
           std::vector<std::uint64_t>& by_group)
      : logits_(logits),
        inverse_(1.0f / params.temperature),
        least_(mass_of_min_p(params.min_p)),
        by_group_(by_group) {
    by_group_.assign(logits.count(), 0);
    for (std::size_t group = 0; group < logits_.count(); ++group)
      for (const std::uint64_t mass : logits_.masses(group, inverse_, memory_)) {
        all_ += mass;
        by_group_[group] += mass >= least_ ? mass : 0;
      }
    add_up();
  }

  std::uint64_t all() const { return all_; }      // before min-p
  std::uint64_t total() const { return total_; }  // of the tokens that can be drawn

  Candidate at(std::uint64_t point) {
    std::size_t group = 0;
    for (; point >= by_group_[group]; ++group) point -= by_group_[group];
    Candidate found{};
    bool is_found = false;
    each_in(group, [&](const Candidate& candidate) {
      if (!is_found && point < candidate.mass) {
        found = candidate;
        is_found = true;
      }
      if (!is_found) point -= candidate.mass;
    });
    return found;
  }
  void keep_before(const Candidate& last) {
    last_ = last;
    has_last_ = true;
    for (std::size_t group = 0; group < logits_.count(); ++group) {
      by_group_[group] = 0;
      if (logits_.max(group) >= last.logit)
        each_in(group, [&](const Candidate& candidate) { by_group_[group] += candidate.mass; });
    }
    add_up();
  }

 private:
  /// Calls `take` for each token of a group that can be drawn.
  template <class Take>
  void each_in(std::size_t group, Take take) {
    const auto masses = logits_.masses(group, inverse_, memory_);
    const auto values = logits_.logits(group);
    for (std::size_t i = 0; i < masses.size(); ++i) {
      const Candidate candidate{
          values[i], logits_.first_token(group) + static_cast<std::int32_t>(i), masses[i]};
      if (candidate.mass >= least_ && (!has_last_ || has_higher_logit(candidate, last_)))
        take(candidate);
    }
  }
  void add_up() {
    total_ = 0;
    for (const std::uint64_t mass : by_group_) total_ += mass;
  }

  const LogitGroups& logits_;
  float inverse_;
  std::uint64_t least_;
  std::vector<std::uint64_t>& by_group_;
  std::uint64_t memory_[LogitGroups::kSize];
  std::uint64_t all_ = 0;
  std::uint64_t total_ = 0;
  Candidate last_{};
  bool has_last_ = false;
};

std::int32_t draw_from_all(const LogitGroups& logits, const SamplingParams& params,
                           std::int32_t position, std::vector<std::uint64_t>& by_group) {
  MassLine line(logits, params, by_group);
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Candidate drawn = line.at(point_in(line.total(), params, position, attempt));
    if (params.top_p == 1) return drawn.token;
    line.keep_before(drawn);
    if (line.total() < mass_of_top_p(line.all(), params.top_p)) return drawn.token;
  }
}

}  // namespace

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
      // Later tokens have higher ids, so one that equals the threshold is too late.
      if (logit > threshold) to.push_back({logit, token, 0});
      if (to.size() == room) keep_highest();
      ++token;
    }
  }
  keep_highest();
  std::sort(to.begin(), to.end(), has_higher_logit);
}

std::int32_t draw(const LogitGroups& logits, const SamplingParams& params, std::int32_t position,
                  DrawScratch& scratch) {
  if (!(logits.max() > kLowest)) return 0;
  const bool has_top_k = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < logits.size();
  return has_top_k ? draw_from_top_k(logits, params, position, scratch)
                   : draw_from_all(logits, params, position, scratch.masses);
}

}  // namespace attacca::kernels::host
