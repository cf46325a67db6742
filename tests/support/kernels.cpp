// kernels.cpp: the bodies of the test kernels, for host and device.
#include "support/kernels.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>

namespace attacca::test {

namespace {

ATTACCA_HD unsigned fetch_add(unsigned& cell, unsigned value) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(&cell, value);
#else
  return std::atomic_ref<unsigned>(cell).fetch_add(value);
#endif
}

ATTACCA_HD void tally(const Tally& t, LaunchStatus status) {
  if (t.counts) fetch_add(t.counts[static_cast<unsigned>(status)], 1);
}

/// The cost that every test kernel declares.
struct Free {
  template <class Args>
  static Cost cost(const Args&) {
    return {.flops = 1, .bytes = 4};
  }
};

struct Note : Free {
  static constexpr const char* name = "note";
  using Args = NoteArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) a.log.entries[fetch_add(*a.log.next, 1)] = a.tag;
  }
};

struct SetValue : Free {
  static constexpr const char* name = "set_value";
  using Args = SetArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) *a.to = a.value;
  }
};

struct Affine {
  static constexpr const char* name = "affine";
  using Args = AffineArgs;
  static Cost cost(const Args& a) {
    return {.flops = 2.0 * static_cast<double>(a.count),
            .bytes = 8.0 * static_cast<double>(a.count)};
  }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    for (std::uint64_t i = t.index(); i < a.count; i += t.stride()) {
      // Unsigned, because it may wrap around.
      const unsigned x = static_cast<unsigned>(a.x[i]) * static_cast<unsigned>(a.factor);
      a.x[i] = static_cast<int>(x + static_cast<unsigned>(a.summand));
    }
  }
};

struct OtherAffine : Free {
  static constexpr const char* name = "other_affine";
  using Args = AffineArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) { Affine::body(t, a); }
};

struct DeclaredAffine : Free {
  static constexpr const char* name = "declared_affine";
  using Args = AffineArgs;
  static Accesses accesses(const Args& a) { return Accesses().writes(a.x, a.count); }
  ATTACCA_HD static void body(Thread& t, const Args& a) { Affine::body(t, a); }
};

struct Sum : Free {
  static constexpr const char* name = "sum";
  using Args = SumArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    int total = a.more;
    for (unsigned at = 0; at < a.count; ++at) total += *a.in[at];
    *a.sum = total;
  }
};

ATTACCA_HD std::uint32_t packed(const Dim3& block, const Dim3& thread) {
  return block.x | block.y << 4 | block.z << 8 | thread.x << 12 | thread.y << 16 | thread.z << 20;
}

struct Stamp : Free {
  static constexpr const char* name = "stamp";
  using Args = StampArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const unsigned block = t.block.x + t.blocks.x * (t.block.y + t.blocks.y * t.block.z);
    const unsigned thread = t.thread.x + t.threads.x * (t.thread.y + t.threads.y * t.thread.z);
    const unsigned per_block = t.threads.x * t.threads.y * t.threads.z;
    a.out[block * per_block + thread] = a.first + packed(t.block, t.thread);
  }
};

struct TellAddress : Free {
  static constexpr const char* name = "tell_address";
  using Args = AddressArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) *a.out = reinterpret_cast<std::uint64_t>(a.of);
  }
};

struct CountThreads : Free {
  static constexpr const char* name = "count_threads";
  using Args = CountThreadsArgs;
  ATTACCA_HD static void body(Thread&, const Args& a) { fetch_add(*a.cell, 1); }
};

struct SetCondition : Free {
  static constexpr const char* name = "set_condition";
  using Args = SetConditionArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) a.condition.set(a.value);
  }
};

struct NextCondition : Free {
  static constexpr const char* name = "next_condition";
  using Args = NextConditionArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) a.condition.set(a.values[(*a.at)++]);
  }
};

struct CountDown : Free {
  static constexpr const char* name = "count_down";
  using Args = CountDownArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    *a.left -= 1;
    a.again.set(*a.left != 0);
  }
};

struct StopAtZero : Free {
  static constexpr const char* name = "stop_at_zero";
  using Args = CountDownArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    *a.left -= 1;
    if (*a.left == 0) a.again.set(0);
  }
};

struct Produce : Free {
  static constexpr const char* name = "produce";
  using Args = SetArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.release_consumers();
    if (t.is_first()) *a.to = a.value;
  }
};

struct Consume : Free {
  static constexpr const char* name = "consume";
  static constexpr bool waits = true;
  using Args = ConsumeArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.wait_for_producers();
    if (t.is_first()) *a.to = *a.from + 1;
  }
};

