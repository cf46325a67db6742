// rotate_store.cpp: the kernel of rotate_store.hpp; its host body is in host/rotate_store.cpp.
#include "kernels/rotate_store.hpp"

#include "kernels/blocks.hpp"
#include "kernels/host/rotate_store.hpp"

namespace attacca::kernels {
namespace {

constexpr unsigned kThreads = 128;

struct RotateStore {
  static constexpr const char* name = "rotate_store";
  using Args = RotateStoreArgs;

  static Cost cost(const Args& a) {
    const double rows = 1.0 * a.rows.capacity * a.kv.head_size;
    const double rotated = rows * (a.heads + a.kv.kv_heads);
    const double stored = rows * 2 * a.kv.kv_heads;
    return {.flops = 3 * rotated, .bytes = 4 * (2 * rotated + 2 * stored)};
  }

  static void host_block(Thread& t, const Args& a) { host::rotate_store(a, t.block.x, t.blocks.x); }

  /// A block for each row, a warp for each of its heads in turn.
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const std::uint32_t row = t.block.x;
    if (row >= *a.rows.count) return;
    const std::uint32_t size = a.kv.head_size;
    const std::uint32_t half = a.rotary_size / 2;
    __shared__ float cosines[kThreads];  // half of a head of 256
    __shared__ float sines[kThreads];
    if (t.thread.x < half) {
      double sine = 0;
      double cosine = 0;
      sincos(static_cast<double>(a.positions[row]) * a.frequencies[t.thread.x], &sine, &cosine);
      cosines[t.thread.x] = static_cast<float>(cosine);
      sines[t.thread.x] = static_cast<float>(sine);
    }
    __syncthreads();
    const unsigned lane = t.thread.x % 32;
    const std::uint32_t heads = a.heads + 2 * a.kv.kv_heads;
    for (std::uint32_t head = t.thread.x / 32; head < heads; head += kThreads / 32) {
      float* x = a.qkv + (static_cast<std::uint64_t>(row) * heads + head) * size;
      const bool is_query = head < a.heads;
      const bool is_value = head >= a.heads + a.kv.kv_heads;
      if (!is_value) {
        const float* norm = is_query ? a.query_norm : a.key_norm;
        if (norm) normalize(x, norm, size, a.epsilon, lane);
        for (std::uint32_t at = lane; at < half; at += 32) {
          float& first = a.pairs == RotaryPairs::adjacent ? x[2 * at] : x[at];
          float& second = a.pairs == RotaryPairs::adjacent ? x[2 * at + 1] : x[at + half];
          const float rotated = first * cosines[at] - second * sines[at];
          second = second * cosines[at] + first * sines[at];
          first = rotated;
        }
        __syncwarp();
      }
      if (is_query) continue;
      float* to = is_value ? a.kv.values : a.kv.keys;
      to += a.kv.offset(static_cast<std::uint32_t>(a.slots[row]),
                        static_cast<std::uint32_t>(a.positions[row]),
                        (head - a.heads) % a.kv.kv_heads);
      for (std::uint32_t at = lane; at < size; at += 32) to[at] = x[at];
    }
#endif
  }

 private:
#if defined(__CUDACC__)
  /// One warp normalizes one head.
  __device__ static void normalize(float* x, const float* weight, std::uint32_t size, float epsilon,
                                   unsigned lane) {
    float sum = 0;
    for (std::uint32_t at = lane; at < size; at += 32) sum += x[at] * x[at];
    for (unsigned step = 16; step != 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    const float factor = 1 / sqrtf(sum / static_cast<float>(size) + epsilon);
    for (std::uint32_t at = lane; at < size; at += 32) x[at] = x[at] * factor * weight[at];
    __syncwarp();
  }
#endif
};

}  // namespace

const Kernel<RotateStoreArgs>& rotate_store() {
  static const Kernel<RotateStoreArgs> kernel = make_kernel<RotateStore>();
  return kernel;
}

Grid grid_of(const RotateStoreArgs& args, bool is_cuda) {
  if (is_cuda) return Grid{Dim3{args.rows.capacity}, Dim3{kThreads}};
  const std::uint64_t row = 1ull * (args.heads + 2 * args.kv.kv_heads) * args.kv.head_size;
  return host_grid(args.rows.capacity * row, 16384);
}

}  // namespace attacca::kernels
