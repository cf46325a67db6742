// persistent_step.hpp: all phases of a decode step in one kernel, for up to 16 rows, bf16 weights
// and bf16 keys and values. One block runs on each SM. Its producer warps stream the SM's share of
// all matrices, layer after layer, through one ring, and never wait for activations; so memory does
// not idle where one product hands over to the next. Its consumer warps multiply and attend as the
// single kernels do, with the same bits, and wait for the phase before through a PhaseCounter.
//
// Other steps are left to the kernels of the chain (step/persistent_step.hpp decides).
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/persistent/phase.hpp"
#include "kernels/persistent/phase_counter.hpp"
#include "kernels/waits.hpp"

namespace attacca::kernels {

/// How long a block took for a phase, in cycles: until the phases before had ended, and from then
/// on. `waited` is 0 in the first phase and where the block had no work.
struct PhaseTime {
  std::uint32_t waited;
  std::uint32_t worked;
};

struct PersistentStepArgs {
  const Phase* phases;  // [count]; the first one embeds, and the last one makes logits
  std::uint32_t count;
  std::uint32_t first_product;  // indices of phases
  std::uint32_t first_attention;
  std::uint32_t capacity;            // rows that the step may have
  std::uint32_t head_size;           // of attention
  const std::uint32_t* token_count;  // written before the step's first kernel begins
  const std::uint32_t* row_count;    // that get logits; as token_count
  PhaseCounter<>* counter;           // zeroed before the first launch
  double flops;                      // of all phases, for the kernel's cost
  double bytes;
  PhaseTime* times = nullptr;  // [blocks, count], for measurements; null: not kept
  /// How long a block waits for the phases before.
  std::uint64_t patience_nanoseconds = kPatienceNanoseconds;
};

/// The wait for all blocks to finish a phase, behind the waits of the ring.
inline constexpr unsigned kWaitForPhase = 2;

/// The kernel for this capacity and head size. REQUIRES: capacity <= kMostPersistentRows and
/// head_size <= 128.
const Kernel<PersistentStepArgs>& persistent_step(const PersistentStepArgs& args);
/// One block on each SM, and one on the host.
Grid persistent_grid(const PersistentStepArgs& args, bool is_cuda, unsigned processors);

}  // namespace attacca::kernels
