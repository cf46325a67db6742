// workers.hpp: persistent workers: a kernel that stays on the device and takes items from a queue
// or a counter until that is finished. Its grid is as large as fits at once, whatever the amount of
// work, so long and short items balance. The work is declared once:
//
//   struct Shade {
//     static constexpr const char* name = "shade";
//     static constexpr Team team = Team::block;  // who works on one item: thread, warp or block
//     using Item = Tile;
//     struct Args { Pixel* image; };
//     static Cost cost(const Args&) { return {}; }
//     template <class Worker>
//     ATTACCA_HD static void work(Worker& worker, const Item& item, const Args& args) {
//       for (unsigned at = worker.rank(); at < item.pixels; at += worker.size()) …
//     }
//   };
//   const QueueWorkers<Tile, Shade::Args> shade = make_queue_workers<Shade>();
//   shade.start(stream, queue.ref(), {image});
//
// `worker` has rank(), size(), sync(), push(item) and is_cancelled(), with which a long item can
// stop once the queue was cancelled. Between claims workers check that by themselves.
//
// As for kernels, the file that calls make_ is compiled by nvcc in a CUDA build. On the host every
// worker is one thread.
#pragma once

#include <attacca/device.hpp>
#include <attacca/device/ticket_counter.hpp>
#include <attacca/device/work_queue.hpp>
#include <attacca/graph.hpp>

namespace attacca {

enum class Team : std::uint8_t { thread, warp, block };

/// Tickets 0 to `limit` - 1 of a counter that is zero at first.
struct TicketRange {
  device::TicketCounter* counter;
  std::uint64_t limit;
};

struct WorkerOptions {
  unsigned threads = 256;  // of a block, whole warps; one on the host
  unsigned blocks = 0;     // 0: as many as fit at once
  unsigned batch = 0;  // items a warp or block claims at a time, up to 1024; a queue gives out at
                       // most 32. 0: enough that the time to claim them does not matter
};

namespace detail {

/// Decides when a worker checks whether its queue was cancelled: between claims, and on a GPU
/// seldom enough that the time does not matter.
class CancelLook {
 public:
  ATTACCA_HD bool is_due() {
#if defined(__CUDA_ARCH__)
    const long long now = clock64();
    if (now - since_ < kCycles) return false;
    since_ = now;
#endif
    return true;
  }

 private:
#if defined(__CUDACC__)
  static constexpr long long kCycles = 65536;  // some 30 us
  long long since_ = -kCycles;
#endif
};

/// Items from a WorkQueue; workers may push more.
template <class ItemType>
struct QueueSource {
  using Item = ItemType;
  /// All claimed items are taken before work begins: work may push, and a push may wait for the
  /// place of an item that was claimed and not taken.
  static constexpr std::uint32_t kMostAtOnce = 32;
  using Claim = typename device::WorkQueueRef<Item>::Claim;
  device::WorkQueueRef<Item> queue;

  ATTACCA_HD device::Pop next(Item& item, CancelLook& look) const {
    if (look.is_due() && queue.is_cancelled()) return device::Pop::broken;
    return queue.pop(item);
  }
  ATTACCA_HD Claim claim(std::uint32_t count, device::Pop& otherwise, CancelLook& look) const {
    if (look.is_due() && queue.is_cancelled()) {
      otherwise = device::Pop::broken;
      return {};
    }
    return queue.wait_for_items(count, otherwise);
  }
  ATTACCA_HD bool take(std::uint64_t place, Item& item) const { return queue.take(place, item); }
  /// One thread calls, for itself or for all that worked on `count` items.
  ATTACCA_HD void done() const { queue.done(); }
  ATTACCA_HD void done(std::uint32_t count) const { queue.done(count); }
  ATTACCA_HD bool is_cancelled() const { return queue.is_cancelled(); }
  ATTACCA_HD void report_to(const WaitingThread& t) const { queue.report_to(t); }
};

/// The numbers of a TicketRange.
struct TicketSource {
  using Item = std::uint64_t;
  static constexpr std::uint32_t kMostAtOnce = 1024;
  using Claim = device::Tickets;
  TicketRange range;

