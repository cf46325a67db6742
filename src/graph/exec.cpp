// exec.cpp: the update contract. Change the owned graph, ask the instance to follow, and where it
// cannot, instantiate anew and say why.
#include <attacca/exec.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/exec_core.hpp"
#include "graph/residency.hpp"

namespace attacca {

void detail::refuse_covering(std::uint64_t items, unsigned threads) {
  throw BadArgument(
      fmt::format("a grid of blocks of {} threads that covers {} items would have more than {} "
                  "blocks, or no threads; use larger blocks, or let each thread do several items",
                  threads, items, Grid::kMaxBlocks));
}

namespace graph {

void check_grid(const KernelInfo& kernel, const Grid& grid) {
  const auto spell = [](const Dim3& d) { return fmt::format("{}x{}x{}", d.x, d.y, d.z); };
  if (grid.blocks.count() == 0 || grid.threads.count() == 0)
    throw BadArgument(
        fmt::format("kernel '{}': a grid of {} blocks of {} threads has nothing to "
                    "run; every extent is at least 1",
                    kernel.name, spell(grid.blocks), spell(grid.threads)));
  if (grid.threads.count() > attacca::detail::kMostBlockThreads || grid.threads.z > 64)
    throw BadArgument(fmt::format("kernel '{}': a block of {} threads; at most {}, and 64 in z",
                                  kernel.name, spell(grid.threads),
                                  attacca::detail::kMostBlockThreads));
  if (grid.blocks.y > 65535 || grid.blocks.z > 65535 || grid.blocks.x > Grid::kMaxBlocks)
    throw BadArgument(fmt::format("kernel '{}': {} blocks; at most {} in x, 65535 in y and z",
                                  kernel.name, spell(grid.blocks), Grid::kMaxBlocks));
}

void check_copy(const void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || !to || !from)
    throw BadArgument(
        fmt::format("copy of {} bytes from {} to {}: give it two addresses and at "
                    "least one byte, or leave it out",
                    bytes, from, to));
}

void check_fill(const void* to, std::size_t bytes) {
  if (bytes == 0 || !to)
    throw BadArgument(
        fmt::format("fill of {} bytes at {}: give it an address and at least one "
                    "byte, or leave it out",
                    bytes, to));
}

void check_copy_2d(Pitched to, ConstPitched from, std::size_t width_bytes, std::size_t rows) {
  if (width_bytes == 0 || rows == 0 || !to.data || !from.data)
    throw BadArgument(
        fmt::format("copy of {} rows of {} bytes from {} to {}: give it two addresses and at least "
                    "one byte, or leave it out",
                    rows, width_bytes, from.data, to.data));
  const std::size_t pitch = std::max(to.pitch, from.pitch);
  if (std::min(to.pitch, from.pitch) < width_bytes)
    throw BadArgument(
        fmt::format("copy of rows of {} bytes with pitches of {} to {}: a pitch is at least the "
                    "width of a row",
                    width_bytes, from.pitch, to.pitch));
  if (rows > static_cast<std::size_t>(-1) / pitch)
    throw BadArgument(
        fmt::format("copy of {} rows with a pitch of {} bytes: more than there are addresses; copy "
                    "fewer rows",
                    rows, pitch));
}

ExecCore::ExecCore(const Graph& source, Target target) : source_(source), target_(target) {
  validate(data_of(source_), target_);
  instance_ = impl_of(source_.device()).instantiate(data_of(source_), target_);
  upload();
}

void ExecCore::upload() {
  if (target_ != Target::device_launch) return;
  instance_->upload();
  ++counters_.uploads;
}

void ExecCore::launch(StreamRef stream) {
  StreamState& state = state_of(stream);
  if (state.recorder)
    throw BadArgument(
        fmt::format("graph '{}' launched on a stream that is being captured; add it "
                    "with graph.child(…) instead",
                    source_.name()));
  if (!(state.device == data_of(source_).device))
    throw BadArgument(
        fmt::format("graph '{}' is of {} and the stream of {}; make the stream on "
                    "the graph's device",
                    source_.name(), source_.device().name(), state.device.name()));
  if (!lost_.empty())
    throw DeviceError(
        fmt::format("graph '{}' cannot be launched: an update failed, and so did the way back to "
                    "what it was ({}); update it again, or instantiate the graph anew",
                    source_.name(), lost_));
  instance_->launch(*state.impl);
  ++counters_.launches;
}

NodeId ExecCore::find(const Node& node) {
  const NodeId id = node.id();
  if (data_of(source_).find(id, node.graph_id())) return id;
  if (id < first_origins_.size() && first_origins_[id] == node.graph_id()) return id;
  throw BadArgument(fmt::format(
      "node number {} is not of graph '{}', or was added to a copy of it that this exec "
      "does not know; use a handle of the graph this exec was made from, or update the "
      "exec with that graph first (nodes of a graph copied in with child(name, graph) "
      "have no handles: build it in place)",
      id, source_.name()));
}

UpdateReport ExecCore::reinstantiate(Refusal refusal) {
  const DeviceGraph before = instance_->handle();
  // The new one first: if it cannot be made, the old one still runs.
  auto fresh = impl_of(source_.device()).instantiate(data_of(source_), target_);
  if (target_ == Target::device_launch) {
    fresh->upload();
    ++counters_.uploads;
  }
  instance_ = std::move(fresh);
  lost_.clear();
  ++counters_.reinstantiations;
  return {true, std::move(refusal.reason), std::move(refusal.node),
          target_ == Target::device_launch && instance_->handle().exec != before.exec};
}

UpdateReport ExecCore::apply(const Changes& changes, const std::function<void()>& restore) {
  try {
    std::optional<Refusal> refusal;
    if (lost_.empty())
      refusal = instance_->apply(data_of(source_), changes);
    else
      refusal = Refusal{lost_, source_.name()};
    if (refusal) return reinstantiate(std::move(*refusal));
    upload();
    counters_.nodes_updated += changes.parameters.size() + changes.switches.size();
    return {};
  } catch (...) {
    restore();
    go_back(changes);
    throw;
  }
}

void ExecCore::go_back(const Changes& changes) {
  if (!lost_.empty()) return;
  try {
    if (!instance_->apply(data_of(source_), changes)) {
      upload();
      return;
    }
  } catch (...) {
    // What is left is to make it anew.
  }
  try {
    reinstantiate({});
  } catch (const std::exception& error) {
    lost_ = error.what();
  }
}

namespace {
/// Whether two parts of a node use the same symbols, one by one.
bool uses_same_symbols(const GraphData& data, const Part& a, const Part& b) {
  const Uses in_a = uses_of(data, a);
  const Uses in_b = uses_of(data, b);
  return std::equal(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                    [](const Use& x, const Use& y) { return x.symbol == y.symbol; });
}
}  // namespace

UpdateReport ExecCore::change(const Node& node, const std::function<void(NodeData&)>& edit) {
  const NodeId id = find(node);
  NodeData& data = data_of(source_).nodes[id];
  Part before = data.part;
  const auto restore = [&] { data.part = std::move(before); };
  try {
    edit(data);
    // A stand-in that came or went can break a rule. Plain values cannot, except the order of
    // declared accesses, which `instantiate` and `update` check.
    if (!uses_same_symbols(data_of(source_), before, data.part))
      validate(data_of(source_), target_);
    else if (has_foreign_stand_in(data_of(source_), data))
      throw foreign_handle(data_of(source_), data);
  } catch (...) {
    restore();
    throw;
  }
  return apply({.parameters = {&id, 1}, .switches = {}}, restore);
}

UpdateReport ExecCore::enable(const Node& node, bool is_enabled) {
  const NodeId id = find(node);
  NodeData& data = data_of(source_).nodes[id];
  if (!std::holds_alternative<KernelPart>(data.part) &&
      !std::holds_alternative<CopyPart>(data.part) && !std::holds_alternative<FillPart>(data.part))
    throw BadArgument(
        fmt::format("{} '{}' cannot be switched off; only kernels, copies and fills "
                    "can",
                    kind_name(data), data.name));
  const bool was_enabled = std::exchange(data.is_enabled, is_enabled);
  return apply({.parameters = {}, .switches = {&id, 1}}, [&] { data.is_enabled = was_enabled; });
}

namespace {

/// What a typed handle names, unless it names another kind of node in this exec's graph.
template <class Kind>
Kind& part_of(NodeData& node) {
  if (auto* part = std::get_if<Kind>(&node.part)) return *part;
  throw BadArgument(
      fmt::format("that node is {} '{}' in this exec; use a handle of the graph it was made from",
                  kind_name(node), node.name));
}

/// Which symbol an address stands for; the number of symbols where it stands for none.
std::size_t symbol_index(const GraphData& data, std::uint64_t address) {
  const Symbol* symbol = data.find_symbol(address);
  return symbol ? data.id_of(*symbol) : data.symbols.size();
}

/// For two parts of one kind. What cannot be set on its own counts as the same.
bool same_parameters(const Part& a, const Part& b) {
  if (const auto* kernel = std::get_if<KernelPart>(&a)) return *kernel == std::get<KernelPart>(b);
  if (const auto* copy = std::get_if<CopyPart>(&a)) return *copy == std::get<CopyPart>(b);
  if (const auto* fill = std::get_if<FillPart>(&a)) return *fill == std::get<FillPart>(b);
  return true;
}

}  // namespace

UpdateReport ExecCore::update(const Graph& graph) {
  const GraphData& now = data_of(source_);
  const GraphData& next = data_of(graph);
  if (!(next.device == now.device))
    throw GraphError(Rule::two_devices, next.name,
                     fmt::format("graph '{}' is of {} and cannot update an exec of {}", next.name,
                                 next.device.name(), now.device.name()));
  validate(next, target_);
  if (auto difference = structural_difference(now, next)) {
    Graph before = std::move(source_);
    source_ = graph;
    try {
      UpdateReport report = reinstantiate(std::move(*difference));
      first_origins_.clear();
      return report;
    } catch (...) {
      source_ = std::move(before);
      throw;
    }
  }
  // Same shape: hand over the parameters that differ.
  std::vector<NodeId> changed;
  std::vector<NodeId> switched;
  for (NodeId id = 0; id < next.nodes.size(); ++id) {
    const NodeData& a = now.nodes[id];
    const NodeData& b = next.nodes[id];
    if (a.is_enabled != b.is_enabled) switched.push_back(id);
    // A stand-in may have the same address in both and mean another thing, so it always goes over.
    if (!same_parameters(a.part, b.part) || !uses_of(next, b).empty()) changed.push_back(id);
  }
  // Same shape, same ids: handles of the first graph and of the last name the same nodes.
  if (first_origins_.empty())
    for (const NodeData& node : now.nodes) first_origins_.push_back(node.origin);
  Graph before = std::exchange(source_, graph);
  if (changed.empty() && switched.empty() && lost_.empty()) return {};
  return apply({changed, switched}, [&] { source_ = std::move(before); });
}

ExecMemory ExecCore::memory() const {
  ExecMemory memory;
  const GraphData& data = data_of(source_);
  memory.host_bytes = instance_->host_bytes() + sizeof(GraphData) +
                      data.l2_windows.size() * sizeof(decltype(data.l2_windows)::value_type) +
                      data.adopted_kernels.size() * sizeof(AdoptedKernel);
  for (const auto& [node, accesses] : data.accesses)
    memory.host_bytes += sizeof accesses + accesses.ranges().capacity() * sizeof(Accesses::Range);
  for (const NodeData& node : data.nodes) {
    memory.host_bytes += sizeof node + node.deps.heap_bytes();
    if (node.name.capacity() >= sizeof node.name) memory.host_bytes += node.name.capacity();
    if (const auto* kernel = std::get_if<KernelPart>(&node.part))
      memory.host_bytes += kernel->args.heap_bytes();
    if (const auto* allocate = std::get_if<AllocatePart>(&node.part))
      memory.pinned_bytes += data.symbols[allocate->symbol].bytes;
  }
  return memory;
}

namespace {
L2Window window_of(const GraphData& data, const NodeData& node) {
  const L2Window* window = data.find_l2_window(node);
  return window ? *window : L2Window{};
}
const void* adopted_from(const GraphData& data, NodeId id) {
  const auto found = data.adopted_kernels.find(id);
  return found == data.adopted_kernels.end() ? nullptr : found->second.node;
}
}  // namespace

std::optional<Refusal> structural_difference(const GraphData& from, const GraphData& to) {
  const std::size_t common = std::min(from.nodes.size(), to.nodes.size());
  for (NodeId id = 0; id < common; ++id) {
    const NodeData& a = from.nodes[id];
    const NodeData& b = to.nodes[id];
    const auto differs = [&](std::string why) { return Refusal{std::move(why), b.name}; };
    if (a.part.index() != b.part.index() || a.scope != b.scope)
      return differs(fmt::format("the node's kind changed: {} '{}' became {} '{}'", kind_name(a),
                                 a.name, kind_name(b), b.name));
    if (a.deps != b.deps)
      return differs(fmt::format("the topology changed: '{}' depends on other nodes", b.name));
    if (a.priority != b.priority)
      return differs(fmt::format("the attributes changed: '{}' has priority {} instead of {}",
                                 b.name, b.priority, a.priority));
    if (window_of(from, a) != window_of(to, b))
      return differs(fmt::format("the attributes changed: '{}' has another L2 window", b.name));
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
  }
  if (from.nodes.size() != to.nodes.size()) {
    const bool has_grown = to.nodes.size() > from.nodes.size();
    const NodeData& node = has_grown ? to.nodes[common] : from.nodes[common];
    return Refusal{fmt::format("the topology changed: {} nodes instead of {}", to.nodes.size(),
                               from.nodes.size()),
                   node.name};
  }
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

}  // namespace graph

ExecBase::ExecBase(std::unique_ptr<graph::ExecCore> core) : core_(std::move(core)) {}
ExecBase::ExecBase(ExecBase&&) noexcept = default;
ExecBase& ExecBase::operator=(ExecBase&&) noexcept = default;
ExecBase::~ExecBase() = default;

UpdateReport ExecBase::set_kernel(const Node& node, const Grid* grid, const void* args,
                                  std::size_t size) {
  return core_->change(node, [&](graph::NodeData& data) {
    auto& kernel = graph::part_of<graph::KernelPart>(data);
    if (kernel.args.size() != size)
      throw BadArgument(
          fmt::format("kernel '{}' takes {} bytes of arguments and was given {}; use "
                      "a handle of the graph this exec was made from",
                      data.name, kernel.args.size(), size));
    if (grid) {
      graph::check_grid(*kernel.info, *grid);
      graph::check_residency(graph::impl_of(core_->source().device()), *kernel.info, *grid,
                             data.name);
      kernel.grid = *grid;
    }
    std::memcpy(kernel.args.data(), args, size);
  });
}

UpdateReport ExecBase::set(const CopyNode& node, void* to, const void* from, std::size_t bytes) {
  graph::check_copy(to, from, bytes);
  return core_->change(node, [&](graph::NodeData& data) {
    graph::part_of<graph::CopyPart>(data) = {to, from, bytes};
  });
}

UpdateReport ExecBase::set(const CopyNode& node, Pitched to, ConstPitched from,
                           std::size_t width_bytes, std::size_t rows) {
  graph::check_copy_2d(to, from, width_bytes, rows);
  return core_->change(node, [&](graph::NodeData& data) {
    graph::part_of<graph::CopyPart>(data) = graph::copy_part(to, from, width_bytes, rows);
  });
}

UpdateReport ExecBase::set(const FillNode& node, void* to, std::uint8_t value, std::size_t bytes) {
  graph::check_fill(to, bytes);
  return core_->change(node, [&](graph::NodeData& data) {
    graph::part_of<graph::FillPart>(data) = {to, value, bytes};
  });
}

UpdateReport ExecBase::enable(const Node& node, bool is_enabled) {
  return core_->enable(node, is_enabled);
}
UpdateReport ExecBase::update(const Graph& graph) { return core_->update(graph); }
const Graph& ExecBase::graph() const { return core_->source(); }
ExecCounters ExecBase::counters() const { return core_->counters(); }
ExecMemory ExecBase::memory() const { return core_->memory(); }

void Exec::launch(StreamRef stream) { core_->launch(stream); }
void* Exec::native() const { return core_->instance().native(); }

DeviceGraph DeviceExec::handle() const { return core_->instance().handle(); }
void DeviceExec::start(StreamRef stream) { core_->launch(stream); }

}  // namespace attacca
