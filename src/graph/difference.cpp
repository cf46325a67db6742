// difference.cpp: two graphs compared node by node, and the words for the first difference.
#include "graph/difference.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/counted.hpp"
#include "graph/uses.hpp"

namespace attacca::graph {

namespace {

/// The id of the symbol that an address stands for; the number of symbols where it is an ordinary
/// address.
std::size_t symbol_index(const GraphData& data, std::uint64_t address) {
  const Symbol* symbol = data.symbols.find(address);
  return symbol ? data.symbols.id_of(*symbol) : data.symbols.size();
}

L2Window window_of(const GraphData& data, const NodeData& node) {
  const L2Window* window = data.find_l2_window(node);
  return window ? *window : L2Window{};
}

const void* adopted_from(const GraphData& data, NodeId id) {
  const auto found = data.adopted_kernels.find(id);
  return found == data.adopted_kernels.end() ? nullptr : found->second.node;
}

/// A difference between parts of one kind that no parameter can make up for.
std::optional<Refusal> part_difference(const GraphData& from, const GraphData& to, NodeId id) {
  const NodeData& a = from.nodes[id];
  const NodeData& b = to.nodes[id];
  const auto differs = [&](std::string why) { return Refusal{std::move(why), b.name}; };
  if (const auto* x = std::get_if<KernelPart>(&a.part)) {
    const auto& y = std::get<KernelPart>(b.part);
    if (x->info != y.info)
      return differs(fmt::format("the function changed: kernel '{}' became '{}'", x->info->name,
                                 y.info->name));
    if (adopted_from(from, id) != adopted_from(to, id))
      return differs(fmt::format(
          "kernel '{}' was adopted from another graph, and its attributes may differ", b.name));
    if (x->is_device_updatable || y.is_device_updatable)
      return differs(
          fmt::format("kernel '{}' is device-updatable, which rules out updating the "
                      "graph around it",
                      b.name));
  } else if (std::holds_alternative<HostPart>(a.part)) {
    return differs(
        fmt::format("host call '{}' is a function, and functions cannot be compared", b.name));
  } else if (std::holds_alternative<LibraryPart>(a.part)) {
    return differs(fmt::format("library call '{}' must be captured again", b.name));
  } else if (const auto* allocate = std::get_if<AllocatePart>(&a.part)) {
    const std::size_t before = from.symbols[allocate->symbol].bytes;
    const std::size_t after = to.symbols[std::get<AllocatePart>(b.part).symbol].bytes;
    if (before != after)
      return differs(fmt::format("the parameters of allocation '{}' changed: {} bytes became {}",
                                 b.name, before, after));
  } else if (const auto* conditional = std::get_if<ConditionalPart>(&a.part)) {
    const auto& other = std::get<ConditionalPart>(b.part);
    if (conditional->kind != other.kind || conditional->bodies != other.bodies)
      return differs(fmt::format("the parameters of {} '{}' changed", kind_name(b), b.name));
    if (symbol_index(from, conditional->condition) != symbol_index(to, other.condition))
      return differs(fmt::format("{} '{}' looks at another condition", kind_name(b), b.name));
  } else if (const auto* free = std::get_if<FreePart>(&a.part)) {
    const auto freed = [](const GraphData& data, const FreePart& part) {
      return symbol_index(data, reinterpret_cast<std::uint64_t>(part.address));
    };
    if (freed(from, *free) != freed(to, std::get<FreePart>(b.part)))
      return differs(fmt::format("'{}' frees another allocation", b.name));
  }
  return std::nullopt;
}

std::optional<Refusal> node_difference(const GraphData& from, const GraphData& to, NodeId id) {
  const NodeData& a = from.nodes[id];
  const NodeData& b = to.nodes[id];
  const auto differs = [&](std::string why) { return Refusal{std::move(why), b.name}; };
  if (a.part.index() != b.part.index() || a.scope != b.scope)
    return differs(fmt::format("the node's kind changed: {} '{}' became {} '{}'", kind_name(a),
                               a.name, kind_name(b), b.name));
  if (a.deps != b.deps)
    return differs(fmt::format("the topology changed: '{}' depends on other nodes", b.name));
  if (a.priority != b.priority)
    return differs(fmt::format("the attributes changed: '{}' has priority {} instead of {}", b.name,
                               b.priority, a.priority));
  if (window_of(from, a) != window_of(to, b))
    return differs(fmt::format("the attributes changed: '{}' has another L2 window", b.name));
  return part_difference(from, to, id);
}

std::optional<Refusal> symbol_difference(const GraphData& from, const GraphData& to) {
  if (from.symbols.size() != to.symbols.size())
    return Refusal{fmt::format("the number of conditions and allocations changed: {} instead of {}",
                               to.symbols.size(), from.symbols.size()),
                   to.name};
  for (std::size_t at = 0; at < from.symbols.size(); ++at)
    if (from.symbols[at].kind != to.symbols[at].kind ||
        from.symbols[at].owner != to.symbols[at].owner ||
        from.symbols[at].initial != to.symbols[at].initial)
      return Refusal{fmt::format("condition or allocation '{}' changed", to.symbols[at].name),
                     to.symbols[at].name};
  return std::nullopt;
}

/// Compares two parts of one kind. Parts without parameters count as the same.
bool same_parameters(const Part& a, const Part& b) {
  if (const auto* kernel = std::get_if<KernelPart>(&a)) return *kernel == std::get<KernelPart>(b);
  if (const auto* copy = std::get_if<CopyPart>(&a)) return *copy == std::get<CopyPart>(b);
  if (const auto* fill = std::get_if<FillPart>(&a)) return *fill == std::get<FillPart>(b);
  return true;
}

}  // namespace

std::optional<Refusal> structural_difference(const GraphData& from, const GraphData& to) {
  const std::size_t common = std::min(from.nodes.size(), to.nodes.size());
  for (NodeId id = 0; id < common; ++id)
    if (auto difference = node_difference(from, to, id)) return difference;
  if (from.nodes.size() != to.nodes.size()) {
    const bool has_grown = to.nodes.size() > from.nodes.size();
    const NodeData& node = has_grown ? to.nodes[common] : from.nodes[common];
    return Refusal{fmt::format("the topology changed: {} instead of {}",
                               counted(to.nodes.size(), "node"), from.nodes.size()),
                   node.name};
  }
  return symbol_difference(from, to);
}

ParameterDifference parameter_difference(const GraphData& from, const GraphData& to) {
  ParameterDifference difference;
  for (NodeId id = 0; id < to.nodes.size(); ++id) {
    const NodeData& a = from.nodes[id];
    const NodeData& b = to.nodes[id];
    if (a.is_enabled != b.is_enabled) difference.switches.push_back(id);
    // One stand-in address may mean different things in the two graphs, so it counts as changed.
    if (!same_parameters(a.part, b.part) || !uses_of(to, b).empty())
      difference.parameters.push_back(id);
  }
  return difference;
}

}  // namespace attacca::graph