struct Rewrite : Free {
  static constexpr const char* name = "rewrite";
  static constexpr bool waits = true;
  using Args = RewriteArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.release_consumers();
    t.wait_for_producers();
    for (std::uint64_t i = t.index(); i < a.count; i += t.stride()) a.x[i] = a.value;
  }
};

struct ReadAgain : Free {
  static constexpr const char* name = "read_again";
  static constexpr bool waits = true;
  using Args = ReadAgainArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.release_consumers();
    t.wait_for_producers();
    int wrong = 0;
    for (unsigned pass = 0; pass < a.passes; ++pass) {
      for (unsigned i = t.thread.x; i < a.count; i += t.threads.x) wrong += a.x[i] != a.value;
      asm volatile("" ::: "memory");  // else the compiler would read it only once
    }
    a.wrong[t.index()] += wrong;
  }
};

struct Crowd : Free {
  static constexpr const char* name = "crowd";
  static constexpr bool waits = true;
  using Args = CrowdArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    constexpr unsigned kAtOnce = 16;
    t.release_consumers();
    std::uint32_t sum = 0;
    for (std::uint64_t i = t.index(); i < a.count; i += kAtOnce * t.stride()) {
      std::uint32_t some[kAtOnce];
      for (unsigned k = 0; k < kAtOnce; ++k)
        some[k] = i + k * t.stride() < a.count ? a.x[i + k * t.stride()] : 0;
      for (unsigned k = 0; k < kAtOnce; ++k) sum += some[k];
    }
    t.wait_for_producers();
    a.sums[t.index()] = sum;
  }
};

struct ForgetToWait : Free {
  static constexpr const char* name = "forget_to_wait";
  static constexpr bool waits = true;
  using Args = ConsumeArgs;
  ATTACCA_HD static void body(Thread&, const Args&) {}
};

struct LaunchOne : Free {
  static constexpr const char* name = "launch";
  using Args = LaunchArgs;
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    tally(a.tally, t.launch(a.graph, a.mode));
  }
};

struct LaunchMany : Free {
  static constexpr const char* name = "launch_many";
  using Args = LaunchManyArgs;
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    for (unsigned at = 0; at < a.count; ++at) tally(a.tally, t.launch(a.graphs[at], a.mode));
  }
};

struct Relaunch : Free {
  static constexpr const char* name = "relaunch";
  using Args = RelaunchArgs;
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    if (!t.is_first() || *a.left == 0) return;
    *a.left -= 1;
    for (unsigned at = 0; at < a.times; ++at) tally(a.tally, t.relaunch_self());
  }
};

struct Linger : Free {
  static constexpr const char* name = "linger";
  using Args = LingerArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.block.x != a.block || t.thread.x != 0) return;
    const std::uint64_t since = device::NativeMemory::now();
    while (device::NativeMemory::now() - since < *a.nanoseconds) {
    }
  }
};

struct RaiseFlag : Free {
  static constexpr const char* name = "raise_flag";
  using Args = RaiseArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) fetch_add(*a.flag, 1);
  }
};

struct AwaitFlag : Free {
  static constexpr const char* name = "await_flag";
  using Args = AwaitArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    for (unsigned tries = 0; tries < 1000000; ++tries) {
      if (fetch_add(*a.flag, 0) != 0) {
        *a.was_raised = 1;
        return;
      }
#if defined(__CUDA_ARCH__)
      __nanosleep(1000);
#else
      std::this_thread::yield();
#endif
    }
    *a.was_raised = 0;
  }
};

struct UpdateArgs : Free {
  static constexpr const char* name = "update_args";
  using Args = UpdateArgsArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first() && (!a.only_if || *a.only_if)) a.node.set(a.args);
  }
};

struct UpdateBlocks : Free {
  static constexpr const char* name = "update_blocks";
  using Args = UpdateBlocksArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) a.node.set_blocks(Dim3{a.blocks, 1, 1});
  }
};

struct UpdateEnabled : Free {
  static constexpr const char* name = "update_enabled";
  using Args = UpdateEnabledArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) a.node.set_enabled(a.is_enabled != 0);
  }
};

struct GiveUp {
  static constexpr const char* name = "give up";
  static constexpr const char* waits_for[] = {"a letter"};
  using Args = GiveUpArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(WaitingThread& t, const Args& a) {
    if (a.block == kEveryBlock || a.block == t.block.x) t.give_up(0, a.wanted, a.seen, 1000);
  }
};

struct LoseSource {
  static constexpr const char* name = "lose source";
  using Args = LoseSourceArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(WaitingThread& t, const Args& a) { t.source_broke(a.source); }
};

