// highest.hpp: sampling where every rank has some of the vocabulary, without the logits of others:
// each rank finds its highest logits, and rank 0 samples from those of all as sample.hpp does from
// a row. It gives the token that all logits would give, for requests that need no others (see
// needs_few).
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/sample/sample.hpp"

namespace attacca::kernels {

/// The highest logits of a rank's part of a row, by token. Ranks have neighbouring parts of the
/// vocabulary, so those of all ranks, one after another, are by token too: a row in which ties and
/// draws fall as they do in the whole one. If a logit of the part is not finite, these are NaN.
struct Highest {
  static constexpr std::uint32_t kCount = 32;
  float logit[kCount];
  std::int32_t token[kCount];
};

/// Whether the token depends on the Highest::kCount highest logits only: greedy, or a top-k of that
/// many with any temperature, top-p and min-p; no penalties, biases, masks or log-probabilities.
bool needs_few(const SamplingParams& params);

struct HighestArgs {
  // The rank's part of the logits as a vocabulary of its own. Parameters are not looked at.
  SampleArgs part;
  std::uint32_t first_token;
  Highest* out;  // [rows.capacity]
};
/// REQUIRES: the part has at least Highest::kCount tokens.
const Kernel<HighestArgs>& highest(const HighestArgs& args);
Grid grid_of(const HighestArgs& args, bool is_cuda);

struct SampleHighestArgs {
  // `logits` is scratch memory, and `vocabulary` the number of candidates: ranks * Highest::kCount.
  SampleArgs sample;
  const Highest* parts;  // [ranks, rows.capacity]
};
const Kernel<SampleHighestArgs>& sample_highest();
Grid grid_of(const SampleHighestArgs& args, bool is_cuda);

}  // namespace attacca::kernels
