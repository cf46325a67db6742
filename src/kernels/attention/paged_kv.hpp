// paged_kv.hpp: a view of one layer's keys and values in a pool of pages, reached through block
// tables. Allocating pages is left to the engine.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

namespace attacca::kernels {

/// The element type of keys and values. The host supports f32 only.
enum class KvType : std::uint32_t { f32, bf16, f16, fp8 };
ATTACCA_HD constexpr std::uint32_t kv_element_bytes(KvType type) {
  return type == KvType::f32 ? 4 : type == KvType::fp8 ? 1 : 2;
}

/// Position p of slot s is in page `tables[s * table_stride + p / page_size]`, at p % page_size.
struct PagedKv {
  void* keys = nullptr;                  // [pages, kv_heads, page_size, head_size] of `type`
  void* values = nullptr;                // [pages, kv_heads, page_size, head_size] of `type`
  const std::int32_t* tables = nullptr;  // [slots, table_stride]
  std::uint32_t table_stride = 0;
  std::uint32_t page_size = 0;  // 16, 32 or 64
  std::uint32_t kv_heads = 0;
  std::uint32_t head_size = 0;  // a multiple of 8, at most 256
  KvType type = KvType::f32;
  /// Attention gives a row the same bits alone, beside neighbours and in every decode step. With
  /// f32 it always does.
  bool same_bits = false;

  /// Whether it splits every row at the same positions (FixedSplits) to that end.
  ATTACCA_HD constexpr bool has_fixed_splits() const { return same_bits && type != KvType::f32; }

  template <class T>
  ATTACCA_HD T* keys_as() const {
    return static_cast<T*>(keys);
  }
  template <class T>
  ATTACCA_HD T* values_as() const {
    return static_cast<T*>(values);
  }
  /// Offset of a position's key (or value), in elements from `keys` (or `values`).
  ATTACCA_HD std::uint64_t offset(std::uint32_t slot, std::uint32_t position,
                                  std::uint32_t head) const {
    const std::uint64_t page = static_cast<std::uint64_t>(
        tables[static_cast<std::uint64_t>(slot) * table_stride + position / page_size]);
    return ((page * kv_heads + head) * page_size + position % page_size) * head_size;
  }
};

}  // namespace attacca::kernels
