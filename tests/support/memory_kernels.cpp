// memory_kernels.cpp: the bodies of kernels that copy with L2 hints and discard lines.
#include "support/memory_kernels.hpp"

#include <attacca/l2.hpp>

namespace attacca::test {

namespace {

struct alignas(8) Pair {
  std::uint32_t word[2];
};

template <class T>
ATTACCA_HD void copy_as(const Quad& from, Quad& to) {
  const L2Hint once = L2Hint::evict_first();
  const L2Hint again = L2Hint::evict_last();
  const T* source = reinterpret_cast<const T*>(from.word);
  T* target = reinterpret_cast<T*>(to.word);
  for (unsigned at = 0; at < sizeof(Quad) / sizeof(T); ++at)
    again.store(target + at, once.load(source + at));
}

struct HintedCopy {
  static constexpr const char* name = "hinted_copy";
  using Args = HintedCopyArgs;
  static Cost cost(const Args& a) {
    return {.bytes = 2.0 * sizeof(Quad) * static_cast<double>(a.count)};
  }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    for (std::uint64_t i = t.index(); i < a.count; i += t.stride()) {
      if (i + t.stride() < a.count) prefetch_l2(a.from + i + t.stride());
      if (a.width == 4)
        copy_as<std::uint32_t>(a.from[i], a.to[i]);
      else if (a.width == 8)
        copy_as<Pair>(a.from[i], a.to[i]);
      else
        copy_as<Quad>(a.from[i], a.to[i]);
    }
  }
};

struct Discard {
  static constexpr const char* name = "discard";
  using Args = DiscardArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) discard_l2(a.at, a.bytes);
  }
};

}  // namespace

const Kernel<HintedCopyArgs> hinted_copy = make_kernel<HintedCopy>();
const Kernel<DiscardArgs> discard = make_kernel<Discard>();

}  // namespace attacca::test
