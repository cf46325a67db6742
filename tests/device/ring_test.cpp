// Tests of Ring: everything arrives once and in order, a full ring refuses and loses nothing, and
// both directions work between the host and a running kernel. Tests under a relaxed memory model
// are in tests/relacy.
#include <gmock/gmock.h>
#include <attacca/device/ring.hpp>
#include <attacca/error.hpp>

#include <deque>

#include "support/on_each_device.hpp"
#include "support/queue_kernels.hpp"
#include "support/real_threads.hpp"
#include "support/seeded.hpp"

namespace attacca::test {
namespace {

using attacca::device::Ring;
using attacca::device::RingReader;
using attacca::device::RingWriter;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A message, large enough to be torn.
struct Message {
  std::uint64_t number;
  std::uint64_t squared;
};

/// Sends 0 … count-1 in batches of 1 … most and closes.
void send_all(RingWriter<std::uint32_t> writer, std::uint32_t count, std::uint32_t most) {
  const Deadline deadline;
  std::vector<std::uint32_t> batch(most);
  for (std::uint32_t sent = 0; sent < count;) {
    const std::uint32_t size = std::min(1 + sent % most, count - sent);
    for (std::uint32_t at = 0; at < size; ++at) batch[at] = sent + at;
    const std::uint32_t done = writer.try_push(batch.data(), size);
    sent += done;
    if (done == 0) std::this_thread::yield();
    if (deadline.is_over()) break;
  }
  writer.close();
}
/// Receives until the end, in batches of 1 … most, and compares with `expected`.
template <class Expected>
void receive_all(RingReader<std::uint32_t> reader, std::uint32_t count, std::uint32_t most,
                 const Expected& expected) {
  const Deadline deadline;
  std::vector<std::uint32_t> batch(most);
  std::uint32_t next = 0;
  while (!reader.is_finished()) {
    ASSERT_FALSE(deadline.is_over());
    const std::uint32_t done = reader.try_pop(batch.data(), 1 + next % most);
    for (std::uint32_t at = 0; at < done; ++at) ASSERT_EQ(batch[at], expected(next++));
    if (done == 0) std::this_thread::yield();
  }
  ASSERT_EQ(next, count);
}

TEST(Ring, threads_send_and_receive_in_order) {
  for (const std::size_t capacity : {1, 2, 64}) {
    SCOPED_TRACE(testing::Message() << capacity << " places");
    const std::uint64_t count = 3'200 * capacity / kSlowdown;  // equally many turns of the threads
    Ring<Message> ring(Device::host_serial(), capacity);
    RingWriter<Message> writer(ring.writer());
    RingReader<Message> reader(ring.reader());
    run_threads(2, [&](unsigned thread) {
      const Deadline deadline;
      if (thread == 0) {
        for (std::uint64_t at = 0; at < count && !deadline.is_over();)
          writer.try_push({at, at * at}) ? void(++at) : std::this_thread::yield();
        writer.close();
        return;
      }
      std::uint64_t next = 0;
      for (Message message; !reader.is_finished();) {
        ASSERT_FALSE(deadline.is_over());
        if (!reader.try_pop(message)) {
          std::this_thread::yield();
          continue;
        }
        ASSERT_EQ(message.number, next);
        ASSERT_EQ(message.squared, next * next);
        ++next;
      }
      ASSERT_EQ(next, count);
    });
  }
}

TEST(Ring, threads_send_and_receive_batches_in_order) {
  constexpr std::uint32_t kCount = 200'000 / kSlowdown;
  for (const std::uint32_t most : {2u, 7u, 40u}) {
    SCOPED_TRACE(testing::Message() << "batches up to " << most);
    Ring<std::uint32_t> ring(Device::host_serial(), 16);
    RingWriter<std::uint32_t> writer(ring.writer());
    RingReader<std::uint32_t> reader(ring.reader());
    run_threads(2, [&](unsigned thread) {
      if (thread == 0)
        send_all(writer, kCount, most);
      else
        receive_all(reader, kCount, most, [](std::uint32_t at) { return at; });
    });
  }
}

TEST(Ring, follows_a_deque) {
  EXPECT_TRUE(rc::check("a ring follows a deque", [] {
    const std::size_t capacity = std::size_t{1} << *rc::gen::inRange(0, 5);
    const auto steps = *rc::gen::container<std::vector<std::pair<int, std::uint32_t>>>(
        rc::gen::pair(rc::gen::inRange(0, 5), rc::gen::inRange(0u, 12u)));
    Ring<std::uint32_t> ring(Device::host_serial(), capacity);
    RingWriter<std::uint32_t> writer(ring.writer());
    RingReader<std::uint32_t> reader(ring.reader());
    std::deque<std::uint32_t> model;
    std::uint32_t next = 0;
    bool is_closed = false;
    for (const auto& [step, amount] : steps) {
      std::uint32_t items[12];
      if (step == 0 && !is_closed) {
        const bool has_room = model.size() < capacity;
        RC_ASSERT(writer.try_push(next) == has_room);
        if (has_room) model.push_back(next++);
      } else if (step == 1 && !is_closed) {
        for (std::uint32_t at = 0; at < amount; ++at) items[at] = next + at;
        const std::uint32_t done = writer.try_push(items, amount);
        RC_ASSERT(done == std::min<std::size_t>(amount, capacity - model.size()));
        for (std::uint32_t at = 0; at < done; ++at) model.push_back(next++);
      } else if (step == 2) {
        RC_ASSERT(reader.try_pop(items[0]) == !model.empty());
        if (model.empty()) continue;
        RC_ASSERT(items[0] == model.front());
        model.pop_front();
      } else if (step == 3) {
        const std::uint32_t done = reader.try_pop(items, amount);
        RC_ASSERT(done == std::min<std::size_t>(amount, model.size()));
        for (std::uint32_t at = 0; at < done; ++at) {
          RC_ASSERT(items[at] == model.front());
          model.pop_front();
        }
      } else if (step == 4 && amount == 0) {
        writer.close();
        is_closed = true;
      }
      RC_ASSERT(reader.is_finished() == (is_closed && model.empty()));
      RC_ASSERT(reader.available(capacity) == model.size());
    }
  }));
}

TEST(Ring, each_side_goes_on_where_the_last_one_stopped) {
  Ring<int> ring(Device::host_serial(), 4);
  const auto to = ring.writer();
  const auto from = ring.reader();
  int item = 0;
  for (int round = 0; round < 10; ++round) {
    EXPECT_TRUE(RingWriter<int>(to).try_push(round));
    EXPECT_TRUE(RingReader<int>(from).try_pop(item));
    EXPECT_EQ(item, round);
  }
  EXPECT_FALSE(RingReader<int>(from).try_pop(item));
}

TEST(Ring, a_writer_and_a_reader_go_on_from_places_that_were_kept) {
  Ring<int> ring(Device::host_serial(), 4);
  const auto to = ring.writer();
  const auto from = ring.reader();
  device::RingPlace written, read;
  for (int number = 0; number < 30; ++number) {
    RingWriter<int> writer(to, written);
    RingReader<int> reader(from, read);
    int popped = -1;
    EXPECT_FALSE(reader.try_pop(popped));
    ASSERT_TRUE(writer.try_push(number));
    ASSERT_TRUE(reader.try_pop(popped));
    EXPECT_EQ(popped, number);
    written = writer.place();
    read = reader.place();
  }
}

TEST(Ring, a_place_is_free_when_the_reader_tells_or_pops_again) {
  Ring<int> ring(Device::host_serial(), 2);
  RingWriter<int> writer(ring.writer());
  RingReader<int> reader(ring.reader());
  for (int number = 0; number < 20; number += 4) {
    ASSERT_TRUE(writer.try_push(number) && writer.try_push(number + 1));
    ASSERT_EQ(reader.available(1), 2u);
    EXPECT_EQ(reader.slot().read(), number);
    reader.take();
    EXPECT_EQ(reader.available(1), 1u);
    EXPECT_EQ(writer.room(), 0u);
    reader.tell();
    ASSERT_TRUE(writer.try_push(number + 2));
    EXPECT_EQ(reader.slot().read(), number + 1);
    reader.take();
    int popped = -1;
    ASSERT_TRUE(reader.try_pop(popped));
    EXPECT_EQ(popped, number + 2);
    EXPECT_EQ(writer.room(2), 2u);
  }
}

TEST(Ring, what_threads_put_together_arrives_when_one_of_them_publishes_it) {
  constexpr unsigned kThreads = 4, kEach = 8, kRounds = 50;
  Ring<unsigned> ring(Device::host_serial(), 2 * kThreads * kEach);
  const auto to = ring.writer();
  RingReader<unsigned> reader(ring.reader());
  device::RingPlace place;
  for (unsigned round = 0; round < kRounds; ++round) {
    run_threads(kThreads, [&](unsigned thread) {
      RingWriter<unsigned> writer(to, place);
      for (unsigned at = thread; at < kThreads * kEach; at += kThreads) writer.put(at, round + at);
    });
    EXPECT_EQ(reader.available(1), 0u) << "nothing is published yet";
    RingWriter<unsigned> writer(to, place);
    ASSERT_GE(writer.room(kThreads * kEach), kThreads * kEach);
    writer.publish(kThreads * kEach);
    place = writer.place();
    for (unsigned at = 0; at < kThreads * kEach; ++at) {
      unsigned popped = 0;
      ASSERT_TRUE(reader.try_pop(popped));
      EXPECT_EQ(popped, round + at);
    }
  }
}

TEST(Ring, refuses_what_it_cannot_be_made_of) {
  const Device device = Device::host_serial();
  const auto make = [&](std::size_t capacity) {
    return [&device, capacity] { Ring<int> ring(device, capacity); };
  };
  EXPECT_THAT(make(0), ThrowsMessage<BadArgument>(
                           AllOf(HasSubstr("capacity of 0"), HasSubstr("power of two"))));
  EXPECT_THAT(make(100),
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("100"), HasSubstr("use 64 or 128"))));
  EXPECT_THAT(make((std::size_t{1} << 30) + 1),
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("1073741825"), HasSubstr("at most"))));
  Ring<int> ring(device, 4);
  EXPECT_EQ(ring.capacity(), 4u);
  ring.writer();
  ring.reader();
  EXPECT_THAT([&] { ring.writer(); }, ThrowsMessage<BadArgument>(AllOf(HasSubstr("second writer"),
                                                                       HasSubstr("WorkQueue"))));
  EXPECT_THAT([&] { ring.reader(); }, ThrowsMessage<BadArgument>(HasSubstr("second reader")));
}

