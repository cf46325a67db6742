// decode_attention.cpp: instantiates the kernels of decode_attention.hpp for each type of keys and
// values and each head size, with their grids, checks and the host reference. The CUDA body is in
// decode_attention.cuh.
#include "kernels/attention/decode_attention.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/attention/attention_kernels.hpp"
#include "kernels/attention/attention_reference.hpp"
#include "kernels/blocks.hpp"
#include "kernels/quantization.hpp"

#if defined(__CUDACC__)
#include "kernels/attention/decode_attention.cuh"
#endif

namespace attacca::kernels {
namespace {

constexpr char kName[] = "decode_attention";
constexpr unsigned kThreads = 128;
/// A block asks for so much shared memory that an SM has room for one of these blocks beside a
/// block of streamed_linear.hpp, but not for two. Otherwise all blocks would go where a linear
/// block has just exited, and other SMs would have none.
constexpr unsigned kBesideLinearBytes = 106 << 10;

/// Blocks that fit on an SM, limited by registers.
constexpr unsigned blocks_per_processor(KvType type, unsigned size) {
  if (size == 64 && type != KvType::f32) return 4;
  return size > 128 || size * kv_element_bytes(type) > 256 ? 2 : 3;
}

/// Shared memory of a block: queries as two 16-bit numbers, a new key and value, ten heads before
/// and after RoPE and the angles, four warps' sums of eight heads, a few small fields, and the
/// plan. At fixed splits also a sum of eight heads, with a float2 for every four floats.
constexpr unsigned shared_bytes(KvType type, unsigned size, std::uint32_t rows, bool is_fixed) {
  return 32 * (size + 32) + 2 * size * kv_element_bytes(type) + 44 * size + 128 * (size + 4) + 512 +
         4 * (3 * rows + 1) + (is_fixed ? 48 * size : 0);
}

// The host body, a plain reference in double precision: one row and kv head at a time.

/// Applies the norm and RoPE to one head.
std::vector<double> normed_and_rotated(const DecodeAttentionArgs& a, const float* head,
                                       const float* norm, std::int32_t position) {
  const std::uint32_t size = a.kv.head_size;
  const std::uint32_t half = a.rotary_size / 2;
  std::vector<double> x(head, head + size);
  if (norm) {
    double sum = 0;
    for (const double element : x) sum += element * element;
    const double factor = 1 / std::sqrt(sum / size + a.epsilon);
    for (std::uint32_t i = 0; i < size; ++i) x[i] *= factor * norm[i];
  }
  for (std::uint32_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * a.frequencies[i];
    const bool is_adjacent = a.pairs == RotaryPairs::adjacent;
    double& first = is_adjacent ? x[2 * i] : x[i];
    double& second = is_adjacent ? x[2 * i + 1] : x[i + half];
    const double rotated = first * std::cos(angle) - second * std::sin(angle);
    second = second * std::cos(angle) + first * std::sin(angle);
    first = rotated;
  }
  return x;
}

void host_row(const DecodeAttentionArgs& a, std::uint32_t row, std::uint32_t kv_head) {
  const std::uint32_t size = a.kv.head_size;
  const std::uint32_t group = a.heads / a.kv.kv_heads;
  const auto slot = static_cast<std::uint32_t>(a.slots[row]);
  const auto last = static_cast<std::uint32_t>(a.positions[row]);
  const std::uint32_t first = a.window != 0 && last >= a.window ? last - a.window + 1 : 0;
  const float* heads = a.qkv + 1ull * row * (a.heads + 2 * a.kv.kv_heads) * size;
  const float* key = heads + 1ull * (a.heads + kv_head) * size;
  const float* value = key + 1ull * a.kv.kv_heads * size;
  const std::uint64_t to = a.kv.offset(slot, last, kv_head);
  const auto rotated_key = normed_and_rotated(a, key, a.key_norm, a.positions[row]);
  std::transform(rotated_key.begin(), rotated_key.end(), a.kv.keys_as<float>() + to,
                 [](double element) { return static_cast<float>(element); });
  std::copy_n(value, size, a.kv.values_as<float>() + to);
  for (std::uint32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const auto query =
        normed_and_rotated(a, heads + 1ull * head * size, a.query_norm, a.positions[row]);
    const auto sum = attended(a.kv, query, a.scale, slot, kv_head, first, last);
    store_attended(sum, 1ull * row * a.heads + head, a.y, a.y_rest);
  }
}

template <KvType kType, unsigned kSize, bool kFixed>
struct DecodeAttention {
  static constexpr const char* name = kName;
  static constexpr bool waits = true;
  static constexpr unsigned max_threads = kThreads;
  static constexpr unsigned min_blocks = blocks_per_processor(kType, kSize);
  using Args = DecodeAttentionArgs;

