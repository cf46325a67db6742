// host_consumers.hpp: host threads that pop from a WorkQueue. Host and device cannot claim with one
// atomic, so a thread of the device serves them: it claims items like any consumer and writes them
// to a ring per host thread. What a host thread was given counts as unfinished until it says
// `done`.
//
//   WorkQueue<Item> queue(device, {.capacity = 1024});
//   HostConsumers<Item> hosts(device, {.consumers = 2});
//   stream.kernel(work, grid, {queue.ref(), hosts.ref(queue.ref())});  // one thread calls serve()
//   HostConsumer<Item> consumer = hosts.consumer();                    // in a thread of the host
//   for (Item item; consumer.pop(item) == Pop::done; consumer.done()) work_on(item);
#pragma once

#include <attacca/device/work_queue.hpp>

namespace attacca::device {

/// What a host consumer and the device tell each other. Each side writes only its own.
template <class Memory = NativeMemory>
struct HostConsumerControl {
  template <class T>
  using Atomic = typename Memory::template Atomic<T, Scope::system>;
  alignas(128) Atomic<std::uint64_t> done;     // by the host: items worked off
  Atomic<std::uint32_t> has_given_up;          // by the host: its patience ended
  alignas(128) Atomic<std::uint32_t> outlook;  // by the device: a Pop, `empty` until the end
};

/// The device's side, as kernel arguments carry it. One thread at a time may serve.
template <class T, class Memory = NativeMemory>
class HostConsumersRef {
 public:
  using Queue = WorkQueueRef<T, Memory>;
  /// A host thread's ring, and what it holds: `sent - seen_done` items.
  struct Outbox {
    HostConsumerControl<Memory>* control;
    typename Memory::template Plain<RingWriter<T, Memory>> writer;
    typename Memory::template Plain<std::uint64_t> sent;
    typename Memory::template Plain<std::uint64_t> seen_done;
  };

  HostConsumersRef() = default;
  ATTACCA_HD HostConsumersRef(const Queue& queue, Outbox* outboxes, std::uint32_t count,
                              std::uint32_t capacity, const Patience& patience)
      : queue_(queue),
        outboxes_(outboxes),
        count_(count),
        capacity_(capacity),
        patience_(patience) {}

  /// Hands out items until the end, which it tells the host threads and returns. Its patience is
  /// with each item anew.
  ATTACCA_HD Pop serve() const {
    Pop end = Pop::empty;
    while (end == Pop::empty) {
      const bool is_over = detail::wait_for<Memory>(
          patience_, 1,
          [&] {
            const bool has_moved = serve_once();
            end = queue_.why_none();
            return has_moved || end != Pop::empty;
          },
          [] { return std::uint64_t{0}; });
      if (is_over) continue;
      queue_.break_up();
      end = Pop::broken;
    }
    for (std::uint32_t at = 0; at < count_; ++at)
      outboxes_[at].control->outlook.store(static_cast<std::uint32_t>(end), release);
    return end;
  }
  /// One round, for a thread with other things to do; it must `serve` at last. Whether anything
  /// moved.
  ATTACCA_HD bool serve_once() const {
    bool has_moved = false;
    for (std::uint32_t at = 0; at < count_; ++at) has_moved |= serve_one(outboxes_[at]);
    return has_moved;
  }

 private:
  static constexpr std::uint32_t kAtOnce = 8;  // items handed to one host thread before the next

  ATTACCA_HD bool serve_one(Outbox& outbox) const {
    if (outbox.control->has_given_up.load(relaxed) != 0) {
      queue_.break_up();
      return false;
    }
    // acquire pairs with the release in HostConsumer::done: who sees the end sees the host's work.
    const std::uint64_t done = outbox.control->done.load(acquire);
    const std::uint64_t more_done = done - outbox.seen_done.read();
    if (more_done != 0) {
      outbox.seen_done.write(done);
      queue_.done(static_cast<std::uint32_t>(more_done));
    }
    const std::uint64_t sent = outbox.sent.read();
    const std::uint64_t room = capacity_ - (sent - done);
    const auto most = static_cast<std::uint32_t>(room < kAtOnce ? room : kAtOnce);
    const auto claim = most ? queue_.claim_items(most) : typename Queue::Claim{};
    if (claim.count == 0) return more_done != 0;
    T items[kAtOnce];
    for (std::uint32_t item = 0; item < claim.count; ++item)
      if (!queue_.take(claim.first + item, items[item])) return false;  // broken
    RingWriter<T, Memory> writer = outbox.writer.read();
    writer.try_push(items, claim.count);  // it has room: the ring is as long as `capacity_`
    outbox.writer.write(writer);
    outbox.sent.write(sent + claim.count);
    return true;
  }

