// work_queue.hpp: owns a queue in a device's memory and lets the host fill it, produce items,
// cancel it and read its status. The kernels' side is in work_queue_ref.hpp.
#pragma once

#include <attacca/device/work_queue_ref.hpp>
#include <attacca/memory.hpp>
#include <bit>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attacca::device {

struct WorkQueueOptions {
  std::size_t capacity = 0;   // a power of two
  std::size_t producers = 0;  // on the host; the queue is not finished before each has closed
  std::size_t inbox = 256;    // items a host producer may be ahead, a power of two
  /// How long an operation that has begun may stand still before the queue breaks. A worker's own
  /// time with an item does not count. But where workers `push` and wait for room, make it longer
  /// than an item takes.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
  /// How long the queue may hold no work at all, while a producer is open, before it ends.
  std::optional<std::chrono::nanoseconds> idle_limit = std::nullopt;
  std::string name = "work queue";  // in messages about it
};

/// The state of a queue: accepted = done + refused + waiting + in_work. While kernels use the
/// queue, each number may be off by the items that moved during the read.
struct WorkQueueStatus {
  std::uint64_t accepted = 0;        // filled in, pushed, or a place claimed for it
  std::uint64_t done = 0;            // finished
  std::uint64_t waiting = 0;         // in the queue and in host producers' rings
  std::uint64_t in_work = 0;         // taken and not reported done
  std::uint64_t refused = 0;         // taken and found invalid
  std::uint32_t open_producers = 0;  // on the host, including those never asked for
  QueueEnd end = QueueEnd::none;     // none: it runs, or all is done

  /// "30 accepted: 6 done, 24 waiting, none in work; 1 producer is open".
  std::string message() const;
};

namespace detail {

/// The part of a WorkQueue that does not depend on the type of its items. Producers share it with
/// the queue, so that they may outlive it.
class WorkQueueHost {
 public:
  WorkQueueHost(const attacca::Device& device, const WorkQueueOptions& options);
  ~WorkQueueHost();

  /// For `status`: the words of a producer's ring.
  void add_ring(std::shared_ptr<const RingControl<>> ring);
  /// Sets the counters to `filled` items. No thread may be using the queue.
  void reset(std::size_t filled, std::uint64_t open_producers);
  std::uint64_t open_producers() const;  // whose end no consumer has seen
  void cancel();
  QueueEnd end() const;
  WorkQueueStatus status() const;
  std::vector<WaitReport> reports() const;

  WorkQueueControl<>* control() const;
  WorkQueueHostWords<>* words() const;
  const QueuePatience& patience() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

void check_fill(std::size_t items, std::size_t capacity);
[[noreturn]] void refuse_producer(std::size_t declared);

}  // namespace detail

/// Pushes items from a host thread into a WorkQueue. Owns one of its producers; its destructor
/// closes that. May outlive the queue, and then gets `broken`. One thread at a time.
template <class T>
class Producer {
 public:
  Producer(std::shared_ptr<detail::WorkQueueHost> queue, std::shared_ptr<Ring<T>> ring)
      : queue_(std::move(queue)), ring_(std::move(ring)), writer_(ring_->writer()) {}
  Producer(Producer&&) noexcept = default;
  Producer& operator=(Producer&& other) noexcept {
    close();
    queue_ = std::move(other.queue_);
    ring_ = std::move(other.ring_);
    writer_ = other.writer_;
    return *this;
  }
  ~Producer() { close(); }

  Push try_push(const T& item) { return try_push(std::span(&item, 1)) == 1 ? Push::done : why(); }
  /// Pushes as many as there is room for; returns how many.
  std::size_t try_push(std::span<const T> items) {
    if (!ring_ || queue_->end() != QueueEnd::none) return 0;
    const std::size_t most = items.size() < ring_->capacity() ? items.size() : ring_->capacity();
    return writer_.try_push(items.data(), static_cast<std::uint32_t>(most));
  }
  /// Whether pushing can still succeed.
  bool is_open() const { return ring_ && queue_->end() == QueueEnd::none; }
  /// Says that no more will come. Accepted items are still worked on. Closing again does nothing.
  void close() {
    if (!ring_) return;
    writer_.close();
    ring_.reset();
  }

