// validate.cpp: the rules of a graph, checked before any driver sees it. Each finding names the
// node and says what to do instead. Findings that need an order are skipped once there is a cycle.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "graph/conflicts.hpp"
#include "graph/data.hpp"
#include "graph/order.hpp"
#include "graph/residency.hpp"
#include "graph/uses.hpp"

namespace attacca {

const char* rule_name(Rule rule) {
  switch (rule) {
    case Rule::cycle:
      return "cycle";
    case Rule::empty_graph:
      return "empty graph";
    case Rule::empty_body:
      return "empty body";
    case Rule::allocation_in_body:
      return "allocation in a body";
    case Rule::allocation_in_device_graph:
      return "allocation in a device graph";
    case Rule::conditional_in_device_graph:
      return "conditional in a device graph";
    case Rule::node_in_body:
      return "node not allowed in a body";
    case Rule::node_in_device_graph:
      return "node not allowed in a device graph";
    case Rule::condition_unused:
      return "condition unused";
    case Rule::condition_shared:
      return "condition shared";
    case Rule::condition_set_too_late:
      return "condition set too late";
    case Rule::condition_never_set:
      return "condition never set";
    case Rule::condition_race:
      return "condition set twice at a time";
    case Rule::programmatic_edge:
      return "programmatic edge";
    case Rule::consumer_never_waits:
      return "consumer never waits";
    case Rule::free_without_allocation:
      return "free without allocation";
    case Rule::outside_allocation_life:
      return "use outside an allocation's life";
    case Rule::two_devices:
      return "two devices";
    case Rule::launch_in_body:
      return "device launch in a body";
    case Rule::launch_outside_graph:
      return "device launch outside a graph";
    case Rule::spawn_in_body:
      return "nested launch in a body";
    case Rule::spawn_in_device_graph:
      return "nested launch in a device graph";
    case Rule::edge_across_scopes:
      return "edge across scopes";
    case Rule::updatable_node:
      return "device-updatable node";
    case Rule::no_body_for_backend:
      return "no body for this backend";
    case Rule::foreign_handle:
      return "handle of another graph";
    case Rule::blocks_may_not_fit:
      return "blocks that wait for each other may not fit";
    case Rule::waits_side_by_side:
      return "blocks that wait for each other side by side";
    case Rule::unordered_access:
      return "unordered access";
  }
  return "unknown rule";
}

namespace graph {

namespace {

class Validator {
 public:
  Validator(const GraphData& data, Target target)
      : data_(data), target_(target), order_(data), is_in_body_(data.scopes.size()) {}

  std::vector<GraphError> run() {
    if (is_hollow(kRootScope))
      add(Rule::empty_graph, data_.name,
          fmt::format("graph '{}' has no nodes; add one before instantiating it", data_.name));
    for (ScopeId scope = 0; scope < data_.scopes.size(); ++scope) check_scope(scope);
    for (NodeId id = 0; id < data_.nodes.size(); ++id) {
      check_place(id);
      check_edges(id);
    }
    if (!has_cycle_) {
      if (!data_.symbols.empty()) find_users();
      check_conditions();
      check_allocations();
      check_updatable_nodes();
      check_waiting_kernels();
      check_accesses();
    }
    return std::move(problems_);
  }

 private:
  void add(Rule rule, const std::string& node, const std::string& message) {
    problems_.emplace_back(rule, node, message);
  }

  /// "in the body of while 'decode'", for the nearest body around a scope; empty if there is none.
  std::string body_around(ScopeId scope) const {
    for (; data_.scopes[scope].parent != kNone;
         scope = data_.nodes[data_.scopes[scope].parent].scope) {
      const NodeData& parent = data_.nodes[data_.scopes[scope].parent];
      if (data_.scopes[scope].is_body)
        return fmt::format("in the {} of {} '{}'", data_.scopes[scope].label, kind_name(parent),
                           parent.name);
    }
    return "";
  }

  bool is_hollow(ScopeId scope) const {
    return std::all_of(data_.scopes[scope].nodes.begin(), data_.scopes[scope].nodes.end(),
                       [&](NodeId id) {
                         const auto* child = std::get_if<ChildPart>(&data_.nodes[id].part);
                         return child && is_hollow(child->scope);
                       });
  }

