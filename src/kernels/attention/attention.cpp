// attention.cpp: the kernel of attention.hpp with a plain CUDA body. The host body is in
// host/attention.cpp.
#include "kernels/attention/attention.hpp"

#include <algorithm>
#include <attacca/error.hpp>

#include "kernels/attention/host/attention.hpp"
#include "kernels/blocks.hpp"

namespace attacca::kernels {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kTile = 32;  // positions at a time, one for each lane

struct Attention {
  static constexpr const char* name = "attention";
  using Args = AttentionArgs;

  /// The context is known only when the kernel runs. This assumes that each row is its own sequence
  /// and has filled half of its block table, or its window.
  static Cost cost(const Args& a) {
    double context = 0.5 * a.kv.table_stride * a.kv.page_size;
    if (a.window != 0) context = std::min(context, 1.0 * a.window);
    const double rows = a.rows.capacity;
    const double queries = rows * a.heads * a.kv.head_size;
    const double read = rows * context * a.kv.kv_heads * a.kv.head_size * 2;
    const double written = rows * row_stride(a.y.format, a.y.columns);
    return {.flops = 4 * queries * context, .bytes = 4 * (queries + read) + written};
  }

  static void host_block(Thread& t, const Args& a) { host::attention(a, t.block.x, t.blocks.x); }

  /// One block for each row and head, with an online softmax: the warps score the positions of a
  /// tile, then each thread adds up its elements of the values.
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    constexpr unsigned kElements = 2;  // of a thread, as heads have up to 256
    const std::uint32_t row = t.block.x / a.heads;
    const std::uint32_t head = t.block.x % a.heads;
    if (row >= *a.rows.count) return;
    const std::uint32_t size = a.kv.head_size;
    const std::uint32_t kv_head = head / (a.heads / a.kv.kv_heads);
    const std::uint32_t slot = static_cast<std::uint32_t>(a.slots[row]);
    const std::uint32_t last = static_cast<std::uint32_t>(a.positions[row]);
    const std::uint32_t first = a.window != 0 && last >= a.window ? last - a.window + 1 : 0;
    const float* q = a.q + static_cast<std::uint64_t>(row) * a.q_stride + head * size;
    const unsigned warp = t.thread.x / 32;
    const unsigned lane = t.thread.x % 32;

    __shared__ float scores[kTile];
    float max = -INFINITY;
    float total = 0;
    float sum[kElements] = {};
    for (std::uint32_t at = first / kTile * kTile; at <= last; at += kTile) {
      for (unsigned j = warp; j < kTile; j += kThreads / 32) {
        float score = -INFINITY;
        if (at + j >= first && at + j <= last) {
          const float* key = a.kv.keys_as<float>() + a.kv.offset(slot, at + j, kv_head);
          score = 0;
          for (std::uint32_t i = lane; i < size; i += 32) score += q[i] * key[i];
          for (unsigned step = 16; step != 0; step /= 2) score += __shfl_xor_sync(~0u, score, step);
          score *= a.scale;
        }
        if (lane == 0) scores[j] = score;
      }
      __syncthreads();
      float tile_max = scores[lane];
      for (unsigned step = 16; step != 0; step /= 2)
        tile_max = fmaxf(tile_max, __shfl_xor_sync(~0u, tile_max, step));
      const float new_max = fmaxf(max, tile_max);
      const float weight = expf(scores[lane] - new_max);
      float tile_total = weight;
      for (unsigned step = 16; step != 0; step /= 2)
        tile_total += __shfl_xor_sync(~0u, tile_total, step);
      const float factor = expf(max - new_max);
      total = total * factor + tile_total;
      max = new_max;
      for (float& element : sum) element *= factor;
      for (unsigned j = 0; j < kTile; ++j) {
        const float w = __shfl_sync(~0u, weight, j);
        if (at + j < first || at + j > last) continue;
        const float* value = a.kv.values_as<float>() + a.kv.offset(slot, at + j, kv_head);
        for (unsigned e = 0; e < kElements; ++e)
          if (t.thread.x + e * kThreads < size) sum[e] += w * value[t.thread.x + e * kThreads];
      }
      __syncthreads();
    }
    float* y = static_cast<float*>(a.y.row(row)) + head * size;
    for (unsigned e = 0; e < kElements; ++e)
      if (t.thread.x + e * kThreads < size) y[t.thread.x + e * kThreads] = sum[e] / total;
#endif
  }
};

}  // namespace

const Kernel<AttentionArgs>& attention() {
  static const Kernel<AttentionArgs> kernel = make_kernel<Attention>();
  return kernel;
}

Grid grid_of(const AttentionArgs& args, bool is_cuda) {
  if (!is_cuda) {
    const std::uint32_t heads = host::attention_cut(args).heads;
    return host_grid(1ull * args.rows.capacity * ((args.heads + heads - 1) / heads), 1);
  }
  if (args.y.format != RowFormat::f32)
    throw BadArgument("attention: rows in the format i16 are for the host; use f32 on CUDA");
  return Grid{Dim3{args.rows.capacity * args.heads}, Dim3{kThreads}};
}

}  // namespace attacca::kernels