 private:
  Push why() const { return is_open() ? Push::full : Push::broken; }

  std::shared_ptr<detail::WorkQueueHost> queue_;
  std::shared_ptr<Ring<T>> ring_;  // null once closed
  RingWriter<T> writer_;
};

/// Owns a queue of `T` in a device's memory. Kernels use it through `ref`, host threads through a
/// `producer` each. Must outlive the kernels that use it. `cancel`, `status` and `reports` may be
/// called by any host thread while kernels run; the rest by one thread at a time.
template <class T>
class WorkQueue {
  static_assert(std::is_trivially_copyable_v<T>);
  using Ref = WorkQueueRef<T>;

 public:
  WorkQueue(const attacca::Device& device, const WorkQueueOptions& options)
      : capacity_(options.capacity),
        host_(std::make_shared<detail::WorkQueueHost>(device, options)),
        turns_(device, std::vector<Atomic<std::uint32_t, Scope::gpu>>(
                           options.capacity, Atomic<std::uint32_t, Scope::gpu>(0))),
        items_(device, options.capacity),
        inboxes_(device, options.producers) {
    std::vector<typename Ref::Inbox> inboxes;
    for (std::size_t at = 0; at < options.producers; ++at) {
      rings_.push_back(std::make_shared<Ring<T>>(device, options.inbox));
      const RingRef<T> ring = rings_.back()->reader();
      inboxes.push_back({{RingReader<T>(ring)}, {false}});
      host_->add_ring({rings_.back(), ring.control});
    }
    inboxes_.write(inboxes);
    host_->reset(0, options.producers);
  }
  WorkQueue(WorkQueue&&) noexcept = default;
  ~WorkQueue() {
    if (host_) host_->cancel();  // for producers that live longer
  }

  /// Makes the queue hold `items` and nothing else, and restarts it if it had ended. Producers that
  /// have closed stay closed; items in the others' rings are worked on. No thread may be using it.
  void fill(std::span<const T> items) {
    detail::check_fill(items.size(), capacity_);
    std::vector<Atomic<std::uint32_t, Scope::gpu>> turns(capacity_);
    for (std::size_t at = 0; at < turns.size(); ++at) turns[at].store(at < items.size(), relaxed);
    turns_.write(turns);
    std::vector<Plain<T>> plain;
    for (const T& item : items) plain.push_back({item});
    items_.write(plain);
    host_->reset(items.size(), host_->open_producers());
  }

  Ref ref() const {
    const auto log2 = static_cast<std::uint32_t>(std::countr_zero(capacity_));
    return Ref({host_->control(), host_->words(), turns_.data(), items_.data(), inboxes_.data(),
                log2, static_cast<std::uint32_t>(rings_.size())},
               host_->patience());
  }
  /// A ring of its own for one host thread. Throws BadArgument for more than were declared.
  Producer<T> producer() {
    if (given_ == rings_.size()) detail::refuse_producer(rings_.size());
    return Producer<T>(host_, rings_[given_++]);
  }

  /// Ends the queue: waiting threads get `broken`, workers stop after the items they hold, and
  /// items that check `Worker::is_cancelled` may stop early. `status` counts the items that were
  /// not done. Returns at once.
  void cancel() { host_->cancel(); }
  /// The items accepted, done, waiting and in work.
  WorkQueueStatus status() const { return host_->status(); }
  /// The reason why it ended before its work was done, as reported to the host.
  QueueEnd end() const { return host_->end(); }
  /// The waits that timed out. The first broke the queue.
  std::vector<WaitReport> reports() const { return host_->reports(); }

 private:
  std::size_t capacity_;
  std::shared_ptr<detail::WorkQueueHost> host_;
  Buffer<Atomic<std::uint32_t, Scope::gpu>> turns_;
  Buffer<Plain<T>> items_;
  Buffer<typename Ref::Inbox> inboxes_;
  std::vector<std::shared_ptr<Ring<T>>> rings_;
  std::size_t given_ = 0;
};

}  // namespace attacca::device
