// print_json.cpp: a graph for programs. docs/graph-json.md describes the format; a change that
// breaks a reader raises kFormatVersion.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <unordered_map>

#include "graph/conflicts.hpp"
#include "graph/print.hpp"

namespace attacca {

using namespace graph;

namespace {

constexpr int kFormatVersion = 1;

/// A JSON value that is already text.
struct Json {
  std::string text;
};

Json json(const std::string& value) {
  return {'"' +
          escaped(value,
                  [](std::string& out, char character) {
                    switch (character) {
                      case '"':
                        return out += "\\\"", true;
                      case '\\':
                        return out += "\\\\", true;
                      case '\n':
                        return out += "\\n", true;
                      case '\t':
                        return out += "\\t", true;
                      default:
                        break;
                    }
                    if (static_cast<unsigned char>(character) >= 0x20) return false;
                    return out += fmt::format("\\u{:04x}", static_cast<unsigned>(character)), true;
                  }) +
          '"'};
}
Json json(const char* value) { return json(std::string(value)); }
Json json(bool value) { return {value ? "true" : "false"}; }
Json json(std::nullptr_t) { return {"null"}; }
Json json(double value) { return {std::isfinite(value) ? fmt::format("{}", value) : "null"}; }
Json json(Json value) { return value; }
template <class T>
requires std::is_integral_v<T> Json json(T value) { return {fmt::format("{}", value)}; }

/// Members in the order they are added.
class Object {
 public:
  template <class T>
  Object& add(const char* key, const T& value) {
    text_ += fmt::format("{}\"{}\": {}", text_.empty() ? "" : ", ", key, json(value).text);
    return *this;
  }
  operator Json() const { return {'{' + text_ + '}'}; }

 private:
  std::string text_;
};
Json json(const Object& object) { return object; }

template <class List, class Convert>
Json array(const List& list, Convert convert) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ", ") + json(convert(item)).text;
  return {'[' + text + ']'};
}
template <class List>
Json array(const List& list) {
  return array(list, [](const auto& item) { return item; });
}

/// One item per line.
template <class List, class Convert>
Json tall_array(const List& list, Convert convert) {
  std::string text;
  for (const auto& item : list)
    text += (text.empty() ? "\n    " : ",\n    ") + json(convert(item)).text;
  return {'[' + text + (text.empty() ? "]" : "\n  ]")};
}

Json dimensions(const Dim3& dim) { return {fmt::format("[{}, {}, {}]", dim.x, dim.y, dim.z)}; }
Object cost_object(const Cost& cost) {
  return Object().add("flops", cost.flops).add("bytes", cost.bytes);
}

class JsonPrinter {
 public:
  explicit JsonPrinter(const GraphData& data) : data_(data) {
    for (SymbolId id = 0; id < data.symbols.size(); ++id)
      if (data.symbols[id].kind == SymbolKind::condition) {
        condition_ids_[id] = conditions_.size();
        conditions_.push_back(id);
      }
    for (NodeId id = 0; id < data.nodes.size(); ++id) node_ids_.push_back(id);
    number_regions();
    for (ScopeId id = 0; id < data.scopes.size(); ++id) scope_ids_.push_back(id);
  }

  std::string print(const Graph& graph) const {
    return fmt::format(
        "{{\n  \"format\": \"attacca-graph\",\n  \"version\": {},\n  \"name\": {},\n"
        "  \"device\": {},\n  \"cost\": {},\n  \"conditions\": {},\n  \"scopes\": {},\n"
        "  \"nodes\": {}\n}}\n",
        kFormatVersion, json(data_.name).text, json(data_.device.name()).text,
        json(cost_object(graph.cost())).text,
        tall_array(conditions_, [&](SymbolId id) { return condition(id); }).text,
        tall_array(scope_ids_, [&](ScopeId id) { return scope(id); }).text,
        tall_array(node_ids_, [&](NodeId id) { return node(id); }).text);
  }

 private:
  Object condition(SymbolId id) const {
    const Symbol& symbol = data_.symbols[id];
    return Object()
        .add("id", condition_ids_.at(id))
        .add("name", symbol.name)
        .add("scope", symbol.owner)
        .add("initial", symbol.initial);
  }

  Object scope(ScopeId id) const {
    const Scope& scope = data_.scopes[id];
    const char* kind = id == kRootScope ? "root" : scope.is_body ? "body" : "child";
    return Object()
        .add("id", id)
        .add("kind", kind)
        .add("label", scope.label)
        .add("parent", scope.parent == kNone ? json(nullptr) : json(scope.parent))
        .add("nodes", array(scope.nodes));
  }

  Object node(NodeId id) const {
    const NodeData& node = data_.nodes[id];
    Object object;
    object.add("id", id)
        .add("kind", kind(node))
        .add("name", node.name)
        .add("scope", node.scope)
        .add("after", array(node.deps, [](const Edge& edge) {
               return Object()
                   .add("node", edge.from)
                   .add("kind", edge.kind == EdgeKind::programmatic ? "programmatic" : "full");
             }));
    std::visit([&](const auto& part) { add_part(object, node, part); }, node.part);
    std::vector<Touch> touches;
    add_declared(data_, id, touches);
    if (!touches.empty())
      object.add("accesses", array(touches, [&](const Touch& touch) { return access(touch); }));
    return object;
  }

