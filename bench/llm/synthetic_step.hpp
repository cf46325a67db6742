// synthetic_step.hpp: a step of the engine without the engine: random weights, KV pages of random
// numbers, and a batch whose plan lies on the device already. What is left is what a step costs.
#pragma once

#include <attacca/exec.hpp>
#include <attacca/memory.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/sample/sample.hpp"
#include "llm/device_clock.hpp"
#include "step/step.hpp"

namespace bench {

/// How the kernels of a step are launched.
///  full       one graph
///  piecewise  graphs, and between them the kernels of attention by themselves
///  off        one by one
enum class GraphMode { full, piecewise, off };
/// Throws attacca::BadArgument with the names there are.
GraphMode graph_mode_called(const std::string& name);
const char* name_of(GraphMode mode);

/// A sequence of which the next tokens are computed.
struct SyntheticSequence {
  std::uint32_t context;     // tokens before
  std::uint32_t tokens = 1;  // computed
};
using SyntheticBatch = std::vector<SyntheticSequence>;

std::uint64_t pages_of(const SyntheticBatch& batch);
/// Tokens before, of all sequences.
std::uint64_t context_of(const SyntheticBatch& batch);

/// Weights and a pool of pages, for any batch that fits.
class SyntheticModel {
 public:
  static constexpr std::uint32_t kPageSize = 16;

  /// Throws attacca::BadArgument with the numbers where the device has too little memory.
  SyntheticModel(const attacca::model::ModelConfig& config, const attacca::Device& device,
                 std::uint64_t pages, std::uint64_t seed = 1,
                 attacca::model::WeightFormat format = attacca::model::WeightFormat::as_stored);
  /// With the weights of a file, and keys and values in f32 or bf16.
  /// REQUIRES: the checkpoint outlives it.
  SyntheticModel(const attacca::model::Checkpoint& checkpoint, const attacca::Device& device,
                 std::uint64_t pages, attacca::kernels::KvType kv_type);

  const attacca::Device device;
  const attacca::model::ModelConfig config;
  const attacca::model::Weights weights;

  std::uint64_t pages() const { return kv_.sizes().pages; }
  const attacca::step::KvPool& kv() const { return kv_; }

  /// What a step must read: the weights, but for the embedding where it is not the head too, and
  /// the keys and values of the context.
  double bytes_read(const SyntheticBatch& batch) const;

 private:
  void fill_pages(std::uint64_t seed);

  attacca::step::KvPool kv_;
};

/// A token and its log-probability, in which all logits of a row have a part.
struct SyntheticDraw {
  std::int32_t token;
  float logprob;
  friend bool operator==(const SyntheticDraw&, const SyntheticDraw&) = default;
};

/// One batch, ready to run as often as one likes: a run changes nothing that the next one reads.
/// Steps that run in turn must have pages of their own, for each writes what its rows add.
/// REQUIRES: the model outlives it, and it what it returns.
class SyntheticStep {
 public:
  /// `first_page`: how many of the pool's pages are for others. `same_bits`: a row is computed as
  /// in every other step, else steps are as fast as we know.
  SyntheticStep(const SyntheticModel& model, const SyntheticBatch& batch,
                std::uint64_t first_page = 0, bool same_bits = false);

  Launch launch(GraphMode mode) const;
  /// Launches once, waits, and returns what was sampled. Throws where that is nothing.
  std::vector<SyntheticDraw> draws_of(const Launch& launch) const;

 private:
  const std::int32_t* keep(const std::vector<std::int32_t>& values);
  const std::int32_t* deal_pages(const SyntheticBatch& batch, std::uint32_t stride,
                                 std::uint64_t first_page);

  const SyntheticModel& model_;
  attacca::step::StepShape shape_;
  std::vector<attacca::Buffer<std::int32_t>> plan_;
  attacca::Buffer<std::uint32_t> counts_;
  attacca::Buffer<attacca::kernels::SamplingParams> sampling_;
  attacca::Buffer<std::uint16_t> marks_;
  mutable std::optional<attacca::step::StepMemory> memory_;  // a launch writes what it sampled
  std::optional<attacca::step::Chain> chain_;
};

}  // namespace bench
