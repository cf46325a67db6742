// signal_kernels.cpp: the bodies of kernels that pass messages with signals.
#include "support/signal_kernels.hpp"

#include <thread>
#include <vector>

namespace attacca::test {

namespace {

using device::Scope;
using device::Signal;

unsigned worker_count(const Grid& grid) { return grid.blocks.x * (grid.threads.x / 32); }

/// Makes a kernel of K::work(worker, args).
template <class K, class ArgsType>
struct OfWorkers {
  using Args = ArgsType;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 4}; }
  static void host(const Grid& grid, const Args& a) {
    std::vector<std::thread> threads;
    for (unsigned worker = 0; worker < worker_count(grid); ++worker)
      threads.emplace_back([worker, &a] { K::work(worker, a); });
    for (std::thread& thread : threads) thread.join();
  }
#if defined(__CUDACC__)
  __device__ static unsigned this_worker(const Thread& t) {
    return t.block.x * (t.threads.x / 32) + t.thread.x / 32;
  }
  __device__ static void cuda(Thread& t, const Args& a) {
    if (t.thread.x % 32 == 0) K::work(this_worker(t), a);
  }
#endif
};

template <Scope kScope>
struct Relay : OfWorkers<Relay<kScope>, RelayArgs<kScope>> {
  static constexpr const char* name = "relay";
  ATTACCA_HD static void work(unsigned worker, const RelayArgs<kScope>& a) {
    relay_side(a.first_side + worker, a);
  }
};

struct RelayInShared : OfWorkers<RelayInShared, RelayArgs<Scope::block>> {
  static constexpr const char* name = "relay_in_shared";
  ATTACCA_HD static Args with(Signal<Scope::block>* signals, const Args& a) {
    Args own = a;
    own.there = &signals[0];
    own.back = &signals[1];
    return own;
  }
  static void host(const Grid& grid, const Args& a) {
    Signal<Scope::block> signals[2]{};
    OfWorkers<Relay<Scope::block>, Args>::host(grid, with(signals, a));
  }
#if defined(__CUDACC__)
  __device__ static void cuda(Thread& t, const Args& a) {
    __shared__ Signal<Scope::block> signals[2];
    if (t.thread.x < 2) signals[t.thread.x].publish(0);
    __syncthreads();
    if (t.thread.x % 32 == 0) relay_side(a.first_side + t.thread.x / 32, with(signals, a));
  }
#endif
};

struct FanOut : OfWorkers<FanOut, FanOutArgs> {
  static constexpr const char* name = "fan_out";
  ATTACCA_HD static void work(unsigned worker, const FanOutArgs& a) {
    if (worker == 0) {
      *a.payload = a.value * 7;
      Signal<Scope::gpu>::publish_all(a.value, a.signals[0], a.signals[1], a.signals[2]);
    } else if (a.signals[worker - 1].wait(a.value, a.patience)) {
      a.seen[worker - 1] = *a.payload;
    }
  }
};

struct Gather : OfWorkers<Gather, GatherArgs> {
  static constexpr const char* name = "gather";
  ATTACCA_HD static void work(unsigned worker, const GatherArgs& a) {
    if (worker > 0) {
      a.numbers[worker] = worker;
      a.signal->raise();
    } else if (a.signal->wait(a.workers - 1, a.patience)) {
      std::uint32_t sum = 0;
      for (std::uint32_t from = 1; from < a.workers; ++from) sum += a.numbers[from];
      *a.sum = sum;
    }
  }
};

struct AwaitValue : OfWorkers<AwaitValue, AwaitValueArgs> {
  static constexpr const char* name = "await_value";
  ATTACCA_HD static void work(unsigned worker, const AwaitValueArgs& a) {
    a.was_there[worker] = a.signal->wait(a.value, a.patience) && a.signal->is_at(a.value);
  }
  static void host(const Grid& grid, const AwaitValueArgs& a) {
    for (unsigned worker = 0; worker < worker_count(grid); ++worker) work(worker, a);
  }
};

}  // namespace

template <Scope kScope>
Kernel<RelayArgs<kScope>> relay() {
  return make_kernel<Relay<kScope>>();
}
template Kernel<RelayArgs<Scope::block>> relay<Scope::block>();
template Kernel<RelayArgs<Scope::cluster>> relay<Scope::cluster>();
template Kernel<RelayArgs<Scope::gpu>> relay<Scope::gpu>();
template Kernel<RelayArgs<Scope::system>> relay<Scope::system>();

const Kernel<RelayArgs<Scope::block>> relay_in_shared = make_kernel<RelayInShared>();
const Kernel<FanOutArgs> fan_out = make_kernel<FanOut>();
const Kernel<GatherArgs> gather = make_kernel<Gather>();
const Kernel<AwaitValueArgs> await_value = make_kernel<AwaitValue>();

}  // namespace attacca::test