  void check_scope(ScopeId scope) {
    const Scope& inside = data_.scopes[scope];
    is_in_body_[scope] =
        inside.is_body || (inside.parent != kNone && is_in_body_[data_.nodes[inside.parent].scope]);
    if (inside.is_body && is_hollow(scope)) {
      const NodeData& parent = data_.nodes[inside.parent];
      add(Rule::empty_body, parent.name,
          fmt::format("the {} of {} '{}' is empty; give it a node or leave the branch out",
                      inside.label, kind_name(parent), parent.name));
    }
    const std::vector<NodeId>& order = order_.of(scope);
    if (order.size() == inside.nodes.size()) return;

    has_cycle_ = true;
    // What the order left out depends on a cycle; walking producers inside it closes one.
    const std::unordered_set<NodeId> done(order.begin(), order.end());
    NodeId at = *std::find_if(inside.nodes.begin(), inside.nodes.end(),
                              [&](NodeId id) { return !done.contains(id); });
    std::vector<NodeId> path;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      for (const Edge& edge : data_.nodes[at].deps)
        if (!done.contains(edge.from)) {
          at = edge.from;
          break;
        }
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    std::string spelled = fmt::format("'{}'", data_.nodes[at].name);
    for (auto step = path.rbegin(); step != path.rend(); ++step)
      spelled += fmt::format(" → '{}'", data_.nodes[*step].name);
    add(Rule::cycle, data_.nodes[at].name,
        fmt::format("'{}' waits for itself: {}; remove one of these edges, or write a loop with "
                    "while_",
                    data_.nodes[at].name, spelled));
  }

  void check_place(NodeId id) {
    const NodeData& node = data_.nodes[id];
    const bool is_in_body = is_in_body_[node.scope];
    const bool is_device_graph = target_ == Target::device_launch;
    const bool is_memory = std::holds_alternative<AllocatePart>(node.part) ||
                           std::holds_alternative<FreePart>(node.part);
    if (is_memory && is_in_body)
      add(Rule::allocation_in_body, node.name,
          fmt::format("{} '{}' {}: bodies hold no memory nodes; allocate before the conditional, "
                      "or from an Arena",
                      kind_name(node), node.name, body_around(node.scope)));
    if (is_memory && is_device_graph)
      add(Rule::allocation_in_device_graph, node.name,
          fmt::format(
              "{} '{}' in device graph '{}': graphs launched from the device hold no memory "
              "nodes; use an Arena",
              kind_name(node), node.name, data_.name));
    if (std::holds_alternative<ConditionalPart>(node.part) && is_device_graph)
      add(Rule::conditional_in_device_graph, node.name,
          fmt::format("{} '{}' in device graph '{}': graphs launched from the device hold no "
                      "conditionals; launch one of several device graphs instead",
                      kind_name(node), node.name, data_.name));
    if (std::holds_alternative<HostPart>(node.part)) {
      if (is_in_body)
        add(Rule::node_in_body, node.name,
            fmt::format("host call '{}' {}: bodies run without the host; move it outside",
                        node.name, body_around(node.scope)));
      if (is_device_graph)
        add(Rule::node_in_device_graph, node.name,
            fmt::format("host call '{}' in device graph '{}': graphs launched from the device run "
                        "without the host; move it to the launching side",
                        node.name, data_.name));
    }
    if (has_foreign_stand_in(data_, node)) problems_.push_back(foreign_handle(data_, node));
    const auto* kernel = std::get_if<KernelPart>(&node.part);
    if (!kernel) return;
    if (kernel->info->traits.launches && is_in_body)
      add(Rule::launch_in_body, node.name,
          fmt::format(
              "kernel '{}' launches graphs {}: not allowed inside conditionals; move it out, "
              "or make the choice with the conditional",
              node.name, body_around(node.scope)));
    if (kernel->info->traits.spawns && is_in_body)
      add(Rule::spawn_in_body, node.name,
          fmt::format("kernel '{}' spawns kernels {}: not allowed inside conditionals; move it out",
                      node.name, body_around(node.scope)));
    if (kernel->info->traits.spawns && is_device_graph)
      add(Rule::spawn_in_device_graph, node.name,
          fmt::format("kernel '{}' spawns kernels in device graph '{}': not allowed there; launch "
                      "graphs instead, or instantiate it for the host",
                      node.name, data_.name));
    if (data_.device.is_cuda() && !kernel->info->cuda)
      add(Rule::no_body_for_backend, node.name,
          fmt::format("kernel '{}' has no CUDA body; compile the file that calls make_kernel with "
                      "nvcc (attacca_kernels in CMake)",
                      node.name));
    else if (const auto crowding =
                 find_crowding(impl_of(data_.device), *kernel->info, kernel->grid, node.name))
      add(Rule::blocks_may_not_fit, node.name, *crowding);
    if (!data_.device.is_cuda() && !kernel->info->host)
      add(Rule::no_body_for_backend, node.name,
          fmt::format("kernel '{}' is a plain CUDA kernel and graph '{}' is of {}; build the graph "
                      "for a CUDA device, or declare a kernel with a host body (make_kernel)",
                      node.name, data_.name, data_.device.name()));
  }

