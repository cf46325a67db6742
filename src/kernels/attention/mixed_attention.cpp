// mixed_attention.cpp: instantiates the kernels of mixed_attention.hpp for each type of keys and
// values and each head size, with their grids, checks and the host reference. The CUDA body is in
// mixed_attention.cuh.
#include "kernels/attention/mixed_attention.hpp"

#include <algorithm>
#include <string>

#include "kernels/attention/attention_kernels.hpp"
#include "kernels/attention/attention_reference.hpp"
#include "kernels/attention/prompt_runs.hpp"
#include "kernels/blocks.hpp"
#include "kernels/quantization.hpp"

#if defined(__CUDACC__)
#include "kernels/attention/mixed_attention.cuh"
#endif

namespace attacca::kernels {
namespace {

constexpr char kName[] = "mixed_attention";
constexpr unsigned kThreads = 128;
constexpr std::uint32_t kMaxGroup = 64;  // query heads of a kv head

/// Blocks that fit on an SM, limited by registers and shared memory.
constexpr unsigned blocks_per_processor(unsigned size) { return size > 64 ? 2 : 3; }
static_assert(blocks_per_processor(64) <= kMaxWholeRowBlocks);

/// Most shared memory of a block: two stages of keys and values with 64 positions each (with large
/// heads 32, and 64 queries besides), the rounding errors of 64 queries, then the plan. At fixed
/// splits: two stages of 64 positions, 64 queries and their rounding errors (with large heads half
/// of each), then the plan. Behind that, the plan has a word for each run and one more.
constexpr unsigned shared_bytes(unsigned size, bool is_fixed) {
  if (is_fixed) return (size > 128 ? 384 : 768) * size + 4096;
  return 8 * (size > 128 ? 32 + 16 + 16 : 64 + 16) * (size + 8) + 1536;
}

/// `kLeaves`: rows of long runs are left out.
template <KvType kType, unsigned kSize, bool kFixed, bool kLeaves = false>
struct MixedAttentionBase {
  static constexpr const char* name = kName;
  static constexpr bool waits = true;
  static constexpr unsigned max_threads = kThreads;
  static constexpr unsigned min_blocks = blocks_per_processor(kSize);
  using Args = MixedAttentionArgs;

  /// One prompt would be left to the other kernel.
  static Cost cost(const Args& a) { return kLeaves ? Cost{} : mixed_attention_cost(a); }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    const std::uint32_t rows = std::min(*a.rows.count, a.rows.capacity);
    const auto slot = [&](std::uint32_t row) { return static_cast<std::uint32_t>(a.slots[row]); };
    for (std::uint32_t row = t.block.x; row < rows; row += t.blocks.x)
      if (!a.leaves_long_runs || !is_in_long_run(row, rows, slot)) mixed_attention_on_host(a, row);
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    using Block = attending::MixedBlock<kType, kSize, kFixed, kLeaves>;
    static_assert(sizeof(typename Block::Shared) <= shared_bytes(kSize, kFixed));
    extern __shared__ uint4 memory[];
    Block(a, memory).run(t);
#endif
  }
};
template <KvType kType, unsigned kSize, bool kFixed>
using MixedAttention = MixedAttentionBase<kType, kSize, kFixed>;
template <KvType kType, unsigned kSize, bool kFixed>
using LeavingMixedAttention = MixedAttentionBase<kType, kSize, kFixed, true>;

/// For the shapes of sm90_prompt_attention.hpp.
template <KvType kType, bool kFixed>
const Kernel<MixedAttentionArgs>& leaving_kernel(std::uint32_t head_size) {
  return head_size == 64 ? attention_kernel_of<LeavingMixedAttention, kType, 64, kFixed>()
                         : attention_kernel_of<LeavingMixedAttention, kType, 128, kFixed>();
}
template <KvType kType>
const Kernel<MixedAttentionArgs>& leaving_kernel(const PagedKv& kv) {
  return kv.has_fixed_splits() ? leaving_kernel<kType, true>(kv.head_size)
                               : leaving_kernel<kType, false>(kv.head_size);
}

void check(const MixedAttentionArgs& a, bool is_cuda) {
  const PagedKv& kv = a.kv;
  check_pages(kName, kv, is_cuda);
  if (kv.kv_heads == 0 || a.heads % kv.kv_heads != 0 || a.heads / kv.kv_heads > kMaxGroup)
    refuse(kName, std::to_string(a.heads) + " heads cannot share " + std::to_string(kv.kv_heads) +
                      " kv heads; use a multiple, up to " + std::to_string(kMaxGroup) +
                      " for each");
  if (a.q_stride % 2 != 0)
    refuse(kName,
           "rows of " + std::to_string(a.q_stride) + " floats are not aligned; use an even number");
}

}  // namespace

const Kernel<MixedAttentionArgs>& mixed_attention(const MixedAttentionArgs& args) {
  if (args.leaves_long_runs && args.kv.type != KvType::f32)
    return args.kv.type == KvType::f16 ? leaving_kernel<KvType::f16>(args.kv)
                                       : leaving_kernel<KvType::bf16>(args.kv);
  return attention_kernel<MixedAttention>(kName, args.kv);
}

Grid grid_of(const MixedAttentionArgs& args, bool is_cuda, unsigned processors) {
  check(args, is_cuda);
  if (!is_cuda) return host_grid(args.rows.capacity, 1);
  const unsigned size = padded_head(args.kv.head_size);
  const std::uint32_t runs = std::min(args.rows.capacity, args.slot_count);
  return Grid{Dim3{processors * blocks_per_processor(size)}, Dim3{kThreads},
              shared_bytes(size, args.kv.has_fixed_splits()) + 4 * (runs + 1)};
}

Cost mixed_attention_cost(const MixedAttentionArgs& a) {
  double context = 0.5 * a.kv.table_stride * a.kv.page_size;
  if (a.window != 0) context = std::min(context, 1.0 * a.window);
  const double queries = 1.0 * a.rows.capacity * a.heads * a.kv.head_size;
  const double read = context * a.kv.kv_heads * a.kv.head_size * 2;
  return {.flops = 4 * queries * context,
          .bytes =
              read * kv_element_bytes(a.kv.type) + queries * ((a.has_rounded_queries ? 2 : 4) + 2)};
}

void mixed_attention_on_host(const MixedAttentionArgs& a, std::uint32_t row) {
  const std::uint32_t size = a.kv.head_size;
  const auto slot = static_cast<std::uint32_t>(a.slots[row]);
  const auto last = static_cast<std::uint32_t>(a.positions[row]);
  const std::uint32_t first = a.window != 0 && last >= a.window ? last - a.window + 1 : 0;
  for (std::uint32_t head = 0; head < a.heads; ++head) {
    const float* q = a.q + 1ull * row * a.q_stride + 1ull * head * size;
    const auto sum = attended(a.kv, std::vector<double>(q, q + size), a.scale, slot,
                              head / (a.heads / a.kv.kv_heads), first, last);
    store_attended(sum, 1ull * row * a.heads + head, a.y, a.y_rest);
  }
}

}  // namespace attacca::kernels