  /// Declared ranges that overlap are parts of one region; addresses would differ in every run.
  void number_regions() {
    std::vector<Touch> touches;
    for (const NodeId id : node_ids_) add_declared(data_, id, touches);
    std::map<std::uintptr_t, std::uintptr_t> merged;  // first to end
    for (Touch touch : touches) {
      auto next = merged.lower_bound(touch.first);
      if (next != merged.begin() && std::prev(next)->second > touch.first) --next;
      while (next != merged.end() && next->first < touch.end) {
        touch.first = std::min(touch.first, next->first);
        touch.end = std::max(touch.end, next->second);
        next = merged.erase(next);
      }
      merged[touch.first] = touch.end;
    }
    for (const Touch& touch : touches)
      regions_.try_emplace(std::prev(merged.upper_bound(touch.first))->first, regions_.size());
  }
  Object access(const Touch& touch) const {
    const auto& [first, id] = *std::prev(regions_.upper_bound(touch.first));
    return Object()
        .add("kind", touch.is_write ? "write" : "read")
        .add("region", id)
        .add("offset", touch.first - first)
        .add("bytes", touch.end - touch.first);
  }

  static const char* kind(const NodeData& node) {
    if (std::holds_alternative<HostPart>(node.part)) return "host";
    if (std::holds_alternative<LibraryPart>(node.part)) return "library";
    const auto* conditional = std::get_if<ConditionalPart>(&node.part);
    return conditional && conditional->kind == ConditionalKind::if_ ? "if" : kind_name(node);
  }

  void add_part(Object& object, const NodeData& node, const KernelPart& part) const {
    object.add("enabled", node.is_enabled)
        .add("priority", node.priority)
        .add("kernel", part.info->name)
        .add("blocks", dimensions(part.grid.blocks))
        .add("threads", dimensions(part.grid.threads))
        .add("shared_bytes", part.grid.shared_bytes)
        .add("launches_graphs", part.info->traits.launches)
        .add("spawns_kernels", part.info->traits.spawns)
        .add("device_updatable", part.is_device_updatable)
        .add("cost", cost_object(part.info->cost(part.args.data())));
    const Relations relations = relations_of(data_, node);
    object.add("sets", array(relations.sets, [&](SymbolId id) { return condition_ids_.at(id); }))
        .add("updates", array(relations.updates))
        .add("uses", array(relations.uses));
    if (const L2Window* window = data_.find_l2_window(node))
      object.add("l2_window", Object()
                                  .add("bytes", window->bytes)
                                  .add("hit_ratio", window->hit_ratio)
                                  .add("hit", access_name(window->hit))
                                  .add("miss", access_name(window->miss)));
  }
  void add_part(Object& object, const NodeData& node, const CopyPart& part) const {
    object.add("enabled", node.is_enabled).add("bytes", part.bytes * part.rows);
    if (part.rows != 1) object.add("rows", part.rows);
    object.add("uses", array(relations_of(data_, node).uses));
  }
  void add_part(Object& object, const NodeData& node, const FillPart& part) const {
    object.add("enabled", node.is_enabled)
        .add("bytes", part.bytes)
        .add("value", part.value)
        .add("uses", array(relations_of(data_, node).uses));
  }
  void add_part(Object&, const NodeData&, const HostPart&) const {}
  void add_part(Object&, const NodeData&, const LibraryPart&) const {}
  void add_part(Object& object, const NodeData&, const ChildPart& part) const {
    object.add("inside", part.scope);
  }
  void add_part(Object& object, const NodeData&, const AllocatePart& part) const {
    object.add("bytes", data_.symbols[part.symbol].bytes);
  }
  void add_part(Object& object, const NodeData&, const FreePart& part) const {
    const Symbol* symbol = data_.symbols.find(reinterpret_cast<std::uintptr_t>(part.address));
    object.add("allocation", symbol ? json(symbol->owner) : json(nullptr));
  }
  void add_part(Object& object, const NodeData&, const ConditionalPart& part) const {
    const Symbol* symbol = condition_of(data_, part);
    const SymbolId id = symbol ? data_.symbols.id_of(*symbol) : kNone;
    object.add("condition", symbol ? json(condition_ids_.at(id)) : json(nullptr))
        .add("bodies", array(part.bodies));
  }

  const GraphData& data_;
  std::vector<SymbolId> conditions_;
  std::unordered_map<SymbolId, std::size_t> condition_ids_;
  std::vector<NodeId> node_ids_;
  std::vector<ScopeId> scope_ids_;
  std::map<std::uintptr_t, std::size_t> regions_;  // first address to id
};

}  // namespace

std::string to_json(const Graph& graph) { return JsonPrinter(data_of(graph)).print(graph); }

}  // namespace attacca
