// work_queue.hpp: a bounded queue for many producers and many consumers that knows when all work is
// done, also where workers push new work. On the device it is one memory of the GPU; the host joins
// in through a ring per producer, which consumers empty when the queue runs dry.
//
// A place in the queue has a turn: 2r when round r may write it, 2r+1 when it may be read. Claims
// are two counters each way: `room` and `ready` say how many may pass, `tail` and `head` say where.
// Counting first means that nobody retries: a full or empty queue is found out before a place is
// taken, and a place once taken is used. A thread that stops for good between the two holds the
// others back; their patience ends, and the queue is broken for all.
//
// Lanes of a warp that call together claim together, with one operation on each counter.
#pragma once

#include <attacca/device/lanes.hpp>
#include <attacca/device/ring.hpp>
#include <attacca/device/wait.hpp>
#include <optional>

namespace attacca::device {

enum class Push : std::uint8_t { done, full, broken };
enum class Pop : std::uint8_t {
  done,
  empty,     // nothing now
  finished,  // nothing now or later: all work is done and every producer has closed
  broken,    // cancelled, or somebody's patience ended; see the wait log
};

/// The counters, each alone in its line.
template <class Memory = NativeMemory>
struct WorkQueueControl {
  template <class T>
  using Atomic = typename Memory::template Atomic<T, Scope::gpu>;
  alignas(128) Atomic<std::int64_t> room;          // places that may be claimed for writing
  alignas(128) Atomic<std::uint64_t> tail;         // next place to write
  alignas(128) Atomic<std::int64_t> ready;         // places that may be claimed for reading
  alignas(128) Atomic<std::uint64_t> head;         // next place to read
  alignas(128) Atomic<std::uint64_t> alive;        // open producers above, unfinished items below
  alignas(128) Atomic<std::uint32_t> is_fetching;  // somebody empties the producers' rings
  Atomic<std::uint32_t> is_broken;
};

/// A queue as kernel arguments carry it; see WorkQueue. All functions may be called by any threads
/// in any state of divergence.
template <class T, class Memory = NativeMemory>
class WorkQueueRef {
 public:
  /// Places that were claimed: `count` from `first`.
  struct Claim {
    std::uint64_t first = 0;
    std::uint32_t count = 0;
  };
  /// A host producer's ring, and whether its end was seen, which counts once. Whoever set
  /// is_fetching may touch it.
  struct Inbox {
    typename Memory::template Plain<RingReader<T, Memory>> reader;
    typename Memory::template Plain<bool> is_retired;
  };
  /// `alive` per open producer.
  static constexpr std::uint64_t kProducer = std::uint64_t{1} << 40;

  WorkQueueRef() = default;
  ATTACCA_HD WorkQueueRef(WorkQueueControl<Memory>* control,
                          typename Memory::template Atomic<std::uint32_t, Scope::gpu>* turns,
                          typename Memory::template Plain<T>* items, std::uint32_t capacity_log2,
                          Inbox* inboxes, std::uint32_t inbox_count, const Patience& patience)
      : control_(control),
        turns_(turns),
        items_(items),
        capacity_log2_(capacity_log2),
        inbox_count_(inbox_count),
        inboxes_(inboxes),
        patience_(patience) {}

  /// Puts an item in. `full`: nothing happened; a worker had better do that item itself, since
  /// workers that all wait for room wait for ever.
  ATTACCA_HD Push try_push(const T& item) const {
    const ActiveLanes lanes = ActiveLanes::here();
    Claim claim;
    if (lanes.is_leader()) claim = claim_room(lanes.count());
    return put_lane(lanes, claim, item);
  }
  /// The same, waiting for room.
  ATTACCA_HD Push push(const T& item) const {
    for (;;) {
      const ActiveLanes lanes = ActiveLanes::here();
      Claim claim;
      if (lanes.is_leader()) {
        const bool is_over = detail::wait_for<Memory>(
            patience_, lanes.count(),
            [&] {
              claim = claim_room(lanes.count());
              return claim.count != 0 || is_broken();
            },
            [] { return std::uint64_t{0}; });
        if (!is_over) break_up();
      }
      const Push result = put_lane(lanes, claim, item);
      if (result != Push::full) return result;
    }
  }

