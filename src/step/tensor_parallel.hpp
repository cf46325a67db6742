// tensor_parallel.hpp: the exchanges of a step whose model is split over ranks. Every rank has some
// heads, some of the feed-forward's columns and some rows of the head, and the whole residual
// stream. Rank 0 samples, from all logits or from the highest of each rank. Weights are split in
// model/shard.hpp.
#pragma once

#include <attacca/memory.hpp>
#include <attacca/ranks.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "kernels/activations.hpp"
#include "kernels/add_residual.hpp"
#include "kernels/sample/highest.hpp"
#include "kernels/sample/sample.hpp"
#include "step/chain.hpp"
#include "step/linked_ranks.hpp"
#include "step/step_memory.hpp"

namespace attacca::step {

/// Only the rows that a step really has are exchanged: all ranks run the same plan.
class TensorParallel {
 public:
  struct Ways {
    bool is_resident = false;  // exchanges are kernels that need no host
    // Kernels add up the parts of all ranks where they add to the residual, and the ranks only meet
    // before that. Not where the group's symmetric memory is not of the device.
    bool fuses_sums = false;
  };
  /// A collective call, if one of the ways is taken. REQUIRES: exchanges of `group` are work of
  /// `device`; as LinkedRanks, if it is resident.
  TensorParallel(const Device& device, const Group& group, const model::ModelConfig& config,
                 const StepShape& largest, const Ways& ways);

  const Group& group() const { return group_; }
  /// Null unless exchanges are kernels.
  LinkedRanks* linked() const { return linked_.get(); }

  bool is_root() const { return group_.rank() == 0; }
  int ranks() const { return group_.size(); }
  /// Where this rank's part of a sum goes: [tokens, hidden]. Sums alternate between 0 and 1: with
  /// fused sums others may still read the part of the sum before, but not that of the one before
  /// it, since they have come to the meeting between.
  float* partial(unsigned sum = 0) const {
    return parts_ ? parts_->data() + sum * part_elements_ : partial_.data();
  }
  /// The same in plain steps: rank 0 adds its part to the residual stream, which so takes part in
  /// the sum.
  float* part_of(float* hidden) const { return is_root() ? hidden : partial(); }
  /// [rows, this rank's part of the vocabulary]
  float* logits_part() const { return logits_part_.data(); }

  /// Writes the sum of all ranks' parts, which are at `part`, to `to` on all ranks. On the host
  /// they are added in pairs, as the sections of a product are.
  void add_sum(Chain& chain, const std::string& name, const float* part, float* to,
               const kernels::RowCount& tokens) const;
  bool fuses_sums() const { return parts_.has_value(); }
  /// Adds up all ranks' parts, which are at `partial(sum)`, and adds the sum to a residual. `args`:
  /// without parts.
  void add_to_residual(Chain& chain, const std::string& name, unsigned sum,
                       kernels::AddResidualArgs args) const;
  /// Joins all ranks' parts of the logits: [rows, vocabulary].
  void gather_logits(Chain& chain, float* logits, const kernels::RowCount& rows) const;
  /// Whether ranks can sample from their highest logits: each has enough of them, and a host tells
  /// them which steps do, which the resident scheduler's plans do not.
  bool can_sample_highest() const { return !linked_ && least_ >= kernels::Highest::kCount; }
  /// Finds the highest logits of each rank, gathers them and samples from them on rank 0. `args`:
  /// as for all logits.
  void sample_highest(Chain& chain, const kernels::SampleArgs& args) const;
  /// Gives all ranks the tokens that rank 0 sampled.
  void share_tokens(Chain& chain, kernels::Sampled* sampled, const kernels::RowCount& rows) const;

  std::size_t bytes() const { return bytes_; }
  /// Bytes of one for these sizes, before there is one.
  static std::size_t bytes_for(const model::ModelConfig& config, const StepShape& largest,
                               int ranks, const Ways& ways);

 private:
  template <class T>
  void add_linked(Chain& chain, const std::string& name, kernels::RankPattern pattern,
                  const T* from, T* to, const kernels::RowCount& rows, std::size_t each) const;

  Group group_;
  std::uint32_t hidden_;
  std::uint32_t vocabulary_;
  std::uint32_t part_;   // of the vocabulary; the last rank's may be smaller
  std::uint32_t least_;  // the last rank's
  std::size_t part_elements_;
  std::optional<SymmetricBuffer<float>> parts_;  // of two sums, if sums are fused
  Buffer<float> partial_;                        // else
  Buffer<float> logits_part_;
  Buffer<float> gathered_;                // [ranks, rows, part]
  Buffer<kernels::Highest> highest_;      // [rows]
  Buffer<kernels::Highest> all_highest_;  // [ranks, rows]
  std::unique_ptr<LinkedRanks> linked_;
  std::size_t bytes_;
};

}  // namespace attacca::step
