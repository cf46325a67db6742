// Tests of wrong captures: each is refused, and the stream works afterwards.
#include <attacca/capture.hpp>

#include <optional>
#include <stdexcept>

#include "support/faulty_device.hpp"
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/refusals.hpp"

namespace attacca::test {
namespace {

class SmallCaptureMistake : public OnEachDevice {
 protected:
  AffineArgs step(const Buffer<int>& x, int factor, int summand) const {
    return {.x = x.data(), .count = x.size(), .factor = factor, .summand = summand};
  }
  /// Checks that the stream enqueues again after a refused capture.
  void expect_stream_works() {
    const Buffer<int> x = buffer<int>({1});
    stream().kernel(affine, Grid{}, step(x, 4, 0));
    stream().synchronize();
    EXPECT_EQ(x.read().front(), 4);
  }
};
ATTACCA_ON_EACH_DEVICE(SmallCaptureMistake);

TEST_P(SmallCaptureMistake, a_stream_that_is_not_joined_back_is_refused_with_the_open_node) {
  const Buffer<int> x = buffer<int>({1});
  Stream side(device());
  const Event forked(device());
  try {
    capture(stream(), [&](StreamRef on) {
      on.kernel(affine, Grid{}, step(x, 2, 0));
      on.record(forked);
      side.wait(forked);
      side.kernel(set_value, Grid{}, {.to = x.data(), .value = 3});
    });
    FAIL() << "nothing was thrown";
  } catch (const BadArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'set_value'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("record an event"), std::string::npos);
  }
  expect_stream_works();
  side.synchronize();
  EXPECT_EQ(x.read().front(), 1);
}

TEST_P(SmallCaptureMistake, a_stream_that_ended_without_being_joined_back_is_refused) {
  const Buffer<int> x = buffer<int>({1});
  const Event forked(device());
  const Event joined(device());
  const auto capture_with = [&](bool joins_back) {
    return capture(stream(), [&](StreamRef on) {
      on.fill(x.span(), 0);
      on.record(forked);
      {
        Stream side(device());
        side.wait(forked);
        side.kernel(set_value, Grid{}, {.to = x.data(), .value = 3});
        if (joins_back) side.record(joined);
      }
      if (joins_back) on.wait(joined);
      on.kernel(affine, Grid{}, step(x, 2, 0));
    });
  };
  expect_bad([&] { capture_with(false); }, "'set_value', enqueued on a stream that joined");
  expect_stream_works();
  run(capture_with(true));
  EXPECT_EQ(x.read().front(), 6);
}

TEST_P(SmallCaptureMistake, the_end_of_the_captured_stream_is_refused) {
  std::optional<Stream> short_lived(device());
  expect_bad(
      [&] {
        capture(
            *short_lived, [&](StreamRef) { short_lived.reset(); }, "cut");
      },
      "'cut' ended before its capture");
}

TEST_P(SmallCaptureMistake, a_capture_without_a_function_is_refused) {
  expect_bad([&] { capture(stream(), nullptr, "nothing"); },
             "capture of 'nothing' has no function");
  expect_stream_works();
}

TEST_P(SmallCaptureMistake, a_stream_joined_with_no_work_of_its_own_need_not_be_joined_back) {
  const Buffer<int> x = buffer<int>({1});
  Stream side(device());
  const Event forked(device());
  const Graph graph = capture(stream(), [&](StreamRef on) {
    on.kernel(affine, Grid{}, step(x, 2, 0));
    on.record(forked);
    side.wait(forked);
  });
  run(graph);
  EXPECT_EQ(x.read().front(), 2);
}

TEST_P(SmallCaptureMistake, a_capture_inside_a_capture_is_refused) {
  const Buffer<int> x = buffer<int>({1});
  const Graph graph = capture(stream(), [&](StreamRef on) {
    EXPECT_THROW(capture(on, [](StreamRef) {}), BadArgument);
    on.kernel(affine, Grid{}, step(x, 2, 0));
  });
  run(graph);
  EXPECT_EQ(x.read().front(), 2);
  expect_stream_works();
}

TEST_P(SmallCaptureMistake, synchronize_inside_a_capture_is_refused) {
  EXPECT_THROW(capture(stream(), [](StreamRef on) { on.synchronize(); }), BadArgument);
  expect_stream_works();
}

TEST_P(SmallCaptureMistake, a_launch_inside_a_capture_is_refused) {
  const Buffer<int> x = buffer<int>({1});
  Graph inner(device());
  inner.kernel(affine, Grid{}, step(x, 2, 0));
  Exec exec = inner.instantiate();
  EXPECT_THROW(capture(stream(), [&](StreamRef on) { exec.launch(on); }), BadArgument);
  expect_stream_works();
  run(exec);
  EXPECT_EQ(x.read().front(), 2);
}

TEST_P(SmallCaptureMistake, an_event_of_a_capture_that_has_ended_is_refused) {
  const Buffer<int> x = buffer<int>({1});
  const Event event(device());
  const Graph graph = capture(stream(), [&](StreamRef on) {
    on.kernel(affine, Grid{}, step(x, 2, 0));
    on.record(event);
  });
  EXPECT_THROW(stream().wait(event), BadArgument);
  // Recorded again outside the capture, it is an ordinary event.
  stream().record(event);
  stream().wait(event);
  expect_stream_works();
}

TEST_P(SmallCaptureMistake, an_event_recorded_outside_is_refused_inside) {
  const Event event(device());
  stream().record(event);
  EXPECT_THROW(capture(stream(), [&](StreamRef on) { on.wait(event); }), BadArgument);
  expect_stream_works();
}

TEST_P(SmallCaptureMistake, an_event_of_another_capture_is_refused) {
  const Buffer<int> x = buffer<int>({1});
  Stream side(device());
  const Event event(device());
  const Graph graph = capture(stream(), [&](StreamRef on) {
    on.kernel(affine, Grid{}, step(x, 2, 0));
    on.record(event);
    EXPECT_THROW(capture(side, [&](StreamRef other) { other.wait(event); }), BadArgument);
  });
  run(graph);
  EXPECT_EQ(x.read().front(), 2);
}

TEST_P(SmallCaptureMistake, a_stream_of_another_device_cannot_join) {
  const Buffer<int> x = buffer<int>({1});
  const Device elsewhere =
      graph::Access::device(std::make_shared<FaultyDevice>(device(), std::make_shared<Faults>()));
  Stream side(elsewhere);
  const Event forked(device());
  expect_throws(
      [&] {
        capture(
            stream(),
            [&](StreamRef on) {
              on.kernel(affine, Grid{}, step(x, 2, 0));
              on.record(forked);
              side.wait(forked);
            },
            "of one device");
      },
      {Rule::two_devices, "of one device", "capture a graph for each"});
  side.fill(x.data(), 0, 1);  // this stream is not captured
  side.synchronize();
  expect_stream_works();
}

TEST_P(SmallCaptureMistake, an_event_of_another_backend_is_neither_recorded_nor_waited_for) {
  const DeviceKind other = is_cuda() ? DeviceKind::host_serial : DeviceKind::cuda;
  const Event foreign(graph::Access::device(
      std::make_shared<FaultyDevice>(device(), std::make_shared<Faults>(), other)));
  const std::string remedy = "make it for the stream's device";
  expect_bad([&] { stream().record(foreign); }, remedy);
  expect_bad([&] { stream().wait(foreign); }, remedy);
  expect_bad([&] { capture(stream(), [&](StreamRef on) { on.record(foreign); }); }, remedy);
  expect_bad([&] { capture(stream(), [&](StreamRef on) { on.wait(foreign); }); }, remedy);
  expect_stream_works();
}

TEST_P(SmallCaptureMistake, memory_and_conditions_of_a_graph_are_refused_on_a_stream) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 4);
  const Condition on = graph.condition("on");
  const std::string remedy = "add '";
  expect_throws([&] { stream().copy(x.data(), scratch.data() + 1, sizeof(int)); },
                {Rule::foreign_handle, "copy", remedy});
  expect_throws([&] { stream().copy(scratch.data(), x.data(), sizeof(int)); },
                {Rule::foreign_handle, "copy", remedy});
  expect_throws([&] { stream().fill(scratch.data(), 0, sizeof(int)); },
                {Rule::foreign_handle, "fill", remedy});
  expect_throws([&] { stream().kernel(set_value, Grid{}, {.to = scratch.data() + 3, .value = 1}); },
                {Rule::foreign_handle, "set_value", remedy});
  expect_throws([&] { stream().kernel(set_condition, Grid{}, {.condition = on, .value = 1}); },
                {Rule::foreign_handle, "set_condition", remedy});
  expect_stream_works();
}

