// synthetic_step.hpp: a step of the engine without the engine: random weights, KV pages of random
// numbers, and a batch whose plan is already on the device. So only the step itself is timed.
#pragma once

#include <attacca/exec.hpp>
#include <attacca/memory.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/sample/sample.hpp"
#include "llm/device_clock.hpp"
#include "model/shard.hpp"
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

/// A sequence whose next tokens are computed.
struct SyntheticSequence {
  std::uint32_t context;     // tokens before
  std::uint32_t tokens = 1;  // computed
};
using SyntheticBatch = std::vector<SyntheticSequence>;

std::uint64_t pages_of(const SyntheticBatch& batch);
/// The context tokens of all sequences together.
std::uint64_t context_of(const SyntheticBatch& batch);

/// Weights and a pool of pages, for any batch that fits.
class SyntheticModel {
 public:
  static constexpr std::uint32_t kPageSize = 16;

  /// Throws attacca::BadArgument with the sizes if the device has too little memory.
  SyntheticModel(const attacca::model::ModelConfig& config, const attacca::Device& device,
                 std::uint64_t pages, std::uint64_t seed = 1,
                 attacca::model::WeightFormat format = attacca::model::WeightFormat::as_stored);
  /// With the weights of a file, and keys and values in f32 or bf16. `shard`: one rank's part of
  /// it, whose vocabulary is that of its part of the head.
  /// REQUIRES: the checkpoint outlives it; as Weights.
  SyntheticModel(const attacca::model::Checkpoint& checkpoint, const attacca::Device& device,
                 std::uint64_t pages, attacca::kernels::KvType kv_type,
                 const attacca::model::Shard& shard = {});

  const attacca::Device device;
  const attacca::model::ModelConfig config;
  const attacca::model::Weights weights;

  std::uint64_t pages() const { return kv_.sizes().pages; }
  const attacca::step::KvPool& kv() const { return kv_; }

  /// The bytes that a step must read: the weights, without an embedding that is not also the head,
  /// and the keys and values of the context.
  double bytes_read(const SyntheticBatch& batch) const;

 private:
  void fill_pages(std::uint64_t seed);

  attacca::step::KvPool kv_;
};

/// A token and its log-probability, which depends on all logits of the row.
struct SyntheticDraw {
  std::int32_t token;
  float logprob;
  friend bool operator==(const SyntheticDraw&, const SyntheticDraw&) = default;
};

/// One batch that can run any number of times: a run changes nothing that the next one reads. Steps
/// that alternate must have different pages, because each writes its rows' keys and values.
/// REQUIRES: the model outlives this object, and this object outlives what it returns.
class SyntheticStep {
 public:
  /// `first_page` is the number of the pool's pages that belong to others. `same_bits`: a row has
  /// the same bits whatever is in the batch; otherwise the step is as fast as possible.
  /// `is_persistent`: as one kernel, where that can be.
  SyntheticStep(const SyntheticModel& model, const SyntheticBatch& batch,
                std::uint64_t first_page = 0, bool same_bits = false, bool is_persistent = false);

  /// Why it is not one persistent kernel; empty if it is.
  std::string why_not_persistent() const;

  Launch launch(GraphMode mode) const;
  /// The whole step as one graph.
  attacca::Graph graph(const std::string& name = "step") const;
  /// Launches once, waits, and returns the sampled tokens. Throws if there are none.
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
  mutable std::optional<attacca::step::StepMemory> memory_;  // a launch writes its samples there
  std::optional<attacca::step::Chain> chain_;
};

}  // namespace bench
