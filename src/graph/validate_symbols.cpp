// validate_symbols.cpp: rules about conditions, allocations and device-updatable nodes. Kernel
// arguments tell which nodes use each of them.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "graph/uses.hpp"
#include "graph/validate.hpp"

namespace attacca::graph {

namespace {

class SymbolChecks {
 public:
  SymbolChecks(Validation& validation, bool is_ordered)
      : validation_(validation),
        data_(validation.data),
        order_(validation.order),
        is_ordered_(is_ordered) {}

  void run() {
    if (!data_.symbols.empty()) find_users();
    check_conditions();
    check_frees();
    if (!is_ordered_) return;
    check_lives();
    check_updatable_nodes();
  }

 private:
  void add(Rule rule, const std::string& node, const std::string& message) {
    validation_.add(rule, node, message);
  }

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
    if (!is_ordered_) return;
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
              node.name, validation_.body_around(node.scope), symbol.name));
  }

  /// Whether two nodes cannot run at the same time. Of two bodies of one conditional only one runs.
  bool exclude_each_other(NodeId a, NodeId b) const {
    const ScopeId scope = order_.common_scope(a, b);
    return order_.lifted(a, scope) == order_.lifted(b, scope) || order_.is_before(a, b) ||
           order_.is_before(b, a);
  }

  void check_race(const Symbol& condition, const std::vector<NodeId>& setters) {
    // Setters are usually in order, and comparing neighbours is enough. Otherwise compare all
    // pairs.
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

  void check_frees() {
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
      if (!frees_.emplace(symbol_id, id).second)
        add(Rule::free_without_allocation, name,
            fmt::format("'{}' frees allocation '{}' a second time; remove one of the two", name,
                        symbol->name));
      else if (is_ordered_ && !order_.is_before(symbol->owner, id))
        add(Rule::free_without_allocation, name,
            fmt::format("'{}' does not depend on allocation '{}'; add .after({})", name,
                        symbol->name, symbol->name));
    }
  }

  void check_lives() {
    for (SymbolId id = 0; id < data_.symbols.size(); ++id) {
      const Symbol& symbol = data_.symbols[id];
      if (symbol.kind != SymbolKind::allocation) continue;
      const auto found = frees_.find(id);
      const NodeId free = found == frees_.end() ? kNone : found->second;
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

  Validation& validation_;
  const GraphData& data_;
  const Order& order_;
  const bool is_ordered_;
  std::vector<std::vector<NodeId>> users_;      // by symbol
  std::vector<std::vector<NodeId>> lookers_;    // by symbol: conditionals that look at it
  std::unordered_map<SymbolId, NodeId> frees_;  // the first of each allocation
};

}  // namespace

void check_symbols(Validation& validation, bool is_ordered) {
  SymbolChecks(validation, is_ordered).run();
}

}  // namespace attacca::graph
