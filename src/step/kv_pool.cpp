// kv_pool.cpp: computes where the keys and values of each layer are in the pool.
#include "step/kv_pool.hpp"

namespace attacca::step {

using kernels::PagedKv;

namespace {

/// Bytes of the keys, or of the values, of one layer in one page.
std::size_t half_page_bytes(const model::ModelConfig& c, const KvSizes& sizes) {
  return std::size_t{c.kv_heads} * sizes.page_size * c.head_size *
         kernels::kv_element_bytes(sizes.type);
}

}  // namespace

std::size_t KvPool::page_bytes(const model::ModelConfig& c, const KvSizes& sizes) {
  return 2 * c.layers * half_page_bytes(c, sizes);
}

PagedKv KvPool::shape_of(const model::ModelConfig& c, const KvSizes& sizes) {
  PagedKv kv;
  kv.page_size = sizes.page_size;
  kv.kv_heads = c.kv_heads;
  kv.head_size = c.head_size;
  kv.type = sizes.type;
  return kv;
}

KvPool::KvPool(const Device& device, const model::ModelConfig& config, const KvSizes& sizes)
    : sizes_(sizes),
      layer_bytes_(sizes.pages * half_page_bytes(config, sizes)),
      shape_(shape_of(config, sizes)),
      memory_(device, sizes.pages * page_bytes(config, sizes)) {}

PagedKv KvPool::layer(std::size_t layer) const {
  auto* const keys = static_cast<std::byte*>(data()) + layer * layer_bytes_;
  PagedKv kv = shape_;
  kv.keys = keys;
  kv.values = keys + memory_.bytes() / 2;
  return kv;
}

}  // namespace attacca::step
