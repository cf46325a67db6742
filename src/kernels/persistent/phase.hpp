// phase.hpp: a step as a list of phases, for the persistent kernel. A phase is one kernel of the
// step's chain, with that kernel's own arguments; behind it all blocks wait for each other. Making
// the list is left to step/persistent_step.hpp.
#pragma once

#include <attacca/target.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/attention/decode_attention.hpp"
#include "kernels/embed.hpp"
#include "kernels/linear/streamed_linear.hpp"

namespace attacca::kernels {

/// The most rows of a persistent step.
inline constexpr std::uint32_t kMostPersistentRows = 16;
/// Rows of weights in a tile of bf16.
inline constexpr unsigned kPersistentTileRows = 8;

enum class PhaseKind : std::uint32_t { embed, product, attention };

/// Plain data in device memory. Blocks copy the next phases to shared memory ahead of use.
struct alignas(16) Phase {
  static constexpr std::size_t kArgumentBytes = 320;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  PhaseKind kind = PhaseKind::embed;
  /// Arrivals of the phases before: these, and the blocks of attention for each of so many layers.
  /// How many blocks attend is known when the step runs.
  std::uint32_t arrivals_before = 0;
  std::uint32_t attentions_before = 0;
  std::uint32_t next_product = kNone;  // index of the next phase that has weights
  std::uint32_t is_for_logits = 0;     // its rows are those that get logits
  std::uint32_t is_last = 0;
  std::uint32_t unused[2] = {};
  std::byte arguments[kArgumentBytes] = {};

  template <class Args>
  void set(const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kArgumentBytes &&
                  alignof(Args) <= 16);
    std::memcpy(arguments, &args, sizeof args);
  }
  template <class Args>
  ATTACCA_HD const Args& as() const {
    return *reinterpret_cast<const Args*>(arguments);
  }
  ATTACCA_HD const EmbedResidualArgs& embed() const { return as<EmbedResidualArgs>(); }
  ATTACCA_HD const StreamedLinearArgs& product() const { return as<StreamedLinearArgs>(); }
  ATTACCA_HD const DecodeAttentionArgs& attention() const { return as<DecodeAttentionArgs>(); }

  /// The arrivals that a block waits for before this phase. `attending`: blocks that have tiles of
  /// attention.
  ATTACCA_HD std::uint32_t wanted(std::uint32_t attending) const {
    return arrivals_before + attentions_before * attending;
  }
};
static_assert(sizeof(Phase) % 16 == 0);

/// Elements of the embedding that a block writes at a time: one for each consumer thread.
inline constexpr std::uint32_t kEmbedElements = 256;

/// Blocks with work in a phase: the first ones. `attending` as above, `rows` real rows.
std::uint32_t blocks_with_work(const Phase& phase, std::uint32_t blocks, std::uint32_t attending);

/// Fills in what phases must know of each other, for a grid of `blocks`.
void link_phases(std::vector<Phase>& phases, std::uint32_t blocks);

}  // namespace attacca::kernels
