// Tests of Records: marks in a graph are kept in order with their times, and the newest stay.
#include <gmock/gmock.h>

#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using device::Record;
using device::Records;

class SmallDeviceRecords : public OnEachDevice {
 protected:
  /// A chain of `count` marks with the values 0, 1, …
  Graph marks(const device::RecordsRef& records, std::uint32_t count) {
    Graph graph(device(), "marks");
    std::optional<Node> last;
    for (std::uint32_t value = 0; value < count; ++value) {
      auto node = graph.kernel(mark(), Grid{}, {records, 7, value});
      if (last) node.after(*last);
      last = node;
    }
    return graph;
  }
};
ATTACCA_ON_EACH_DEVICE(SmallDeviceRecords);

TEST_P(SmallDeviceRecords, more_than_any_memory_holds_are_refused) {
  EXPECT_THROW(Records(device(), (std::size_t{1} << 63) + 1), BadArgument);
  EXPECT_THROW(Records(device(), ~std::size_t{0}), BadArgument);
}

TEST_P(SmallDeviceRecords, marks_are_kept_in_order_with_their_times) {
  const Records records(device(), 16);
  run(marks(records.ref(), 10));
  const std::vector<Record> read = records.read();
  ASSERT_EQ(read.size(), 10u);
  for (std::uint32_t at = 0; at < 10; ++at) {
    EXPECT_EQ(read[at].what, 7u);
    EXPECT_EQ(read[at].value, at);
    EXPECT_GE(read[at].at, read[at == 0 ? 0 : at - 1].at);
  }
  EXPECT_GT(read.back().at, 0u);
}

TEST_P(SmallDeviceRecords, the_newest_stay_when_there_are_more_than_fit) {
  Records records(device(), 5);  // becomes 8
  run(marks(records.ref(), 20));
  EXPECT_EQ(records.written(), 20u);
  const std::vector<Record> read = records.read();
  ASSERT_EQ(read.size(), 8u);
  for (std::uint32_t at = 0; at < 8; ++at) EXPECT_EQ(read[at].value, 12 + at);
  records.clear();
  EXPECT_TRUE(records.read().empty());
}

TEST_P(SmallDeviceRecords, several_at_once_stand_side_by_side) {
  if (is_cuda()) GTEST_SKIP() << "the host adds them here";
  const Records records(device(), 4);
  records.ref().add(1);
  records.ref().add_all({20, 30}, {2, 3});
  device::RecordsRef().add_all({20}, {2});
  const std::vector<Record> read = records.read();
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].what, 1u);
  EXPECT_EQ(read[1].at, 20u);
  EXPECT_EQ(read[1].what, 2u);
  EXPECT_EQ(read[2].at, 30u);
  EXPECT_EQ(read[2].what, 3u);
}

TEST_P(SmallDeviceRecords, without_records_a_mark_does_nothing) { run(marks({}, 3)); }

}  // namespace
}  // namespace attacca::test
