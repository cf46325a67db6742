// sm90_prompt_attention.cpp: instantiates the kernels of sm90_prompt_attention.hpp for each type of
// keys and values and each head size, with their grid. The CUDA body is in
// sm90_prompt_attention.cuh. This file is compiled for sm_90a only.
#include "kernels/attention/sm90_prompt_attention.hpp"

#include <algorithm>

#include "kernels/attention/prompt_runs.hpp"
#include "kernels/blocks.hpp"
#include "kernels/waits.hpp"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kernels/attention/sm90_prompt_attention.cuh"
#endif

namespace attacca::kernels {
namespace {

template <bool kIsBfloat, unsigned kSize, bool kInOrder, bool kRounded>
struct PromptAttention {
  static constexpr const char* name = "prompt_attention";
  static constexpr bool waits = true;
  static constexpr const char* waits_for[] = {kFullWait, kEmptyWait};
  static constexpr unsigned max_threads = prompts::kThreads;
  static constexpr unsigned min_blocks = 1;
  using Args = MixedAttentionArgs;

  static Cost cost(const Args& a) { return mixed_attention_cost(a); }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    const std::uint32_t rows = std::min(*a.rows.count, a.rows.capacity);
    const auto slot = [&](std::uint32_t row) { return static_cast<std::uint32_t>(a.slots[row]); };
    for (std::uint32_t row = t.block.x; row < rows; row += t.blocks.x)
      if (is_in_long_run(row, rows, slot)) mixed_attention_on_host(a, row);
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char prompt_memory[];
    prompts::attend_prompts<kIsBfloat, kSize, kInOrder, kRounded>(t, a, prompt_memory);
#endif
  }
};

template <bool kIsBfloat, bool kInOrder, bool kRounded>
const Kernel<MixedAttentionArgs>& kernel_for(std::uint32_t head_size) {
  static const auto small = make_kernel<PromptAttention<kIsBfloat, 64, kInOrder, kRounded>>();
  static const auto large = make_kernel<PromptAttention<kIsBfloat, 128, kInOrder, kRounded>>();
  return head_size == 64 ? small : large;
}
template <bool kInOrder, bool kRounded = false>
const Kernel<MixedAttentionArgs>& kernel_for(const PagedKv& kv) {
  return kv.type == KvType::f16 ? kernel_for<false, kInOrder, kRounded>(kv.head_size)
                                : kernel_for<true, kInOrder, kRounded>(kv.head_size);
}
template <bool kInOrder>
constexpr unsigned shared_bytes_of(std::uint32_t head_size) {
  return head_size == 64 ? prompts::Sizes<64, kInOrder>::kSharedBytes
                         : prompts::Sizes<128, kInOrder>::kSharedBytes;
}

}  // namespace

bool takes_prompts(const MixedAttentionArgs& a) {
  const PagedKv& kv = a.kv;
  return (kv.type == KvType::bf16 || kv.type == KvType::f16) && !a.y_rest &&
         (kv.head_size == 64 || kv.head_size == 128) && a.q_stride % 4 == 0 &&
         a.heads / kv.kv_heads <= prompts::kTileLines / 8 && a.rows.capacity >= kLongRun &&
         a.rows.capacity <= prompts::kMostRuns * kLongRun;
}

bool has_prompt_attention(const Device& device, const MixedAttentionArgs& args) {
  return device.compute_capability() == 90 && takes_prompts(args);
}

const Kernel<MixedAttentionArgs>& prompt_attention(const MixedAttentionArgs& args) {
  if (args.has_rounded_queries) return kernel_for<false, true>(args.kv);
  return args.kv.same_bits ? kernel_for<true>(args.kv) : kernel_for<false>(args.kv);
}

Grid prompt_grid(const MixedAttentionArgs& args, bool is_cuda, unsigned processors) {
  if (!is_cuda) return host_grid(args.rows.capacity, 1);
  return Grid{Dim3{processors}, Dim3{prompts::kThreads},
              args.kv.same_bits ? shared_bytes_of<true>(args.kv.head_size)
                                : shared_bytes_of<false>(args.kv.head_size)};
}

}  // namespace attacca::kernels
