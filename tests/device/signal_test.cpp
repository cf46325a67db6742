// Tests of Signal and WaitLog: the writes that a wait makes visible, and waits that time out.
#include <gmock/gmock.h>
#include <attacca/device/signal.hpp>

#include <thread>

#include "support/on_each_device.hpp"
#include "support/signal_kernels.hpp"

namespace attacca::test {
namespace {

using attacca::device::Scope;
using attacca::device::Signal;
using attacca::device::WaitLog;
using attacca::device::WaitLogData;
using attacca::device::WaitReport;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""ns;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""us;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint32_t kNever = 0xdead;  // the contents of memory that a kernel must overwrite

class SmallDeviceSignal : public OnEachDevice {
 protected:
  /// Signals with this value.
  template <Scope kScope = Scope::gpu>
  Buffer<Signal<kScope>> signals(std::size_t count, std::uint32_t value,
                                 Visibility visibility = Visibility::device) const {
    std::vector<Signal<kScope>> values(count);
    for (auto& signal : values) signal.publish(value);
    return Buffer<Signal<kScope>>(device(), values, visibility);
  }
  static void expect_no_reports(const WaitLog& log) {
    for (const WaitReport& report : log.reports()) ADD_FAILURE() << report.message();
  }

  /// Passes messages back and forth between two workers of one kernel.
  template <Scope kScope>
  void expect_relayed(const Kernel<RelayArgs<kScope>>& kernel, const Grid& grid,
                      std::uint32_t start, std::uint32_t rounds) {
    WaitLog log(device());
    const auto both = signals<kScope>(2, start);
    const Buffer<std::uint32_t> payload(device(), RelayArgs<kScope>::kWords);
    const auto wrong = buffer<std::uint32_t>({kNever});
    stream().kernel(kernel, grid,
                    {both.data(), both.data() + 1, payload.data(), wrong.data(), start, rounds, 0,
                     log.patience(10s, "relay", "the other side")});
    stream().synchronize();
    expect_no_reports(log);
    EXPECT_EQ(wrong.read().front(), 0u);
  }