  ATTACCA_HD device::Pop next(Item& item, CancelLook&) const {
    const device::Tickets ticket = range.counter->claim_each(range.limit);
    item = ticket.first;
    return ticket ? device::Pop::done : device::Pop::finished;
  }
  ATTACCA_HD Claim claim(std::uint32_t count, device::Pop& otherwise, CancelLook&) const {
    otherwise = device::Pop::finished;
    return range.counter->claim(count, range.limit);
  }
  ATTACCA_HD bool take(std::uint64_t place, Item& item) const {
    item = place;
    return true;
  }
  ATTACCA_HD void done() const {}
  ATTACCA_HD void done(std::uint32_t) const {}
  ATTACCA_HD bool is_cancelled() const { return false; }
  ATTACCA_HD void report_to(const WaitingThread&) const {}
};

/// The threads that work on one item together, from the view of one of them. `work` gets it.
template <class Source>
class Worker {
 public:
  ATTACCA_HD Worker(const Source& source, Team team) : source_(&source), team_(team) {}

  ATTACCA_HD unsigned rank() const {
#if defined(__CUDA_ARCH__)
    return team_ == Team::block ? threadIdx.x : team_ == Team::warp ? threadIdx.x % 32 : 0;
#else
    return 0;
#endif
  }
  ATTACCA_HD unsigned size() const {
#if defined(__CUDA_ARCH__)
    return team_ == Team::block ? blockDim.x : team_ == Team::warp ? 32 : 1;
#else
    return 1;
#endif
  }
  /// Waits for the other threads; all call.
  ATTACCA_HD void sync() const {
#if defined(__CUDA_ARCH__)
    if (team_ == Team::block) __syncthreads();
    if (team_ == Team::warp) __syncwarp();
#endif
  }
  /// Pushes new work; each thread that calls pushes an item. `full`: do it yourself.
  template <class Item>
  ATTACCA_HD device::Push push(const Item& item) const {
    return source_->queue.try_push(item);
  }
  /// Whether the queue was cancelled or broke: then a long item may stop. All threads of the team
  /// call, and get the same answer.
  ATTACCA_HD bool is_cancelled() const {
    const bool is_over = rank() == 0 && source_->is_cancelled();
#if defined(__CUDA_ARCH__)
    if (team_ == Team::block) return __syncthreads_or(is_over);
    if (team_ == Team::warp) return __any_sync(0xffffffffu, is_over);
#endif
    return is_over;
  }

 private:
  const Source* source_;
  Team team_;
};

template <class Source, class Args>
struct WorkLoopArgs {
  Source source;
  Args args;
  std::uint32_t batch;        // see WorkerOptions
  device::SiteRef site = {};  // records each claim's work, if a Tracer lives
};

/// The site of workers that are started while a Tracer of the device lives; else one that records
/// nothing. A graph of them keeps the ring.
device::SiteRef worker_site(const Device& device, const KernelInfo& kernel, Graph* graph = nullptr);

/// Throws BadArgument for options out of range or a grid that is not resident as a whole.
Grid worker_grid(const Device& device, const KernelInfo& kernel, const WorkerOptions& options);

#if defined(__CUDACC__)
/// How many items to claim: the number given, or one that adapts. It starts with one, so that long
/// items are shared out one by one, and doubles while a claim's work is short.
class BatchSize {
 public:
  __device__ BatchSize(std::uint32_t asked, std::uint32_t most)
      : is_adaptive_(asked == 0), most_(asked == 0 && kMostAdapted < most ? kMostAdapted : most) {
    now_ = is_adaptive_ ? 1 : asked < most_ ? asked : most_;
  }
  __device__ std::uint32_t next() {
    if (!is_adaptive_) return now_;
    const long long now = clock64();
    if (since_ != 0) {
      const long long cycles = now - since_;
      if (cycles < kEnough && now_ < most_) now_ *= 2;
      if (cycles > 4 * kEnough && now_ > 1) now_ /= 2;
    }
    since_ = now;
    return now_;
  }