  void check_edges(NodeId id) {
    const NodeData& node = data_.nodes[id];
    for (const Edge& edge : node.deps) {
      if (edge.kind != EdgeKind::programmatic) continue;
      const NodeData& from = data_.nodes[edge.from];
      const auto* consumer = std::get_if<KernelPart>(&node.part);
      if (!consumer || !std::holds_alternative<KernelPart>(from.part))
        add(Rule::programmatic_edge, node.name,
            fmt::format("programmatic edge from {} '{}' to {} '{}': only kernel to kernel; use "
                        "after(…)",
                        kind_name(from), from.name, kind_name(node), node.name));
      else if (!consumer->info->traits.waits)
        add(Rule::consumer_never_waits, node.name,
            fmt::format("programmatic edge to kernel '{}', which never waits for its producers: a "
                        "race; call wait_for_producers in it and declare waits = true, or use "
                        "after(…)",
                        node.name));
    }
  }

  // --- symbols -----------------------------------------------------------------------------

  void find_users() {
    users_.resize(data_.symbols.size());
    lookers_.resize(data_.symbols.size());
    for (NodeId id = 0; id < data_.nodes.size(); ++id) {
      for (const Use& use : uses_of(data_, data_.nodes[id]))
        if (users_[use.symbol].empty() || users_[use.symbol].back() != id)
          users_[use.symbol].push_back(id);
      if (const auto* conditional = std::get_if<ConditionalPart>(&data_.nodes[id].part))
        if (const Symbol* symbol = data_.symbols.find(conditional->condition))
          lookers_[data_.symbols.id_of(*symbol)].push_back(id);
    }
  }

  void check_conditions() {
    for (SymbolId symbol = 0; symbol < data_.symbols.size(); ++symbol)
      if (data_.symbols[symbol].kind == SymbolKind::condition) check_condition(symbol);
  }

