// symbols.cpp: how symbols get their stand-in addresses, and the search by address.
#include "graph/symbols.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace attacca::graph {

namespace {
constexpr std::size_t kSmallSymbolBytes = 16;
constexpr std::size_t kSmallRangeBytes = 64 * 1024;
}  // namespace

SymbolId SymbolTable::add(SymbolKind kind, std::string name, std::size_t bytes, std::uint32_t owner,
                          unsigned initial) {
  Symbol symbol{kind, std::move(name), 0, bytes, owner, initial, nullptr};
  if (kind == SymbolKind::allocation) {
    symbol.range = std::make_shared<AddressRange>(bytes);
    symbol.address = symbol.range->base();
  } else {
    if (!small_range_ || small_range_used_ + kSmallSymbolBytes > small_range_->bytes()) {
      small_range_ = std::make_shared<AddressRange>(kSmallRangeBytes);
      small_range_used_ = 0;
    }
    symbol.bytes = kSmallSymbolBytes;
    symbol.range = small_range_;
    symbol.address = small_range_->base() + small_range_used_;
    small_range_used_ += kSmallSymbolBytes;
  }
  const auto id = static_cast<SymbolId>(symbols_.size());
  const auto place = first_behind(symbol.address);
  symbols_.push_back(std::move(symbol));
  by_address_.insert(place, id);
  return id;
}

void SymbolTable::shrink_to(SymbolId count) {
  std::erase_if(by_address_, [&](SymbolId symbol) { return symbol >= count; });
  symbols_.erase(symbols_.begin() + count, symbols_.end());
}

std::vector<SymbolId>::const_iterator SymbolTable::first_behind(std::uintptr_t address) const {
  return std::upper_bound(
      by_address_.begin(), by_address_.end(), address,
      [&](std::uintptr_t at, SymbolId symbol) { return at < symbols_[symbol].address; });
}

const Symbol* SymbolTable::find_stand_in(std::uintptr_t address) const {
  const auto after = first_behind(address);
  if (after == by_address_.begin()) return nullptr;
  const Symbol& symbol = symbols_[*std::prev(after)];
  const std::uintptr_t offset = address - symbol.address;
  const bool is_inside =
      symbol.kind == SymbolKind::allocation ? offset <= symbol.bytes : offset == 0;
  return is_inside ? &symbol : nullptr;
}

}  // namespace attacca::graph
