// work_queue.cpp: the host's side of a work queue: reads its counters, cancels it and explains how
// it broke.
#include <attacca/device/work_queue.hpp>
#include <attacca/error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "core/counted.hpp"
#include "core/fault_sources.hpp"
#include "graph/access.hpp"
#include "graph/executor.hpp"

namespace attacca::device {

namespace detail {

namespace {

constexpr std::size_t kMostPlaces = std::size_t{1} << 30;
constexpr std::size_t kMostProducers = 1024;

void check_work_queue(const WorkQueueOptions& options) {
  check_capacity("WorkQueue", options.capacity, kMostPlaces);
  if (options.producers > kMostProducers)
    throw BadArgument(fmt::format("WorkQueue: {} host producers; use at most {}", options.producers,
                                  kMostProducers));
  if (options.producers > 0) check_capacity("WorkQueue's inbox", options.inbox, kMostPlaces);
  if (options.patience.count() <= 0)
    throw BadArgument(
        fmt::format("WorkQueue: a patience of {} ns; give it a positive one, such as 1s",
                    options.patience.count()));
  if (options.idle_limit && options.idle_limit->count() <= 0)
    throw BadArgument(fmt::format(
        "WorkQueue: an idle limit of {} ns; give it a positive one, or leave it out and "
        "the queue waits for its producers",
        options.idle_limit->count()));
}

using Control = WorkQueueControl<>;
using HostWords = WorkQueueHostWords<>;

/// Names in the wait log, by number: the waiters, then from QueueEnd::not_taken on their reasons.
std::vector<std::string> names_in_log(const std::string& queue) {
  return {fmt::format("producer of {}", queue),
          fmt::format("consumer of {}", queue),
          "count of items taken, the queue being full",
          "turn of a place that was claimed and must be filled",
          "turn of a place whose item was claimed and must be read",
          "count of items accepted, the queue being idle"};
}

const char* phrase_of(QueueEnd end) {
  switch (end) {
    case QueueEnd::none:
      return "went on to its end";
    case QueueEnd::cancelled:
      return "was cancelled";
    case QueueEnd::not_taken:
      return "broke: it was full, and nobody took an item";
    case QueueEnd::not_filled:
      return "broke: a place was claimed, and nobody filled it";
    case QueueEnd::not_freed:
      return "broke: an item was claimed, and nobody read it";
    case QueueEnd::idle:
      return "ended: no work came within its idle limit, and not all producers have closed";
  }
  return "ended";
}

}  // namespace

struct WorkQueueHost::Impl {
  Impl(const attacca::Device& on, const WorkQueueOptions& options)
      : device(on),
        name(options.name),
        capacity(options.capacity),
        control(on, 1),
        words(on, 1, Visibility::shared),
        log(on, names_in_log(options.name)),
        source([this] { return explain(); }) {
    *words.data() = HostWords{};
    patience.nanoseconds = static_cast<std::uint64_t>(options.patience.count());
    if (options.idle_limit)
      patience.idle_nanoseconds = static_cast<std::uint64_t>(options.idle_limit->count());
    patience.log = log.without_names();
    patience.number = source.number();
  }

  QueueEnd end() const {
    const std::uint32_t told = words.data()->end.load(acquire);
    if (told != 0) return static_cast<QueueEnd>(told);
    return words.data()->is_cancelled.load(acquire) != 0 ? QueueEnd::cancelled : QueueEnd::none;
  }

  /// The counters now. Kernels may change them meanwhile.
  Control counters() const {
    Control seen{};
    if (device.is_cuda()) {
      graph::impl_of(device).peek(&seen, control.data(), sizeof seen);
      return seen;
    }
    const Control& now = *control.data();
    seen.tail.store(now.tail.load(relaxed), relaxed);
    seen.head.store(now.head.load(relaxed), relaxed);
    seen.alive.store(now.alive.load(relaxed), relaxed);
    seen.withdrawn.store(now.withdrawn.load(relaxed), relaxed);
    seen.refused.store(now.refused.load(relaxed), relaxed);
    seen.first_refused.store(now.first_refused.load(relaxed), relaxed);
    return seen;
  }

