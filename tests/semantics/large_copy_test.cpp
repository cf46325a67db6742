// A test of copies and fills over 2 GiB. It takes 5 GiB of memory and some seconds, so it runs only
// if ATTACCA_LARGE_TESTS is set.
#include <cstdlib>

#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

class LargeCopy : public OnEachDevice {
 protected:
  void SetUp() override {
    if (!std::getenv("ATTACCA_LARGE_TESTS"))
      GTEST_SKIP() << "set ATTACCA_LARGE_TESTS=1 to copy 2.5 GiB";
    OnEachDevice::SetUp();
  }
};
ATTACCA_ON_EACH_DEVICE(LargeCopy);

TEST_P(LargeCopy, two_and_a_half_gibibytes_arrive_whole) {
  constexpr std::size_t kBytes = std::size_t{5} << 29;
  if (device().bytes_free() < 2 * kBytes + (std::size_t{1} << 30))
    GTEST_SKIP() << "not enough memory for two buffers of 2.5 GiB";
  const Buffer<std::uint8_t> from(device(), kBytes);
  const Buffer<std::uint8_t> to(device(), kBytes);
  // The last byte tells whether all bytes arrived.
  const auto last_of = [&](const Buffer<std::uint8_t>& bytes) {
    const Buffer<std::uint8_t> one(device(), 1);
    stream().copy(one.data(), bytes.data() + kBytes - 1, 1);
    stream().synchronize();
    return one.read().front();
  };
  Graph graph(device());
  const auto fill = graph.fill(from.data(), 7, kBytes);
  const auto copy = graph.copy(to.data(), from.data(), kBytes).after(fill);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(last_of(to), 7);

  EXPECT_TRUE(exec.set(fill, from.data() + 1, 8, kBytes - 1));
  EXPECT_TRUE(exec.set(copy, to.data() + 1, from.data() + 1, kBytes - 1));
  run(exec);
  EXPECT_EQ(last_of(to), 8);

  stream().fill(from.data(), 9, kBytes);
  stream().copy(to.data(), from.data(), kBytes);
  stream().synchronize();
  EXPECT_EQ(last_of(to), 9);
}

}  // namespace
}  // namespace attacca::test