  void check_condition(SymbolId id) {
    const Symbol& symbol = data_.symbols[id];
    const std::vector<NodeId>& lookers = lookers_[id];
    if (lookers.empty()) {
      add(Rule::condition_unused, symbol.name,
          fmt::format("condition '{}' of graph '{}' is looked at by no conditional; use it in one "
                      "or do not make it",
                      symbol.name, data_.name));
      return;
    }
    if (lookers.size() > 1) {
      add(Rule::condition_shared, data_.nodes[lookers[1]].name,
          fmt::format("'{}' and '{}' both look at condition '{}': one condition, one conditional; "
                      "make a second condition and set both",
                      data_.nodes[lookers[0]].name, data_.nodes[lookers[1]].name, symbol.name));
      return;
    }
    const NodeId looker = lookers.front();
    const NodeData& node = data_.nodes[looker];
    const bool is_while = std::get<ConditionalPart>(node.part).kind == ConditionalKind::while_;
    const std::optional<ScopeId> loop = data_.loop_around(node.scope);
    bool is_set_inside = false;
    bool is_set_before_in_loop = false;
    Sweep before_looker(order_, looker, Sweep::Of::earlier);
    for (const NodeId setter : users_[id]) {
      const ScopeId scope = order_.common_scope(setter, looker);
      const bool is_inside_own_body = order_.lifted(setter, scope) == looker;
      if (is_inside_own_body && is_while) {
        is_set_inside = true;
      } else if (is_inside_own_body || !before_looker.contains(setter)) {
        add(Rule::condition_set_too_late, node.name,
            fmt::format("{} '{}' looks at condition '{}', which kernel '{}' sets, but does not "
                        "depend on it; add .after({})",
                        kind_name(node), node.name, symbol.name, data_.nodes[setter].name,
                        data_.nodes[setter].name));
      } else if (loop && order_.is_inside(scope, *loop)) {
        is_set_before_in_loop = true;
      }
    }
    check_race(symbol, users_[id]);
    if (is_while && !is_set_inside)
      add(Rule::condition_never_set, node.name,
          fmt::format("while '{}' never ends: no kernel in its body sets condition '{}'; pass the "
                      "condition to one",
                      node.name, symbol.name));
    else if (is_while && loop && !is_set_before_in_loop)
      add(Rule::condition_never_set, node.name,
          fmt::format(
              "while '{}' runs in a loop {}, but no kernel there sets condition '{}' before "
              "it: its initial value applies once per launch, so it would run in the first "
              "pass only; set it in each pass",
              node.name, body_around(node.scope), symbol.name));
  }

  /// Whether two nodes cannot run at the same time: in two bodies of one conditional only one runs.
  bool exclude_each_other(NodeId a, NodeId b) const {
    const ScopeId scope = order_.common_scope(a, b);
    return order_.lifted(a, scope) == order_.lifted(b, scope) || order_.is_before(a, b) ||
           order_.is_before(b, a);
  }

  void check_race(const Symbol& condition, const std::vector<NodeId>& setters) {
    // Mostly they are in order, and neighbours tell; only where not do we look for all pairs.
    std::vector<NodeId> in_order = setters;
    order_.sort(in_order);
    if (std::adjacent_find(in_order.begin(), in_order.end(), [&](NodeId a, NodeId b) {
          return !exclude_each_other(a, b);
        }) == in_order.end())
      return;
    for (std::size_t a = 0; a < setters.size(); ++a)
      for (std::size_t b = a + 1; b < setters.size(); ++b) {
        if (exclude_each_other(setters[a], setters[b])) continue;
        const NodeData& node = data_.nodes[setters[b]];
        add(Rule::condition_race, node.name,
            fmt::format("kernels '{}' and '{}' both set condition '{}' and neither follows the "
                        "other, so which one wins is chance; add .after({})",
                        data_.nodes[setters[a]].name, node.name, condition.name,
                        data_.nodes[setters[a]].name));
      }
  }

