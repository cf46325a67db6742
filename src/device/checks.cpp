// checks.cpp: what the structures of include/attacca/device refuse at construction.
#include <attacca/device/work_queue.hpp>
#include <attacca/error.hpp>

#include <fmt/format.h>

#include <bit>

namespace attacca::device::detail {

namespace {
constexpr std::size_t kMostPlaces = std::size_t{1} << 30;
constexpr std::size_t kMostProducers = 1024;
}  // namespace

void check_capacity(const char* what, std::size_t capacity, std::size_t most) {
  if (capacity == 0)
    throw BadArgument(fmt::format("{}: a capacity of 0; use a power of two, at least 1", what));
  if (capacity > most)
    throw BadArgument(fmt::format("{}: a capacity of {}; use at most {}", what, capacity, most));
  if (!std::has_single_bit(capacity))
    throw BadArgument(fmt::format("{}: a capacity of {} is not a power of two; use {} or {}", what,
                                  capacity, std::bit_floor(capacity), std::bit_ceil(capacity)));
}

void refuse_second(const char* what) {
  throw BadArgument(fmt::format(
      "Ring: a second {}; a ring has one, so make another Ring or use a WorkQueue", what));
}

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

}  // namespace attacca::device::detail
