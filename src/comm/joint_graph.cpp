// joint_graph.cpp: puts graphs side by side and ties them together at their exchanges.
#include "comm/joint_graph.hpp"

#include <algorithm>

#include "comm/exchange_kernel.hpp"
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

}  // namespace

GraphData join(std::span<const JointPart* const> parts, const std::vector<int>& ranks) {
  const GraphData& first = *parts[0]->data;
  GraphData joint(first.device, first.name);
  std::vector<NodeId> offsets;
  for (const JointPart* part : parts) {
    offsets.push_back(graph::splice(*part->data, joint, graph::kRootScope));
    joint.keeps.insert(joint.keeps.end(), part->data->keeps.begin(), part->data->keeps.end());
  }
  for (std::size_t number = 0; number < parts[0]->nodes.size(); ++number) {
    std::vector<const ExchangeData*> exchanges;
    std::vector<Descriptor> descriptors;
    for (const JointPart* part : parts) {
      exchanges.push_back(part->nodes[number].exchange);
      descriptors.push_back(exchanges.back()->descriptor);
      descriptors.back().sequence = number + 1;
    }
    if (const std::string message = disagreement(descriptors, ranks); !message.empty())
      throw RanksBroken(message);
    const NodeId meeting = offsets[0] + parts[0]->nodes[number].id;
    joint.nodes[meeting].part = kernel_of(exchanges, first.device.is_cuda());
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const NodeId own = offsets[rank] + parts[rank]->nodes[number].id;
      joint.accesses.erase(own);
      const auto deps = joint.nodes[own].deps;
      for (const Edge& edge : deps) add_full_edge(joint.nodes[meeting], edge.from);
      if (own == meeting) continue;
      joint.nodes[own].part = nothing(joint, own);
      joint.nodes[own].deps = {};
      add_full_edge(joint.nodes[own], meeting);
    }
  }
  return joint;
}

}  // namespace attacca::comm
