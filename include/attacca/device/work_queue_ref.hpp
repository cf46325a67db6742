// work_queue_ref.hpp: the kernels' side of a WorkQueue: a bounded queue for many producers and many
// consumers that knows when all work is done, even if workers push new work. It lies in the
// device's memory. The host pushes through a ring per producer, which consumers empty when the
// queue runs dry.
//
// A place in the queue has a turn: 2r when round r may write it, 2r+1 when it may be read. Claims
// are two counters each way: `room` and `ready` say how many may pass, `tail` and `head` say where.
// Because of counting first, no thread retries: a full or empty queue is found before a place is
// taken, and a place once taken is used.
//
// When it ends. Waiting for work is no fault, whether for an open producer or for a worker that is
// busy with one long item. A queue breaks only if an operation that has begun makes no progress for
// `patience`: no thread takes the items of a full queue, fills a place that was claimed, or frees a
// place whose item was claimed. Clocks measure progress, not a waiter's own idle time: they restart
// whenever the thing waited for moves. The host may also `cancel`, and an `idle_limit` may be set.
// Whatever ended it, all users get `broken`, and `status` counts the items accepted, done and left.
//
// Lanes of a warp that call together claim together, with one operation on each counter.
#pragma once

#include <attacca/device/lanes.hpp>
#include <attacca/device/ring.hpp>
#include <attacca/device/wait.hpp>
#include <attacca/thread.hpp>
#include <cstdint>

namespace attacca::device {

enum class Push : std::uint8_t {
  done,
  full,    // nothing happened
  broken,  // nothing happened, and never will: the queue ended, or this producer is closed
};
enum class Pop : std::uint8_t {
  done,
  empty,     // nothing now
  finished,  // nothing now or later: all work is done and every producer has closed
  broken,    // it ended before its work was done; WorkQueue::status says how
};

/// The reason why a queue ended before its work was done.
enum class QueueEnd : std::uint8_t {
  none,
  cancelled,   // by `cancel`, on either side
  not_taken,   // the queue was full, and no item was taken while patience lasted
  not_filled,  // a place was claimed and not filled
  not_freed,   // an item was claimed and not read
  idle,        // no work came within the idle limit
};

namespace detail {

/// A queue's counters in the device's memory, each alone in its line.
template <class Memory = NativeMemory>
struct WorkQueueControl {
  template <class T>
  using Atomic = typename Memory::template Atomic<T, Scope::gpu>;
  static constexpr std::uint64_t kProducer = std::uint64_t{1} << 40;  // of `alive`, each open one

  alignas(128) Atomic<std::int64_t> room;          // places that may be claimed for writing
  alignas(128) Atomic<std::uint64_t> tail;         // next place to write
  alignas(128) Atomic<std::int64_t> ready;         // places that may be claimed for reading
  alignas(128) Atomic<std::uint64_t> head;         // next place to read
  alignas(128) Atomic<std::uint64_t> alive;        // open producers above, unfinished items below
  alignas(128) Atomic<std::uint32_t> is_fetching;  // a thread empties the producers' rings
  Atomic<std::uint32_t> end;                       // a QueueEnd
  Atomic<std::uint64_t> looked;                    // when a thread last read HostWords
  Atomic<std::uint64_t> withdrawn;                 // places whose push was told `broken`
  Atomic<std::uint64_t> refused;                   // items, see `refuse`
  Atomic<std::uint64_t> first_refused;             // the number given for the first
};

/// The words that the two sides exchange about a queue, in memory that both see. Each side writes
/// only its own.
template <class Memory = NativeMemory>
struct WorkQueueHostWords {
  template <class T>
  using Atomic = typename Memory::template Atomic<T, Scope::system>;
  alignas(128) Atomic<std::uint32_t> is_cancelled;  // by the host
  alignas(128) Atomic<std::uint32_t> end;           // by the device: a QueueEnd
};

/// How long a queue's users wait, and where they record a timeout.
struct QueuePatience {
  std::uint64_t nanoseconds = 0;       // 0: for ever
  std::uint64_t idle_nanoseconds = 0;  // 0: for ever
  Patience log{};                      // without names: work_queue.cpp has their numbers
  unsigned number = 0;                 // under which the queue explains itself to `synchronize`
};

}  // namespace detail

/// A queue in the form of kernel arguments; WorkQueue owns it. Any threads may call all functions,
/// in any state of divergence.
template <class T, class Memory = NativeMemory>
class WorkQueueRef {
 public:
  /// Places that were claimed: `count` from `first`.
  struct Claim {
    std::uint64_t first = 0;
    std::uint32_t count = 0;
  };

