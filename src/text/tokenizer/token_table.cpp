// token_table.cpp: looks up ids by spelling in a flat hash table. Reading a tokenizer asks it three
// times for each merge.
#include "text/tokenizer/token_table.hpp"

#include <algorithm>
#include <bit>
#include <functional>

namespace attacca::text {
namespace {

std::uint32_t hash_of(std::string_view spelling) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(spelling));
}

}  // namespace

void TokenTable::reserve(std::size_t tokens) {
  spellings_.reserve(tokens);
  if (2 * tokens <= slots_.size()) return;
  std::vector<Slot> old(std::bit_ceil(2 * tokens + 1));
  old.swap(slots_);
  for (const Slot& slot : old)
    if (slot.id >= 0) slots_[place(spelling(slot.id), slot.hash)] = slot;
}

void TokenTable::add(std::int32_t id, std::string_view spelling) {
  if (2 * (taken_ + 1) > slots_.size()) reserve(2 * (taken_ + 1));
  const auto index = static_cast<std::size_t>(id);
  if (index >= spellings_.size()) spellings_.resize(index + 1);
  spellings_[index] = store(spelling);
  const std::uint32_t hash = hash_of(spelling);
  Slot& slot = slots_[place(spelling, hash)];
  if (slot.id >= 0) return;
  slot = {hash, id};
  ++taken_;
}

std::optional<std::int32_t> TokenTable::find(std::string_view spelling) const {
  if (slots_.empty()) return std::nullopt;
  const std::int32_t id = slots_[place(spelling, hash_of(spelling))].id;
  return id < 0 ? std::nullopt : std::optional(id);
}

/// The slot of the spelling, or the free slot where it would go.
std::size_t TokenTable::place(std::string_view spelling, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].id >= 0 && (slots_[at].hash != hash ||
                                spellings_[static_cast<std::size_t>(slots_[at].id)] != spelling))
    at = (at + 1) & mask;
  return at;
}

std::string_view TokenTable::store(std::string_view spelling) {
  constexpr std::size_t kBlock = 65536;
  if (!block_next_ || block_left_ < spelling.size()) {
    block_left_ = std::max(spelling.size(), kBlock);
    block_next_ = blocks_.emplace_back(new char[block_left_]).get();
  }
  const std::string_view stored(block_next_, spelling.size());
  std::copy(spelling.begin(), spelling.end(), block_next_);
  block_next_ += spelling.size();
  block_left_ -= spelling.size();
  return stored;
}

}  // namespace attacca::text