  /// The context is known only when the kernel runs. This assumes that each row has filled half of
  /// its block table, or its window.
  static Cost cost(const Args& a) {
    double context = 0.5 * a.kv.table_stride * a.kv.page_size;
    if (a.window != 0) context = std::min(context, 1.0 * a.window);
    const double rows = a.rows.capacity;
    const double queries = rows * a.heads * a.kv.head_size;
    const double kept = rows * a.kv.kv_heads * a.kv.head_size * 2;
    return {.flops = 4 * queries * context,
            .bytes = kept * (context * kv_element_bytes(a.kv.type) + 4) + queries * (4 + 2)};
  }

  static void host_block(Thread& t, const Args& a) { decode_attention_on_host(t, a); }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    using Block = attending::DecodeBlock<kType, kSize, kFixed>;
    static_assert(sizeof(typename Block::Shared) <= shared_bytes(kType, kSize, 0, kFixed));
    extern __shared__ uint4 memory[];
    Block(a, memory).run(t);
#endif
  }
};

void check(const DecodeAttentionArgs& a, bool is_cuda) {
  const PagedKv& kv = a.kv;
  check_pages(kName, kv, is_cuda);
  if (kv.kv_heads == 0 || a.heads % kv.kv_heads != 0)
    refuse(kName, std::to_string(a.heads) + " heads cannot share " + std::to_string(kv.kv_heads) +
                      " kv heads; use a multiple");
  if (a.rotary_size % 2 != 0 || a.rotary_size > kv.head_size)
    refuse(kName, "rotary size " + std::to_string(a.rotary_size) +
                      " is odd or larger than the head of " + std::to_string(kv.head_size));
}

}  // namespace

void decode_attention_on_host(Thread& t, const DecodeAttentionArgs& a) {
  t.wait_for_producers();
  const std::uint32_t rows = std::min(*a.rows.count, a.rows.capacity);
  for (std::uint32_t item = t.block.x; item < rows * a.kv.kv_heads; item += t.blocks.x)
    host_row(a, item / a.kv.kv_heads, item % a.kv.kv_heads);
}

const Kernel<DecodeAttentionArgs>& decode_attention(const DecodeAttentionArgs& args) {
  return attention_kernel<DecodeAttention>(kName, args.kv);
}

Grid grid_of(const DecodeAttentionArgs& args, bool is_cuda, unsigned processors) {
  check(args, is_cuda);
  if (!is_cuda) return host_grid(1ull * args.rows.capacity * args.kv.kv_heads, 1);
  const unsigned size = padded_head(args.kv.head_size);
  const unsigned bytes =
      shared_bytes(args.kv.type, size, args.rows.capacity, args.kv.has_fixed_splits());
  if (args.rows.capacity <= kFewRows)
    return Grid{Dim3{processors}, Dim3{kThreads}, std::max(bytes, kBesideLinearBytes)};
  return Grid{Dim3{processors * blocks_per_processor(args.kv.type, size)}, Dim3{kThreads}, bytes};
}

}  // namespace attacca::kernels
