// validate_overlap.cpp: nodes that may run side by side and must not: kernels whose blocks wait for
// each other, and nodes of which one writes what the other touches.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "graph/conflicts.hpp"
#include "graph/validate.hpp"

namespace attacca::graph {

namespace {

class OverlapChecks {
 public:
  explicit OverlapChecks(Validation& validation)
      : validation_(validation), data_(validation.data), order_(validation.order) {}

  void run() {
    check_waiting_kernels();
    check_accesses();
  }

 private:
  void add(Rule rule, const std::string& node, const std::string& message) {
    validation_.add(rule, node, message);
  }

  /// A node that is or encloses a kernel whose blocks wait for each other, or persistent workers.
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

  /// REQUIRES: all in one scope. Order is transitive, so each is compared with its neighbours only.
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

  /// Whether `to` follows `from`, over edges of any kind. `known` holds nodes already found to
  /// follow `from`, so that each question along a chain takes one step. REQUIRES: both in one
  /// scope.
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
    std::unordered_map<NodeId, std::unordered_set<NodeId>> followers;  // found so far

    each_conflict(std::move(touches), rank, [&](const Conflict& conflict) {
      const ScopeId scope = order_.common_scope(conflict.earlier, conflict.later);
      const NodeId from = order_.lifted(conflict.earlier, scope);
      const NodeId to = order_.lifted(conflict.later, scope);
      // If from == to, one encloses the other, or only one of their two bodies runs. An edge of any
      // kind orders them: behind a programmatic one, a kernel waits before it touches its
      // producers' memory.
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

  Validation& validation_;
  const GraphData& data_;
  const Order& order_;
};

}  // namespace

void check_overlaps(Validation& validation) { OverlapChecks(validation).run(); }

}  // namespace attacca::graph