struct ThrowOnHost : Free {
  static constexpr const char* name = "throw_on_host";
  using Args = NothingArgs;
  static void host(const Grid&, const Args&) { throw std::runtime_error("the body gave up"); }
  ATTACCA_DEVICE static void cuda(Thread&, const Args&) {}
};

struct Mix : Free {
  static constexpr const char* name = "mix";
  using Args = MixArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    std::uint32_t hash = mix_in(a.cells[a.self], a.salt);
    for (unsigned at = 0; at < a.count; ++at) hash = mix_in(hash, a.cells[a.reads[at]]);
    a.cells[a.self] = hash;
  }
};

struct MixWaiting : Free {
  static constexpr const char* name = "mix_waiting";
  static constexpr bool waits = true;
  using Args = MixArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.wait_for_producers();
    Mix::body(t, a);
  }
};

struct Choose : Free {
  static constexpr const char* name = "choose";
  using Args = ChooseArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) a.condition.set(a.cells[a.from] % a.modulo);
  }
};

struct CountPass : Free {
  static constexpr const char* name = "count_pass";
  using Args = PassArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    a.cells[a.counter] += 1;
    a.again.set(a.cells[a.counter] % a.passes != 0);
  }
};

}  // namespace

const Kernel<NoteArgs> note = make_kernel<Note>();
PersistentProgram make_affine_and_count_down() { return make_persistent<Affine, CountDown>(); }

const Kernel<SetArgs> set_value = make_kernel<SetValue>();
const Kernel<AffineArgs> affine = make_kernel<Affine>();
const Kernel<AffineArgs> other_affine = make_kernel<OtherAffine>();
const Kernel<AffineArgs> declared_affine = make_kernel<DeclaredAffine>();
const Kernel<SumArgs> sum = make_kernel<Sum>();
const Kernel<StampArgs> stamp = make_kernel<Stamp>();
const Kernel<AddressArgs> tell_address = make_kernel<TellAddress>();
const Kernel<CountThreadsArgs> count_threads = make_kernel<CountThreads>();
const Kernel<SetConditionArgs> set_condition = make_kernel<SetCondition>();
const Kernel<NextConditionArgs> next_condition = make_kernel<NextCondition>();
const Kernel<CountDownArgs> count_down = make_kernel<CountDown>();
const Kernel<CountDownArgs> stop_at_zero = make_kernel<StopAtZero>();
const Kernel<SetArgs> produce = make_kernel<Produce>();
const Kernel<ConsumeArgs> consume = make_kernel<Consume>();
const Kernel<RewriteArgs> rewrite = make_kernel<Rewrite>();
const Kernel<ReadAgainArgs> read_again = make_kernel<ReadAgain>();
const Kernel<CrowdArgs> crowd = make_kernel<Crowd>();
const Kernel<ConsumeArgs> forget_to_wait = make_kernel<ForgetToWait>();
const Kernel<LaunchArgs> launch = make_kernel<LaunchOne>();
const Kernel<LaunchManyArgs> launch_many = make_kernel<LaunchMany>();
const Kernel<RelaunchArgs> relaunch = make_kernel<Relaunch>();
const Kernel<RaiseArgs> raise_flag = make_kernel<RaiseFlag>();
const Kernel<AwaitArgs> await_flag = make_kernel<AwaitFlag>();
const Kernel<UpdateArgsArgs> update_args = make_kernel<UpdateArgs>();
const Kernel<UpdateBlocksArgs> update_blocks = make_kernel<UpdateBlocks>();
const Kernel<UpdateEnabledArgs> update_enabled = make_kernel<UpdateEnabled>();
const Kernel<GiveUpArgs> give_up = make_kernel<GiveUp>();
const Kernel<LoseSourceArgs> lose_source = make_kernel<LoseSource>();
const Kernel<NothingArgs> throw_on_host = make_kernel<ThrowOnHost>();
const Kernel<MixArgs> mix = make_kernel<Mix>();
const Kernel<MixArgs> mix_waiting = make_kernel<MixWaiting>();
const Kernel<ChooseArgs> choose = make_kernel<Choose>();
const Kernel<PassArgs> count_pass = make_kernel<CountPass>();
const Kernel<LingerArgs> linger = make_kernel<Linger>();

const PersistentProgram affine_and_count_down = make_affine_and_count_down();
const PersistentProgram affine_and_stop_at_zero = make_persistent<Affine, StopAtZero>();
const PersistentProgram linger_and_count_down = make_persistent<Linger, CountDown>();

std::uint32_t stamp_of(const Dim3& block, const Dim3& thread) { return packed(block, thread); }

}  // namespace attacca::test