  /// Waits in vain on a signal whose value is 4.
  void wait_in_vain(WaitLog& log, unsigned workers, std::chrono::nanoseconds deadline) {
    const auto signal = signals(1, 4);
    const auto was_there = buffer(std::vector<std::uint32_t>(workers, kNever));
    stream().kernel(
        await_value, workers_apart(workers),
        {signal.data(), 5, was_there.data(), log.patience(deadline, "consumer", "ready")});
    stream().synchronize();
    EXPECT_EQ(was_there.read(), std::vector<std::uint32_t>(workers, 0));
  }
};
ATTACCA_ON_EACH_DEVICE(SmallDeviceSignal);

TEST_P(SmallDeviceSignal, what_was_written_before_publish_is_seen_after_wait) {
  expect_relayed(relay<Scope::block>(), workers_together(2), 0, 200);
  expect_relayed(relay<Scope::cluster>(), workers_together(2), 0, 200);
  expect_relayed(relay<Scope::gpu>(), workers_apart(2), 0, 200);
  expect_relayed(relay<Scope::system>(), workers_apart(2), 0, 200);
}

TEST_P(SmallDeviceSignal, values_may_wrap_around) {
  expect_relayed(relay<Scope::gpu>(), workers_apart(2), 0xffffffffu - 50, 100);
}

TEST_P(SmallDeviceSignal, a_value_already_reached_is_not_waited_for) {
  WaitLog log(device());
  const auto signal = signals(1, 4);
  const auto was_there = buffer<std::uint32_t>({kNever, kNever});
  for (const std::uint32_t value : {4u, 3u, 0u, 4u - 0x7fffffffu}) {
    stream().kernel(
        await_value, workers_apart(2),
        {signal.data(), value, was_there.data(), log.patience(1ns, "consumer", "ready")});
    stream().synchronize();
    EXPECT_EQ(was_there.read(), (std::vector<std::uint32_t>{1, 1})) << value;
  }
  expect_no_reports(log);
}

TEST_P(SmallDeviceSignal, one_fence_publishes_to_several_signals) {
  WaitLog log(device());
  const auto three = signals(FanOutArgs::kSignals, 0);
  const Buffer<std::uint32_t> payload(device(), 1);
  const auto seen = buffer(std::vector<std::uint32_t>(FanOutArgs::kSignals, kNever));
  for (std::uint32_t value = 1; value <= 20; ++value) {
    stream().kernel(fan_out, workers_apart(1 + FanOutArgs::kSignals),
                    {three.data(), payload.data(), seen.data(), value,
                     log.patience(10s, "waiter", "its signal")});
    stream().synchronize();
    EXPECT_EQ(seen.read(), std::vector<std::uint32_t>(FanOutArgs::kSignals, value * 7));
  }
  expect_no_reports(log);
}

TEST_P(SmallDeviceSignal, several_publishers_raise_one_signal) {
  WaitLog log(device());
  constexpr std::uint32_t kWorkers = 8;
  const auto signal = signals(1, 0);
  const Buffer<std::uint32_t> numbers(device(), kWorkers);
  const auto sum = buffer<std::uint32_t>({kNever});
  stream().kernel(gather, workers_apart(kWorkers),
                  {signal.data(), numbers.data(), sum.data(), kWorkers,
                   log.patience(10s, "gatherer", "all numbers")});
  stream().synchronize();
  expect_no_reports(log);
  EXPECT_EQ(sum.read().front(), kWorkers * (kWorkers - 1) / 2);
}

TEST_P(SmallDeviceSignal, host_and_device_pass_messages_both_ways) {
  for (const std::uint32_t host_side : {0u, 1u}) {
    WaitLog log(device());
    const auto both = signals<Scope::system>(2, 0, Visibility::shared);
    const Buffer<std::uint32_t> payload(
        device(), std::vector<std::uint32_t>(RelayArgs<Scope::system>::kWords), Visibility::shared);
    const Buffer<std::uint32_t> wrong(device(), std::vector<std::uint32_t>{kNever},
                                      Visibility::shared);
    RelayArgs<Scope::system> args{both.data(),
                                  both.data() + 1,
                                  payload.data(),
                                  wrong.data(),
                                  0,
                                  100,
                                  host_side,
                                  log.patience(10s, "the host", "the device")};
    // A thread of its own, because a kernel on host_serial has ended when the call returns.
    std::thread host([args] { relay_side(args.first_side, args); });
    RelayArgs<Scope::system> of_device = args;
    of_device.first_side = 1 - host_side;
    of_device.patience = log.patience(10s, "the device", "the host");
    stream().kernel(relay<Scope::system>(), workers_apart(1), of_device);
    stream().synchronize();
    host.join();
    expect_no_reports(log);
    EXPECT_EQ(wrong.data()[0], 0u) << "host is side " << host_side;
  }
}

TEST_P(SmallDeviceSignal, a_worker_that_never_signals_is_reported_and_the_device_goes_on) {
  WaitLog log(device());
  wait_in_vain(log, 1, 50ms);

  const auto reports = log.reports();
  ASSERT_EQ(reports.size(), 1u);
  const WaitReport& report = reports.front();
  EXPECT_EQ(report.who, "consumer");
  EXPECT_EQ(report.what, "ready");
  EXPECT_EQ(report.record.wanted, 5u);
  EXPECT_EQ(report.record.seen, 4u);
  EXPECT_GE(report.record.nanoseconds, 50'000'000u);
  EXPECT_THAT(report.message(), StartsWith("'consumer' (block 0, thread 0) waited "));
  EXPECT_THAT(report.message(), EndsWith(" for 'ready' to reach 5; it stood at 4"));
  EXPECT_EQ(log.dropped(), 0u);

  expect_relayed(relay<Scope::gpu>(), workers_apart(2), 0, 20);
}

TEST_P(SmallDeviceSignal, waiters_for_whom_the_log_has_no_room_are_counted) {
  WaitLog log(device());
  wait_in_vain(log, WaitLogData::kCapacity + 44, 100us);
  EXPECT_EQ(log.reports().size(), WaitLogData::kCapacity);
  EXPECT_EQ(log.dropped(), 44u);

  log.clear();
  EXPECT_TRUE(log.reports().empty());
  EXPECT_EQ(log.dropped(), 0u);
  wait_in_vain(log, 3, 100us);
  EXPECT_EQ(log.reports().size(), 3u);
}

TEST_P(SmallDeviceSignal, a_deadline_that_is_not_positive_is_refused) {
  WaitLog log(device());
  for (const auto deadline : {0ns, -7ns}) {
    try {
      log.patience(deadline, "consumer", "ready");
      FAIL() << "nothing was thrown";
    } catch (const BadArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("'consumer'"));
      EXPECT_THAT(error.what(), HasSubstr("'ready'"));
      EXPECT_THAT(error.what(), HasSubstr(deadline == 0ns ? "of 0 ns" : "of -7 ns"));
      EXPECT_THAT(error.what(), HasSubstr("give it a positive one"));
    }
  }
}

TEST_P(SmallDeviceSignal, the_same_name_has_the_same_number) {
  WaitLog log(device());
  const auto first = log.patience(1s, "producer", "room");
  const auto second = log.patience(2s, "consumer", "producer");
  const auto third = log.patience(1s, "producer", "room");
  EXPECT_EQ(first.who, third.who);
  EXPECT_EQ(first.what, third.what);
  EXPECT_EQ(second.what, first.who);
  EXPECT_NE(first.who, first.what);
  EXPECT_NE(second.who, first.who);
}

/// Not "Small": compute-sanitizer's racecheck knows no order in shared memory except barriers.
class DeviceSignalInSharedMemory : public SmallDeviceSignal {};
ATTACCA_ON_EACH_DEVICE(DeviceSignalInSharedMemory);

TEST_P(DeviceSignalInSharedMemory, passes_messages_within_a_block) {
  expect_relayed(relay_in_shared, workers_together(2), 0, 1000);
}

TEST(WaitReport, reads_as_a_sentence) {
  WaitReport report{"consumer", "ready", {0, 1, 3, 0, 5, 4, 2'000'000}};
  EXPECT_EQ(report.message(),
            "'consumer' (block 3, thread 0) waited 2 ms for 'ready' to reach 5; it stood at 4");
  report.record.nanoseconds = 1'250'000'000;
  EXPECT_THAT(report.message(), HasSubstr(" waited 1.25 s for "));
  report.record.nanoseconds = 70;
  EXPECT_THAT(report.message(), HasSubstr(" waited 70 ns for "));
}

}  // namespace
}  // namespace attacca::test
