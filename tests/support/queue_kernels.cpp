// queue_kernels.cpp: the bodies of kernels that push and pop, and grow trees of work.
#include "support/queue_kernels.hpp"

#include <thread>
#include <vector>

namespace attacca::test {

namespace {

using device::Pop;
using device::Push;
using device::relaxed;

struct Free {
  template <class Args>
  static Cost cost(const Args&) {
    return {.flops = 1, .bytes = 4};
  }
};

ATTACCA_HD std::uint32_t hashed(std::uint32_t value) {
  value = (value ^ 61u ^ value >> 16) * 0x9e3779b1u;
  return value ^ value >> 15;
}

/// Makes the lanes of a warp diverge until they reconverge by themselves.
ATTACCA_HD bool detour(Divergence divergence, std::uint32_t salt) {
  std::uint32_t hash = salt;
  if (divergence == Divergence::odd_sets)
    for (std::uint32_t at = 0; at < hashed(salt) % 5; ++at) hash = hashed(hash);
  return hash == 0xdeadbeef;  // practically never, but the compiler cannot know that
}
ATTACCA_HD bool takes_part(Divergence divergence, std::uint64_t index) {
  return divergence != Divergence::single_lane || index % 32 == 17;
}

/// Counts a popped item.
ATTACCA_HD void count(const PopArgs& a, std::uint32_t item) {
  if (item < a.count)
    a.counts[item].fetch_add(1, relaxed);
  else
    a.wrong->fetch_add(1, relaxed);
}

/// Pops until the end and calls `work` with each item.
template <class Work>
ATTACCA_HD void pop_all(const PopArgs& a, std::uint32_t index, const Work& work) {
  for (std::uint32_t at = 0;; ++at) {
    if (detour(a.divergence, index * 31 + at)) return;
    std::uint32_t item = 0;
    const Pop result = a.queue.pop(item);
    if (result == Pop::done) {
      work(item);
      a.queue.done();
    } else if (result != Pop::empty) {
      if (result == Pop::broken) a.broken->fetch_add(1, relaxed);
      return;
    }
  }
}

struct PushItems : Free {
  static constexpr const char* name = "push_items";
  using Args = PushArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const bool is_single = a.divergence == Divergence::single_lane;
    if (!takes_part(a.divergence, t.index())) return;
    const std::uint64_t each = is_single ? 32 : 1;
    for (std::uint64_t item = t.index() / each; item < a.count; item += t.stride() / each) {
      const auto value = static_cast<std::uint32_t>(item);
      if (detour(a.divergence, value)) return;
      const bool is_even = hashed(value) % 2 == 0;
      // Neighbouring lanes call different functions.
      if ((is_even ? a.queue.try_push(value) : a.queue.push(value)) != Push::done)
        a.refused->fetch_add(1, relaxed);
    }
  }
};

struct PopItems : Free {
  static constexpr const char* name = "pop_items";
  using Args = PopArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!takes_part(a.divergence, t.index())) return;
    pop_all(a, static_cast<std::uint32_t>(t.index()), [&](std::uint32_t item) { count(a, item); });
  }
};

struct PassItems : Free {
  static constexpr const char* name = "pass_items";
  using Args = PassArgs;
  ATTACCA_HD static void work(std::uint32_t index, const Args& a) {
    pop_all(a.pop, index, [&](std::uint32_t item) {
      count(a.pop, item);
      if (item >= a.seeds) return;
      for (std::uint32_t at = 0; at < a.per_seed; ++at)
        if (a.pop.queue.push(a.seeds + item * a.per_seed + at) != Push::done) return;
    });
  }
  static void host(const Grid& grid, const Args& a) {
    std::vector<std::thread> threads;
    for (std::uint32_t index = 0; index < grid.blocks.x * grid.threads.x / 32; ++index)
      threads.emplace_back([index, &a] { work(index, a); });
    for (std::thread& thread : threads) thread.join();
  }
#if defined(__CUDACC__)
  __device__ static void cuda(Thread& t, const Args& a) {
    work(static_cast<std::uint32_t>(t.index()), a);
  }
#endif
};

