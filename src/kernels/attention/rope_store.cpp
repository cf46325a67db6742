// rope_store.cpp: the kernel of rope_store.hpp with its CUDA body. The host body is in
// host/rope_store.cpp.
#include "kernels/attention/rope_store.hpp"

#include <attacca/error.hpp>

#include "kernels/attention/host/rope_store.hpp"
#include "kernels/blocks.hpp"

#if defined(__CUDACC__)
#include "kernels/attention/attention_elements.cuh"
#include "kernels/attention/attention_rope.cuh"
#endif

namespace attacca::kernels {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kMaxSize = 256;  // of a head

struct RopeStore {
  static constexpr const char* name = "rope_store";
  static constexpr bool waits = true;
  using Args = RopeStoreArgs;

  static Cost cost(const Args& a) {
    const double rows = 1.0 * a.rows.capacity * a.kv.head_size;
    const double rotated = rows * (a.heads + a.kv.kv_heads);
    const double stored = rows * 2 * a.kv.kv_heads;
    return {.flops = 3 * rotated,
            .bytes = 4 * (2 * rotated + stored) + kv_element_bytes(a.kv.type) * stored};
  }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    host::rope_store(a, t.block.x, t.blocks.x);
  }

  /// One block for each row; its warps take the heads in turn.
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    using namespace attending;
    t.wait_for_producers();
    t.release_consumers();
    const std::uint32_t row = t.block.x;
    if (row >= *a.rows.count) return;
    const std::uint32_t size = a.kv.head_size;
    const std::uint32_t heads = a.heads + 2 * a.kv.kv_heads;
    const auto position = static_cast<std::uint32_t>(a.positions[row]);
    const auto slot = static_cast<std::uint32_t>(a.slots[row]);
    const unsigned lane = t.thread.x % 32;
    __shared__ float buffers[kThreads / 32][kMaxSize];
    float* rotated_head = buffers[t.thread.x / 32];
    Angles<kMaxSize> angles;
    angles.find(a.frequencies, a.rotary_size / 2, a.positions[row]);
    for (std::uint32_t head = t.thread.x / 32; head < heads; head += kThreads / 32) {
      float* x = a.qkv + (static_cast<std::uint64_t>(row) * heads + head) * size;
      const bool is_query = head < a.heads;
      const bool is_value = head >= a.heads + a.kv.kv_heads;
      if (!is_value)
        rope_head(
            x, rotated_head, angles,
            {is_query ? a.query_norm : a.key_norm, a.epsilon, a.pairs, a.rotary_size / 2, size});
      if (is_query) {
        for (std::uint32_t at = lane; at < size; at += 32) x[at] = rotated_head[at];
        continue;
      }
      const std::uint64_t to = a.kv.offset(slot, position, (head - a.heads) % a.kv.kv_heads);
      store(a.kv.type, is_value ? a.kv.values : a.kv.keys, to, is_value ? x : rotated_head, size,
            lane);
    }
#endif
  }

 private:
#if defined(__CUDACC__)
  /// One warp stores one head at element `to` of a pool.
  __device__ static void store(KvType type, void* pool, std::uint64_t to, const float* x,
                               std::uint32_t size, unsigned lane) {
    auto* bytes = static_cast<unsigned char*>(pool);
    for (std::uint32_t at = 2 * lane; at < size; at += 64) {
      unsigned char* two = bytes + (to + at) * kv_element_bytes(type);
      switch (type) {
        case KvType::f32:
          attending::store_two<KvType::f32>(two, x[at], x[at + 1]);
          break;
        case KvType::bf16:
          attending::store_two<KvType::bf16>(two, x[at], x[at + 1]);
          break;
        case KvType::f16:
          attending::store_two<KvType::f16>(two, x[at], x[at + 1]);
          break;
        case KvType::fp8:
          attending::store_two<KvType::fp8>(two, x[at], x[at + 1]);
          break;
      }
    }
  }
#endif
};

}  // namespace

const Kernel<RopeStoreArgs>& rope_store() {
  static const Kernel<RopeStoreArgs> kernel = make_kernel<RopeStore>();
  return kernel;
}

Grid grid_of(const RopeStoreArgs& args, bool is_cuda) {
  if (is_cuda) return Grid{Dim3{args.rows.capacity}, Dim3{kThreads}};
  if (args.kv.type != KvType::f32)
    throw BadArgument("rope_store: the host keeps keys and values in f32 only; use that type");
  const std::uint64_t row = 1ull * (args.heads + 2 * args.kv.kv_heads) * args.kv.head_size;
  return host_grid(args.rows.capacity * row, 16384);
}

}  // namespace attacca::kernels
