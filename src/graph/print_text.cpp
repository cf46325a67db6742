// print_text.cpp: a graph for people: one line per node in the order in which it was added, bodies
// and children indented. A node is called by its name, or name#id where several share it.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/counted.hpp"
#include "graph/print.hpp"

namespace attacca {

using namespace graph;

namespace {

struct Row {
  std::string what;     // indented kind and name
  std::string details;  // shape, bytes, condition, flags
  std::string after;
};

/// Columns that a text takes, counting a character as one.
std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; }));
}

void pad(std::string& text, std::size_t width) {
  const std::size_t taken = columns(text);
  if (taken < width) text.append(width - taken, ' ');
}

std::string one_line(const std::string& name) {
  return escaped(name, [](std::string& out, char character) {
    if (character == '\n') return out += "\\n", true;
    if (static_cast<unsigned char>(character) >= 0x20 && character != 0x7f) return false;
    return out += fmt::format("\\x{:02x}", character), true;
  });
}

class TextPrinter {
 public:
  explicit TextPrinter(const GraphData& data) : data_(data) {
    for (const NodeData& node : data.nodes) ++nodes_called_[node.name];
  }

  std::string print(const Graph& graph) {
    add_scope(kRootScope, 1);
    std::size_t what_width = 0;
    std::size_t details_width = 0;
    for (const Row& row : rows_) {
      what_width = std::max(what_width, columns(row.what));
      details_width = std::max(details_width, columns(row.details));
    }
    std::string text = fmt::format("{} on {}\n", one_line(data_.name), data_.device.name());
    for (Row& row : rows_) {
      pad(row.what, what_width);
      pad(row.details, details_width);
      std::string line = fmt::format("{}  {}  {}", row.what, row.details, row.after);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
    const Cost cost = graph.cost();
    return text + fmt::format("{}; each run once: {}, {}\n", counted(graph.node_count(), "node"),
                              quantity_text(cost.flops, "FLOP"), quantity_text(cost.bytes, "B"));
  }

 private:
  std::string label(NodeId id) const {
    const std::string& name = data_.nodes[id].name;
    return nodes_called_.at(name) == 1 ? one_line(name) : fmt::format("{}#{}", one_line(name), id);
  }

  void add_scope(ScopeId scope, std::size_t depth) {
    std::size_t kind_width = 0;
    for (const NodeId id : data_.scopes[scope].nodes)
      kind_width = std::max(kind_width, std::string_view(kind_name(data_.nodes[id])).size());
    for (const NodeId id : data_.scopes[scope].nodes) {
      const NodeData& node = data_.nodes[id];
      rows_.push_back(
          {fmt::format("{:{}}{:<{}}  {}", "", depth * 2, kind_name(node), kind_width, label(id)),
           details(node), after(node)});
      const std::vector<ScopeId> insides = insides_of(node);
      for (const ScopeId inside : insides) {
        // A lone body needs no heading: the node above says what it is.
        const bool has_heading = insides.size() > 1;
        if (has_heading)
          rows_.push_back(
              {fmt::format("{:{}}{}:", "", depth * 2 + 2, data_.scopes[inside].label), "", ""});
        add_scope(inside, depth + (has_heading ? 2 : 1));
      }
    }
  }

  std::string details(const NodeData& node) const {
    std::vector<std::string> parts;
    if (const auto* kernel = std::get_if<KernelPart>(&node.part)) {
      if (node.name != kernel->info->name)
        parts.push_back(fmt::format("runs {}", kernel->info->name));
      parts.push_back(shape_text(kernel->grid));
      if (kernel->info->traits.launches) parts.emplace_back("launches graphs");
      if (kernel->info->traits.spawns) parts.emplace_back("spawns kernels");
    } else if (const auto* copy = std::get_if<CopyPart>(&node.part)) {
      parts.push_back(copy->rows == 1
                          ? fmt::format("{} bytes", copy->bytes)
                          : fmt::format("{} rows of {} bytes", copy->rows, copy->bytes));
    } else if (const auto* fill = std::get_if<FillPart>(&node.part)) {
      parts.push_back(fmt::format("{} bytes with {}", fill->bytes, fill->value));
    } else if (const auto* allocate = std::get_if<AllocatePart>(&node.part)) {
      parts.push_back(fmt::format("{} bytes", data_.symbols[allocate->symbol].bytes));
    } else if (const auto* conditional = std::get_if<ConditionalPart>(&node.part)) {
      if (const Symbol* condition = condition_of(data_, *conditional))
        parts.push_back(fmt::format("looks at '{}', at first {}", one_line(condition->name),
                                    condition->initial));
    }
    const Relations relations = relations_of(data_, node);
    for (const SymbolId symbol : relations.sets)
      parts.push_back(fmt::format("sets '{}'", one_line(data_.symbols[symbol].name)));
    for (const NodeId id : relations.updates) parts.push_back("updates " + label(id));
    for (const NodeId id : relations.uses) parts.push_back("uses " + label(id));
    if (const auto* kernel = std::get_if<KernelPart>(&node.part);
        kernel && kernel->is_device_updatable)
      parts.emplace_back("device-updatable");
    if (node.priority != 0) parts.push_back(fmt::format("priority {}", node.priority));
    if (const L2Window* window = data_.find_l2_window(node))
      parts.push_back(
          fmt::format("L2 window of {} bytes, {}", window->bytes, access_name(window->hit)));
    if (!node.is_enabled) parts.emplace_back("disabled");
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  std::string after(const NodeData& node) const {
    std::vector<std::string> producers;
    for (const Edge& edge : node.deps)
      producers.push_back(label(edge.from) +
                          (edge.kind == EdgeKind::programmatic ? " (programmatic)" : ""));
    return producers.empty() ? "" : fmt::format("after {}", fmt::join(producers, ", "));
  }

  const GraphData& data_;
  std::unordered_map<std::string, std::size_t> nodes_called_;
  std::vector<Row> rows_;
};

}  // namespace

std::string to_text(const Graph& graph) { return TextPrinter(data_of(graph)).print(graph); }

}  // namespace attacca