  void check_allocations() {
    std::unordered_map<SymbolId, NodeId> frees;
    for (NodeId id = 0; id < data_.nodes.size(); ++id) {
      const auto* free = std::get_if<FreePart>(&data_.nodes[id].part);
      if (!free) continue;
      const Symbol* symbol = data_.symbols.find(reinterpret_cast<std::uintptr_t>(free->address));
      const std::string& name = data_.nodes[id].name;
      if (!symbol || symbol->kind != SymbolKind::allocation ||
          symbol->address != reinterpret_cast<std::uintptr_t>(free->address)) {
        add(Rule::free_without_allocation, name,
            fmt::format("'{}' frees {}, which no allocation of graph '{}' gave out; free what "
                        "allocate returned",
                        name, free->address, data_.name));
        continue;
      }
      const SymbolId symbol_id = data_.symbols.id_of(*symbol);
      if (!frees.emplace(symbol_id, id).second)
        add(Rule::free_without_allocation, name,
            fmt::format("'{}' frees allocation '{}' a second time; remove one of the two", name,
                        symbol->name));
      else if (!order_.is_before(symbol->owner, id))
        add(Rule::free_without_allocation, name,
            fmt::format("'{}' does not depend on allocation '{}'; add .after({})", name,
                        symbol->name, symbol->name));
    }
    for (SymbolId id = 0; id < data_.symbols.size(); ++id) {
      const Symbol& symbol = data_.symbols[id];
      if (symbol.kind != SymbolKind::allocation) continue;
      const auto found = frees.find(id);
      const NodeId free = found == frees.end() ? kNone : found->second;
      Sweep after_allocation(order_, symbol.owner, Sweep::Of::later);
      Sweep before_free(order_, free, Sweep::Of::earlier);
      for (const NodeId user : users_[id]) {
        const NodeData& node = data_.nodes[user];
        if (!after_allocation.contains(user))
          add(Rule::outside_allocation_life, node.name,
              fmt::format("{} '{}' uses allocation '{}' but does not depend on it; add .after({})",
                          kind_name(node), node.name, symbol.name, symbol.name));
        else if (free != kNone && !before_free.contains(user))
          add(Rule::outside_allocation_life, node.name,
              fmt::format("{} '{}' uses allocation '{}', which may be freed by then; let the free "
                          "follow it with .after({})",
                          kind_name(node), node.name, symbol.name, node.name));
      }
    }
  }

  void check_updatable_nodes() {
    for (SymbolId id = 0; id < data_.symbols.size(); ++id) {
      const Symbol& symbol = data_.symbols[id];
      if (symbol.kind != SymbolKind::node) continue;
      Sweep before_node(order_, symbol.owner, Sweep::Of::earlier);
      for (const NodeId user : users_[id])
        if (!before_node.contains(user))
          add(Rule::updatable_node, data_.nodes[symbol.owner].name,
              fmt::format("kernel '{}' updates kernel '{}', which does not depend on it and may "
                          "already run; add .after({})",
                          data_.nodes[user].name, data_.nodes[symbol.owner].name,
                          data_.nodes[user].name));
    }
  }

  // --- kernels whose blocks wait for each other ----------------------------------------------

  /// A node of a scope that is or encloses a kernel whose blocks wait for each other, or persistent
  /// workers.
  struct Holder {
    NodeId at;
    NodeId waiting = kNone;
    NodeId persistent = kNone;
    NodeId kernel() const { return waiting != kNone ? waiting : persistent; }
  };

  /// Such kernels may hold processors that each other's blocks need, unless one follows the other.
  /// A programmatic edge is enough: a consumer starts when all blocks of its producer run, and
  /// those wait for no consumer.
  void check_waiting_kernels() {
    std::unordered_map<NodeId, Holder> holders;
    bool has_waiting = false;
    for (NodeId id = 0; id < data_.nodes.size(); ++id) {
      const auto* kernel = std::get_if<KernelPart>(&data_.nodes[id].part);
      if (!kernel) continue;
      const KernelTraits& traits = kernel->info->traits;
      if (!traits.blocks_wait && !traits.is_persistent) continue;
      has_waiting = has_waiting || traits.blocks_wait;
      for (NodeId at = id; at != kNone; at = data_.scopes[data_.nodes[at].scope].parent) {
        Holder& holder = holders.emplace(at, Holder{at}).first->second;
        (traits.blocks_wait ? holder.waiting : holder.persistent) = id;
      }
    }
    if (!has_waiting) return;
    std::map<ScopeId, std::vector<Holder>> by_scope;
    for (const auto& [at, holder] : holders) by_scope[data_.nodes[at].scope].push_back(holder);
    for (auto& [scope, all] : by_scope) check_side_by_side(all);
  }
  /// Those of one scope. Order is transitive, so each is compared with its neighbours only.
  void check_side_by_side(std::vector<Holder>& holders) {
    std::sort(holders.begin(), holders.end(), [&](const Holder& a, const Holder& b) {
      return order_.place(a.at) < order_.place(b.at);
    });
    const Holder* last_waiting = nullptr;
    std::vector<const Holder*> since;  // persistent ones
    for (const Holder& holder : holders) {
      if (last_waiting) check_order(*last_waiting, holder);
      if (holder.waiting == kNone) {
        since.push_back(&holder);
        continue;
      }
      for (const Holder* other : since) check_order(*other, holder);
      last_waiting = &holder;
      since.clear();
    }
  }
  void check_order(const Holder& first, const Holder& second) {
    if (has_path(first.at, second.at)) return;
    const std::string& before = data_.nodes[first.kernel()].name;
    const std::string& after = data_.nodes[second.kernel()].name;
    add(Rule::waits_side_by_side, after,
        fmt::format("kernels '{}' and '{}' may run side by side, and blocks of '{}' wait for each "
                    "other: the other could hold processors that they need; let one follow the "
                    "other with .after({})",
                    before, after, second.waiting != kNone ? after : before,
                    data_.nodes[first.at].name));
  }
  /// Whether `to` follows `from`, over edges of any kind. REQUIRES: both of one scope. `known`:
  /// nodes of which it was found before, so that asking along a chain takes one step each.
  bool has_path(NodeId from, NodeId to, std::unordered_set<NodeId>* known = nullptr) const {
    std::vector<NodeId> open{to};
    std::unordered_set<NodeId> seen;
    while (!open.empty()) {
      const NodeId at = open.back();
      open.pop_back();
      for (const Edge& edge : data_.nodes[at].deps) {
        if (edge.from == from || (known && known->contains(edge.from))) {
          if (known) known->insert(to);
          return true;
        }
        if (order_.place(edge.from) > order_.place(from) && seen.insert(edge.from).second)
          open.push_back(edge.from);
      }
    }
    return false;
  }