  /// Takes an item out. `done` must be called for it once it is worked off and what it leads to is
  /// pushed.
  ATTACCA_HD Pop try_pop(T& item) const {
    const ActiveLanes lanes = ActiveLanes::here();
    Claim claim;
    Pop otherwise = Pop::empty;
    if (lanes.is_leader()) {
      claim = claim_items(lanes.count());
      if (claim.count == 0) otherwise = why_none();
    }
    return take_lane(lanes, claim, otherwise, item);
  }
  /// The same, waiting until there is an item or will never be one. Lanes that call together wait
  /// together: where there are too few for all, the others return `empty`.
  ATTACCA_HD Pop pop(T& item) const {
    const ActiveLanes lanes = ActiveLanes::here();
    Claim claim;
    Pop otherwise = Pop::empty;
    if (lanes.is_leader()) claim = wait_for_items(lanes.count(), otherwise);
    return take_lane(lanes, claim, otherwise, item);
  }

  /// Says that an item that was popped is worked off.
  ATTACCA_HD void done() const {
    const ActiveLanes lanes = ActiveLanes::here();
    lanes.sync();  // each lane's work comes before the leader's count
    if (lanes.is_leader()) done(lanes.count());
  }
  /// The same for `count` items by one thread, for all that did the work.
  ATTACCA_HD void done(std::uint32_t count) const { control_->alive.fetch_sub(count, acq_rel); }

  /// The halves of a push and a pop, for teams that claim once and move items together. Up to
  /// `count` places; each of them must then be put or taken, by any thread, exactly once, and that
  /// before the team claims again, since what it claims then may wait for one of these places.
  ATTACCA_HD Claim claim_room(std::uint32_t count) const {
    count = take_from(control_->room, count);
    if (count == 0) return {};
    control_->alive.fetch_add(count, relaxed);
    const std::uint64_t first = control_->tail.fetch_add(count, relaxed);
    control_->ready.fetch_add(count, relaxed);
    return {first, count};
  }
  ATTACCA_HD bool put(std::uint64_t place, const T& item) const {
    if (!wait_turn(place, 0)) return false;
    const std::uint64_t at = place & mask();
    items_[at].write(item);
    // release pairs with the acquire in `take`: who sees the turn sees the item.
    turns_[at].store(turn(place, 1), release);
    return true;
  }
  ATTACCA_HD Claim claim_items(std::uint32_t count) const {
    count = take_from(control_->ready, count);
    if (count == 0) return {};
    const std::uint64_t first = control_->head.fetch_add(count, relaxed);
    control_->room.fetch_add(count, relaxed);
    return {first, count};
  }
  ATTACCA_HD bool take(std::uint64_t place, T& item) const {
    if (!wait_turn(place, 1)) return false;
    const std::uint64_t at = place & mask();
    item = items_[at].read();
    // release pairs with the acquire in `put` a round later: the item was read.
    turns_[at].store(turn(place, 2), release);
    return true;
  }
  /// Waits until it can claim some; where there is none, `otherwise` says why.
  ATTACCA_HD Claim wait_for_items(std::uint32_t count, Pop& otherwise) const {
    Claim claim;
    const bool is_over = detail::wait_for<Memory>(
        patience_, count,
        [&] {
          claim = claim_items(count);
          if (claim.count == 0) otherwise = why_none();
          return claim.count != 0 || otherwise != Pop::empty;
        },
        [] { return std::uint64_t{0}; });
    if (!is_over) {
      break_up();
      otherwise = Pop::broken;
    }
    return claim;
  }
  /// Why a claim of items came back empty. Also fetches what host producers have sent.
  ATTACCA_HD Pop why_none() const {
    if (is_broken()) return Pop::broken;
    // acquire pairs with the release in `done`: once all is finished, its results are seen.
    if (control_->alive.load(acquire) == 0) return Pop::finished;
    if (inbox_count_ != 0) fetch();
    return Pop::empty;
  }

  /// Ends everything: whoever pushes or pops is told `broken`, whatever is still in the queue.
  ATTACCA_HD void break_up() const {
    if (control_->is_broken.exchange(1, acq_rel) != 0) return;
    // No claim succeeds any more; so claims need not look whether the queue is broken.
    control_->room.fetch_sub(kNever, relaxed);
    control_->ready.fetch_sub(kNever, relaxed);
  }
  ATTACCA_HD bool is_broken() const { return control_->is_broken.load(relaxed) != 0; }
  ATTACCA_HD std::uint64_t capacity() const { return mask() + 1; }