  WorkQueueStatus status() const { return status(counters()); }
  WorkQueueStatus status(const Control& seen) const {
    WorkQueueStatus status;
    status.end = end();
    const std::uint64_t tail = seen.tail.load(relaxed);
    const std::uint64_t head = seen.head.load(relaxed);
    const std::uint64_t alive = seen.alive.load(relaxed) % Control::kProducer;
    // Counters move between their loads, so differences are kept within bounds. Places that were
    // claimed and withdrawn are usually those that no consumer reached.
    const auto less = [](std::uint64_t from, std::uint64_t amount) {
      return from - std::min(from, amount);
    };
    const std::uint64_t withdrawn = seen.withdrawn.load(relaxed);
    const std::uint64_t accepted = less(tail, withdrawn);
    const std::uint64_t unfinished = std::min(alive, accepted);
    status.waiting = std::min(less(less(tail, head), withdrawn), unfinished);
    status.in_work = unfinished - status.waiting;
    status.refused = std::min(seen.refused.load(relaxed), accepted - unfinished);
    status.done = accepted - unfinished - status.refused;
    for (const auto& ring : rings) {
      const std::uint64_t read = ring->read.load(acquire);  // first: it never passes `written`
      status.waiting += ring->written.load(acquire) - read;
      status.open_producers += ring->is_closed.load(relaxed) == 0;
    }
    status.accepted = status.done + status.refused + status.waiting + status.in_work;
    return status;
  }

  /// For `synchronize`.
  std::string explain() const {
    const Control seen = counters();
    const WorkQueueStatus now = status(seen);
    std::string text = fmt::format("{} {}", name, phrase_of(now.end));
    if (now.refused != 0)
      text += fmt::format("; it refused {}: the first named number {}, which does not exist",
                          counted(now.refused, "item"), seen.first_refused.load(relaxed));
    text += ". " + now.message();
    for (const WaitReport& report : log.reports()) text += "; " + report.message();
    return text;
  }

  attacca::Device device;
  std::string name;
  std::size_t capacity;
  Buffer<Control> control;
  Buffer<HostWords> words;
  WaitLog log;
  QueuePatience patience;
  std::vector<std::shared_ptr<const RingControl<>>> rings;
  core::FaultSource source;  // last: destroyed before the state that it explains
};

void check_fill(std::size_t items, std::size_t capacity) {
  if (items > capacity)
    throw BadArgument(
        fmt::format("WorkQueue::fill: {} items do not fit into {} places; make the capacity {}",
                    items, capacity, std::bit_ceil(items)));
}

void refuse_producer(std::size_t declared) {
  throw BadArgument(fmt::format(
      "WorkQueue: producer {} of {} declared; declare more in WorkQueueOptions::producers",
      declared + 1, declared));
}

WorkQueueHost::WorkQueueHost(const attacca::Device& device, const WorkQueueOptions& options)
    : impl_((check_work_queue(options), std::make_unique<Impl>(device, options))) {}
WorkQueueHost::~WorkQueueHost() = default;

void WorkQueueHost::add_ring(std::shared_ptr<const RingControl<>> ring) {
  impl_->rings.push_back(std::move(ring));
}

void WorkQueueHost::reset(std::size_t filled, std::uint64_t open_producers) {
  Control control{};
  control.room.store(static_cast<std::int64_t>(impl_->capacity - filled), relaxed);
  control.tail.store(filled, relaxed);
  control.ready.store(static_cast<std::int64_t>(filled), relaxed);
  control.alive.store(open_producers * Control::kProducer + filled, relaxed);
  impl_->control.write(std::span<const Control>(&control, 1));
  if (impl_->end() != QueueEnd::none) impl_->log.clear();
  impl_->words.data()->is_cancelled.store(0, release);
  impl_->words.data()->end.store(0, release);
}

std::uint64_t WorkQueueHost::open_producers() const {
  return impl_->counters().alive.load(relaxed) / Control::kProducer;
}

void WorkQueueHost::cancel() {
  impl_->words.data()->is_cancelled.store(1, release);
  // The host can also reach the counters. On a GPU, waiting threads poll the word.
  if (!impl_->device.is_cuda())
    WorkQueueRef<std::uint32_t>({control(), words(), nullptr, nullptr, nullptr, 0, 0}, patience())
        .cancel();
}

QueueEnd WorkQueueHost::end() const { return impl_->end(); }
WorkQueueStatus WorkQueueHost::status() const { return impl_->status(); }
std::vector<WaitReport> WorkQueueHost::reports() const { return impl_->log.reports(); }
WorkQueueControl<>* WorkQueueHost::control() const { return impl_->control.data(); }
WorkQueueHostWords<>* WorkQueueHost::words() const { return impl_->words.data(); }
const QueuePatience& WorkQueueHost::patience() const { return impl_->patience; }

}  // namespace detail

std::string WorkQueueStatus::message() const {
  const auto counted = [](std::uint64_t count) {
    return count == 0 ? std::string("none") : std::to_string(count);
  };
  std::string text = fmt::format("{} accepted: {} done, {} waiting, {} in work", counted(accepted),
                                 counted(done), counted(waiting), counted(in_work));
  if (refused != 0) text += fmt::format(", {} refused", refused);
  if (open_producers != 0)
    text +=
        fmt::format("; {} producer{} open", open_producers, open_producers == 1 ? " is" : "s are");
  return text;
}

}  // namespace attacca::device
