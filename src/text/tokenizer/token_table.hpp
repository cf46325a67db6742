// token_table.hpp: the spellings of a tokenizer's tokens by id, and the ids by spelling.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace attacca::text {

/// Ids may have holes, which have no spelling. Owns the spellings. They never move, so views of
/// them are valid as long as the table lives.
class TokenTable {
 public:
  void reserve(std::size_t tokens);
  /// REQUIRES: `id` is not taken. If two tokens have the same spelling, it means the first.
  void add(std::int32_t id, std::string_view spelling);

  /// One more than the largest id.
  std::int32_t size() const { return static_cast<std::int32_t>(spellings_.size()); }
  bool has(std::int32_t id) const {
    return id >= 0 && id < size() && spellings_[static_cast<std::size_t>(id)].data();
  }
  /// Empty if there is no such id.
  std::string_view spelling(std::int32_t id) const {
    return has(id) ? spellings_[static_cast<std::size_t>(id)] : std::string_view();
  }
  std::optional<std::int32_t> find(std::string_view spelling) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;  // -1: the slot is free
  };
  std::size_t place(std::string_view spelling, std::uint32_t hash) const;
  std::string_view store(std::string_view spelling);

  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_left_ = 0;
  char* block_next_ = nullptr;
  std::vector<std::string_view> spellings_;  // by id; null: the id is not taken
  std::vector<Slot> slots_;                  // a power of two, at most half taken
  std::size_t taken_ = 0;
};

}  // namespace attacca::text
