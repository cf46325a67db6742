// uses.cpp: the search for stand-ins among the words of a node.
#include "graph/uses.hpp"

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "graph/relocate.hpp"

namespace attacca::graph {

Uses uses_of(const GraphData& data, const Part& part) {
  Uses uses;
  if (data.symbols.empty()) return uses;
  each_word(part, [&](std::uintptr_t word, std::size_t offset) {
    if (const Symbol* symbol = data.symbols.find(word))
      uses.push_back({offset, data.symbols.id_of(*symbol)});
  });
  return uses;
}

namespace {

class AddressChecks {
 public:
  AddressChecks(const GraphData& data, const NodeData& node) : data_(data), node_(node) {}

  std::vector<GraphError> run() {
    each_word(node_.part, [&](std::uintptr_t word, std::size_t) {
      if (!data_.symbols.find(word) && AddressRange::is_stand_in(word)) refuse_address(word);
    });
    if (const auto* copy = std::get_if<CopyPart>(&node_.part)) {
      const auto bytes = [&](std::size_t pitch) { return (copy->rows - 1) * pitch + copy->bytes; };
      check_bytes("writes", copy->to, bytes(copy->to_pitch));
      check_bytes("reads", copy->from, bytes(copy->from_pitch));
    } else if (const auto* fill = std::get_if<FillPart>(&node_.part)) {
      check_bytes("writes", fill->to, fill->bytes);
    }
    return std::move(problems_);
  }

 private:
  void add(Rule rule, const std::string& message) {
    problems_.emplace_back(rule, node_.name, message);
  }

  void refuse_address(std::uintptr_t address) {
    if (const Symbol* before = allocation_before(address)) {
      add(Rule::outside_allocation_life,
          fmt::format("{} '{}' uses an address that is {} bytes past the end of allocation '{}' "
                      "of {} bytes; stay inside it, or allocate more",
                      kind_name(node_), node_.name, address - before->address - before->bytes,
                      before->name, before->bytes));
      return;
    }
    if (has_foreign_) return;
    has_foreign_ = true;
    add(Rule::foreign_handle,
        fmt::format("{} '{}' uses a condition, an allocation or a node handle that does not belong "
                    "to graph '{}', or an address outside its allocations; make it with this "
                    "graph, or one it was copied from",
                    kind_name(node_), node_.name, data_.name));
  }

  /// The nearest one in whose range the address is; small ones share a range. Null: there is none.
  const Symbol* allocation_before(std::uintptr_t address) const {
    const Symbol* nearest = nullptr;
    for (const Symbol& symbol : data_.symbols)
      if (symbol.kind == SymbolKind::allocation && symbol.address < address &&
          symbol.range->holds(address) && (!nearest || nearest->address < symbol.address))
        nearest = &symbol;
    return nearest;
  }

  void check_bytes(const char* doing, const void* first, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(first);
    const Symbol* symbol = data_.symbols.find(address);
    if (!symbol || symbol->kind != SymbolKind::allocation) return;
    const std::size_t offset = address - symbol->address;
    if (bytes <= symbol->bytes - offset) return;
    add(Rule::outside_allocation_life,
        fmt::format("{} '{}' {} {} bytes from byte {} of allocation '{}' on, which has {} bytes; "
                    "{} at most {}, or allocate more",
                    kind_name(node_), node_.name, doing, bytes, offset, symbol->name, symbol->bytes,
                    std::string_view(doing) == "reads" ? "read" : "write", symbol->bytes - offset));
  }

  const GraphData& data_;
  const NodeData& node_;
  std::vector<GraphError> problems_;
  bool has_foreign_ = false;
};

}  // namespace

std::vector<GraphError> address_problems(const GraphData& data, const NodeData& node) {
  return AddressChecks(data, node).run();
}

}  // namespace attacca::graph
