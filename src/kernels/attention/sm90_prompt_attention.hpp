// sm90_prompt_attention.hpp: attention for the long runs of mixed steps (prompt_runs.hpp), for
// compute capability 9.0 in the manner of FlashAttention-3: a producer warpgroup gathers pages of
// keys and values, two consumer warpgroups multiply with wgmma in turn. All other rows of a step
// are left to mixed_attention.hpp, with the same arguments and `leaves_long_runs`.
//
// Queries and softmax weights are rounded to the type of keys and values. A row's result does not
// depend on the other rows of its run, on where the run was cut or on the page size. With
// kv.same_bits it has the bits that the row has alone; queries are sums of two numbers then.
#pragma once

#include <attacca/device.hpp>
#include <attacca/kernel.hpp>

#include "kernels/attention/mixed_attention.hpp"

namespace attacca::kernels {

namespace prompts {

constexpr unsigned kThreads = 384;        // a producer warpgroup and two consumer warpgroups
constexpr unsigned kTileLines = 128;      // a line is one query, of one row and one head of a group
constexpr unsigned kStep = 128;           // positions of a stage
constexpr std::uint32_t kMostRuns = 128;  // long runs of a step

/// Stages of a block; each has keys or values.
ATTACCA_HD constexpr unsigned stages_of(bool in_order) { return in_order ? 5 : 6; }

/// Shared memory of a block: barriers and the plan, queries (in order also their rounding errors),
/// then the stages.
template <unsigned kSize, bool kInOrder>
struct Sizes {
  static constexpr unsigned kHeaderBytes = 3072;
  static constexpr unsigned kQueryBytes = kTileLines * kSize * 2;
  static constexpr unsigned kStageBytes = kStep * kSize * 2;
  static constexpr unsigned kStagesAt = kHeaderBytes + (kInOrder ? 2 : 1) * kQueryBytes;
  static constexpr unsigned kSharedBytes = kStagesAt + stages_of(kInOrder) * kStageBytes;
  static_assert(kSharedBytes <= 227 * 1024);
};

}  // namespace prompts

/// Whether the kernel supports these arguments on this device.
bool has_prompt_attention(const Device& device, const MixedAttentionArgs& args);
/// The same for any device with the kernel.
bool takes_prompts(const MixedAttentionArgs& args);

/// The kernel for this head size and type of keys and values, and its grid on a device with
/// `processors` SMs. The host's body is a reference. REQUIRES: takes_prompts, or the host.
const Kernel<MixedAttentionArgs>& prompt_attention(const MixedAttentionArgs& args);
Grid prompt_grid(const MixedAttentionArgs& args, bool is_cuda, unsigned processors);

}  // namespace attacca::kernels
