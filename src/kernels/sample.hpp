// sample.hpp: from logits to the next token of each sequence, inside the graph: penalties, bias,
// temperature, top-k, top-p, min-p, a seeded draw, log-probabilities, and the tests that end a
// sequence. A draw depends on the sequence's seed and position only, so it is reproducible whatever
// the batch.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"

namespace attacca::kernels {

/// How one slot samples. The default is greedy.
struct SamplingParams {
  static constexpr unsigned kMaxStopTokens = 8;
  static constexpr unsigned kMaxBiases = 32;
  static constexpr unsigned kMaxTop = 20;

  float temperature = 0;   // 0: the most probable token
  std::int32_t top_k = 0;  // 0: all
  float top_p = 1;
  float min_p = 0;               // times the most probable token's probability
  float repetition_penalty = 1;  // divides (or multiplies, below 0) logits of tokens seen anywhere
  float presence_penalty = 0;    // subtracted once from tokens generated before
  float frequency_penalty = 0;   // subtracted per time they were generated
  std::uint32_t top_logprobs = 0;  // how many of the most probable tokens to report
  std::uint64_t seed = 0;
  std::uint32_t stop_tokens = 0;
  std::int32_t stop_token[kMaxStopTokens] = {};
  std::uint32_t biases = 0;
  std::int32_t bias_token[kMaxBiases] = {};
  float bias[kMaxBiases] = {};
  std::int32_t last_position = 0;  // the sequence ends with the token at this position
};

/// Why a sequence ended; `none` while it goes on.
enum class Ending : std::uint32_t { none, stop_token, length };

/// What came of one sampled row. Log-probabilities are of the raw logits' softmax, before
/// penalties and temperature.
struct Sampled {
  std::int32_t token;
  Ending ending;
  float logprob;
  std::uint32_t tops;
  std::int32_t top_token[SamplingParams::kMaxTop];
  float top_logprob[SamplingParams::kMaxTop];
};

/// What penalties need to know of each slot: per token how often it was generated, and whether it
/// is in the prompt.
struct SeenTokens {
  static constexpr std::uint16_t kInPrompt = 0x8000;
  std::uint16_t* counts = nullptr;  // [slots, vocabulary]: kInPrompt | times generated (saturating)
};

/// How a GPU shares a row out: to the blocks of a cluster, each of which keeps its part of the
/// logits in shared memory.
struct SampleShape {
  static constexpr unsigned kThreads = 1024;
  static constexpr unsigned kBlocks = 8;
  static constexpr unsigned kFixedBytes = 28'672;           // of shared memory, beside the logits
  static constexpr std::uint32_t kMaxVocabulary = 400'000;  // what the shared memory of eight holds
  ATTACCA_HD static constexpr std::uint32_t share_of(std::uint32_t vocabulary) {
    return (vocabulary + kBlocks - 1) / kBlocks;
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
  SeenTokens seen;               // read where a penalty is on; the sampled token is counted then
  Sampled* out;                  // [rows.capacity]
};

const Kernel<SampleArgs>& sample();
/// Throws BadArgument for a vocabulary above SampleShape::kMaxVocabulary on CUDA.
Grid grid_of(const SampleArgs& args, bool is_cuda);

}  // namespace attacca::kernels
