// page_stack.cpp: makes a stack of pages and reads it from the host.
#include <attacca/device/page_stack.hpp>
#include <attacca/error.hpp>

#include <fmt/core.h>

namespace attacca::device {

namespace {

using Ref = PageStackRef<>;

std::uint32_t checked(std::size_t pages) {
  if (pages == 0 || pages > Ref::kBottom)
    throw BadArgument(
        fmt::format("PageStack: {} pages; use 1 to {}, with larger pages", pages, Ref::kBottom));
  return static_cast<std::uint32_t>(pages);
}

}  // namespace

PageStack::PageStack(const attacca::Device& device, std::size_t pages)
    : head_(device, 1), next_(device, checked(pages)), pages_(static_cast<std::uint32_t>(pages)) {
  std::vector<Atomic<std::uint32_t, Scope::gpu>> next(pages);
  for (std::uint32_t page = 0; page < pages_; ++page)
    next[page].store(page + 1 < pages_ ? page + 1 : Ref::kBottom, relaxed);
  next_.write(next);
  const Atomic<std::uint64_t, Scope::gpu> head(0);
  head_.write(std::span(&head, 1));
}

std::size_t PageStack::count_free() const {
  const auto next = next_.read();
  std::size_t count = 0;
  for (std::uint64_t page = head_.read().front().load(relaxed) & Ref::kBottom; page < pages_;
       page = next[page].load(relaxed))
    ++count;
  return count;
}

}  // namespace attacca::device
