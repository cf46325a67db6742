// page_kernels.hpp: a kernel whose threads take pages, use them as owners, and give them back.
#pragma once

#include <attacca/device/page_stack.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

using Cell = device::Atomic<std::uint32_t, device::Scope::gpu>;

struct PageArgs {
  static constexpr std::uint32_t kMostAtOnce = 8;
  device::PageStackRef<> stack;
  Cell* owners;         // [pages]: its owner's thread + 1; 0: free
  std::uint32_t* uses;  // [pages]: how often it was taken; the owner counts without atomics
  Cell* taken;          // pages taken, in total
  Cell* refused;        // attempts that were refused
  Cell* wrong;          // pages with two owners, or that could not be given back
  std::uint32_t rounds;
  std::uint32_t most;         // pages a thread takes at once: 1 … most, at most kMostAtOnce
  std::uint64_t nanoseconds;  // after this time no thread starts another round
};
extern const Kernel<PageArgs> use_pages;

}  // namespace attacca::test
