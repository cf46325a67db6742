// Tests of host calls that wait for the stream they run on, or destroy it.
#include <gmock/gmock.h>

#include <future>
#include <memory>

#include <attacca/attacca.hpp>

namespace attacca::test {
namespace {

using testing::HasSubstr;

/// On the host only: CUDA's driver refuses calls of its API in host calls.
class OwnStream : public testing::TestWithParam<const char*> {
 protected:
  static Device device() { return Device::from_name(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(, OwnStream, testing::Values("host", "host-serial"),
                         [](const auto& tested) {
                           return std::string(tested.param) == "host" ? "host" : "host_serial";
                         });

const auto kRefusal =
    testing::ThrowsMessage<NodeFailed>(HasSubstr("a stream was synchronized in its own work"));

TEST_P(OwnStream, a_host_call_that_synchronizes_its_stream_fails) {
  const Stream stream(device());
  stream.host("call", [&] { stream.synchronize(); });
  EXPECT_THAT([&] { stream.synchronize(); }, kRefusal);
  EXPECT_NO_THROW(stream.synchronize());
}

TEST_P(OwnStream, so_does_one_in_a_graph_whichever_thread_runs_it) {
  const Stream stream(device());
  for (int at = 0; at < 8; ++at) {
    Graph graph(device());
    for (int call = 0; call < 8; ++call) graph.host("call", [&] { stream.synchronize(); });
    Exec exec = graph.instantiate();
    exec.launch(stream);
    EXPECT_THAT([&] { stream.synchronize(); }, kRefusal);
  }
}

TEST_P(OwnStream, so_does_a_library_call_in_a_graph) {
  const Stream stream(device());
  Graph graph(device());
  graph.library("library", [&](StreamRef) { stream.synchronize(); });
  Exec exec = graph.instantiate();
  exec.launch(stream);
  EXPECT_THAT([&] { stream.synchronize(); }, kRefusal);
}

TEST_P(OwnStream, a_host_call_may_synchronize_another_stream) {
  const Stream stream(device()), other(device());
  int calls = 0;
  stream.host("outer", [&] {
    other.host("inner", [&] { ++calls; });
    other.synchronize();
  });
  stream.synchronize();
  EXPECT_EQ(calls, 1);
}

/// Tells when it is destroyed.
struct Told {
  explicit Told(std::shared_ptr<std::promise<void>> told) : told_(std::move(told)) {}
  ~Told() { told_->set_value(); }
  std::shared_ptr<std::promise<void>> told_;  // shared: the waiter may be gone before the call ends
};

TEST_P(OwnStream, a_host_call_that_owns_the_last_reference_to_its_stream_ends_it) {
  for (int at = 0; at < 20; ++at) {
    const auto told = std::make_shared<std::promise<void>>();
    auto stream = std::make_shared<Stream>(Device(device()));
    stream->host("call", [stream, last = std::make_shared<Told>(told)] {});
    stream.reset();
    told->get_future().wait();
  }
}

TEST_P(OwnStream, work_behind_the_call_that_destroys_its_stream_runs) {
  const auto opened = std::make_shared<std::promise<void>>();
  const auto ended = std::make_shared<std::promise<void>>();
  auto stream = std::make_unique<Stream>(device());
  StreamRef& borrowed = *stream;
  int steps = 0;
  borrowed.host("gate", [opened] { opened->get_future().wait(); });
  borrowed.host("destroys", [&, owned = std::make_shared<std::unique_ptr<Stream>>()] {
    *owned = std::move(stream);
    owned->reset();
    ++steps;
  });
  borrowed.host("behind", [&steps, ended] {
    ++steps;
    ended->set_value();
  });
  opened->set_value();
  ended->get_future().wait();
  EXPECT_EQ(steps, 2);
}

TEST_P(OwnStream, a_node_of_a_graph_may_destroy_the_stream_it_runs_on) {
  for (int at = 0; at < 8; ++at) {
    const auto opened = std::make_shared<std::promise<void>>();
    const auto ended = std::make_shared<std::promise<void>>();
    auto stream = std::make_unique<Stream>(device());
    Graph graph(device());
    graph.host("destroys", [&] { stream.reset(); });
    for (int node = 0; node < 8; ++node) graph.host("beside", [] {});
    Exec exec = graph.instantiate();
    stream->host("gate", [opened] { opened->get_future().wait(); });
    exec.launch(*stream);
    stream->host("end", [ended] { ended->set_value(); });
    opened->set_value();
    ended->get_future().wait();
    EXPECT_EQ(stream, nullptr);
  }
}

TEST(OwnStreamDevice, a_stream_destroyed_by_its_work_keeps_its_device_until_it_has_ended) {
  const auto ended = std::make_shared<std::promise<void>>();
  auto stream = std::make_shared<Stream>(Device::host(2));
  auto opened = std::make_shared<std::promise<void>>();
  stream->host("gate", [opened] { opened->get_future().wait(); });
  stream->host("owner", [stream] {});
  stream->host("end", [ended] { ended->set_value(); });
  stream.reset();
  opened->set_value();
  ended->get_future().wait();
}

}  // namespace
}  // namespace attacca::test
