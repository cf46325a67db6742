// sample.cpp: the host body of the sample kernel: applies bias, penalties and mask, and fills in a
// row's result. The draw is in draw.cpp.
#include "kernels/sample/host/sample.hpp"

#include <limits>
#include <span>
#include <vector>

#include "kernels/sample/host/draw.hpp"
#include "kernels/sample/sampling.hpp"

namespace attacca::kernels::host {
namespace {

/// Memory that a thread reuses from row to row.
struct Scratch {
  std::vector<float> changed;
  std::vector<float> maxima;
  DrawScratch draw;
};

/// The row after bias, penalties and mask; the row itself if there are none.
std::span<const float> changed_row(std::span<const float> row, const SamplingParams& params,
                                   const TokensOfSlot& tokens, std::vector<float>& to) {
  if (!tokens.marks && !tokens.allowed && params.biases == 0) return row;
  to.assign(row.begin(), row.end());
  for (std::uint32_t at = 0; at < params.biases; ++at)
    to[static_cast<std::size_t>(tokens.bias[at].token)] += tokens.bias[at].bias;
  const Penalties penalties(params);
  if (tokens.marks)
    for (std::size_t token = 0; token < to.size(); ++token)
      to[token] = penalties.apply(to[token], tokens.marks[token]);
  if (tokens.allowed)
    for (std::uint32_t token = 0; token < to.size(); ++token)
      if (!tokens.allows(token)) to[token] = -std::numeric_limits<float>::infinity();
  return to;
}

std::int32_t choose(const SampleArgs& a, std::uint32_t row, std::span<const float> raw,
                    LogitGroups& logits, const TokensOfSlot& tokens, Scratch& scratch) {
  const SamplingParams& params = a.params[a.slots[row]];
  const std::span<const float> changed = changed_row(raw, params, tokens, scratch.changed);
  if (changed.data() != raw.data()) logits = LogitGroups(changed, scratch.maxima);
  return params.temperature == 0 ? logits.argmax()
                                 : draw(logits, params, a.positions[row], scratch.draw);
}

}  // namespace

void sample(const SampleArgs& a, std::uint32_t row, const std::int32_t* token_at) {
  thread_local Scratch scratch;
  const auto slot = static_cast<std::uint32_t>(a.slots[row]);
  const SamplingParams& params = a.params[slot];
  const TokensOfSlot tokens(a, slot);
  const std::span<const float> raw(a.logits + std::uint64_t{row} * a.vocabulary, a.vocabulary);
  Sampled& out = a.out[row];

  LogitGroups logits(raw, scratch.maxima);
  const bool is_finite = logits.is_finite();
  const bool wants_sum = is_finite && (params.wants_logprob != 0 || params.top_logprobs != 0);
  const double log_sum = wants_sum ? logits.log_of_sum() : 0;
  out.tops = 0;
  if (wants_sum && params.top_logprobs != 0) {
    std::vector<Candidate>& top = scratch.draw.candidates;
    find_highest(logits, params.top_logprobs, top);
    for (const Candidate& candidate : top) {
      out.top_token[out.tops] = candidate.token;
      out.top_logprob[out.tops++] = static_cast<float>(candidate.logit - log_sum);
    }
  }

  if (is_forced(a, row))
    out.token = a.forced[row];
  else
    out.token = is_finite ? choose(a, row, raw, logits, tokens, scratch) : 0;
  if (token_at && is_finite && !is_forced(a, row)) out.token = token_at[out.token];
  out.logprob =
      wants_sum ? static_cast<float>(raw[static_cast<std::size_t>(out.token)] - log_sum) : 0;
  out.ending =
      is_finite ? ending_of(params, tokens.stop, out.token, a.positions[row]) : Ending::not_finite;
  if (tokens.marks) tokens.marks[out.token] = counted(tokens.marks[out.token]);
  out.mask = follow_mask(a, slot, out.token);
}

}  // namespace attacca::kernels::host
