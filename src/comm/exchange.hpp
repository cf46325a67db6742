// exchange.hpp: an exchange as data, and what ranks must agree on before they start one.
#pragma once

#include <attacca/ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace attacca::comm {

using attacca::detail::ElementType;

enum class Operation : std::uint8_t {
  barrier,
  broadcast,
  all_reduce,
  all_gather,
  reduce_scatter,
  send,
  receive,
  symmetric,  // an allocation
  subgroup,
  join_device,
  instantiate,
  launch,
  put,
  get,
  wait,
  fetch_add,
};
const char* name_of(Operation operation);
inline bool is_one_sided(Operation operation) { return operation >= Operation::put; }
inline bool is_collective(Operation operation) { return operation <= Operation::reduce_scatter; }

/// What the ranks of a collective compare. It travels between processes as bytes, so every byte of
/// it is set.
struct Descriptor {
  static constexpr std::size_t kNameBytes = 48;

  std::uint64_t sequence = 0;  // of the group: its first collective is 1
  std::uint64_t count = 0;     // elements of a part
  std::uint64_t moved = 0;     // those that are moved
  std::uint64_t key = 0;       // of a subgroup: a hash of its members
  std::int32_t root = 0;
  std::uint32_t element_bytes = 0;
  Operation operation = Operation::barrier;
  ElementType type = ElementType::bytes;
  Reduction reduction = Reduction::sum;
  std::uint8_t none[5] = {};
  char name[kNameBytes] = {};  // cut to fit; ends with a zero

  void set_name(const std::string& text);
  bool operator==(const Descriptor&) const = default;

  std::size_t part_bytes() const { return count * element_bytes; }
  std::size_t moved_bytes() const { return moved * element_bytes; }
};
static_assert(sizeof(Descriptor) == 96 && std::has_unique_object_representations_v<Descriptor>);

/// "all-reduce 'bucket 3' of 12 f32".
std::string describe(const Descriptor& descriptor);
/// "rank 1", "ranks 0, 2 and 3".
std::string list_ranks(const std::vector<int>& ranks);
/// Empty if all agree; else the message for all of them. `ranks`: how messages number them.
std::string disagreement(std::span<const Descriptor> by_member, const std::vector<int>& ranks);
/// The same for a send, given by its sender, and a receive, given by its receiver.
std::string disagreement(const Descriptor& send, int sender, const Descriptor& receive,
                         int receiver);

/// Symmetric memory as one rank sees it: where each rank's copy begins in this process.
struct SymmetricBlock {
  std::vector<std::byte*> bases;  // by rank
  std::size_t bytes = 0;
  std::shared_ptr<void> memory;  // keeps it
};

/// A place in symmetric memory.
struct SymmetricPlace {
  std::shared_ptr<const SymmetricBlock> block;
  std::size_t offset = 0;

  std::byte* of(int rank) const { return block->bases[static_cast<std::size_t>(rank)] + offset; }
};

struct ExchangeData {
  std::shared_ptr<GroupImpl> group;
  Descriptor descriptor;  // without the sequence
  std::string name;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t from_bytes = 0;
  std::size_t to_bytes = 0;
  int peer = 0;                          // of a send, a receive and one-sided operations
  SymmetricPlace place;                  // of one-sided operations: the data, or the counter
  SymmetricPlace signal;                 // of put and wait; its block may be null
  std::uint64_t value = 0;               // of a signal, or to add
  const std::uint32_t* limit = nullptr;  // see Exchange::limited_to; null: all is moved
  std::size_t limit_each = 0;
};

/// How public values are made and opened.
struct Access {
  static Group group(std::shared_ptr<GroupImpl> impl) { return Group(std::move(impl)); }
  static const std::shared_ptr<GroupImpl>& impl(const Group& group) { return group.impl_; }
  static Exchange exchange(std::shared_ptr<const ExchangeData> data) {
    return Exchange(std::move(data));
  }
  static const ExchangeData& data(const Exchange& exchange) { return *exchange.data_; }
};

}  // namespace attacca::comm
