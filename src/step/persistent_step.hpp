// persistent_step.hpp: turns the chain of a decode step into one persistent kernel
// (kernels/persistent/persistent_step.hpp). Each kernel of the chain becomes a phase with the same
// arguments; tokens of the step before and sampling stay kernels of their own. Steps that the
// kernel cannot run keep the chain, with a reason.
#pragma once

#include <attacca/memory.hpp>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/persistent/persistent_step.hpp"
#include "step/chain.hpp"

namespace attacca::step {

/// Links of a chain, `end` excluded.
struct LinkRange {
  std::size_t first;
  std::size_t end;
};
/// The run from embedding to logits; empty if a chain has none that is streamed.
LinkRange persistent_range(const Chain& chain);
/// Why this run cannot be one persistent kernel; empty if it can.
std::string why_not_persistent(const Chain& chain);
/// Whether one kernel took at least 2 % less time than the chain for steps of so many rows, a model
/// of so many bytes that a step reads and rows of up to `context` positions, where both were
/// measured (docs/trials.md).
bool is_faster_persistent(std::uint32_t rows, double weight_bytes, std::uint32_t context);
/// The same for a chain. REQUIRES: why_not_persistent(chain) is empty.
bool is_faster_persistent(const Chain& chain);
/// The phases of the run, for as many blocks as its products have. REQUIRES: its kernels are
/// embed_residual, streamed_linear and decode_attention.
std::vector<kernels::Phase> phases_of(const Chain& chain, const LinkRange& range);

/// The lists of phases of all step sizes, in device memory, and the counter that all of them share,
/// because one step runs at a time. Thread-safe. It outlives the graphs that it is used in.
class PersistentSteps {
 public:
  explicit PersistentSteps(const Device& device);

  /// Replaces the run by one kernel. REQUIRES: why_not_persistent(chain) is empty. A chain of the
  /// same sizes as an earlier one has the same arguments.
  void join(Chain& chain) const;
  std::size_t bytes() const;

 private:
  const kernels::Phase* keep(const std::vector<kernels::Phase>& phases) const;

  Device device_;
  Buffer<std::byte> counter_;
  mutable std::mutex mutex_;
  /// By the most tokens and the most rows that get logits.
  mutable std::map<std::pair<std::uint32_t, std::uint32_t>, Buffer<kernels::Phase>> phases_;
};

}  // namespace attacca::step
