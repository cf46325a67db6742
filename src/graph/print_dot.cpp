// print_dot.cpp: a graph for Graphviz, drawn as a flow chart: a conditional is a diamond with
// dotted arrows to its bodies, a body or a child is a box around its nodes.
#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "graph/print.hpp"

namespace attacca {

using namespace graph;

namespace {

std::string dot_string(const std::string& text) {
  return escaped(text, [](std::string& out, char character) {
    switch (character) {
      case '"':
        return out += "\\\"", true;
      case '\\':
        return out += "\\\\", true;
      case '\n':
        return out += "\\n", true;
      case '&':
        return out += "&amp;", true;  // Graphviz reads entities in labels
      default:
        break;
    }
    if (static_cast<unsigned char>(character) >= 0x20 && character != 0x7f) return false;
    return out += fmt::format("\\\\x{:02x}", character), true;
  });
}

struct Look {
  const char* shape;
  const char* fill;
  const char* line;
  const char* style = "filled";
};

struct LookOf {
  Look operator()(const KernelPart&) const { return {"box", "#dbeafe", "#1d4ed8"}; }
  Look operator()(const CopyPart&) const { return {"box", "#dcfce7", "#15803d", "rounded,filled"}; }
  Look operator()(const FillPart&) const { return {"note", "#dcfce7", "#15803d"}; }
  Look operator()(const HostPart&) const { return {"parallelogram", "#ffedd5", "#c2410c"}; }
  Look operator()(const LibraryPart&) const { return {"component", "#f3e8ff", "#7e22ce"}; }
  Look operator()(const ChildPart&) const { return {"box", "#f8fafc", "#64748b"}; }
  Look operator()(const AllocatePart&) const { return {"cylinder", "#f1f5f9", "#475569"}; }
  Look operator()(const FreePart&) const { return {"cylinder", "#f1f5f9", "#475569"}; }
  Look operator()(const ConditionalPart&) const { return {"diamond", "#fef9c3", "#a16207"}; }
};

class DotPrinter {
 public:
  explicit DotPrinter(const GraphData& data) : data_(data) {}

  std::string print() {
    out_ = fmt::format(
        "digraph \"{0}\" {{\n"
        "  graph [label=\"{0}\" labelloc=t compound=true bgcolor=white fontname=\"Helvetica\"];\n"
        "  node [fontname=\"Helvetica\" fontsize=11];\n"
        "  edge [color=\"#334155\" fontname=\"Helvetica\" fontsize=10];\n",
        dot_string(data_.name));
    print_scope(kRootScope, 1);
    for (NodeId id = 0; id < data_.nodes.size(); ++id) print_edges(id);
    return out_ + "}\n";
  }

 private:
  template <class... T>
  void line(std::size_t depth, fmt::format_string<T...> format, T&&... values) {
    out_.append(depth * 2, ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(values)...);
    out_ += '\n';
  }

  /// A child is only its box, unless it is empty and needs something to draw arrows to.
  bool is_box(NodeId id) const {
    const auto* child = std::get_if<ChildPart>(&data_.nodes[id].part);
    return child && !data_.scopes[child->scope].nodes.empty();
  }

  void print_scope(ScopeId scope, std::size_t depth) {
    for (const NodeId id : data_.scopes[scope].nodes) {
      if (!is_box(id)) print_node(id, depth);
      for (const ScopeId inside : insides_of(data_.nodes[id])) {
        if (data_.scopes[inside].nodes.empty()) continue;
        line(depth, "subgraph cluster_{} {{", inside);
        line(depth + 1,
             "graph [label=\"{}\" style=\"rounded,filled\" color=\"#94a3b8\" "
             "fillcolor=\"#f8fafc\" fontsize=11];",
             dot_string(is_box(id) ? data_.nodes[id].name : data_.scopes[inside].label));
        print_scope(inside, depth + 1);
        line(depth, "}}");
      }
    }
  }

  void print_node(NodeId id, std::size_t depth) {
    const NodeData& node = data_.nodes[id];
    const Look look = std::visit(LookOf{}, node.part);
    const auto* kernel = std::get_if<KernelPart>(&node.part);
    const bool starts_work =
        kernel && (kernel->info->traits.launches || kernel->info->traits.spawns);
    line(depth, "n{} [label=\"{}\" shape={} style=\"{}{}\" fillcolor=\"{}\" color=\"{}\"{}{}];", id,
         label(node), look.shape, look.style, node.is_enabled ? "" : ",dashed",
         node.is_enabled ? look.fill : "#ffffff", look.line, starts_work ? " peripheries=2" : "",
         node.is_enabled ? "" : " fontcolor=\"#64748b\"");
  }