struct GrowTree : Free {
  static constexpr const char* name = "grow_tree";
  using Args = TreeArgs;
  static constexpr unsigned kDepth = 64;
  struct Frame {
    std::uint32_t at;
    std::uint32_t end;
  };

  ATTACCA_HD static Frame work_on(std::uint32_t node, const Args& a) {
    count(a.pop, node);
    a.results[node] = TreeArgs::result_of(node);
    return {a.offsets[node], a.offsets[node + 1]};
  }
  /// Works off the nodes that the queue has no room for, depth first.
  ATTACCA_HD static void work_under(std::uint32_t node, const Args& a) {
    Frame frames[kDepth];
    frames[0] = work_on(node, a);
    for (unsigned depth = 1; depth > 0;) {
      Frame& frame = frames[depth - 1];
      if (frame.at == frame.end) {
        --depth;
        continue;
      }
      const std::uint32_t child = a.children[frame.at++];
      const Push result = a.pop.queue.try_push(child);
      if (result == Push::done) continue;
      if (result == Push::broken || depth == kDepth) {
        a.pop.wrong->fetch_add(1, relaxed);
        return;
      }
      frames[depth++] = work_on(child, a);
    }
  }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const auto index = static_cast<std::uint32_t>(t.index());
    if (!takes_part(a.pop.divergence, index)) return;
    pop_all(a.pop, index, [&](std::uint32_t node) {
      if (node < a.pop.count)
        work_under(node, a);
      else
        a.pop.wrong->fetch_add(1, relaxed);
    });
    // A thread that sees the end also sees the results of all others.
    for (std::uint32_t at = 0; at < 4; ++at) {
      const std::uint32_t node = hashed(index * 4 + at) % a.pop.count;
      if (a.results[node] != TreeArgs::result_of(node)) a.pop.wrong->fetch_add(1, relaxed);
    }
  }
};

struct CancelAfter : Free {
  static constexpr const char* name = "cancel_after";
  using Args = CancelArgs;
  ATTACCA_HD static void body(Thread&, const Args& a) {
    for (;;) {
      std::uint32_t item = 0;
      const Pop result = a.queue.pop(item);
      if (result == Pop::empty) continue;
      if (result == Pop::broken) a.broken->fetch_add(1, relaxed);
      if (result != Pop::done) return;
      // Each item pushes another, so without the cancel this would never end.
      (void)a.queue.try_push(item + 1);
      a.queue.done();
      if (a.popped->fetch_add(1, relaxed) + 1 >= a.items) a.queue.cancel();
    }
  }
};

struct Echo : Free {
  static constexpr const char* name = "echo";
  using Args = EchoArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    device::RingReader<std::uint32_t> reader(a.in);
    device::RingWriter<std::uint32_t> writer(a.out);
    device::NativeMemory::Backoff backoff;
    const std::uint64_t since = device::NativeMemory::now();
    const auto is_late = [&] {
      backoff.pause();
      return backoff.is_time_to_look() && device::NativeMemory::now() - since > a.nanoseconds;
    };
    std::uint32_t items[EchoArgs::kMostAtOnce];
    while (!reader.is_finished()) {
      const std::uint32_t count = reader.try_pop(items, a.batch);
      for (std::uint32_t at = 0; at < count; ++at) items[at] = items[at] * 3 + 1;
      for (std::uint32_t sent = 0; sent < count;) {
        const std::uint32_t now = writer.try_push(items + sent, count - sent);
        sent += now;
        if (now == 0 && is_late()) return give_up(a, writer);
      }
      if (count == 0 && is_late()) return give_up(a, writer);
    }
    writer.close();
  }
  ATTACCA_HD static void give_up(const Args& a, device::RingWriter<std::uint32_t>& writer) {
    a.given_up->fetch_add(1, relaxed);
    writer.close();
  }
};

}  // namespace

const Kernel<PushArgs> push_items = make_kernel<PushItems>();
const Kernel<PopArgs> pop_items = make_kernel<PopItems>();
const Kernel<PassArgs> pass_items = make_kernel<PassItems>();
const Kernel<TreeArgs> grow_tree = make_kernel<GrowTree>();
const Kernel<CancelArgs> cancel_after = make_kernel<CancelAfter>();
const Kernel<EchoArgs> echo = make_kernel<Echo>();

}  // namespace attacca::test