 private:
  static constexpr long long kEnough = 65536;  // cycles: some 30 us, where a claim takes one
  static constexpr std::uint32_t kMostAdapted = 64;
  bool is_adaptive_;
  std::uint32_t most_;
  std::uint32_t now_;
  long long since_ = 0;  // the last claim
};
#endif

/// The kernel: takes items and calls `W` for them.
template <class W, class Source>
struct WorkLoop {
  using Item = typename Source::Item;
  static_assert(std::is_trivially_copyable_v<Item> && sizeof(Item) <= 256,
                "an item is a small plain value: pass a pointer to more");
  static constexpr std::uint32_t kChunk = 32;  // items in hand at a time, however many were claimed
  static constexpr const char* name = W::name;
  static constexpr bool is_persistent = true;
  using Args = WorkLoopArgs<Source, typename W::Args>;

  static Cost cost(const Args& a) { return W::cost(a.args); }

  ATTACCA_HD static void body(WaitingThread& t, const Args& a) {
#if defined(__CUDA_ARCH__)
    if constexpr (W::team == Team::block)
      run_block(a.source, a);
    else if constexpr (W::team == Team::warp)
      run_warp(a.source, a);
    else
#endif
      run_thread(a.source, a, static_cast<std::uint32_t>(t.index()));
    a.source.report_to(t);
  }

 private:
  ATTACCA_HD static void run_thread(const Source& source, const Args& a, std::uint32_t number) {
    Worker<Source> worker(source, Team::thread);
    CancelLook look;
    for (;;) {
      Item item{};
      const device::Pop state = source.next(item, look);
      if (state == device::Pop::done) {
        if (a.site) a.site.add(device::SiteEvent::begins, number);
        W::work(worker, item, a.args);
        if (a.site) a.site.add(device::SiteEvent::ends, number);
        source.done();
      } else if (state != device::Pop::empty) {
        return;
      }
    }
  }

#if defined(__CUDACC__)
  __device__ static void run_warp(const Source& source, const Args& a) {
    Worker<Source> worker(source, Team::warp);
    const unsigned lane = threadIdx.x % 32;
    BatchSize batch(a.batch, Source::kMostAtOnce);
    CancelLook look;
    for (;;) {
      typename Source::Claim claim;
      device::Pop state = device::Pop::empty;
      if (lane == 0) claim = source.claim(batch.next(), state, look);
      claim = device::from_lane(claim, 0);
      if (claim.count == 0) {
        if (device::from_lane(state, 0) == device::Pop::empty) continue;
        return;
      }
      const std::uint32_t number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
      if (a.site && lane == 0) a.site.add(device::SiteEvent::begins, number);
      for (unsigned from = 0; from < claim.count; from += kChunk) {
        const unsigned count = claim.count - from < kChunk ? claim.count - from : kChunk;
        Item mine{};
        const bool is_there = lane >= count || source.take(claim.first + from + lane, mine);
        if (!device::all_lanes(is_there)) return;
        for (unsigned at = 0; at < count; ++at)
          W::work(worker, device::from_lane(mine, at), a.args);
      }
      __syncwarp();
      if (a.site && lane == 0) a.site.add(device::SiteEvent::ends, number);
      if (lane == 0) source.done(claim.count);
    }
  }

