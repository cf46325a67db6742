// inline_vector.hpp: a vector that keeps its first elements in place. A node has one or two edges
// and a few words of arguments: an allocation for each made copying 100 nodes 4 times slower.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

namespace attacca {

template <class T, std::size_t kInline>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  InlineVector() = default;
  InlineVector(const T* first, const T* last) { assign(first, last); }
  InlineVector(const InlineVector& other) { assign(other.begin(), other.end()); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  /// Allocates only where `other` has more elements than ours ever had.
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this == &other) return *this;
    delete[] heap_;
    take(other);
    return *this;
  }
  ~InlineVector() { delete[] heap_; }

  T* data() { return heap_ ? heap_ : inline_; }
  const T* data() const { return heap_ ? heap_ : inline_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t at) { return data()[at]; }
  const T& operator[](std::size_t at) const { return data()[at]; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::size_t heap_bytes() const { return heap_ ? capacity_ * sizeof(T) : 0; }

  void push_back(const T& value) {
    const T copy = value;  // `value` may be one of our elements
    if (size_ == capacity_) reserve(2 * capacity_);
    data()[size_++] = copy;
  }

  template <class Test>
  void erase_if(Test test) {
    size_ = static_cast<std::size_t>(std::remove_if(begin(), end(), test) - begin());
  }

  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void assign(const T* first, const T* last) {
    reserve(static_cast<std::size_t>(last - first));
    std::copy(first, last, data());
    size_ = static_cast<std::size_t>(last - first);
  }
  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    T* bigger = new T[capacity];
    std::copy(begin(), end(), bigger);
    delete[] std::exchange(heap_, bigger);
    capacity_ = capacity;
  }
  void take(InlineVector& other) noexcept {
    std::memcpy(inline_, other.inline_, sizeof inline_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, kInline);
    heap_ = std::exchange(other.heap_, nullptr);
  }

  std::size_t size_ = 0;
  std::size_t capacity_ = kInline;
  T* heap_ = nullptr;
  alignas(16) T inline_[kInline] = {};
};

}  // namespace attacca
