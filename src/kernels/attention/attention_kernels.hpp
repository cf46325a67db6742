// attention_kernels.hpp: what decode_attention.cpp and mixed_attention.cpp have in common: the
// choice of a kernel by type of keys and values, head size and kind of splits, and the shapes that
// both refuse.
#pragma once

#include <attacca/error.hpp>
#include <attacca/kernel.hpp>
#include <string>

#include "kernels/attention/paged_kv.hpp"

namespace attacca::kernels {

/// Heads are padded to one of three sizes.
constexpr unsigned padded_head(std::uint32_t size) {
  return size <= 64 ? 64 : size <= 128 ? 128 : 256;
}

[[noreturn]] inline void refuse(const char* kernel, const std::string& problem) {
  throw BadArgument(kernel + (": " + problem));
}

/// A kernel is K<type of keys and values, padded head size, whether splits are fixed>.
template <template <KvType, unsigned, bool> class K, KvType kType, unsigned kSize, bool kFixed>
const auto& attention_kernel_of() {
  static const auto kernel = make_kernel<K<kType, kSize, kFixed>>();
  return kernel;
}
template <template <KvType, unsigned, bool> class K, KvType kType, bool kFixed>
const auto& attention_kernel_for(std::uint32_t head_size) {
  switch (padded_head(head_size)) {
    case 64:
      return attention_kernel_of<K, kType, 64, kFixed>();
    case 128:
      return attention_kernel_of<K, kType, 128, kFixed>();
    default:
      return attention_kernel_of<K, kType, 256, kFixed>();
  }
}
template <template <KvType, unsigned, bool> class K, KvType kType>
const auto& attention_kernel_for(const PagedKv& kv) {
  return kv.has_fixed_splits() ? attention_kernel_for<K, kType, true>(kv.head_size)
                               : attention_kernel_for<K, kType, false>(kv.head_size);
}
template <template <KvType, unsigned, bool> class K>
const auto& attention_kernel(const char* name, const PagedKv& kv) {
  switch (kv.type) {
    case KvType::f32:
      return attention_kernel_for<K, KvType::f32, false>(kv.head_size);
    case KvType::bf16:
      return attention_kernel_for<K, KvType::bf16>(kv);
    case KvType::f16:
      return attention_kernel_for<K, KvType::f16>(kv);
    case KvType::fp8:
      return attention_kernel_for<K, KvType::fp8>(kv);
  }
  refuse(name, "type " + std::to_string(static_cast<unsigned>(kv.type)) +
                   " of keys and values is not known");
}

/// Throws BadArgument for pages and heads that neither kernel supports.
inline void check_pages(const char* kernel, const PagedKv& kv, bool is_cuda) {
  if (kv.head_size == 0 || kv.head_size % 8 != 0 || kv.head_size > 256)
    refuse(kernel, "head size " + std::to_string(kv.head_size) +
                       " is not a multiple of 8 from 8 to 256; use attention() for this model");
  if (kv.page_size != 16 && kv.page_size != 32 && kv.page_size != 64)
    refuse(kernel, "page size " + std::to_string(kv.page_size) + " is not known; use 16, 32 or 64");
  if (!is_cuda && kv.type != KvType::f32)
    refuse(kernel, "the host keeps keys and values in f32 only; use that type");
}

}  // namespace attacca::kernels
