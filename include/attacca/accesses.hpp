// accesses.hpp: optional declarations of the memory that a node reads and writes. A graph whose
// nodes declare it can derive its edges (Graph::derive_edges), and `instantiate` names two nodes
// that touch the same bytes in no order. A kernel declares it as a function of its arguments:
//
//   static Accesses accesses(const Args& a) {
//     return Accesses().reads(a.x, a.count).writes(a.y, a.count);
//   }
#pragma once

#include <attacca/error.hpp>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace attacca {

/// Ranges of bytes, each read or written. Declare a range that is both as written.
class Accesses {
 public:
  struct Range {
    const void* first;
    std::size_t bytes;
    bool is_write;
  };

  template <class T>
  Accesses& reads(const T* first, std::size_t count) {
    return add({first, detail::array_bytes(count, sizeof(T)), false});
  }
  template <class T>
  Accesses& writes(T* first, std::size_t count) {
    static_assert(!std::is_const_v<T>, "a node cannot write what is const");
    return add({first, detail::array_bytes(count, sizeof(T)), true});
  }
  template <class T>
  Accesses& reads(std::span<T> values) {
    return reads(values.data(), values.size());
  }
  template <class T>
  Accesses& writes(std::span<T> values) {
    return writes(values.data(), values.size());
  }
  Accesses& add(const Range& range) {
    if (range.bytes != 0) ranges_.push_back(range);
    return *this;
  }

  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

}  // namespace attacca
