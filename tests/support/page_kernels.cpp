// page_kernels.cpp: the body of the kernel that takes and gives back pages.
#include "support/page_kernels.hpp"

namespace attacca::test {

namespace {

using device::Give;
using device::relaxed;

struct UsePages {
  static constexpr const char* name = "use_pages";
  using Args = PageArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 4}; }

  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const auto me = static_cast<std::uint32_t>(t.index() + 1);
    std::uint32_t taken = 0, refused = 0, wrong = 0;
    std::uint32_t hash = me * 0x9e3779b1u;
    const std::uint64_t since = device::NativeMemory::now();
    for (std::uint32_t round = 0; round < a.rounds; ++round) {
      if (device::NativeMemory::now() - since > a.nanoseconds) break;
      hash = (hash ^ hash >> 15) * 747796405u + round;
      const std::uint32_t count = 1 + (hash >> 8) % a.most;
      std::uint32_t pages[PageArgs::kMostAtOnce];
      if (!a.stack.take(pages, count)) {
        ++refused;
        continue;
      }
      taken += count;
      for (std::uint32_t at = 0; at < count; ++at) {
        const std::uint32_t page = pages[at];
        if (page >= a.stack.pages()) {
          ++wrong;
          continue;
        }
        if (a.owners[page].exchange(me, relaxed) != 0) ++wrong;
        ++a.uses[page];
        if (a.owners[page].exchange(0, relaxed) != me) ++wrong;
      }
      // Some threads give back in two parts, others in reverse order.
      const std::uint32_t first = hash % 3 == 0 ? count / 2 : count;
      if (hash % 3 == 1) {
        const std::uint32_t last = pages[count - 1];
        pages[count - 1] = pages[0];
        pages[0] = last;
      }
      if (a.stack.give(pages, first) != Give::done) ++wrong;
      if (a.stack.give(pages + first, count - first) != Give::done) ++wrong;
    }
    a.taken->fetch_add(taken, relaxed);
    a.refused->fetch_add(refused, relaxed);
    a.wrong->fetch_add(wrong, relaxed);
  }
};

}  // namespace

const Kernel<PageArgs> use_pages = make_kernel<UsePages>();

}  // namespace attacca::test
