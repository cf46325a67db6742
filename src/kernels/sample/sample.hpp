// sample.hpp: samples the next token of each sequence from its logits, inside the graph: bias,
// penalties, mask, temperature, top-k, top-p, min-p, a seeded draw, log-probabilities, the tests
// that end a sequence, and the step to the next mask of a grammar. A draw depends on the sequence's
// seed and position only, so it is the same whatever else is in the batch. Stop strings are not
// handled here.
#pragma once

#include <attacca/kernel.hpp>

#include "core/ending.hpp"
#include "kernels/activations.hpp"
#include "kernels/sample/mask_edges.hpp"

namespace attacca::kernels {

/// How one slot samples. The default is greedy.
struct SamplingParams {
  static constexpr unsigned kMaxStopTokens = 128;
  static constexpr unsigned kMaxBiases = 1024;
  static constexpr unsigned kMaxTop = 20;
  static constexpr std::uint32_t kAllTokens = ~0u;        // no mask
  static constexpr std::uint32_t kUnknownMask = ~0u - 1;  // the row's token is in vain

  float temperature = 0;   // 0: the most probable token
  std::int32_t top_k = 0;  // 0: all
  float top_p = 1;
  float min_p = 0;  // relative to the most probable token's probability
  float repetition_penalty =
      1;  // divides positive logits of tokens seen anywhere, multiplies negative ones
  float presence_penalty = 0;       // subtracted once from tokens generated before
  float frequency_penalty = 0;      // subtracted for each time they were generated
  std::uint32_t wants_logprob = 0;  // whether to report the chosen token's
  std::uint32_t top_logprobs = 0;   // how many of the most probable tokens to report
  std::uint32_t stop_tokens = 0;    // entries of SlotTokens::stop
  std::uint32_t biases = 0;         // entries of SlotTokens::bias
  std::uint32_t mask = kAllTokens;  // the row of SlotTokens::masks that has the allowed tokens
  std::uint32_t follows_edges = 0;  // whether the sampled token leads to the next mask
  std::uint64_t seed = 0;
  std::int32_t last_position = 0;  // the sequence ends with the token at this position
};

/// Added to the logit of a token.
struct TokenBias {
  std::int32_t token;
  float bias;
};

/// What a slot's penalties know of a token, in 16 bits.
struct TokenMark {
  static constexpr std::uint16_t kInPrompt = 0x8000;
  static constexpr std::uint16_t kMostTimes =
      0x7fff;  // the count of times it was generated saturates here
};

/// Per-slot lists that the parameters refer to.
struct SlotTokens {
  const std::int32_t* stop = nullptr;  // [slots, kMaxStopTokens]
  const TokenBias* bias = nullptr;     // [slots, kMaxBiases]: by token, ascending, each once
  // [masks, mask_words(vocabulary)]: bit token % 32 of word token / 32.
  const std::uint32_t* masks = nullptr;
  // [slots, vocabulary]: see TokenMark. Read if there are penalties; the sampled token is then
  // counted.
  std::uint16_t* marks = nullptr;
  MaskEdges edges = {};
};
ATTACCA_HD constexpr std::uint32_t mask_words(std::uint32_t vocabulary) {
  return (vocabulary + 31) / 32;
}

/// The result of one sampled row. Log-probabilities are of the raw logits' softmax, before bias,
/// penalties and temperature. A row with an infinite or NaN logit ends its sequence as
/// `not_finite`; its token is still one of the vocabulary, and it has no log-probabilities.
/// Aligned, so that a lane reads what precedes `tops` at once.
struct alignas(16) Sampled {
  std::int32_t token;
  Ending ending;
  std::uint32_t mask;  // of the next token; see SamplingParams
  float logprob;       // 0 unless wants_logprob
  std::uint32_t tops;
  std::int32_t top_token[SamplingParams::kMaxTop];
  float top_logprob[SamplingParams::kMaxTop];
};

/// The cluster size on a GPU: the fewer rows there are, the more blocks each row gets, so that
/// nearly all SMs have one.
struct SampleShape {
  static constexpr unsigned kThreads = 1024;
  static constexpr unsigned kChunk = 128;  // tokens that a warp reads at a time
  static constexpr std::uint32_t kMaxVocabulary = 1u << 20;
  ATTACCA_HD static constexpr unsigned blocks_for(std::uint32_t rows) {
    return rows <= 16 ? 8 : rows <= 32 ? 4 : rows <= 64 ? 2 : 1;
  }
};

struct SampleArgs {
  // [rows.capacity, vocabulary]. On a GPU, a row with biases, penalties or a mask may be
  // overwritten with the logits after them.
  float* logits;
  std::uint32_t vocabulary;
  RowCount rows;
  const std::int32_t* slots;      // the slot that has the row's parameters
  const std::int32_t* positions;  // of the sampled token
  const std::int32_t* forced;     // [rows.capacity]: the token to take, or -1 to sample; or null
  SamplingParams* params;         // [slots]: the mask is written
  SlotTokens tokens;
  Sampled* out;  // [rows.capacity]
};

/// The kernel for up to args.rows.capacity rows.
const Kernel<SampleArgs>& sample(const SampleArgs& args);
/// Throws BadArgument for a vocabulary above SampleShape::kMaxVocabulary on CUDA.
Grid grid_of(const SampleArgs& args, bool is_cuda);

}  // namespace attacca::kernels