TEST_P(SmallCaptureMistake, code_that_throws_leaves_the_stream_usable) {
  const Buffer<int> x = buffer<int>({1});
  EXPECT_THROW(capture(stream(),
                       [&](StreamRef on) {
                         on.kernel(affine, Grid{}, step(x, 2, 0));
                         throw std::runtime_error("changed my mind");
                       }),
               std::runtime_error);
  expect_stream_works();
  EXPECT_EQ(x.read().front(), 1);
}

TEST_P(SmallCaptureMistake, capturing_nothing_gives_an_empty_graph) {
  const Graph graph = capture(stream(), [](StreamRef) {});
  EXPECT_EQ(graph.node_count(), 0u);
  EXPECT_THROW(graph.instantiate(), GraphError);
  expect_stream_works();
}

TEST_P(SmallCaptureMistake, pool_memory_is_neither_allocated_nor_freed_inside_a_capture) {
  Pool pool(device());
  void* address = pool.allocate_bytes(stream(), 16);
  EXPECT_THROW(capture(stream(), [&](StreamRef on) { pool.allocate_bytes(on, 16); }), BadArgument);
  EXPECT_THROW(capture(stream(), [&](StreamRef on) { pool.free(on, address); }), BadArgument);
  pool.free(stream(), address);
  expect_stream_works();
}

}  // namespace
}  // namespace attacca::test
