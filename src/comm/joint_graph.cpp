// joint_graph.cpp: puts graphs side by side and ties them together at their exchanges.
#include "comm/joint_graph.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "comm/device_group.hpp"
#include "comm/exchange_kernel.hpp"
#include "graph/lower.hpp"
#include "graph/splice.hpp"

namespace attacca::comm {

using graph::Edge;
using graph::GraphData;
using graph::NodeData;

namespace {

graph::KernelPart kernel_of(std::span<const ExchangeData* const> exchanges, bool is_cuda) {
  const ExchangeArgs args = args_of(exchanges);
  const auto* bytes = reinterpret_cast<const std::byte*>(&args);
  return {
      &exchange_kernel(args).info(), grid_of(args, is_cuda), {bytes, bytes + sizeof args}, false};
}

void add_full_edge(NodeData& node, NodeId from) {
  const auto same = std::find_if(node.deps.begin(), node.deps.end(),
                                 [&](const Edge& edge) { return edge.from == from; });
  if (same == node.deps.end())
    node.deps.push_back({from, EdgeKind::full});
  else
    same->kind = EdgeKind::full;
}

/// An empty child: those behind it follow what it follows.
graph::ChildPart nothing(GraphData& data, NodeId parent) {
  data.scopes.push_back({parent, "", false, {}});
  return {static_cast<graph::ScopeId>(data.scopes.size() - 1)};
}

/// What the parts become: their nodes in one graph. Node n of part p is node n + offsets[p].
struct Joint {
  std::span<const JointPart* const> parts;
  const std::vector<int>& ranks;
  GraphData data;
  std::vector<NodeId> offsets;

  NodeId id_of(std::size_t part, const JointNode& node) const { return offsets[part] + node.id; }
};

/// The collective that stands at this place on every rank.
void meet_in(Joint& joint, std::size_t number) {
  std::vector<const ExchangeData*> exchanges;
  std::vector<Descriptor> descriptors;
  for (const JointPart* part : joint.parts) {
    exchanges.push_back(part->collectives[number].exchange.get());
    descriptors.push_back(exchanges.back()->descriptor);
    descriptors.back().sequence = number + 1;
  }
  if (const std::string message = disagreement(descriptors, joint.ranks); !message.empty())
    throw RanksBroken(message);
  GraphData& data = joint.data;
  const NodeId meeting = joint.id_of(0, joint.parts[0]->collectives[number]);
  if (exchanges[0]->descriptor.operation == Operation::barrier)
    data.nodes[meeting].part = nothing(data, meeting);  // its edges are all of it
  else
    data.nodes[meeting].part = kernel_of(exchanges, data.device.is_cuda());
  for (std::size_t rank = 0; rank < joint.parts.size(); ++rank) {
    const NodeId own = joint.id_of(rank, joint.parts[rank]->collectives[number]);
    data.accesses.erase(own);
    const auto deps = data.nodes[own].deps;
    for (const Edge& edge : deps) add_full_edge(data.nodes[meeting], edge.from);
    if (own == meeting) continue;
    data.nodes[own].part = nothing(data, own);
    data.nodes[own].deps = {};
    add_full_edge(data.nodes[own], meeting);
  }
}

/// The put that sets the signal of a wait: of those that set it high enough, the lowest value.
NodeId put_for(const Joint& joint, std::size_t rank, const ExchangeData& wait) {
  const std::byte* const signal = wait.signal.of(static_cast<int>(rank));
  const ExchangeData* best = nullptr;
  NodeId found = 0;
  for (std::size_t from = 0; from < joint.parts.size(); ++from)
    for (const JointNode& put : joint.parts[from]->puts) {
      const ExchangeData& e = *put.exchange;
      if (e.signal.of(e.peer) != signal || e.value < wait.value) continue;
      if (best && best->value <= e.value) continue;
      best = &e;
      found = joint.id_of(from, put);
    }
  if (!best)
    throw RanksBroken(fmt::format(
        "'{}' of rank {} waits in graph '{}' for its signal to be {}, and no put-signal in the "
        "graphs of the ranks sets it; add that put to a graph of the same launch, or wait on a "
        "stream before the launch",
        wait.name, joint.ranks[rank], joint.data.name, wait.value));
  return found;
}

}  // namespace

GraphData join(std::span<const JointPart* const> parts, const std::vector<int>& ranks) {
  const GraphData& first = *parts[0]->data;
  Joint joint{parts, ranks, GraphData(first.device, first.name), {}};
  GraphData& data = joint.data;
  for (const JointPart* part : parts)
    joint.offsets.push_back(graph::splice(*part->data, data, graph::kRootScope));
  for (std::size_t number = 0; number < parts[0]->collectives.size(); ++number)
    meet_in(joint, number);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    for (const JointNode& put : parts[rank]->puts)
      data.nodes[joint.id_of(rank, put)].part = graph::LibraryPart{
          [exchange = put.exchange](StreamRef stream) { enqueue_one_sided(*exchange, stream); }};
    for (const JointNode& wait : parts[rank]->waits) {
      const NodeId own = joint.id_of(rank, wait);
      data.nodes[own].part = nothing(data, own);
      add_full_edge(data.nodes[own], put_for(joint, rank, *wait.exchange));
    }
  }
  const std::size_t all = data.scopes[graph::kRootScope].nodes.size();
  if (graph::topological_order(data, graph::kRootScope, false).size() < all)
    throw RanksBroken(fmt::format(
        "the ranks wait for each other in graph '{}': each puts its signal behind its wait; the "
        "launches of all ranks begin together, so they need no signal from the launch before",
        first.name));
  return std::move(joint.data);
}

}  // namespace attacca::comm
