// relacy_memory.hpp: memory for the structures of include/attacca/device under relacy. Every atomic
// operation is a point where the scheduler may switch, a relaxed load may see an old value, and
// unordered accesses of two threads to a plain value are reported. `Flaw` breaks the memory on
// purpose: a suite that passes even with its flaw proves nothing.
#pragma once

// Included before relacy, whose macros break them.
#include <gtest/gtest.h>
#include <attacca/device/page_stack.hpp>
#include <attacca/device/signal.hpp>
#include <attacca/device/ticket_counter.hpp>
#include <attacca/device/work_queue_ref.hpp>

#include <memory>
#include <optional>
#include <streambuf>
#include <string>

#include <relacy/relacy.hpp>
#undef assert
#undef calloc
#undef delete
#undef errno
#undef free
#undef malloc
#undef memory_order_acq_rel
#undef memory_order_acquire
#undef memory_order_consume
#undef memory_order_relaxed
#undef memory_order_release
#undef memory_order_seq_cst
#undef new
#undef realloc

namespace attacca::test {

using device::Order;
using device::OrderTag;
using device::Scope;

enum class Flaw : std::uint8_t {
  none,
  no_release,  // stores and exchanges that should release, do not
  no_acquire,  // loads and exchanges that should acquire, do not
  no_fence,    // fences do nothing
  weak_add,    // acq_rel becomes relaxed
  torn_add,    // adding is a load and a store
  no_tag,      // a 64-bit exchange compares only the 24 bits of a page
};

/// With `kLooks`, waiters read the clock and the host's flag at every poll, and every read advances
/// the clock by one. So patience may end in any wait.
template <Flaw kFlaw = Flaw::none, bool kLooks = false>
struct RelacyMemory {
  template <Order kOrder>
  static constexpr rl::memory_order order(OrderTag<kOrder>) {
    constexpr bool kReleases = kFlaw != Flaw::no_release;
    constexpr bool kAcquires = kFlaw != Flaw::no_acquire;
    switch (kOrder) {
      case Order::relaxed:
        return rl::mo_relaxed;
      case Order::acquire:
        return kAcquires ? rl::mo_acquire : rl::mo_relaxed;
      case Order::release:
        return kReleases ? rl::mo_release : rl::mo_relaxed;
      case Order::acq_rel:
        if (kFlaw == Flaw::weak_add) return rl::mo_relaxed;
        if (!kReleases) return rl::mo_acquire;
        return kAcquires ? rl::mo_acq_rel : rl::mo_release;
      case Order::seq_cst:
        return rl::mo_seq_cst;
    }
  }

  template <class T, Scope kScope>
  class Atomic {
   public:
    Atomic() = default;
    explicit Atomic(T value) : value_(value) {}

    template <class Tag>
    T load(Tag tag) const {
      return value_.load(order(tag), RL_INFO);
    }
    template <class Tag>
    void store(T value, Tag tag) {
      value_.store(value, order(tag), RL_INFO);
    }
    template <class Tag>
    T exchange(T value, Tag tag) {
      return value_.exchange(value, order(tag), RL_INFO);
    }
    template <class Tag>
    T fetch_add(T value, Tag tag) {
      if constexpr (kFlaw == Flaw::torn_add) {
        const T before = value_.load(rl::mo_relaxed, RL_INFO);
        value_.store(before + value, rl::mo_relaxed, RL_INFO);
        return before;
      }
      return value_.fetch_add(value, order(tag), RL_INFO);
    }
    template <class Tag>
    T fetch_sub(T value, Tag tag) {
      return value_.fetch_sub(value, order(tag), RL_INFO);
    }
    template <class Tag>
    T fetch_or(T value, Tag tag) {
      return value_.fetch_or(value, order(tag), RL_INFO);
    }
    template <class Success, class Failure>
    bool compare_exchange(T& expected, T desired, Success success, Failure failure) {
      if constexpr (kFlaw == Flaw::no_tag && sizeof(T) == 8) {
        const T now = value_.load(rl::mo_relaxed, RL_INFO);
        if (((now ^ expected) & 0xffffff) == 0) expected = now;
      }
      return value_.compare_exchange_strong(expected, desired, order(success), RL_INFO,
                                            order(failure), RL_INFO);
    }

   private:
    rl::atomic<T> value_;
  };

  /// relacy checks accesses to numbers only, so a number stands in for the value.
  template <class T>
  class Plain {
   public:
    Plain() = default;
    explicit Plain(const T& value) { write(value); }
    T read() const {
      (void)guard_(RL_INFO).load();
      return *value_;
    }
    void write(const T& value) {
      guard_(RL_INFO).store(1);
      value_ = value;
    }

   private:
    std::optional<T> value_;
    rl::var<unsigned> guard_;
  };

  struct Backoff {
    void pause() { rl::yield(1, RL_INFO); }
    bool is_time_to_look() const { return kLooks; }
  };
  static inline std::uint64_t clock = 1;  // reset it before each run
  static std::uint64_t now() { return clock++; }
  template <class Word>
  static bool is_turn_to_look_across(Word&) {
    return true;
  }

  template <Scope kScope, Order kOrder>
  static void fence(OrderTag<kOrder> tag) {
    if (kFlaw != Flaw::no_fence && order(tag) != rl::mo_relaxed)
      rl::atomic_thread_fence(order(tag), RL_INFO);
  }
};

/// Keeps the start of relacy's output, in fixed memory, because relacy counts allocations during a
/// search.
class Text : std::streambuf {
 public:
  Text() : stream_(this) { setp(text_, text_ + sizeof(text_)); }
  std::ostream& stream() { return stream_; }
  std::string str() const { return {pbase(), pptr()}; }

 private:
  char text_[1 << 16];
  std::ostream stream_;
};

/// Runs relacy's search. Returns its finding; `text` gets the history.
template <class Suite>
rl::test_result_e search(rl::test_params& params, std::string& text) {
  Text out;
  params.output_stream = params.progress_stream = &out.stream();
  rl::simulate<Suite>(params);
  text = out.str();
  return params.test_result;
}

template <class Suite>
testing::AssertionResult holds(rl::test_params& params) {
  std::string text;
  if (search<Suite>(params, text) == rl::test_result_success) return testing::AssertionSuccess();
  return testing::AssertionFailure() << text;
}
/// Whether relacy finds nothing in `count` random schedules.
template <class Suite>
testing::AssertionResult holds_at_random(unsigned count) {
  rl::test_params params;
  params.iteration_count = count;
  return holds<Suite>(params);
}
/// Whether relacy finds nothing in all schedules with at most `switches` switches away from a
/// thread that could go on.
template <class Suite>
testing::AssertionResult holds_for_all(unsigned switches) {
  rl::test_params params;
  params.search_type = rl::sched_bound;
  params.context_bound = switches;
  return holds<Suite>(params);
}
/// The same, for all schedules.
template <class Suite>
testing::AssertionResult holds_for_all() {
  rl::test_params params;
  params.search_type = rl::sched_full;
  return holds<Suite>(params);
}
/// Whether relacy finds something, as it should in a suite with a flaw.
template <class Suite>
testing::AssertionResult is_caught() {
  rl::test_params params;
  params.iteration_count = 100'000;
  std::string text;
  if (search<Suite>(params, text) != rl::test_result_success) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "relacy found nothing:\n" << text;
}

}  // namespace attacca::test
