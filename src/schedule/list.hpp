// list.hpp: lists of small numbers (entries, slots, pages) in fixed memory that they do not own: as
// an array, which many threads can read at once, and with links, for numbers that leave from
// anywhere. Linked lists may share one array of links as long as a number is in at most one of
// them.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

namespace attacca::schedule {

/// No request, slot or page.
inline constexpr std::uint32_t kNone = 0xffffffff;

/// Numbers in the order in which they came, without gaps.
struct Array {
  std::uint32_t* items = nullptr;
  std::uint32_t count = 0;

  ATTACCA_HD std::uint32_t operator[](std::uint32_t at) const { return items[at]; }
  /// The newest; kNone if there is none.
  ATTACCA_HD std::uint32_t last() const { return count == 0 ? kNone : items[count - 1]; }
  ATTACCA_HD void push_back(std::uint32_t number) { items[count++] = number; }
  /// Removes and returns the newest; kNone if there is none.
  ATTACCA_HD std::uint32_t pop_back() { return count == 0 ? kNone : items[--count]; }
  /// REQUIRES: `number` is in this array.
  ATTACCA_HD void remove(std::uint32_t number) {
    std::uint32_t at = 0;
    while (items[at] != number) ++at;
    for (--count; at < count; ++at) items[at] = items[at + 1];
  }
};

struct Link {
  std::uint32_t previous;
  std::uint32_t next;
};

/// Not thread safe: one thread changes it.
struct List {
  Link* links = nullptr;
  std::uint32_t first = kNone;
  std::uint32_t last = kNone;
  std::uint32_t count = 0;

  ATTACCA_HD void clear() {
    first = last = kNone;
    count = 0;
  }

  ATTACCA_HD std::uint32_t after(std::uint32_t number) const { return links[number].next; }

  ATTACCA_HD void push_back(std::uint32_t number) {
    links[number] = {last, kNone};
    (last == kNone ? first : links[last].next) = number;
    last = number;
    ++count;
  }

  ATTACCA_HD void push_front(std::uint32_t number) {
    links[number] = {kNone, first};
    (first == kNone ? last : links[first].previous) = number;
    first = number;
    ++count;
  }

  /// REQUIRES: `number` is in this list.
  ATTACCA_HD void remove(std::uint32_t number) {
    const Link link = links[number];
    (link.previous == kNone ? first : links[link.previous].next) = link.next;
    (link.next == kNone ? last : links[link.next].previous) = link.previous;
    --count;
  }

  /// Removes and returns the first; kNone if the list is empty.
  ATTACCA_HD std::uint32_t pop_front() {
    const std::uint32_t number = first;
    if (number != kNone) remove(number);
    return number;
  }
};

}  // namespace attacca::schedule
