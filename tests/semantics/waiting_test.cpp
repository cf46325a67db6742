// Tests of WaitingThread: a kernel whose wait times out reports to its stream which thread waited
// for what, and the device stays usable.
#include <gmock/gmock.h>

#include "core/fault_sources.hpp"
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SmallWaiting : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(SmallWaiting);

TEST_P(SmallWaiting, a_wait_that_ends_unanswered_is_named_at_synchronize) {
  Graph graph(device(), "stuck");
  graph.kernel(give_up, Grid{{3}, {1}}, {.block = 2, .wanted = 7, .seen = 4}).named("patient");
  Exec exec = graph.instantiate();
  exec.launch(stream());
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<WaitOverdue>(
                  AllOf(HasSubstr("'patient' of graph 'stuck'"), HasSubstr("block 2, thread 0"),
                        HasSubstr("for a letter"), HasSubstr("wanted 7 and saw 4"))));
  EXPECT_NO_THROW(stream().synchronize()) << "a failure is reported once";
}

TEST_P(SmallWaiting, of_many_threads_that_give_up_one_is_heard) {
  stream().kernel(give_up, Grid{{64}, {64}}, {.block = kEveryBlock, .wanted = 1, .seen = 0});
  EXPECT_THROW(stream().synchronize(), WaitOverdue);
  EXPECT_NO_THROW(stream().synchronize());
}

TEST_P(SmallWaiting, another_stream_does_not_hear_of_it) {
  Stream other(device());
  stream().kernel(give_up, Grid{}, {.block = 0, .wanted = 1, .seen = 0});
  other.kernel(give_up, Grid{}, {.block = 9, .wanted = 1, .seen = 0});
  EXPECT_NO_THROW(other.synchronize());
  EXPECT_THROW(stream().synchronize(), WaitOverdue);
}

TEST_P(SmallWaiting, a_source_that_broke_explains_itself) {
  const core::FaultSource source([] { return std::string("3 of 5 letters were read"); });
  stream().kernel(lose_source, Grid{}, {.source = source.number()});
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<SourceBroken>(HasSubstr("3 of 5 letters were read")));
}

TEST_P(SmallWaiting, a_source_that_is_gone_is_said_to_be) {
  unsigned number = 0;
  {
    const core::FaultSource source([] { return std::string("never said"); });
    number = source.number();
  }
  stream().kernel(lose_source, Grid{}, {.source = number});
  EXPECT_THAT([&] { stream().synchronize(); }, ThrowsMessage<SourceBroken>(HasSubstr("gone")));
}

}  // namespace
}  // namespace attacca::test
