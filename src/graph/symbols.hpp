// symbols.hpp: the conditions, allocations and device-updatable nodes of a graph, and the addresses
// that stand for them until the graph is instantiated. uses.hpp finds stand-ins in nodes and
// relocate.hpp replaces them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/address_range.hpp"

namespace attacca::graph {

using SymbolId = std::uint32_t;

enum class SymbolKind : std::uint8_t { condition, allocation, node };

/// Something that exists only once the graph is instantiated; `address` stands for it until then.
struct Symbol {
  SymbolKind kind;
  std::string name;
  std::uintptr_t address;
  std::size_t bytes;
  std::uint32_t owner;   // allocation, node: the NodeId; condition: its ScopeId
  unsigned initial = 0;  // condition: value at launch
  std::shared_ptr<AddressRange> range;
};

/// The symbols of one graph, by SymbolId. A copy keeps the same stand-ins for the same symbols.
class SymbolTable {
 public:
  SymbolId add(SymbolKind kind, std::string name, std::size_t bytes, std::uint32_t owner,
               unsigned initial = 0);
  /// Removes the symbols added last, until `count` are left.
  void shrink_to(SymbolId count);
  /// Call it on a copy: two graphs must not give one stand-in to two new symbols.
  void leave_shared_range() { small_range_.reset(); }

  std::size_t size() const { return symbols_.size(); }
  bool empty() const { return symbols_.empty(); }
  const Symbol& operator[](std::size_t id) const { return symbols_[id]; }
  auto begin() const { return symbols_.begin(); }
  auto end() const { return symbols_.end(); }
  SymbolId id_of(const Symbol& symbol) const {
    return static_cast<SymbolId>(&symbol - symbols_.data());
  }
  /// The symbol an address stands for: an allocation from its first byte to one past its last, a
  /// condition or a node by its one address. Null for ordinary addresses, which cost next to
  /// nothing.
  const Symbol* find(std::uintptr_t address) const {
    return AddressRange::may_be_stand_in(address) ? find_stand_in(address) : nullptr;
  }

 private:
  const Symbol* find_stand_in(std::uintptr_t address) const;
  std::vector<SymbolId>::const_iterator first_behind(std::uintptr_t address) const;

  std::vector<Symbol> symbols_;
  std::vector<SymbolId> by_address_;
  std::shared_ptr<AddressRange> small_range_;  // conditions and nodes get their addresses from it
  std::size_t small_range_used_ = 0;
};

}  // namespace attacca::graph
