// tensor_parallel.hpp: the exchanges of a step whose model is split over ranks. Every rank has some
// heads, some of the feed-forward's columns and some rows of the head, and the whole residual
// stream. Rank 0 samples, from all logits or from the highest of each rank. Weights are split in
// model/shard.hpp.
#pragma once

#include <attacca/memory.hpp>
#include <attacca/ranks.hpp>
#include <cstddef>
#include <memory>
#include <string>

#include "kernels/activations.hpp"
#include "kernels/sample/highest.hpp"
#include "kernels/sample/sample.hpp"
#include "step/chain.hpp"
#include "step/linked_ranks.hpp"
#include "step/step_memory.hpp"

namespace attacca::step {

/// Only the rows that a step really has are exchanged: all ranks run the same plan.
class TensorParallel {
 public:
  /// `is_resident`: exchanges are kernels that need no host; then it is a collective call.
  /// REQUIRES: exchanges of `group` are work of `device`; as LinkedRanks, if `is_resident`.
  TensorParallel(const Device& device, const Group& group, const model::ModelConfig& config,
                 const StepShape& largest, bool is_resident = false);

  const Group& group() const { return group_; }
  /// Null unless exchanges are kernels.
  LinkedRanks* linked() const { return linked_.get(); }

  bool is_root() const { return group_.rank() == 0; }
  int ranks() const { return group_.size(); }
  /// Where this rank's part of a sum goes: [tokens, hidden].
  float* partial() const { return partial_.data(); }
  /// The same in plain steps: rank 0 adds its part to the residual stream, which so takes part in
  /// the sum.
  float* part_of(float* hidden) const { return is_root() ? hidden : partial(); }
  /// [rows, this rank's part of the vocabulary]
  float* logits_part() const { return logits_part_.data(); }

  /// Writes the sum of all ranks' parts, which are at `part`, to `to` on all ranks. On the host
  /// they are added in pairs, as the sections of a product are.
  void add_sum(Chain& chain, const std::string& name, const float* part, float* to,
               const kernels::RowCount& tokens) const;
  /// Joins all ranks' parts of the logits: [rows, vocabulary].
  void gather_logits(Chain& chain, float* logits, const kernels::RowCount& rows) const;
  /// Whether ranks can sample from their highest logits: each has enough of them, and a host tells
  /// them which steps do, which the resident scheduler's plans do not.
  bool can_sample_highest() const {
    return !linked_ && !is_cuda_ && least_ >= kernels::Highest::kCount;
  }
  /// Finds the highest logits of each rank, gathers them and samples from them on rank 0. `args`:
  /// as for all logits.
  void sample_highest(Chain& chain, const kernels::SampleArgs& args) const;
  /// Gives all ranks the tokens that rank 0 sampled.
  void share_tokens(Chain& chain, kernels::Sampled* sampled, const kernels::RowCount& rows) const;

  std::size_t bytes() const {
    return partial_.bytes() + logits_part_.bytes() + gathered_.bytes() + highest_.bytes() +
           all_highest_.bytes() + (linked_ ? linked_->bytes() : 0);
  }

 private:
  template <class T>
  void add_linked(Chain& chain, const std::string& name, kernels::RankPattern pattern,
                  const T* from, T* to, const kernels::RowCount& rows, std::size_t each) const;

  Group group_;
  bool is_cuda_;
  std::uint32_t hidden_;
  std::uint32_t vocabulary_;
  std::uint32_t part_;   // of the vocabulary; the last rank's may be smaller
  std::uint32_t least_;  // the last rank's
  Buffer<float> partial_;
  Buffer<float> logits_part_;
  Buffer<float> gathered_;                // [ranks, rows, part]
  Buffer<kernels::Highest> highest_;      // [rows]
  Buffer<kernels::Highest> all_highest_;  // [ranks, rows]
  std::unique_ptr<LinkedRanks> linked_;
};

}  // namespace attacca::step