 private:
  static constexpr std::uint32_t kFetch = 8;  // items moved at a time from a host producer's ring
  static constexpr std::int64_t kNever = std::int64_t{1} << 62;  // more than any counter holds

  ATTACCA_HD std::uint64_t mask() const { return (std::uint64_t{1} << capacity_log2_) - 1; }
  ATTACCA_HD std::uint32_t turn(std::uint64_t place, std::uint32_t step) const {
    return static_cast<std::uint32_t>(place >> capacity_log2_) * 2 + step;
  }

  /// Takes up to `count` from a counter that must not stay below zero; returns how many. It may be
  /// below zero for a moment, and others then find less than there is.
  template <class Counter>
  ATTACCA_HD static std::uint32_t take_from(Counter& counter, std::uint32_t count) {
    const std::int64_t seen = counter.load(relaxed);  // so that waiting costs no atomic operation
    if (seen <= 0) return 0;
    const std::int64_t wanted = seen < count ? seen : count;
    const std::int64_t before = counter.fetch_sub(wanted, relaxed);
    if (before >= wanted) return static_cast<std::uint32_t>(wanted);
    const std::int64_t got = before > 0 ? before : 0;
    counter.fetch_add(wanted - got, relaxed);
    return static_cast<std::uint32_t>(got);
  }

  ATTACCA_HD bool wait_turn(std::uint64_t place, std::uint32_t step) const {
    const auto& word = turns_[place & mask()];
    const std::uint32_t wanted = turn(place, step);
    std::uint32_t seen = 0;
    const bool is_ours = detail::wait_for<Memory>(
        patience_, wanted,
        [&] {
          seen = word.load(acquire);
          return seen == wanted || is_broken();
        },
        [&] { return std::uint64_t{seen}; });
    if (!is_ours) break_up();
    return seen == wanted;
  }

  ATTACCA_HD Push put_lane(const ActiveLanes& lanes, Claim claim, const T& item) const {
    claim = {lanes.from_leader(claim.first), lanes.from_leader(claim.count)};
    lanes.sync();  // the leader's count of unfinished items comes before each lane's item
    if (lanes.rank() >= claim.count) return is_broken() ? Push::broken : Push::full;
    return put(claim.first + lanes.rank(), item) ? Push::done : Push::broken;
  }
  ATTACCA_HD Pop take_lane(const ActiveLanes& lanes, Claim claim, Pop otherwise, T& item) const {
    claim = {lanes.from_leader(claim.first), lanes.from_leader(claim.count)};
    otherwise = static_cast<Pop>(lanes.from_leader(static_cast<unsigned>(otherwise)));
    lanes.sync();  // where all is finished, all see the results that the leader acquired
    if (lanes.rank() >= claim.count) return claim.count ? Pop::empty : otherwise;
    return take(claim.first + lanes.rank(), item) ? Pop::done : Pop::broken;
  }

  /// Moves what host producers sent into the queue. One thread at a time; others go on.
  ATTACCA_HD void fetch() const {
    if (control_->is_fetching.exchange(1, acquire) != 0) return;
    for (std::uint32_t at = 0; at < inbox_count_; ++at) {
      Inbox& inbox = inboxes_[at];
      if (inbox.is_retired.read()) continue;
      RingReader<T, Memory> reader = inbox.reader.read();
      // Room first: an item that left the ring has a place.
      for (;;) {
        const std::uint64_t there = reader.available(kFetch);
        const auto most = static_cast<std::uint32_t>(there < kFetch ? there : kFetch);
        const Claim claim = most ? claim_room(most) : Claim{};
        if (claim.count == 0) break;
        T items[kFetch];
        reader.try_pop(items, claim.count);
        for (std::uint32_t item = 0; item < claim.count; ++item)
          put(claim.first + item, items[item]);
      }
      const bool is_finished = reader.is_finished();
      inbox.reader.write(reader);
      if (!is_finished) continue;
      inbox.is_retired.write(true);
      control_->alive.fetch_sub(kProducer, acq_rel);
    }
    control_->is_fetching.store(0, release);
  }