  __device__ static void run_block(const Source& source, const Args& a) {
    __shared__ typename Source::Claim claim;
    __shared__ device::Pop state;
    __shared__ alignas(16) std::byte room[kChunk * sizeof(Item)];
    Item* const items = reinterpret_cast<Item*>(room);
    Worker<Source> worker(source, Team::block);
    BatchSize batch(a.batch, Source::kMostAtOnce);
    CancelLook look;
    for (;;) {
      if (threadIdx.x == 0) {
        state = device::Pop::empty;
        claim = source.claim(batch.next(), state, look);
      }
      __syncthreads();
      const typename Source::Claim mine = claim;
      const bool is_over = mine.count == 0 && state != device::Pop::empty;
      if (a.site && threadIdx.x == 0 && mine.count != 0)
        a.site.add(device::SiteEvent::begins, blockIdx.x);
      for (unsigned from = 0; from < mine.count; from += kChunk) {
        const unsigned count = mine.count - from < kChunk ? mine.count - from : kChunk;
        bool is_there = true;
        if (threadIdx.x < count)
          is_there = source.take(mine.first + from + threadIdx.x, items[threadIdx.x]);
        if (!__syncthreads_and(is_there)) return;
        for (unsigned at = 0; at < count; ++at) W::work(worker, items[at], a.args);
        __syncthreads();
      }
      __syncthreads();  // all have read the claim
      if (a.site && threadIdx.x == 0 && mine.count != 0)
        a.site.add(device::SiteEvent::ends, blockIdx.x);
      if (is_over) return;
      if (threadIdx.x == 0 && mine.count != 0) source.done(mine.count);
    }
  }
#endif
};

}  // namespace detail

/// Persistent workers of one kind, of `Source` items. A cheap value; QueueWorkers or TicketWorkers.
template <class From, class Source, class Args>
class Workers {
 public:
  explicit Workers(const Kernel<detail::WorkLoopArgs<Source, Args>>& kernel) : kernel_(kernel) {}

  /// The grid they run on.
  Grid grid(const Device& on, const WorkerOptions& options = {}) const {
    return detail::worker_grid(on, kernel_.info(), options);
  }
  /// Returns at once; they end when the queue or counter is finished, or the queue has ended.
  void start(StreamRef stream, const From& from, const Args& args,
             const WorkerOptions& options = {}) const {
    auto all = arguments(from, args, options);
    all.site = detail::worker_site(stream.device(), kernel_.info());
    stream.kernel(kernel_, grid(stream.device(), options), all);
  }
  /// The same as a node of a graph for `on`.
  auto add_to(Graph& graph, const Device& on, const From& from, const Args& args,
              const WorkerOptions& options = {}) const {
    auto all = arguments(from, args, options);
    all.site = detail::worker_site(on, kernel_.info(), &graph);
    return graph.kernel(kernel_, grid(on, options), all);
  }
  /// The arguments for Exec::set of such a node.
  static detail::WorkLoopArgs<Source, Args> arguments(const From& from, const Args& args,
                                                      const WorkerOptions& options = {}) {
    return {{from}, args, options.batch};
  }

 private:
  Kernel<detail::WorkLoopArgs<Source, Args>> kernel_;
};
/// Workers that pull from a WorkQueue: start(stream, queue.ref(), args).
template <class Item, class Args>
using QueueWorkers = Workers<device::WorkQueueRef<Item>, detail::QueueSource<Item>, Args>;
/// Workers that pull from a counter: start(stream, {counter, limit}, args).
template <class Args>
using TicketWorkers = Workers<TicketRange, detail::TicketSource, Args>;

template <class W>
QueueWorkers<typename W::Item, typename W::Args> make_queue_workers() {
  using Source = detail::QueueSource<typename W::Item>;
  return QueueWorkers<typename W::Item, typename W::Args>(
      make_kernel<detail::WorkLoop<W, Source>>());
}
/// `W::Item` is std::uint64_t.
template <class W>
TicketWorkers<typename W::Args> make_ticket_workers() {
  static_assert(std::is_same_v<typename W::Item, std::uint64_t>, "tickets are std::uint64_t");
  return TicketWorkers<typename W::Args>(make_kernel<detail::WorkLoop<W, detail::TicketSource>>());
}

}  // namespace attacca
