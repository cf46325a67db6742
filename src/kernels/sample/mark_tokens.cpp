// mark_tokens.cpp: the kernel of mark_tokens.hpp: one block clears and fills the marks of one slot.
#include "kernels/sample/mark_tokens.hpp"

#include <algorithm>

#include "kernels/sample/sampling.hpp"

namespace attacca::kernels {
namespace {

struct MarkTokens {
  static constexpr const char* name = "mark_tokens";
  using Args = MarkTokensArgs;

  static Cost cost(const Args& a) { return {.flops = 0, .bytes = 2.0 * a.count * a.vocabulary}; }

  static void host_block(Thread& t, const Args& a) {
    const SlotHistory history = a.slots[t.block.x];
    std::uint16_t* const marks = a.marks + std::uint64_t{history.slot} * a.vocabulary;
    std::fill_n(marks, a.vocabulary, std::uint16_t{0});
    for_each_token(a, history, 0, 1,
                   [&](std::uint32_t token, auto change) { marks[token] = change(marks[token]); });
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const SlotHistory history = a.slots[t.block.x];
    std::uint16_t* const marks = a.marks + std::uint64_t{history.slot} * a.vocabulary;
    for (std::uint32_t token = threadIdx.x; token < a.vocabulary; token += blockDim.x)
      marks[token] = 0;
    __syncthreads();
    for_each_token(a, history, threadIdx.x, blockDim.x, [&](std::uint32_t token, auto change) {
      unsigned short* const mark = marks + token;
      for (unsigned short seen = *mark, before = 0;; seen = before) {
        before = atomicCAS(mark, seen, static_cast<unsigned short>(change(seen)));
        if (before == seen) return;
      }
    });
#endif
  }

 private:
  template <class Apply>
  ATTACCA_HD static void for_each_token(const Args& a, const SlotHistory& h, std::uint32_t first,
                                        std::uint32_t stride, Apply apply) {
    for (std::uint32_t at = first; at < h.prompt + h.generated; at += stride) {
      const std::uint32_t token = a.words[h.first + at];
      apply(token, [&](std::uint16_t mark) { return marked(mark, at < h.prompt); });
    }
  }
};

}  // namespace

const Kernel<MarkTokensArgs>& mark_tokens() {
  static const Kernel<MarkTokensArgs> kernel = make_kernel<MarkTokens>();
  return kernel;
}

Grid grid_of(const MarkTokensArgs& args, bool is_cuda) {
  return Grid{Dim3{args.count}, Dim3{is_cuda ? 1024u : 1u}};
}

}  // namespace attacca::kernels