  /// Puts an item in. `full`: nothing happened. A worker should then do that item itself: if all
  /// workers wait for room, they wait until the queue breaks.
  ATTACCA_HD Push try_push(const T& item) const {
    const ActiveLanes lanes = ActiveLanes::here();
    Claim claim;
    if (lanes.is_leader()) claim = claim_room(lanes.count());
    return put_lane(lanes, claim, item);
  }
  /// The same, but waits for room. The queue breaks if it stays full and no item is taken while its
  /// patience lasts.
  ATTACCA_HD Push push(const T& item) const {
    for (;;) {
      const ActiveLanes lanes = ActiveLanes::here();
      Claim claim;
      if (lanes.is_leader())
        wait_until(
            QueueEnd::not_taken, patience_.nanoseconds, kNext,
            [&] { return (claim = claim_room(lanes.count())).count != 0; },
            [&](std::uint64_t& moved) {
              moved = control_->head.load(relaxed);
              return true;
            });
      const Push result = put_lane(lanes, claim, item);
      if (result != Push::full) return result;
    }
  }

  /// Takes an item out. Call `done` for it once it is finished and the items it leads to are
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
  /// The same, but waits until there is an item or will never be one. Lanes that call together wait
  /// together: if there are too few items, the other lanes return `empty`.
  ATTACCA_HD Pop pop(T& item) const {
    const ActiveLanes lanes = ActiveLanes::here();
    Claim claim;
    Pop otherwise = Pop::empty;
    if (lanes.is_leader()) claim = wait_for_items(lanes.count(), otherwise);
    return take_lane(lanes, claim, otherwise, item);
  }

  /// Says that a popped item is finished.
  ATTACCA_HD void done() const {
    const ActiveLanes lanes = ActiveLanes::here();
    lanes.sync();  // each lane's work comes before the leader's count
    if (lanes.is_leader()) done(lanes.count());
  }
  /// The same for `count` items; one thread calls for all that did the work.
  ATTACCA_HD void done(std::uint32_t count) const { control_->alive.fetch_sub(count, acq_rel); }

