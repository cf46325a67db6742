// Tests of Atomic and AtomicRef: each operation returns and stores the right value, alone and among
// many threads, in every scope and for every type. The order between threads is tested in
// tests/relacy and litmus_test.cpp.
#include <attacca/device/atomic.hpp>

#include <algorithm>
#include <limits>

#include "support/atomic_kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/real_threads.hpp"
#include "support/seeded.hpp"

namespace attacca::test {
namespace {

using attacca::device::acq_rel;
using attacca::device::acquire;
using attacca::device::Atomic;
using attacca::device::AtomicRef;
using attacca::device::relaxed;
using attacca::device::release;
using attacca::device::Scope;
using attacca::device::seq_cst;

/// Checks the cells after use_cells by `threads` threads.
template <class T, Scope kScope>
void expect_used(const AtomicCells<T, kScope>& cells, std::uint64_t threads) {
  // The sum wraps if it needs more than 32 bits.
  const auto sum = static_cast<T>(threads * (threads + 1) / 2);
  const auto minus = static_cast<T>(0 - threads * (threads + 1) / 2);
  EXPECT_EQ(cells.added.load(relaxed), sum);
  EXPECT_EQ(cells.taken.load(acquire), minus);
  EXPECT_EQ(cells.compared.load(seq_cst), static_cast<T>(threads));
  EXPECT_EQ(cells.bits.load(relaxed),
            static_cast<T>(threads >= 31 ? 0x7fffffffu : (1u << threads) - 1));
  T least = 0, greatest = 0;
  for (std::uint64_t index = 0; index < threads; ++index) {
    least = std::min(least, lopsided<T>(index));
    greatest = std::max(greatest, lopsided<T>(index));
  }
  EXPECT_EQ(cells.least.load(relaxed), least);
  EXPECT_EQ(cells.greatest.load(relaxed), greatest);
  EXPECT_EQ(cells.plain_sum, sum);
  EXPECT_EQ(cells.plain_least, least);
  EXPECT_EQ(cells.plain_greatest, greatest);
  // One thread found each number, except for the one that is still stored.
  using Unsigned = std::make_unsigned_t<T>;
  EXPECT_EQ(static_cast<T>(static_cast<Unsigned>(cells.received.load(relaxed)) +
                           static_cast<Unsigned>(cells.exchanged.load(relaxed))),
            sum);
}
template <Scope kScope>
void expect_all_used(const ScopeCells<kScope>& cells, std::uint64_t threads) {
  SCOPED_TRACE(testing::Message() << "scope " << static_cast<int>(kScope));
  expect_used(cells.u32, threads);
  expect_used(cells.i32, threads);
  expect_used(cells.u64, threads);
  expect_used(cells.i64, threads);
}

TEST(Atomic, threads_lose_no_operation) {
  constexpr std::uint64_t kEach = 20'000 / kSlowdown;
  ScopeCells<Scope::gpu> cells{};
  run_threads(4, [&](unsigned thread) {
    for (std::uint64_t at = 0; at < kEach; ++at) use_all_cells(cells, thread * kEach + at);
  });
  expect_all_used(cells, 4 * kEach);
}

/// `AtomicType`: Atomic or AtomicRef of a plain T.
template <class T, class AtomicType>
void expect_follows_an_integer() {
  EXPECT_TRUE(rc::check("an atomic follows an integer", [] {
    using Unsigned = std::make_unsigned_t<T>;
    const auto steps =
        *rc::gen::arbitrary<std::vector<std::pair<std::uint8_t, std::pair<T, bool>>>>();
    const T first = *rc::gen::arbitrary<T>();
    T plain = first;
    AtomicType cell(plain);
    T model = first;
    for (const auto& [step, operands] : steps) {
      const auto& [value, is_right] = operands;
      const T before = model;
      const auto wrapped = [](Unsigned a) { return static_cast<T>(a); };
      switch (step % 8) {
        case 0:
          cell.store(model = value, release);
          break;
        case 1:
          model = value;
          RC_ASSERT(cell.exchange(value, acq_rel) == before);
          break;
        case 2:
          model = wrapped(static_cast<Unsigned>(before) + static_cast<Unsigned>(value));
          RC_ASSERT(cell.fetch_add(value, relaxed) == before);
          break;
        case 3:
          model = wrapped(static_cast<Unsigned>(before) - static_cast<Unsigned>(value));
          RC_ASSERT(cell.fetch_sub(value, acquire) == before);
          break;
        case 4:
          model = before | value;
          RC_ASSERT(cell.fetch_or(value, seq_cst) == before);
          break;
        case 5:
          model = std::min(before, value);
          RC_ASSERT(cell.fetch_min(value, release) == before);
          break;
        case 6:
          model = std::max(before, value);
          RC_ASSERT(cell.fetch_max(value, acq_rel) == before);
          break;
        default:
          T expected = is_right ? before : static_cast<T>(~before);
          RC_ASSERT(cell.compare_exchange(expected, value, acq_rel, acquire) == is_right);
          RC_ASSERT(expected == before);
          if (is_right) model = value;
      }
      RC_ASSERT(cell.load(acquire) == model);
    }
  }));
}

template <class T>
void expect_both_follow_an_integer() {
  expect_follows_an_integer<T, Atomic<T, Scope::gpu>>();
  expect_follows_an_integer<T, AtomicRef<T, Scope::gpu>>();
}

TEST(Atomic, follows_an_integer) {
  expect_both_follow_an_integer<std::uint32_t>();
  expect_both_follow_an_integer<std::int32_t>();
  expect_both_follow_an_integer<std::uint64_t>();
  expect_both_follow_an_integer<std::int64_t>();
}

TEST(Atomic, a_reference_leaves_its_result_in_the_plain_integer) {
  std::int32_t plain = 5;
  const AtomicRef<std::int32_t, Scope::system> ref(plain);
  EXPECT_EQ(ref.fetch_min(-3, relaxed), 5);
  EXPECT_EQ(ref.exchange(8, acq_rel), -3);
  EXPECT_EQ(plain, 8);
}

TEST(Atomic, takes_off_the_least_integer) {
  Atomic<std::int32_t, Scope::gpu> cell(-1);
  EXPECT_EQ(cell.fetch_sub(std::numeric_limits<std::int32_t>::min(), relaxed), -1);
  EXPECT_EQ(cell.load(relaxed), std::numeric_limits<std::int32_t>::max());
}

class DeviceAtomic : public OnEachDevice {
 protected:
  void expect_counted(const Grid& grid) {
    const auto cells = buffer(std::vector<EveryScope>(1));
    stream().kernel(use_atomics, grid, {cells.data()});
    stream().synchronize();
    const EveryScope left = cells.read().front();
    expect_all_used(left.gpu, grid.blocks.x * grid.threads.x);
    expect_all_used(left.system, grid.blocks.x * grid.threads.x);
    expect_all_used(left.block, grid.threads.x);
    expect_all_used(left.cluster, grid.threads.x);
  }
};
ATTACCA_ON_EACH_DEVICE(DeviceAtomic);
class SmallDeviceAtomic : public DeviceAtomic {};
ATTACCA_ON_EACH_DEVICE(SmallDeviceAtomic);

TEST_P(SmallDeviceAtomic, threads_lose_no_operation) { expect_counted(Grid{{3}, {48}}); }
TEST_P(DeviceAtomic, threads_lose_no_operation) {
  expect_counted(is_cuda() ? Grid{{64}, {256}} : Grid{{16}, {64}});
}

}  // namespace
}  // namespace attacca::test
