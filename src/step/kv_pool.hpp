// kv_pool.hpp: the memory of all KV pages: keys of every layer, then values of every layer, each
// [layers, pages, kv_heads, page_size, head_size].
#pragma once

#include <attacca/memory.hpp>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/paged_kv.hpp"
#include "model/config.hpp"

namespace attacca::step {

struct KvSizes {
  std::uint64_t pages = 0;
  std::uint32_t page_size = 0;
  kernels::KvType type = kernels::KvType::f32;
};

class KvPool {
 public:
  KvPool(const Device& device, const model::ModelConfig& config, const KvSizes& sizes);

  const KvSizes& sizes() const { return sizes_; }
  std::size_t bytes() const { return memory_.bytes(); }
  void* data() const { return const_cast<std::byte*>(memory_.data()); }
  /// Keys and values of one layer, without block tables.
  kernels::PagedKv layer(std::size_t layer) const;

  /// Bytes of one page over all layers.
  static std::size_t page_bytes(const model::ModelConfig& config, const KvSizes& sizes);
  /// A layer without addresses, for code that only needs its sizes.
  static kernels::PagedKv shape_of(const model::ModelConfig& config, const KvSizes& sizes);

 private:
  KvSizes sizes_;
  std::size_t layer_bytes_;  // of keys, or of values
  kernels::PagedKv shape_;
  Buffer<std::byte> memory_;
};

}  // namespace attacca::step
