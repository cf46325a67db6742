// sample.hpp: from logits to the next token of each sequence, inside the graph: bias, penalties, a
// mask, temperature, top-k, top-p, min-p, a seeded draw, log-probabilities, and the tests that end
// a sequence. A draw depends on the sequence's seed and position only, so it is reproducible
// whatever the batch.
#pragma once

#include <attacca/kernel.hpp>

#include "core/ending.hpp"
#include "kernels/activations.hpp"

namespace attacca::kernels {

/// How one slot samples. The default is greedy.
struct SamplingParams {
  static constexpr unsigned kMaxStopTokens = 128;
  static constexpr unsigned kMaxBiases = 1024;
  static constexpr unsigned kMaxTop = 20;

  float temperature = 0;   // 0: the most probable token
  std::int32_t top_k = 0;  // 0: all
  float top_p = 1;
  float min_p = 0;               // times the most probable token's probability
  float repetition_penalty = 1;  // divides (or multiplies, below 0) logits of tokens seen anywhere
  float presence_penalty = 0;    // subtracted once from tokens generated before
  float frequency_penalty = 0;   // subtracted per time they were generated
  std::uint32_t wants_logprob = 0;  // of the chosen token
  std::uint32_t top_logprobs = 0;   // how many of the most probable tokens to report
  std::uint32_t stop_tokens = 0;    // of SlotTokens::stop
  std::uint32_t biases = 0;         // of SlotTokens::bias
  std::uint32_t is_masked = 0;      // by SlotTokens::allowed
  std::uint64_t seed = 0;
  std::int32_t last_position = 0;  // the sequence ends with the token at this position
};

/// Added to the logit of a token.
struct TokenBias {
  std::int32_t token;
  float bias;
};

/// What is known of a token in a slot, in one word.
struct TokenMark {
  static constexpr std::uint16_t kInPrompt = 0x8000;
  static constexpr std::uint16_t kMostTimes = 0x7fff;  // generated; more are not counted
};

/// Tokens that a slot's parameters speak of.
struct SlotTokens {
  const std::int32_t* stop = nullptr;  // [slots, kMaxStopTokens]
  const TokenBias* bias = nullptr;     // [slots, kMaxBiases]: by token, ascending, each once
  // [slots, mask_words(vocabulary)]: bit token % 32 of word token / 32. Read where is_masked.
  const std::uint32_t* allowed = nullptr;
  // [slots, vocabulary]: see TokenMark. Read where there are penalties, and the sampled token is
  // counted then.
  std::uint16_t* marks = nullptr;
};
ATTACCA_HD constexpr std::uint32_t mask_words(std::uint32_t vocabulary) {
  return (vocabulary + 31) / 32;
}

/// What came of one sampled row. Log-probabilities are of the raw logits' softmax, before bias,
/// penalties and temperature. A row with a logit that is infinite or not a number ends its sequence
/// as `not_finite`; its token is one of the vocabulary.
struct Sampled {
  std::int32_t token;
  Ending ending;
  float logprob;  // 0 unless it is wanted
  std::uint32_t tops;
  std::int32_t top_token[SamplingParams::kMaxTop];
  float top_logprob[SamplingParams::kMaxTop];
};

/// How a GPU shares rows out: the fewer there are, the more blocks a row gets, so that about all
/// SMs have one.
struct SampleShape {
  static constexpr unsigned kThreads = 1024;
  static constexpr unsigned kChunk = 128;  // tokens that a warp takes together
  static constexpr std::uint32_t kMaxVocabulary = 1u << 20;
  ATTACCA_HD static constexpr unsigned blocks_for(std::uint32_t rows) {
    return rows <= 16 ? 8 : rows <= 32 ? 4 : rows <= 64 ? 2 : 1;
  }
};

struct SampleArgs {
  const float* logits;  // [rows.capacity, vocabulary]
  std::uint32_t vocabulary;
  RowCount rows;
  const std::int32_t* slots;      // [rows.capacity]: whose parameters
  const std::int32_t* positions;  // [rows.capacity]: where the sampled token will stand
  const std::int32_t*
      forced;  // [rows.capacity]: the token to take, or -1 to choose one; may be null
  const SamplingParams* params;  // [slots]
  SlotTokens tokens;
  Sampled* out;  // [rows.capacity]
};

/// The kernel for as many rows as `args` can have.
const Kernel<SampleArgs>& sample(const SampleArgs& args);
/// Throws BadArgument for a vocabulary above SampleShape::kMaxVocabulary on CUDA.
Grid grid_of(const SampleArgs& args, bool is_cuda);

}  // namespace attacca::kernels
