// queue_kernels.cpp: the kernels of queue_kernels.hpp. Compiled by nvcc in a CUDA build.
#include "claims/queue_kernels.hpp"

namespace bench::claims {

namespace {

using attacca::Cost;
using attacca::Team;
using attacca::Thread;
using namespace attacca::device;

constexpr std::uint32_t kRefill = 1024;

/// The team that works on one item, as one of its threads sees it. On the host a thread is a
/// worker.
template <Team kTeam>
struct Crew {
  std::uint64_t index;
  std::uint64_t count;
  unsigned rank;

  ATTACCA_HD explicit Crew(const Thread& t) {
#if defined(__CUDA_ARCH__)
    const unsigned size = kTeam == Team::block ? t.threads.x : 32;
    index = t.index() / size;
    count = t.stride() / size;
    rank = t.thread.x % size;
#else
    index = t.index();
    count = t.stride();
    rank = 0;
#endif
  }
};
ATTACCA_HD unsigned lane_of(const Thread& t) { return Crew<Team::warp>(t).rank; }

/// All threads do the turns, and the first stores the result.
ATTACCA_HD void do_item(const Load& load, std::uint64_t item, unsigned rank) {
  std::uint32_t number = churned(rank, load.turns[item]);
  asm volatile("" : "+r"(number));
  if (rank == 0) load.out[item] = number;
}

template <Team kTeam>
struct OneEach {
  static constexpr const char* name = kTeam == Team::block ? "one block each" : "one warp each";
  using Args = Load;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const Crew<kTeam> crew(t);
    if (crew.index < a.items) do_item(a, crew.index, crew.rank);
  }
};

template <Team kTeam>
struct StaticParts {
  static constexpr const char* name = "static parts";
  static constexpr bool is_persistent = true;
  using Args = StaticArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const Crew<kTeam> crew(t);
    const std::uint64_t items = a.load.items;
    if (a.is_strided) {
      for (std::uint64_t item = crew.index; item < items; item += crew.count)
        do_item(a.load, item, crew.rank);
    } else {
      for (std::uint64_t item = crew.index * items / crew.count;
           item < (crew.index + 1) * items / crew.count; ++item)
        do_item(a.load, item, crew.rank);
    }
  }
};

template <Team kTeam>
struct TakeTickets {
  static constexpr const char* name = "ticket workers";
  static constexpr Team team = kTeam;
  using Item = std::uint64_t;
  using Args = Load;
  static Cost cost(const Args&) { return {}; }
  template <class Worker>
  ATTACCA_HD static void work(Worker& worker, const Item& item, const Args& a) {
    do_item(a, item, worker.rank());
  }
};

struct TwoLevel {
  static constexpr const char* name = "two-level tickets";
  using Args = TwoLevelArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
#if defined(__CUDA_ARCH__)
    __shared__ LocalTickets<kRefill> local;
    if (t.thread.x == 0) local.reset();
    __syncthreads();
    while (const Tickets got = local.claim_together(*a.counter, a.batch, a.load.items))
      for (std::uint32_t at = 0; at < got.count; ++at) do_item(a.load, got.first + at, lane_of(t));
#else
    while (const Tickets got = a.counter->claim(a.batch, a.load.items))
      for (std::uint32_t at = 0; at < got.count; ++at) do_item(a.load, got.first + at, lane_of(t));
#endif
  }
};