  Queue queue_;
  Outbox* outboxes_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint32_t capacity_ = 0;
  Patience patience_{};
};

/// The host's side, for one thread.
template <class T, class Memory = NativeMemory>
class HostConsumer {
 public:
  HostConsumer(const RingRef<T, Memory>& ring, HostConsumerControl<Memory>* control,
               const Patience& patience)
      : reader_(ring), control_(control), done_(control->done.load(relaxed)), patience_(patience) {}

  Pop try_pop(T& item) {
    // In this order: what was sent before the end is seen once the end is.
    const auto outlook = static_cast<Pop>(control_->outlook.load(acquire));
    if (outlook == Pop::broken) return Pop::broken;
    return reader_.try_pop(item) ? Pop::done : outlook;
  }
  /// The same, waiting. Where its patience ends the queue breaks.
  Pop pop(T& item) {
    Pop result = Pop::empty;
    const bool is_over = detail::wait_for<Memory>(
        patience_, 1, [&] { return (result = try_pop(item)) != Pop::empty; },
        [] { return std::uint64_t{0}; });
    if (is_over) return result;
    control_->has_given_up.store(1, relaxed);
    return Pop::broken;
  }
  /// Says that `count` items that were popped are worked off, and what they lead to is pushed.
  void done(std::uint32_t count = 1) { control_->done.store(done_ += count, release); }

 private:
  RingReader<T, Memory> reader_;
  HostConsumerControl<Memory>* control_;
  std::uint64_t done_;
  Patience patience_;
};

struct HostConsumersOptions {
  std::size_t consumers = 1;
  std::size_t outbox = 8;  // items a consumer may hold that are not done; a power of two
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
};

namespace detail {
void check_host_consumers(const HostConsumersOptions& options);
[[noreturn]] void refuse_consumer(std::size_t declared);
[[noreturn]] void refuse_reopening();
}  // namespace detail

/// Owns the rings to host threads that pop from one queue. Must outlive them.
template <class T>
class HostConsumers {
  static_assert(std::is_trivially_copyable_v<T>);
  using Ref = HostConsumersRef<T>;

 public:
  HostConsumers(const attacca::Device& device, const HostConsumersOptions& options)
      : options_((detail::check_host_consumers(options), options)),
        controls_(device, options.consumers, Visibility::shared),
        outboxes_(device, options.consumers),
        log_(device),
        server_patience_(
            log_.patience(options.patience, "server of host consumers", "an item or the end")),
        consumer_patience_(log_.patience(options.patience, "host consumer", "an item")) {
    std::vector<typename Ref::Outbox> outboxes;
    for (std::size_t at = 0; at < options.consumers; ++at) {
      rings_.emplace_back(device, options.outbox);
      controls_.data()[at] = HostConsumerControl<>{};
      outboxes.push_back(
          {controls_.data() + at, {RingWriter<T>(rings_.back().writer())}, {0}, {0}});
    }
    outboxes_.write(outboxes);
    reopen();
  }

  Ref ref(const WorkQueueRef<T>& queue) const {
    return Ref(queue, outboxes_.data(), static_cast<std::uint32_t>(options_.consumers),
               static_cast<std::uint32_t>(options_.outbox), server_patience_);
  }
  /// For one host thread. Throws BadArgument for more than were declared.
  HostConsumer<T> consumer() {
    if (given_ == rings_.size()) detail::refuse_consumer(rings_.size());
    const std::size_t at = given_++;
    return HostConsumer<T>(rings_[at].reader(), controls_.data() + at, consumer_patience_);
  }
  /// After an end, for a queue that was filled again. Nobody may be using it. Throws BadArgument
  /// where that end was a broken queue: consumers may still hold items of it.
  void reopen() {
    for (std::size_t at = 0; at < options_.consumers; ++at) {
      HostConsumerControl<>& control = controls_.data()[at];
      if (control.outlook.load(relaxed) == static_cast<std::uint32_t>(Pop::broken))
        detail::refuse_reopening();
      control.outlook.store(static_cast<std::uint32_t>(Pop::empty), relaxed);
    }
  }
  /// Whose patience ended.
  std::vector<WaitReport> reports() const { return log_.reports(); }

 private:
  HostConsumersOptions options_;
  Buffer<HostConsumerControl<>> controls_;
  Buffer<typename Ref::Outbox> outboxes_;
  WaitLog log_;
  Patience server_patience_;
  Patience consumer_patience_;
  std::vector<Ring<T>> rings_;
  std::size_t given_ = 0;
};

}  // namespace attacca::device