  WorkQueueControl<Memory>* control_ = nullptr;
  typename Memory::template Atomic<std::uint32_t, Scope::gpu>* turns_ = nullptr;
  typename Memory::template Plain<T>* items_ = nullptr;
  std::uint32_t capacity_log2_ = 0;
  std::uint32_t inbox_count_ = 0;
  Inbox* inboxes_ = nullptr;
  Patience patience_{};
};

struct WorkQueueOptions {
  std::size_t capacity = 0;   // a power of two
  std::size_t producers = 0;  // on the host; the queue is not finished before each has closed
  std::size_t inbox = 256;    // items a host producer may be ahead, a power of two
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
};

namespace detail {
void check_work_queue(const WorkQueueOptions& options);
void check_fill(std::size_t items, std::size_t capacity);
[[noreturn]] void refuse_producer(std::size_t declared);
}  // namespace detail

/// Owns a queue of `T` in a device's memory. Kernels use it through `ref`, host threads through a
/// `producer` each.
template <class T>
class WorkQueue {
  static_assert(std::is_trivially_copyable_v<T>);
  using Ref = WorkQueueRef<T>;

 public:
  WorkQueue(const attacca::Device& device, const WorkQueueOptions& options)
      : options_((detail::check_work_queue(options), options)),
        control_(device, 1),
        turns_(device, std::vector<Atomic<std::uint32_t, Scope::gpu>>(
                           options.capacity, Atomic<std::uint32_t, Scope::gpu>(0))),
        items_(device, options.capacity),
        inboxes_(device, options.producers),
        log_(device) {
    patience_ = log_.patience(options.patience, "user of a WorkQueue", "its turn");
    for (std::size_t at = 0; at < options.producers; ++at)
      rings_.emplace_back(device, options.inbox);
    std::vector<typename Ref::Inbox> inboxes;
    for (Ring<T>& ring : rings_) inboxes.push_back({{RingReader<T>(ring.reader())}, {false}});
    inboxes_.write(inboxes);
    write_control(0, options.producers);
  }

  /// Makes the queue hold `items` and nothing else. Nobody may be using it.
  void fill(std::span<const T> items) {
    detail::check_fill(items.size(), options_.capacity);
    std::vector<Atomic<std::uint32_t, Scope::gpu>> turns(options_.capacity);
    for (std::size_t at = 0; at < turns.size(); ++at) turns[at].store(at < items.size(), relaxed);
    turns_.write(turns);
    std::vector<Plain<T>> plain;
    for (const T& item : items) plain.push_back({item});
    items_.write(plain);
    // Producers that have closed stay closed.
    write_control(items.size(), control_.read().front().alive.load(relaxed) / Ref::kProducer);
  }

  Ref ref() const {
    std::uint32_t log2 = 0;
    while ((std::size_t{1} << log2) < options_.capacity) ++log2;
    return Ref(control_.data(), turns_.data(), items_.data(), log2, inboxes_.data(),
               static_cast<std::uint32_t>(options_.producers), patience_);
  }
  /// A ring of its own for one host thread. Throws BadArgument for more than were declared.
  RingWriter<T> producer() {
    if (given_ == rings_.size()) detail::refuse_producer(rings_.size());
    return RingWriter<T>(rings_[given_++].writer());
  }
  /// Whose patience ended, and what broke the queue with it.
  std::vector<WaitReport> reports() const { return log_.reports(); }

 private:
  void write_control(std::size_t filled, std::uint64_t open_producers) {
    WorkQueueControl<> control{};
    control.room.store(static_cast<std::int64_t>(options_.capacity - filled), relaxed);
    control.tail.store(filled, relaxed);
    control.ready.store(static_cast<std::int64_t>(filled), relaxed);
    control.alive.store(open_producers * Ref::kProducer + filled, relaxed);
    control_.write(std::span<const WorkQueueControl<>>(&control, 1));
  }
  WorkQueueOptions options_;
  Buffer<WorkQueueControl<>> control_;
  Buffer<Atomic<std::uint32_t, Scope::gpu>> turns_;
  Buffer<Plain<T>> items_;
  Buffer<typename Ref::Inbox> inboxes_;
  WaitLog log_;
  Patience patience_{};
  std::vector<Ring<T>> rings_;
  std::size_t given_ = 0;
};

}  // namespace attacca::device
