// Tests of events that are queried instead of waited for, and of stream priorities.
#include <chrono>
#include <future>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/refusals.hpp"

namespace attacca::test {
namespace {

using namespace std::chrono_literals;

class SmallEvents : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(SmallEvents);

TEST_P(SmallEvents, query_tells_whether_an_event_was_reached) {
  const Event event(device());
  EXPECT_TRUE(event.query());  // never recorded, so there is nothing to wait for
  std::promise<void> go;
  stream().host("hold", [held = go.get_future().share()] { held.wait(); });
  stream().record(event);
  EXPECT_FALSE(event.query());
  go.set_value();
  stream().synchronize();
  EXPECT_TRUE(event.query());
}

TEST_P(SmallEvents, an_event_recorded_again_is_not_reached_until_its_new_place_is) {
  const Event event(device());
  stream().record(event);
  stream().synchronize();
  EXPECT_TRUE(event.query());
  std::promise<void> go;
  stream().host("hold", [held = go.get_future().share()] { held.wait(); });
  stream().record(event);
  EXPECT_FALSE(event.query());
  go.set_value();
  stream().synchronize();
}

TEST_P(SmallEvents, timed_events_tell_the_time_between_them) {
  const Event first(device(), Event::Timing::on);
  const Event second(device(), Event::Timing::on);
  std::chrono::steady_clock::duration inside{};
  stream().record(first);
  stream().host("take a while", [&] {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < 2ms) continue;
    inside = std::chrono::steady_clock::now() - start;
  });
  stream().record(second);
  stream().synchronize();
  // The clocks may differ a little.
  EXPECT_GE(second.since(first), inside / 2);
  EXPECT_LE(first.since(second), 0s);
}

TEST_P(SmallEvents, time_is_refused_by_name_where_there_is_none) {
  const Event plain(device());
  const Event timed(device(), Event::Timing::on);
  const Event other(device(), Event::Timing::on);
  expect_bad([&] { (void)timed.since(plain); }, "the first keeps no time");
  expect_bad([&] { (void)plain.since(timed); }, "the first was never recorded");
  stream().record(timed);
  expect_bad([&] { (void)plain.since(timed); }, "the second keeps no time");
  expect_bad([&] { (void)other.since(timed); }, "the second was never recorded");
  std::promise<void> go;
  stream().host("hold", [held = go.get_future().share()] { held.wait(); });
  stream().record(other);
  expect_bad([&] { (void)other.since(timed); }, "not reached yet");
  go.set_value();
  stream().synchronize();
  EXPECT_GE(other.since(timed), 0s);

  const Device second = Device::host(1);
  Stream elsewhere(second);
  const Event foreign(second, Event::Timing::on);
  elsewhere.record(foreign);
  elsewhere.synchronize();
  expect_bad([&] { (void)foreign.since(timed); }, "no clock in common");
}

TEST_P(SmallEvents, an_event_of_a_capture_can_not_be_asked) {
  const Buffer<int> x = buffer<int>({1});
  const Event event(device(), Event::Timing::on);
  (void)capture(stream(), [&](StreamRef on) {
    on.fill(x.span(), 0);
    on.record(event);
  });
  expect_bad([&] { (void)event.query(); }, "during a capture");
  expect_bad([&] { (void)event.since(event); }, "was recorded during a capture");
  stream().record(event);
  stream().synchronize();
  EXPECT_TRUE(event.query());
}

TEST_P(SmallEvents, an_event_recorded_inside_a_library_call_is_reached) {
  if (is_cuda()) GTEST_SKIP() << "CUDA captures the call, and a captured event cannot be asked";
  const Event event(device());
  Graph graph(device());
  graph.library("record", [&](StreamRef on) { on.record(event); });
  run(graph);
  EXPECT_TRUE(event.query());
}

TEST_P(SmallEvents, streams_of_any_priority_run_their_work) {
  const Buffer<int> x = buffer<int>({1});
  for (const int priority : {-100, 0, 1, 100}) {
    Stream prioritised(device(), {.priority = priority});
    prioritised.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 2, .summand = 0});
    prioritised.synchronize();
  }
  EXPECT_EQ(x.read().front(), 16);
}

}  // namespace
}  // namespace attacca::test
