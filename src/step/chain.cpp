// chain.cpp: hands the kernels of a chain to a graph or a stream, and adds up their costs.
#include "step/chain.hpp"

#include <optional>

#include "graph/access.hpp"

namespace attacca::step {

const char* name_of(Part part) {
  static constexpr const char* kNames[] = {"tokens",    "norm",     "expansion", "product",
                                           "attention", "sampling", "exchange"};
  return kNames[static_cast<std::size_t>(part)];
}

Cost Chain::cost() const {
  Cost sum;
  for (const Link& link : links_) {
    const Cost cost = link.cost();
    sum.flops += cost.flops;
    sum.bytes += cost.bytes;
  }
  return sum;
}

std::size_t Chain::end_of_piece(std::size_t first) const {
  std::size_t end = first;
  while (end < size() && is_attention(end) == is_attention(first)) ++end;
  return end;
}

bool Chain::starts_early(std::size_t at, std::size_t first) const {
  if (!links_[at].kernel || !links_[at].kernel->traits.waits) return false;
  if (at != first && !links_[at - 1].kernel) return false;  // only from kernel to kernel
  // A tiled product loads weights before it waits, and these are being expanded.
  if (at != first && links_[at - 1].part == Part::expansion) return false;
  if (at != first && is_attention(at - 1)) return early_.behind_attention;
  return is_attention(at) ? early_.of_attention : early_.elsewhere;
}

void Chain::append_to(Graph& graph, std::size_t first, std::size_t end) const {
  std::optional<Node> last;
  for (std::size_t at = first; at < end; ++at) {
    const Link& link = links_[at];
    const PlainNode node = link.kernel ? graph::Access::add_kernel(graph, *link.kernel, link.grid,
                                                                   link.arguments.data())
                                             .named(link.name)
                                       : link.exchange->add_to(graph);
    if (last)
      graph::Access::add_edge(node, *last,
                              starts_early(at, first) ? EdgeKind::programmatic : EdgeKind::full);
    last = node;
  }
}

void Chain::launch(StreamRef stream, std::size_t first, std::size_t end) const {
  for (std::size_t at = first; at < end; ++at) {
    const Link& link = links_[at];
    if (link.kernel)
      graph::Access::enqueue_kernel(stream, *link.kernel, link.grid, link.arguments.data());
    else
      link.exchange->enqueue(stream);
  }
}

}  // namespace attacca::step
