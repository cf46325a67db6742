// sampling.hpp: the arithmetic of sampling that host and CUDA share, so that both draw the same
// token from the same logits. A probability is an integer, the mass, with 2^40 for the most
// probable token, so a sum is the same in any order. Each step before it rounds once. Fused
// multiply-adds are explicit: compilers would fuse some and not others. The searches themselves are
// in sample_row.cuh and host/draw.cpp.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/sample/sample.hpp"

namespace attacca::kernels {

/// The mass of the most probable token. Others have kFullMass * exp(-distance), rounded down.
inline constexpr std::uint64_t kFullMass = 1ull << 40;

/// The constants of 2^40 * exp(-distance) = 2^16 * 2^-octaves * (2^24 * 2^-x).
struct MassTerms {
  static constexpr float kFarthest = 28;  // exp(-28) < 2^-40
  static constexpr float kLog2E = 1.44269504f;
  // 2^24 * 2^-x for x in [0, 1], relative error at most 8e-8: the factors of x^0, x^1, …
  static constexpr float kPower0 = 16777214.7f;
  static constexpr float kPower1 = -11628997.3f;
  static constexpr float kPower2 = 4029420.7f;
  static constexpr float kPower3 = -927439.848f;
  static constexpr float kPower4 = 154159.326f;
  static constexpr float kPower5 = -15750.2555f;
};

/// kFullMass * exp(-distance), with a relative error of about 3e-7. REQUIRES: distance >= 0, or
/// NaN.
ATTACCA_HD inline std::uint64_t mass_at(float distance) {
  if (!(distance < MassTerms::kFarthest)) return 0;
  const auto octaves = static_cast<std::uint32_t>(distance * MassTerms::kLog2E);
  const float x = std::fma(distance, MassTerms::kLog2E, -static_cast<float>(octaves));
  float power = std::fma(MassTerms::kPower5, x, MassTerms::kPower4);
  power = std::fma(power, x, MassTerms::kPower3);
  power = std::fma(power, x, MassTerms::kPower2);
  power = std::fma(power, x, MassTerms::kPower1);
  power = std::fma(power, x, MassTerms::kPower0);
  return static_cast<std::uint64_t>(power) << 16 >> octaves;
}

/// The mass of a token. REQUIRES: logit <= max; inverse = 1 / temperature, which is above 0.
ATTACCA_HD inline std::uint64_t mass_of(float logit, float max, float inverse) {
  return logit == max ? kFullMass : mass_at((max - logit) * inverse);
}

/// The high 64 bits of a product: a * (b / 2^64), rounded down.
ATTACCA_HD constexpr std::uint64_t mul_high(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a_low = a & 0xffffffffu;
  const std::uint64_t b_low = b & 0xffffffffu;
  const std::uint64_t middle = (a >> 32) * b_low + ((a_low * b_low) >> 32);
  const std::uint64_t other = a_low * (b >> 32) + (middle & 0xffffffffu);
  return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

/// top_p times `total`, rounded down, but at least 1. REQUIRES: 0 < top_p < 1.
ATTACCA_HD inline std::uint64_t mass_of_top_p(std::uint64_t total, float top_p) {
  const std::uint64_t mass =
      mul_high(total, static_cast<std::uint64_t>(top_p * 18446744073709551616.0f));
  return mass == 0 ? 1 : mass;
}

/// The least mass a token needs under min_p.
ATTACCA_HD inline std::uint64_t mass_of_min_p(float min_p) {
  return static_cast<std::uint64_t>(min_p * static_cast<float>(kFullMass));
}

/// The finalizer of SplitMix64, a bijection.
ATTACCA_HD constexpr std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

/// The 64 random bits of a position: number `position` of the SplitMix64 sequence that starts at
/// mixed(seed). Repeated draws at a position have other bits for each `attempt`.
ATTACCA_HD constexpr std::uint64_t random_bits(std::uint64_t seed, std::int32_t position,
                                               std::uint32_t attempt = 0) {
  const std::uint64_t number = static_cast<std::uint32_t>(position);
  const std::uint64_t bits = mixed(mixed(seed) + (number + 1) * 0x9e3779b97f4a7c15u);
  return attempt == 0 ? bits : mixed(bits + attempt * 0x9e3779b97f4a7c15u);
}

/// A random point in [0, total). With the masses laid end to end by token id, the token that covers
/// the point is drawn.
ATTACCA_HD constexpr std::uint64_t point_in(std::uint64_t total, const SamplingParams& params,
                                            std::int32_t position, std::uint32_t attempt = 0) {
  return mul_high(total, random_bits(params.seed, position, attempt));
}

// Top-p without sorting: a token is drawn from all. It is accepted if the tokens before it, by
// logit and then by id, have less than the mass that top-p asks for. Otherwise it is outside the
// top-p set, and so is every token after it, so the draw is repeated among the tokens before it.
// Accepted tokens are distributed by their masses, whatever was rejected.

/// The order of tokens: by descending logit, then by id. REQUIRES: not NaN, not -0.
ATTACCA_HD constexpr bool comes_before(float logit, std::uint32_t token, float other,
                                       std::uint32_t other_token) {
  return logit > other || (logit == other && token < other_token);
}

ATTACCA_HD inline bool has_penalties(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

/// The penalties of one slot.
struct Penalties {
  float repetition;
  float inverse;  // 1 / repetition
  float presence;
  float frequency;

  ATTACCA_HD explicit Penalties(const SamplingParams& p)
      : repetition(p.repetition_penalty),
        inverse(1.0f / p.repetition_penalty),
        presence(p.presence_penalty),
        frequency(p.frequency_penalty) {}
  /// The logit after penalties.
  ATTACCA_HD float apply(float logit, std::uint16_t mark) const {
    if (mark == 0) return logit;
    const unsigned times = mark & TokenMark::kMostTimes;
    logit = std::fma(logit, logit > 0 ? inverse : repetition, times != 0 ? -presence : 0);
    return std::fma(-frequency, static_cast<float>(times), logit);
  }
};

/// A token's mark after it was generated once more.
ATTACCA_HD constexpr std::uint16_t counted(std::uint16_t mark) {
  const bool is_full = (mark & TokenMark::kMostTimes) == TokenMark::kMostTimes;
  return static_cast<std::uint16_t>(is_full ? mark : mark + 1);
}

/// A token's mark after it was found once more in a history.
ATTACCA_HD constexpr std::uint16_t marked(std::uint16_t mark, bool is_in_prompt) {
  return is_in_prompt ? static_cast<std::uint16_t>(mark | TokenMark::kInPrompt) : counted(mark);
}

/// One slot's rows of SlotTokens.
struct TokensOfSlot {
  const std::int32_t* stop;
  const TokenBias* bias;
  const std::uint32_t* allowed;  // null: all tokens are allowed
  std::uint16_t* marks;          // null: no penalties

  ATTACCA_HD TokensOfSlot(const SampleArgs& args, std::uint32_t slot)
      : stop(args.tokens.stop + static_cast<std::uint64_t>(slot) * SamplingParams::kMaxStopTokens),
        bias(args.tokens.bias + static_cast<std::uint64_t>(slot) * SamplingParams::kMaxBiases),
        allowed(args.params[slot].mask < SamplingParams::kUnknownMask
                    ? args.tokens.masks + static_cast<std::uint64_t>(args.params[slot].mask) *
                                              mask_words(args.vocabulary)
                    : nullptr),
        marks(has_penalties(args.params[slot]) &&
                      args.params[slot].mask != SamplingParams::kUnknownMask
                  ? args.tokens.marks + static_cast<std::uint64_t>(slot) * args.vocabulary
                  : nullptr) {}
  ATTACCA_HD bool allows(std::uint32_t token) const {
    return !allowed || (allowed[token / 32] >> (token % 32) & 1) != 0;
  }
};

/// `stop`: the slot's stop tokens.
ATTACCA_HD constexpr Ending ending_of(const SamplingParams& p, const std::int32_t* stop,
                                      std::int32_t token, std::int32_t position) {
  for (std::uint32_t at = 0; at < p.stop_tokens; ++at)
    if (stop[at] == token) return Ending::stop_token;
  return position >= p.last_position ? Ending::length : Ending::none;
}

/// Moves a slot on to its next mask, and returns it.
ATTACCA_HD inline std::uint32_t follow_mask(const SampleArgs& args, std::uint32_t slot,
                                            std::int32_t token) {
  SamplingParams& params = args.params[slot];
  if (params.follows_edges == 0 || params.mask >= SamplingParams::kUnknownMask) return params.mask;
  const std::uint32_t next = args.tokens.edges.find(params.mask, token);
  return params.mask = next == MaskEdges::kNone ? SamplingParams::kUnknownMask : next;
}

/// Whether the caller gives the row's token. REQUIRES: it is in the vocabulary.
ATTACCA_HD inline bool is_forced(const SampleArgs& args, std::uint32_t row) {
  return args.forced != nullptr && args.forced[row] >= 0;
}

}  // namespace attacca::kernels
