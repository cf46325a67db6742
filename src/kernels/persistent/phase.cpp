// phase.cpp: counts the blocks that have work in each phase, and so the arrivals that a phase waits
// for.
#include "kernels/persistent/phase.hpp"

#include <algorithm>

#include "kernels/linear/streamed_tiles.hpp"

namespace attacca::kernels {

std::uint32_t blocks_with_work(const Phase& phase, std::uint32_t blocks, std::uint32_t attending) {
  switch (phase.kind) {
    case PhaseKind::embed: {
      const EmbedResidualArgs& a = phase.embed();
      return std::min(blocks, ceil_div(a.rows.capacity * a.residual.columns, kEmbedElements));
    }
    case PhaseKind::product: {
      const StreamedLinearArgs& a = phase.product();
      return streamed::blocks_with_tiles<kPersistentTileRows>(a.w.rows, a.epilogue, blocks);
    }
    case PhaseKind::attention:
      return attending;
  }
  return 0;
}

void link_phases(std::vector<Phase>& phases, std::uint32_t blocks) {
  std::uint32_t arrivals = 0;
  std::uint32_t attentions = 0;
  for (Phase& phase : phases) {
    phase.arrivals_before = arrivals;
    phase.attentions_before = attentions;
    phase.is_last = &phase == &phases.back();
    if (phase.kind == PhaseKind::attention)
      ++attentions;
    else
      arrivals += blocks_with_work(phase, blocks, 0);
  }
  std::uint32_t next = Phase::kNone;
  for (std::size_t at = phases.size(); at-- > 0;) {
    phases[at].next_product = next;
    if (phases[at].kind == PhaseKind::product) next = static_cast<std::uint32_t>(at);
  }
}

}  // namespace attacca::kernels
