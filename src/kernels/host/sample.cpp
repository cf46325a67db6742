// sample.cpp: see sample.hpp.
#include "kernels/host/sample.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/host/draw.hpp"
#include "kernels/sampling.hpp"

namespace attacca::kernels::host {
namespace {

/// Memory that a thread keeps from row to row.
struct Scratch {
  std::vector<float> adjusted;
  std::vector<float> maxima;
  DrawScratch draw;
};

/// A logit after bias and penalties.
float adjusted(float logit, std::int32_t token, std::uint16_t seen, const SamplingParams& p) {
  for (std::uint32_t at = 0; at < p.biases; ++at)
    if (p.bias_token[at] == token) logit += p.bias[at];
  return penalized(logit, seen, p);
}

/// The row after bias and penalties; the row itself where there are none.
std::span<const float> adjusted_row(std::span<const float> row, const SamplingParams& params,
                                    const std::uint16_t* seen, std::vector<float>& to) {
  if (!seen && params.biases == 0) return row;
  to.assign(row.begin(), row.end());
  const auto adjust = [&](std::size_t token) {
    to[token] = adjusted(row[token], static_cast<std::int32_t>(token),
                         seen ? seen[token] : std::uint16_t{0}, params);
  };
  for (std::uint32_t at = 0; at < params.biases; ++at)
    if (const auto token = static_cast<std::uint32_t>(params.bias_token[at]); token < row.size())
      adjust(token);
  if (seen)
    for (std::size_t token = 0; token < row.size(); ++token)
      if (seen[token] != 0) adjust(token);
  return to;
}

}  // namespace

void sample(const SampleArgs& a, std::uint32_t row) {
  thread_local Scratch scratch;
  const auto slot = static_cast<std::uint32_t>(a.slots[row]);
  const SamplingParams& params = a.params[slot];
  const std::span<const float> raw(a.logits + std::uint64_t{row} * a.vocabulary, a.vocabulary);
  Sampled& out = a.out[row];

  LogitGroups logits(raw, scratch.maxima);
  const double log_sum = logits.max() + std::log(logits.sum_of_exp());
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };
  out.tops = 0;
  if (params.top_logprobs != 0) {
    std::vector<Candidate>& top = scratch.draw.candidates;
    find_highest(logits, params.top_logprobs, top);
    std::sort(top.begin(), top.end(), has_higher_logit);
    for (const Candidate& candidate : top) {
      out.top_token[out.tops] = candidate.token;
      out.top_logprob[out.tops++] = logprob(candidate.logit);
    }
  }

  std::uint16_t* seen =
      has_penalties(params) ? a.seen.counts + std::uint64_t{slot} * a.vocabulary : nullptr;
  if (is_forced(a, row)) {
    out.token = a.forced[row];
  } else {
    const std::span<const float> adjusted = adjusted_row(raw, params, seen, scratch.adjusted);
    if (adjusted.data() != raw.data()) logits = LogitGroups(adjusted, scratch.maxima);
    out.token = params.temperature == 0 ? logits.argmax()
                                        : draw(logits, params, a.positions[row], scratch.draw);
  }
  out.logprob = logprob(raw[static_cast<std::size_t>(out.token)]);
  out.ending = ending_of(params, out.token, a.positions[row]);
  if (seen) seen[out.token] = counted(seen[out.token]);
}

}  // namespace attacca::kernels::host
