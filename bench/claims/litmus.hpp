// litmus.hpp: three classic tests of a memory model, written once over attacca's atomics: for
// blocks of a GPU (litmus.cu and tests/support/litmus_kernels.cpp) and for two threads of the host.
//
//   message passing: x=1; y=1    | r1=y; r2=x    never r1=1, r2=0
//   store buffering: x=1; r1=y   | y=1;  r2=x    never r1=0, r2=0
//   load buffering:  r1=y; x=1   | r2=x; y=1     never r1=1, r2=1
//
// "1" is the number of the round, which grows, so nothing is reset between rounds: a read that
// finds an older number found "0".
#pragma once

#include <attacca/device/wait.hpp>
#include <cstddef>
#include <thread>
#include <type_traits>

namespace bench::litmus {

using attacca::device::Atomic;
using attacca::device::Scope;

enum class Pattern : std::uint8_t { message_passing, store_buffering, load_buffering };

/// How x and y are accessed. In message passing x is the data behind a flag: it is accessed plainly
/// unless one of the last four says otherwise.
enum class Form : std::uint8_t {
  plain,
  volatile_access,
  relaxed,
  seq_cst,
  relaxed_flag,     // message passing only
  release_acquire,  // all writes and all reads
  fences,           // relaxed, with an acq_rel fence between
  block_scope,      // release_acquire for threads of one block
};
enum class Place : std::uint8_t { two_blocks, one_block };

/// Which outcome, r1 * 2 + r2, contradicts the order in which the code is written.
constexpr unsigned weak_outcome(Pattern pattern) {
  return pattern == Pattern::message_passing ? 2 : pattern == Pattern::store_buffering ? 0 : 3;
}
/// Whether the memory model rules that outcome out.
constexpr bool is_forbidden(Pattern pattern, Form form, Place place) {
  if (form == Form::seq_cst) return true;
  if (pattern == Pattern::store_buffering) return false;
  return form == Form::release_acquire || form == Form::fences ||
         (form == Form::block_scope && place == Place::one_block);
}

/// Each round of an instance uses the next of its slots: more of them than a first-level cache
/// holds, so that only some reads find an old line there.
inline constexpr std::uint32_t kSlots = 4;
inline constexpr std::size_t kLineBytes = 128;
constexpr std::size_t line_bytes(std::uint32_t instances) {
  return kLineBytes * instances * (2 + 2 * std::size_t{kSlots});
}

/// Blocks and threads on a GPU: few enough to run all at once, blocks a power of two.
inline constexpr std::uint32_t kBlocks = 256;
inline constexpr std::uint32_t kThreads = 256;
inline constexpr std::uint32_t kInstances = kBlocks * kThreads / 2;

using Counter = Atomic<std::uint64_t, Scope::gpu>;
struct Args {
  std::byte* lines;         // line_bytes(instances) zero bytes
  Counter* histogram;       // [4], by outcome; added to
  std::uint32_t instances;  // pairs of threads
  std::uint32_t rounds;
  std::uint32_t salt;  // shuffles roles and delays
  Place place;
};

namespace detail {

constexpr Scope scope_of(Form form) {
  return form == Form::block_scope ? Scope::block : Scope::gpu;
}
template <Form kForm>
using Word = Atomic<std::uint32_t, scope_of(kForm)>;

// Plain and volatile accesses, opaque to the compiler. On the host, where racing ones would be
// undefined, they are relaxed.
template <bool kIsVolatile, class W>
ATTACCA_HD void put_raw(W& word, std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  if constexpr (kIsVolatile)
    asm volatile("st.volatile.u32 [%0], %1;" ::"l"(&word), "r"(value) : "memory");
  else
    asm volatile("st.weak.u32 [%0], %1;" ::"l"(&word), "r"(value) : "memory");
#else
  word.store(value, attacca::device::relaxed);
#endif
}
template <bool kIsVolatile, class W>
ATTACCA_HD std::uint32_t get_raw(const W& word) {
#if defined(__CUDA_ARCH__)
  std::uint32_t value;
  if constexpr (kIsVolatile)
    asm volatile("ld.volatile.u32 %0, [%1];" : "=r"(value) : "l"(&word) : "memory");
  else
    asm volatile("ld.weak.u32 %0, [%1];" : "=r"(value) : "l"(&word) : "memory");
  return value;
#else
  return word.load(attacca::device::relaxed);
#endif
}

template <Form kForm>
ATTACCA_HD void put(Word<kForm>& word, std::uint32_t value) {
  if constexpr (kForm == Form::plain || kForm == Form::volatile_access)
    put_raw<kForm == Form::volatile_access>(word, value);
  else if constexpr (kForm == Form::seq_cst)
    word.store(value, attacca::device::seq_cst);
  else if constexpr (kForm == Form::release_acquire || kForm == Form::block_scope)
    word.store(value, attacca::device::release);
  else
    word.store(value, attacca::device::relaxed);
}
template <Form kForm>
ATTACCA_HD std::uint32_t get(const Word<kForm>& word) {
  if constexpr (kForm == Form::plain || kForm == Form::volatile_access)
    return get_raw<kForm == Form::volatile_access>(word);
  else if constexpr (kForm == Form::seq_cst)
    return word.load(attacca::device::seq_cst);
  else if constexpr (kForm == Form::release_acquire || kForm == Form::block_scope)
    return word.load(attacca::device::acquire);
  else
    return word.load(attacca::device::relaxed);
}
template <Form kForm>
ATTACCA_HD void between() {
  if constexpr (kForm == Form::fences)
    attacca::device::fence<scope_of(kForm)>(attacca::device::acq_rel);
}

/// Plays one side of one round. Returns r1 * 2 + r2 of what this side read.
template <Pattern kPattern, Form kForm>
ATTACCA_HD unsigned play_side(unsigned side, Word<kForm>& x, Word<kForm>& y, std::uint32_t round) {
  [[maybe_unused]] Word<kForm>& mine = side == 0 ? x : y;
  [[maybe_unused]] Word<kForm>& theirs = side == 0 ? y : x;
  if constexpr (kPattern == Pattern::message_passing) {
    constexpr bool kIsDataPlain = kForm >= Form::relaxed_flag;
    if (side == 0) {
      kIsDataPlain ? put_raw<false>(x, round) : put<kForm>(x, round);
      between<kForm>();
      put<kForm>(y, round);
      return 0;
    }
    const std::uint32_t r1 = get<kForm>(y);
    between<kForm>();
    const std::uint32_t r2 = kIsDataPlain ? get_raw<false>(x) : get<kForm>(x);
    return unsigned{r1 >= round} << 1 | unsigned{r2 >= round};
  } else if constexpr (kPattern == Pattern::store_buffering) {
    put<kForm>(mine, round);
    between<kForm>();
    return unsigned{get<kForm>(theirs) >= round} << (1 - side);
  } else {
    const std::uint32_t read = get<kForm>(theirs);
    between<kForm>();
    put<kForm>(mine, round);
    return unsigned{read >= round} << (1 - side);
  }
}

ATTACCA_HD inline std::uint32_t mixed(std::uint32_t a, std::uint32_t b) {
  std::uint32_t hash = (a ^ b * 0x9e3779b1u) * 0x85ebca6bu;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
  return hash ^ hash >> 16;
}
/// Delays by an amount from the hash: from nothing up to about a round trip.
ATTACCA_HD inline void linger(std::uint32_t hash) {
  for (std::uint32_t turns = hash >> 8 & ((1u << (hash & 7)) - 1); turns > 0; --turns) {
    hash = mixed(hash, turns);
    asm volatile("" : "+r"(hash));
  }
}

}  // namespace detail

/// One side of one instance, all rounds. The rounds start together: each side says that it has
/// arrived, with its outcome of the two rounds before, and waits for the other with relaxed
/// accesses, so that this adds no order. A side that waits too long leaves; the rounds played are
/// counted.
template <Pattern kPattern, Form kForm>
ATTACCA_HD void play(const Args& a, unsigned side, std::uint32_t instance) {
  using attacca::device::relaxed;
  using Arrival = Atomic<std::uint32_t, Scope::gpu>;
  using Word = detail::Word<kForm>;
  const auto line = [&](std::uint32_t which) {
    return a.lines + (std::size_t{which} * a.instances + instance) * kLineBytes;
  };
  auto& here = *reinterpret_cast<Arrival*>(line(side));
  const auto& there = *reinterpret_cast<const Arrival*>(line(1 - side));
  constexpr attacca::device::Patience kPatience{2'000'000'000, nullptr, nullptr, 0, 0};

  std::uint32_t counts[4] = {0, 0, 0, 0};
  unsigned mine = 0;
  std::uint32_t history = 0;  // r1 of the last round, and above it of the one before
  for (std::uint32_t round = 1;; ++round) {
    here.store(round << 2 | history, relaxed);
    std::uint32_t seen = 0;
    const bool is_there = attacca::device::detail::wait_for<attacca::device::NativeMemory>(
        kPatience, round,
        [&] {
          seen = there.load(relaxed);
          return seen >> 2 >= round;
        },
        [&] { return std::uint64_t{seen}; });
    if (!is_there) break;
    if (side == 1 && round > 1) {
      // The other side may have finished this round already; then its value has moved on.
      const unsigned theirs = (seen >> 2 == round ? seen : seen >> 1) & 1;
      for (unsigned outcome = 0; outcome < 4; ++outcome)
        counts[outcome] += (theirs << 1 | mine) == outcome;
    }
    if (round > a.rounds) break;
    // By warp, since the lanes of one proceed together.
    detail::linger(detail::mixed(a.salt + side, (instance >> 5) + round * 0x10001u));
    const std::uint32_t slot = 2 + 2 * (round % kSlots);
    mine = detail::play_side<kPattern, kForm>(side, *reinterpret_cast<Word*>(line(slot)),
                                              *reinterpret_cast<Word*>(line(slot + 1)), round);
    history = (history << 1 | mine >> 1) & 3;
  }
  for (unsigned outcome = 0; outcome < 4; ++outcome)
    if (counts[outcome] != 0) a.histogram[outcome].fetch_add(counts[outcome], relaxed);
}

#if defined(__CUDACC__)
/// One thread of a grid of kBlocks of kThreads.
template <Pattern kPattern, Form kForm>
__device__ void play_in_grid(const Args& a) {
  const bool is_one_block = a.place == Place::one_block;
  // An odd factor permutes the numbers below a power of two: any block can be any side.
  const unsigned place = (blockIdx.x * (a.salt | 1) + (a.salt >> 16)) & (gridDim.x - 1);
  const unsigned pairs = is_one_block ? blockDim.x / 2 : blockDim.x;  // of a block, or of two
  const unsigned half = gridDim.x / 2;
  const unsigned side = is_one_block ? threadIdx.x / pairs : place / half;
  const unsigned lane_turn = side == 0 ? 0 : a.salt & 31;
  const unsigned group = is_one_block ? blockIdx.x : place % half;
  play<kPattern, kForm>(a, side, group * pairs + (threadIdx.x % pairs ^ lane_turn));
}
#endif

/// The same on the host, by two threads.
template <Pattern kPattern, Form kForm>
void play_on_threads(const Args& a) {
  const auto play_all = [&a](unsigned side) {
    for (std::uint32_t instance = 0; instance < a.instances; ++instance)
      play<kPattern, kForm>(a, side, instance);
  };
  std::thread other(play_all, 0);
  play_all(1);
  other.join();
}

/// The __global__ function, which takes Args. Defined in litmus.cu, so in CUDA builds only.
const void* kernel_of(Pattern pattern, Form form);

/// Calls `visit` with both as values whose types hold them.
template <class Visit>
auto with(Pattern pattern, Form form, Visit visit) {
  const auto by_form = [&](auto known) {
    switch (form) {
      case Form::plain:
        return visit(known, std::integral_constant<Form, Form::plain>{});
      case Form::volatile_access:
        return visit(known, std::integral_constant<Form, Form::volatile_access>{});
      case Form::relaxed:
        return visit(known, std::integral_constant<Form, Form::relaxed>{});
      case Form::seq_cst:
        return visit(known, std::integral_constant<Form, Form::seq_cst>{});
      case Form::relaxed_flag:
        return visit(known, std::integral_constant<Form, Form::relaxed_flag>{});
      case Form::release_acquire:
        return visit(known, std::integral_constant<Form, Form::release_acquire>{});
      case Form::fences:
        return visit(known, std::integral_constant<Form, Form::fences>{});
      default:
        return visit(known, std::integral_constant<Form, Form::block_scope>{});
    }
  };
  switch (pattern) {
    case Pattern::message_passing:
      return by_form(std::integral_constant<Pattern, Pattern::message_passing>{});
    case Pattern::store_buffering:
      return by_form(std::integral_constant<Pattern, Pattern::store_buffering>{});
    default:
      return by_form(std::integral_constant<Pattern, Pattern::load_buffering>{});
  }
}

}  // namespace bench::litmus