struct ClaimOnly {
  static constexpr const char* name = "claim only";
  using Args = ClaimArgs;
  static Cost cost(const Args&) { return {}; }
  static void host(const attacca::Grid&, const Args& a) {
    while (const Tickets got = a.counter->claim(a.batch, a.limit)) *a.claimed += got.count;
  }
#if defined(__CUDACC__)
  __device__ static void cuda(Thread& t, const Args& a) {
    __shared__ LocalTickets<kRefill> local;
    __shared__ std::uint64_t slot;
    if (t.thread.x == 0) local.reset();
    __syncthreads();
    const bool is_first_lane = t.thread.x % 32 == 0;
    const bool counts = a.by == ClaimBy::thread || a.by == ClaimBy::lanes ||
                        (a.by == ClaimBy::block ? t.thread.x == 0 : is_first_lane);
    std::uint64_t mine = 0;
    for (;;) {
      Tickets got;
      switch (a.by) {
        case ClaimBy::thread:
          got = a.counter->claim(a.batch, a.limit);
          break;
        case ClaimBy::lanes:
          got = a.counter->claim_each(a.limit);
          break;
        case ClaimBy::warp:
          got = a.counter->claim_together(a.batch, a.limit);
          break;
        case ClaimBy::block:
          got = a.counter->claim_block(a.batch, a.limit, slot);
          break;
        case ClaimBy::local:
          got = local.claim_together(*a.counter, a.batch, a.limit);
          break;
      }
      if (!got) break;
      if (counts) mine += got.count;
    }
    if (mine) atomicAdd(a.claimed, static_cast<unsigned long long>(mine));
  }
#endif
};

struct ModuloPlain {
  static constexpr const char* name = "modulo, plain";
  using Args = ModuloArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const std::uint64_t at = t.index();
    if (at < a.count) a.out[at] = churned(0, static_cast<std::uint32_t>(at % 256));
  }
};
struct ModuloQueue {
  static constexpr const char* name = "modulo, queue";
  using Args = ModuloArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread&, const Args& a) {
    while (const Tickets got = a.counter->claim_each(a.count))
      a.out[got.first] = churned(0, static_cast<std::uint32_t>(got.first % 256));
  }
};

struct PassThrough {
  static constexpr const char* name = "pass through";
  using Args = PassArgs;
  static Cost cost(const Args&) { return {}; }
  static void host(const attacca::Grid&, const Args& a) {
    for (unsigned round = 0; round < a.rounds; ++round) {
      std::uint32_t item = 0;
      if (a.queue.try_push(round) != Push::done || a.queue.try_pop(item) != Pop::done) return;
      a.queue.done();
      *a.sum += item;
      ++*a.passed;
    }
  }
#if defined(__CUDACC__)
  __device__ static void cuda(Thread& t, const Args& a) {
    if (t.thread.x % 32 >= a.lanes) return;
    std::uint64_t sum = 0;
    unsigned passed = 0;
    for (unsigned round = 0; round < a.rounds; ++round) {
      if (a.queue.push(round) != Push::done) break;
      std::uint32_t item = 0;
      Pop state = Pop::empty;
      while (state == Pop::empty) state = a.queue.try_pop(item);
      if (state != Pop::done) break;
      a.queue.done();
      sum += item;
      ++passed;
    }
    atomicAdd(a.passed, static_cast<unsigned long long>(passed));
    atomicAdd(a.sum, static_cast<unsigned long long>(sum));
  }
#endif
};

}  // namespace

const attacca::Kernel<Load> one_warp_each = attacca::make_kernel<OneEach<Team::warp>>();
const attacca::Kernel<StaticArgs> static_parts = attacca::make_kernel<StaticParts<Team::warp>>();
const attacca::TicketWorkers<Load> ticket_workers =
    attacca::make_ticket_workers<TakeTickets<Team::warp>>();
const attacca::Kernel<Load> one_block_each = attacca::make_kernel<OneEach<Team::block>>();
const attacca::Kernel<StaticArgs> static_block_parts =
    attacca::make_kernel<StaticParts<Team::block>>();
const attacca::TicketWorkers<Load> ticket_blocks =
    attacca::make_ticket_workers<TakeTickets<Team::block>>();
const attacca::Kernel<TwoLevelArgs> two_level = attacca::make_kernel<TwoLevel>();
const attacca::Kernel<ClaimArgs> claim_only = attacca::make_kernel<ClaimOnly>();
const attacca::Kernel<ModuloArgs> modulo_plain = attacca::make_kernel<ModuloPlain>();
const attacca::Kernel<ModuloArgs> modulo_queue = attacca::make_kernel<ModuloQueue>();
const attacca::Kernel<PassArgs> pass_through = attacca::make_kernel<PassThrough>();

}  // namespace bench::claims