class DeviceRing : public OnEachDevice {
 protected:
  /// Sends to a running kernel and receives from it, in two threads.
  void expect_echoed(std::size_t capacity, std::uint32_t count, std::uint32_t batch) {
    SCOPED_TRACE(testing::Message() << capacity << " places, batches of " << batch);
    Ring<std::uint32_t> there(device(), capacity);
    Ring<std::uint32_t> back(device(), capacity);
    const auto given_up = buffer(std::vector<Cell>(1));
    const EchoArgs args{there.reader(), back.writer(), batch, 20'000'000'000, given_up.data()};
    std::thread sender(
        [&, to = there.writer()] { send_all(RingWriter<std::uint32_t>(to), count, batch); });
    std::thread receiver([&, from = back.reader()] {
      receive_all(RingReader<std::uint32_t>(from), count, batch,
                  [](std::uint32_t at) { return 3 * at + 1; });
    });
    stream().kernel(echo, Grid{}, args);
    stream().synchronize();
    sender.join();
    receiver.join();
    EXPECT_EQ(given_up.read().front().load(device::relaxed), 0u);
  }
};
ATTACCA_ON_EACH_DEVICE(DeviceRing);
class SmallDeviceRing : public DeviceRing {};
ATTACCA_ON_EACH_DEVICE(SmallDeviceRing);

TEST_P(SmallDeviceRing, a_kernel_and_the_host_send_both_ways) {
  expect_echoed(1, 100, 1);
  expect_echoed(8, 500, 3);
}

TEST_P(DeviceRing, a_kernel_and_the_host_send_both_ways) {
  expect_echoed(64, 100'000 / kSlowdown, 1);
  expect_echoed(1024, (is_cuda() ? 1'000'000 : 100'000) / kSlowdown, EchoArgs::kMostAtOnce);
}

}  // namespace
}  // namespace attacca::test