  std::string label(const NodeData& node) const {
    std::string text = dot_string(node.name);
    if (const auto* kernel = std::get_if<KernelPart>(&node.part)) {
      text += "\\n" + shape_text(kernel->grid);
      if (kernel->info->traits.launches) text += "\\nlaunches graphs";
      if (kernel->info->traits.spawns) text += "\\nspawns kernels";
      if (kernel->is_device_updatable) text += "\\ndevice-updatable";
      if (node.priority != 0) text += fmt::format("\\npriority {}", node.priority);
    } else if (const auto* copy = std::get_if<CopyPart>(&node.part)) {
      text += copy->rows == 1 ? fmt::format("\\n{} bytes", copy->bytes)
                              : fmt::format("\\n{} rows of {} bytes", copy->rows, copy->bytes);
    } else if (const auto* fill = std::get_if<FillPart>(&node.part)) {
      text += fmt::format("\\n{} bytes with {}", fill->bytes, fill->value);
    } else if (const auto* allocate = std::get_if<AllocatePart>(&node.part)) {
      text += fmt::format("\\n{} bytes", data_.symbols[allocate->symbol].bytes);
    } else if (std::holds_alternative<ConditionalPart>(node.part)) {
      text = fmt::format("{}\\n{}", kind_name(node), text);
    }
    return node.is_enabled ? text : text + "\\ndisabled";
  }

  bool has_consumer(NodeId producer) const {
    const std::vector<NodeId>& peers = data_.scopes[data_.nodes[producer].scope].nodes;
    return std::any_of(peers.begin(), peers.end(), [&](NodeId id) {
      std::span<const Edge> deps = data_.nodes[id].deps;
      return std::any_of(deps.begin(), deps.end(),
                         [&](const Edge& edge) { return edge.from == producer; });
    });
  }

  /// A drawn node at which an arrow into or out of a node can end.
  NodeId entry(NodeId id) const {
    return is_box(id) ? first_of(insides_of(data_.nodes[id])[0]) : id;
  }
  NodeId exit(NodeId id) const { return is_box(id) ? last_of(insides_of(data_.nodes[id])[0]) : id; }
  NodeId first_of(ScopeId scope) const {
    const std::vector<NodeId>& nodes = data_.scopes[scope].nodes;
    const auto root = std::find_if(nodes.begin(), nodes.end(),
                                   [&](NodeId id) { return data_.nodes[id].deps.empty(); });
    return entry(root == nodes.end() ? nodes.front() : *root);
  }
  NodeId last_of(ScopeId scope) const {
    const std::vector<NodeId>& nodes = data_.scopes[scope].nodes;
    const auto sink =
        std::find_if(nodes.rbegin(), nodes.rend(), [&](NodeId id) { return !has_consumer(id); });
    return exit(sink == nodes.rend() ? nodes.back() : *sink);
  }

  void print_edges(NodeId id) {
    const NodeData& node = data_.nodes[id];
    for (const Edge& edge : node.deps) {
      std::string attributes;
      if (edge.kind == EdgeKind::programmatic) attributes += " style=dashed label=\"programmatic\"";
      if (is_box(edge.from))
        attributes += fmt::format(" ltail=cluster_{}", insides_of(data_.nodes[edge.from])[0]);
      if (is_box(id)) attributes += fmt::format(" lhead=cluster_{}", insides_of(node)[0]);
      print_edge(exit(edge.from), entry(id), attributes);
      // Keeps nodes that follow a conditional below its bodies.
      if (std::holds_alternative<ConditionalPart>(data_.nodes[edge.from].part))
        for (const ScopeId body : insides_of(data_.nodes[edge.from]))
          if (!data_.scopes[body].nodes.empty())
            print_edge(last_of(body), entry(id), " style=invis");
    }
    const auto* conditional = std::get_if<ConditionalPart>(&node.part);
    if (!conditional) return;
    for (const ScopeId body : conditional->bodies) {
      if (data_.scopes[body].nodes.empty()) continue;
      print_edge(id, first_of(body), fmt::format(" style=dotted lhead=cluster_{}", body));
      if (conditional->kind == ConditionalKind::while_)
        print_edge(
            last_of(body), id,
            fmt::format(" style=dotted label=\"again\" ltail=cluster_{} constraint=false", body));
    }
  }

  void print_edge(NodeId from, NodeId to, std::string attributes) {
    if (!attributes.empty()) attributes = fmt::format(" [{}]", attributes.substr(1));
    line(1, "n{} -> n{}{};", from, to, attributes);
  }

  const GraphData& data_;
  std::string out_;
};

}  // namespace

std::string to_dot(const Graph& graph) { return DotPrinter(data_of(graph)).print(); }

}  // namespace attacca