  // --- accesses ----------------------------------------------------------------------------

  void check_accesses() {
    if (!has_declared_accesses(data_)) return;
    std::vector<Touch> touches;
    std::vector<NodeId> in_order;
    for (NodeId id = 0; id < data_.nodes.size(); ++id) {
      add_touches(data_, id, touches);
      in_order.push_back(id);
    }
    order_.sort(in_order);
    std::vector<std::uint32_t> rank(in_order.size());
    for (std::uint32_t at = 0; at < in_order.size(); ++at) rank[in_order[at]] = at;
    std::unordered_map<NodeId, std::unordered_set<NodeId>> followers;  // those that were found

    each_conflict(std::move(touches), rank, [&](const Conflict& conflict) {
      const ScopeId scope = order_.common_scope(conflict.earlier, conflict.later);
      const NodeId from = order_.lifted(conflict.earlier, scope);
      const NodeId to = order_.lifted(conflict.later, scope);
      // One encloses the other, or they are in two bodies of which one runs. Any edge will do:
      // behind a programmatic one a kernel waits before it touches what its producers touched.
      if (from == to || has_path(from, to, &followers[from])) return;
      const NodeData& earlier = data_.nodes[conflict.earlier];
      const NodeData& later = data_.nodes[conflict.later];
      add(Rule::unordered_access, later.name,
          fmt::format("{} '{}' {} and {} '{}' {} {}, and neither follows the other; add .after({}) "
                      "to '{}', or call derive_edges()",
                      kind_name(earlier), earlier.name,
                      conflict.earlier_writes ? "writes" : "reads", kind_name(later), later.name,
                      conflict.later_writes ? "writes" : "reads",
                      range_text(data_, conflict.first, conflict.bytes), data_.nodes[from].name,
                      data_.nodes[to].name));
    });
  }

  const GraphData& data_;
  Target target_;
  bool has_cycle_ = false;
  Order order_;
  std::vector<bool> is_in_body_;              // by scope
  std::vector<std::vector<NodeId>> users_;    // by symbol
  std::vector<std::vector<NodeId>> lookers_;  // by symbol: conditionals, of a condition
  std::vector<GraphError> problems_;
};

}  // namespace

std::vector<GraphError> find_problems(const GraphData& data, Target target) {
  return Validator(data, target).run();
}

void validate(const GraphData& data, Target target) {
  const std::vector<GraphError> problems = find_problems(data, target);
  if (!problems.empty()) throw problems.front();
}

}  // namespace graph
}  // namespace attacca
