// page_stack.hpp: numbers of free pages on a lock-free stack. Any thread takes one or several, all
// or none, and gives them back in any order. The head carries a count of operations beside the top
// page, so a head that looks unchanged is unchanged, even if a page was taken and given back
// meanwhile (the count wraps after 2^40 operations during one attempt).
#pragma once

#include <attacca/device/memory_model.hpp>
#include <attacca/memory.hpp>

namespace attacca::device {

/// The outcome of giving pages back.
enum class Give : std::uint8_t {
  done,
  not_a_page,
  not_taken,  // free, or being given by another thread
  twice,      // it is in the list twice
};

/// A stack in the form of kernel arguments; PageStack owns it.
template <class Memory = NativeMemory>
class PageStackRef {
 public:
  template <class T>
  using Atomic = typename Memory::template Atomic<T, Scope::gpu>;

  /// Head: top page below, operations above. next[page]: the page under it, or one of the marks.
  static constexpr unsigned kPageBits = 24;
  static constexpr std::uint32_t kBottom = (1u << kPageBits) - 1;
  static constexpr std::uint32_t kTaken = kBottom + 1;
  static constexpr std::uint32_t kGiving = kBottom + 2;

  PageStackRef() = default;
  ATTACCA_HD PageStackRef(Atomic<std::uint64_t>* head, Atomic<std::uint32_t>* next,
                          std::uint32_t pages)
      : head_(head), next_(next), pages_(pages) {}

  /// Takes `count` pages into `pages`. Takes none and returns false where there are fewer.
  ATTACCA_HD bool take(std::uint32_t* pages, std::uint32_t count) const {
    if (count == 0) return true;
    typename Memory::Backoff backoff;
    // acquire pairs with the release in `give`: the links of given pages are seen.
    std::uint64_t head = head_->load(acquire);
    for (;;) {
      std::uint32_t page = top(head);
      std::uint32_t found = 0;
      // Other threads may take the same pages while we walk. Then a link may lead anywhere, but
      // always to a page or a mark, and the exchange below fails.
      while (found < count && page < pages_) {
        pages[found++] = page;
        page = next_[page].load(relaxed);
      }
      if (found == count && page <= kBottom) {
        if (head_->compare_exchange(head, after(head, page), acquire, acquire)) break;
      } else {
        // The marks "taken" and "giving" prove that the head has changed, even if this thread
        // cannot see that yet. Only a walk that ended at the bottom can have been right.
        const std::uint64_t now = head_->load(acquire);
        if (now == head && page == kBottom) return false;
        head = now;
      }
      backoff.pause();
    }
    for (std::uint32_t at = 0; at < count; ++at) next_[pages[at]].store(kTaken, relaxed);
    return true;
  }

  /// Gives `count` pages back. If one of them is wrong, none is given.
  ATTACCA_HD Give give(const std::uint32_t* pages, std::uint32_t count) const {
    if (count == 0) return Give::done;
    // First claim each page, by an exchange that only one thread, and only the page's first entry
    // in the list, can win.
    for (std::uint32_t at = 0; at < count; ++at) {
      Give wrong = Give::not_a_page;
      if (pages[at] < pages_) {
        std::uint32_t seen = kTaken;
        if (next_[pages[at]].compare_exchange(seen, kGiving, relaxed, relaxed)) continue;
        wrong = seen == kGiving && is_among(pages, at, pages[at]) ? Give::twice : Give::not_taken;
      }
      for (std::uint32_t undo = 0; undo < at; ++undo) next_[pages[undo]].store(kTaken, relaxed);
      return wrong;
    }
    for (std::uint32_t at = 0; at + 1 < count; ++at) next_[pages[at]].store(pages[at + 1], relaxed);
    typename Memory::Backoff backoff;
    std::uint64_t head = head_->load(relaxed);
    for (;;) {
      next_[pages[count - 1]].store(top(head), relaxed);
      // release publishes the links, and this thread's writes to the pages.
      if (head_->compare_exchange(head, after(head, pages[0]), release, relaxed)) return Give::done;
      backoff.pause();
    }
  }

  ATTACCA_HD std::uint32_t pages() const { return pages_; }

 private:
  ATTACCA_HD static bool is_among(const std::uint32_t* pages, std::uint32_t count,
                                  std::uint32_t page) {
    for (std::uint32_t at = 0; at < count; ++at)
      if (pages[at] == page) return true;
    return false;
  }
  ATTACCA_HD static std::uint32_t top(std::uint64_t head) {
    return static_cast<std::uint32_t>(head) & kBottom;
  }
  ATTACCA_HD static std::uint64_t after(std::uint64_t head, std::uint32_t page) {
    return (((head >> kPageBits) + 1) << kPageBits) | page;
  }
  Atomic<std::uint64_t>* head_ = nullptr;
  Atomic<std::uint32_t>* next_ = nullptr;
  std::uint32_t pages_ = 0;
};

/// Owns the stack of pages 0 … pages-1, all free at first, lowest on top.
class PageStack {
 public:
  PageStack(const attacca::Device& device, std::size_t pages);

  PageStackRef<> ref() const { return {head_.data(), next_.data(), pages_}; }
  /// The number of free pages. Copies from the device; no thread may be taking or giving.
  std::size_t count_free() const;

 private:
  Buffer<Atomic<std::uint64_t, Scope::gpu>> head_;
  Buffer<Atomic<std::uint32_t, Scope::gpu>> next_;
  std::uint32_t pages_;
};

}  // namespace attacca::device