  /// The halves of a push and a pop, for teams that claim once and move items together. Up to
  /// `count` places. Any thread must then put or take each of them exactly once, and before the
  /// team claims again, because the next claim may wait for one of these places.
  ATTACCA_HD Claim claim_room(std::uint32_t count) const {
    count = take_from(control_->room, count);
    if (count == 0) return {};
    control_->alive.fetch_add(count, relaxed);
    const std::uint64_t first = control_->tail.fetch_add(count, relaxed);
    control_->ready.fetch_add(count, relaxed);
    return {first, count};
  }
  /// False where the queue broke meanwhile: the item was not accepted.
  ATTACCA_HD bool put(std::uint64_t place, const T& item) const {
    if (put_accepted(place, item)) return true;
    control_->withdrawn.fetch_add(1, relaxed);
    control_->alive.fetch_sub(1, acq_rel);
    return false;
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
  /// Waits until it can claim some; if there is none, `otherwise` says why. No work is a fault only
  /// if an idle limit was set.
  ATTACCA_HD Claim wait_for_items(std::uint32_t count, Pop& otherwise) const {
    Claim claim;
    wait_until(
        QueueEnd::idle, patience_.idle_nanoseconds, kNext,
        [&] {
          claim = claim_items(count);
          if (claim.count == 0) otherwise = why_none();
          return claim.count != 0 || otherwise != Pop::empty;
        },
        [&](std::uint64_t& moved) {
          moved = control_->tail.load(relaxed);
          return is_without_work();
        });
    if (claim.count == 0 && otherwise == Pop::empty) otherwise = Pop::broken;
    return claim;
  }
  /// For consumers that poll by themselves and found nothing: ends the queue once its idle limit is
  /// over. `since` is 0 at first and after each item.
  ATTACCA_HD void watch_idle(std::uint64_t& since) const {
    if (patience_.idle_nanoseconds == 0) return;
    const std::uint64_t now = Memory::now();
    if (since == 0 || !is_without_work()) {
      since = now;
    } else if (now - since >= patience_.idle_nanoseconds) {
      const std::uint64_t tail = control_->tail.load(relaxed);
      give_up(QueueEnd::idle, tail + 1, tail, now - since);
    }
  }
  /// Why a claim found no items. Also fetches items that host producers have sent.
  ATTACCA_HD Pop why_none() const {
    if (is_broken()) return Pop::broken;
    // acquire pairs with the release in `done`: once the end is seen, all results are.
    if (control_->alive.load(acquire) == 0) return Pop::finished;
    if (inbox_count_ != 0) fetch();
    return Pop::empty;
  }

  /// Ends the queue: pushes and pops get `broken`, whatever is still in it.
  ATTACCA_HD void cancel() const { end_with(QueueEnd::cancelled); }
  /// Whether it ended before its work was done. Also reads the host's word, for threads that do not
  /// wait: a long item may stop early. Cheap: one of all callers reads across the bus at a time.
  ATTACCA_HD bool is_cancelled() const {
    const bool was_broken = is_broken();  // loaded together with the words in look_at_host
    return look_at_host() || was_broken;
  }
  /// The same without the host's word, which waiting threads read.
  ATTACCA_HD bool is_broken() const { return end() != QueueEnd::none; }
  ATTACCA_HD QueueEnd end() const { return static_cast<QueueEnd>(control_->end.load(relaxed)); }
  /// Says that a taken item is invalid. It counts as refused and not as done, and the host is told
  /// `number`. Call `done` for it all the same.
  ATTACCA_HD void refuse(std::uint64_t number) const {
    if (control_->refused.fetch_add(1, relaxed) == 0)
      control_->first_refused.store(number, relaxed);
  }
  /// If the queue broke (cancelling is no break) or items were refused, makes the next
  /// `synchronize` of this kernel's stream throw SourceBroken, with the waits that timed out and
  /// the items done and left. Workers and ResidentScheduler call it; other kernels should call it
  /// at their end.
  ATTACCA_HD void report_to(const WaitingThread& thread) const {
    const QueueEnd how = end();
    const bool is_refusing = control_->refused.load(relaxed) != 0;
    if ((how != QueueEnd::none && how != QueueEnd::cancelled) || is_refusing)
      thread.source_broke(patience_.number);
  }
  ATTACCA_HD std::uint64_t capacity() const { return mask() + 1; }

  // --- for WorkQueue and the tests --------------------------------------------------------------

  using Control = detail::WorkQueueControl<Memory>;
  using HostWords = detail::WorkQueueHostWords<Memory>;
  /// A host producer's ring, and whether its end was seen, which counts once. Only the thread that
  /// set is_fetching may touch it.
  struct Inbox {
    typename Memory::template Plain<RingReader<T, Memory>> reader;
    typename Memory::template Plain<bool> is_retired;
  };
  static constexpr std::uint64_t kProducer = Control::kProducer;

  /// The addresses of everything.
  struct Parts {
    Control* control;
    HostWords* host;
    typename Memory::template Atomic<std::uint32_t, Scope::gpu>* turns;  // [capacity]
    typename Memory::template Plain<T>* items;                           // [capacity]
    Inbox* inboxes;                                                      // [inbox_count]
    std::uint32_t capacity_log2;
    std::uint32_t inbox_count;
  };
  WorkQueueRef() = default;
  ATTACCA_HD WorkQueueRef(const Parts& parts, const detail::QueuePatience& patience)
      : control_(parts.control),
        host_(parts.host),
        turns_(parts.turns),
        items_(parts.items),
        inboxes_(parts.inboxes),
        capacity_log2_(parts.capacity_log2),
        inbox_count_(parts.inbox_count),
        patience_(patience) {}

 private:
  static constexpr std::uint32_t kFetch = 8;  // items moved at a time from a host producer's ring
  static constexpr std::uint64_t kNext = 0;   // waited for: one more than now
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

  /// Polls until `look` returns true or the queue has ended. `watch(moved)` says whether it waits
  /// for something that must make progress, and sets a number that changes when it does. If that
  /// stands still for `limit`, the queue breaks with `fault`. A limit of 0 is none.
  template <class Look, class Watch>
  ATTACCA_HD void wait_until(QueueEnd fault, std::uint64_t limit, std::uint64_t wanted, Look&& look,
                             Watch&& watch) const {
    if (look()) return;
    typename Memory::Backoff backoff;
    std::uint64_t since = 0;
    std::uint64_t stood = 0;
    for (;;) {
      if (is_broken()) return;
      backoff.pause();
      if (look()) return;
      if (!backoff.is_time_to_look()) continue;
      look_at_host();
      if (limit == 0) continue;
      const std::uint64_t now = Memory::now();
      std::uint64_t moved = 0;
      const bool must_go_on = watch(moved);
      if (since == 0 || !must_go_on || moved != stood) {
        since = now;
        stood = moved;
      } else if (now - since >= limit) {
        give_up(fault, wanted == kNext ? stood + 1 : wanted, stood, now - since);
        return;
      }
    }
  }

  /// No item waits, nor is one in work.
  ATTACCA_HD bool is_without_work() const { return control_->alive.load(relaxed) % kProducer == 0; }
  /// Breaks the queue. The first thread to do so records its wait.
  ATTACCA_HD void give_up(QueueEnd fault, std::uint64_t wanted, std::uint64_t seen,
                          std::uint64_t waited) const {
    if (!end_with(fault)) return;
    Patience log = patience_.log;
    log.who += fault == QueueEnd::not_filled || fault == QueueEnd::idle ? 1 : 0;
    log.what += static_cast<std::uint32_t>(fault);
    detail::give_up(log, wanted, seen, waited);
  }
  ATTACCA_HD bool end_with(QueueEnd why) const {
    std::uint32_t none = 0;
    if (!control_->end.compare_exchange(none, static_cast<std::uint32_t>(why), acq_rel, relaxed))
      return false;
    // No claim succeeds any more, so claims need not check whether the queue is broken.
    control_->room.fetch_sub(kNever, relaxed);
    control_->ready.fetch_sub(kNever, relaxed);
    host_->end.store(static_cast<std::uint32_t>(why), release);
    return true;
  }
  /// Whether the host has cancelled, if it was this thread's turn to check.
  ATTACCA_HD bool look_at_host() const {
    if (!Memory::is_turn_to_look_across(control_->looked)) return false;
    if (host_->is_cancelled.load(relaxed) == 0) return false;
    cancel();
    return true;
  }

  ATTACCA_HD bool wait_turn(std::uint64_t place, std::uint32_t step) const {
    const auto& word = turns_[place & mask()];
    const std::uint32_t wanted = turn(place, step);
    std::uint32_t seen = 0;
    wait_until(
        step == 0 ? QueueEnd::not_freed : QueueEnd::not_filled, patience_.nanoseconds, wanted,
        [&] { return (seen = word.load(acquire)) == wanted; },
        [&](std::uint64_t& moved) {
          moved = seen;
          return true;
        });
    return seen == wanted;
  }
  /// For an item whose sender was told that it is accepted.
  ATTACCA_HD bool put_accepted(std::uint64_t place, const T& item) const {
    if (!wait_turn(place, 0)) return false;
    const std::uint64_t at = place & mask();
    items_[at].write(item);
    // release pairs with the acquire in `take`: a thread that sees the turn sees the item.
    turns_[at].store(turn(place, 1), release);
    return true;
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
    lanes.sync();  // once all is finished, all lanes see the results that the leader acquired
    if (lanes.rank() >= claim.count) return claim.count ? Pop::empty : otherwise;
    return take(claim.first + lanes.rank(), item) ? Pop::done : Pop::broken;
  }

  /// Moves items from host producers into the queue. One thread at a time; others go on.
  ATTACCA_HD void fetch() const {
    if (control_->is_fetching.exchange(1, acquire) != 0) return;
    for (std::uint32_t at = 0; at < inbox_count_; ++at) {
      Inbox& inbox = inboxes_[at];
      if (inbox.is_retired.read()) continue;
      RingReader<T, Memory> reader = inbox.reader.read();
      // Claim room first, so that an item that left the ring has a place.
      for (;;) {
        const std::uint64_t there = reader.available(kFetch);
        const auto most = static_cast<std::uint32_t>(there < kFetch ? there : kFetch);
        const Claim claim = most ? claim_room(most) : Claim{};
        if (claim.count == 0) break;
        T items[kFetch];
        reader.try_pop(items, claim.count);
        for (std::uint32_t item = 0; item < claim.count; ++item)
          put_accepted(claim.first + item, items[item]);  // if it broke: stays in the queue
      }
      const bool is_finished = reader.is_finished();
      inbox.reader.write(reader);
      if (!is_finished) continue;
      inbox.is_retired.write(true);
      control_->alive.fetch_sub(kProducer, acq_rel);
    }
    control_->is_fetching.store(0, release);
  }

  Control* control_ = nullptr;
  HostWords* host_ = nullptr;
  typename Memory::template Atomic<std::uint32_t, Scope::gpu>* turns_ = nullptr;
  typename Memory::template Plain<T>* items_ = nullptr;
  Inbox* inboxes_ = nullptr;
  std::uint32_t capacity_log2_ = 0;
  std::uint32_t inbox_count_ = 0;
  detail::QueuePatience patience_{};
};

}  // namespace attacca::device
