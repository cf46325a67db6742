// Tests of memory outside graphs: buffers, arenas and pools.
#include <gmock/gmock.h>

#include <set>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::HasSubstr;

class SmallMemory : public OnEachDevice {
 protected:
  static std::uintptr_t number(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
  }
};
ATTACCA_ON_EACH_DEVICE(SmallMemory);

TEST_P(SmallMemory, a_buffer_gives_back_what_was_written) {
  Buffer<int> values = buffer<int>({1, 2, 3});
  EXPECT_EQ(values.size(), 3u);
  EXPECT_EQ(values.bytes(), 12u);
  EXPECT_EQ(values.read(), (std::vector<int>{1, 2, 3}));
  values.write(std::vector<int>{7});
  EXPECT_EQ(values.read(), (std::vector<int>{7, 2, 3}));
  values.write(std::vector<int>{4, 5, 6});
  EXPECT_EQ(values.read(), (std::vector<int>{4, 5, 6}));
  EXPECT_EQ(number(values.data()) % 256, 0u);
}

TEST_P(SmallMemory, a_buffer_moves_with_its_contents) {
  Buffer<int> first = buffer<int>({1, 2});
  const int* address = first.data();
  Buffer<int> second = std::move(first);
  EXPECT_EQ(second.data(), address);
  Buffer<int> third = buffer<int>({9});
  third = std::move(second);
  EXPECT_EQ(third.data(), address);
  EXPECT_EQ(third.read(), (std::vector<int>{1, 2}));
}

TEST_P(SmallMemory, a_buffer_that_was_moved_from_is_empty) {
  Buffer<int> first = buffer<int>({1, 2});
  const Buffer<int> second = std::move(first);
  EXPECT_EQ(first.size(), 0u);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_TRUE(first.span().empty());
  EXPECT_TRUE(first.read().empty());
  EXPECT_THROW(first.write(std::vector<int>{1}), BadArgument);
}

TEST_P(SmallMemory, a_pool_that_was_moved_from_refuses) {
  Pool first(device());
  Pool second = std::move(first);
  EXPECT_THROW(first.allocate<int>(stream(), 1), BadArgument);
  EXPECT_THROW(first.free(stream(), nullptr), BadArgument);
  EXPECT_EQ(first.bytes_reserved(), 0u);
  second.free(stream(), second.allocate<int>(stream(), 1));
}

TEST_P(SmallMemory, a_pool_refuses_a_stream_of_another_device) {
  Pool pool(device());
  const Device other = Device::host(2);
  const Stream stranger(other);
  const auto refusal =
      testing::ThrowsMessage<BadArgument>(HasSubstr("use a stream of the pool's device"));
  EXPECT_THAT([&] { pool.allocate<int>(stranger, 100); }, refusal);
  int* x = pool.allocate<int>(stream(), 100);
  EXPECT_THAT([&] { pool.free(stranger, x); }, refusal);
  pool.free(stream(), x);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST_P(SmallMemory, more_than_there_is_is_refused_with_the_size) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 50;
  const auto refused = testing::ThrowsMessage<DeviceError>(
      device().is_cuda() ? HasSubstr("memory") : HasSubstr("1125899906842624 bytes"));
  EXPECT_THAT([&] { Buffer<char>(device(), kTooMuch); }, refused);
  EXPECT_THAT([&] { Buffer<char>(device(), kTooMuch, Visibility::shared); },
              testing::Throws<DeviceError>());
  EXPECT_THAT([&] { Arena(device(), kTooMuch); }, refused);
  Pool pool(device());
  EXPECT_THAT([&] { pool.allocate<char>(stream(), kTooMuch); }, testing::Throws<DeviceError>());
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST_P(SmallMemory, a_buffer_may_be_empty) {
  const Buffer<int> none = buffer(std::vector<int>{});
  EXPECT_EQ(none.size(), 0u);
  EXPECT_TRUE(none.read().empty());
}

TEST_P(SmallMemory, more_elements_than_any_memory_holds_are_refused_not_wrapped) {
  constexpr std::size_t kTooMany = (~std::size_t{0}) / sizeof(int) + 2;  // wraps to four bytes
  EXPECT_THROW(Buffer<int>(device(), kTooMany), BadArgument);
  EXPECT_THROW(Buffer<int>(device(), kTooMany, Visibility::shared), BadArgument);
  Arena arena(device(), 4096);
  EXPECT_THROW(arena.take<int>(kTooMany), BadArgument);
  EXPECT_THROW(arena.take_bytes(~std::size_t{0} - 100), BadArgument);
  Pool pool(device());
  EXPECT_THROW(pool.allocate<int>(stream(), kTooMany), BadArgument);
  EXPECT_THROW(pool.allocate_bytes(stream(), ~std::size_t{0}), BadArgument);
  EXPECT_NE(arena.take<int>(4), nullptr);
}

TEST_P(SmallMemory, host_and_device_both_reach_a_shared_buffer) {
  const Buffer<int> shared(device(), std::vector<int>{3, 0}, Visibility::shared);
  EXPECT_EQ(shared.data()[0], 3);
  shared.data()[0] = 4;
  stream().kernel(affine, Grid{}, {.x = shared.data(), .count = 2, .factor = 2, .summand = 1});
  stream().synchronize();
  EXPECT_EQ(shared.data()[0], 9);
  EXPECT_EQ(shared.data()[1], 1);
}

TEST_P(SmallMemory, an_arena_gives_out_aligned_addresses_that_do_not_overlap) {
  Arena arena(device(), 4096);
  EXPECT_EQ(arena.bytes_total(), 4096u);
  char* a = arena.take<char>(1);
  int* b = arena.take<int>(3);
  double* c = arena.take<double>(100);
  for (const void* address : {static_cast<void*>(a), static_cast<void*>(b), static_cast<void*>(c)})
    EXPECT_EQ(number(address) % 256, 0u);
  EXPECT_EQ(number(b), number(a) + 256);
  EXPECT_EQ(number(c), number(a) + 512);
  EXPECT_EQ(arena.bytes_used(), 512u + 800u);
}

TEST_P(SmallMemory, a_full_arena_refuses_with_the_numbers) {
  Arena arena(device(), 1024);
  arena.take_bytes(600);
  try {
    arena.take_bytes(500);
    FAIL() << "nothing was thrown";
  } catch (const BadArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("1024"));
    EXPECT_THAT(error.what(), HasSubstr("256 left"));
    EXPECT_THAT(error.what(), HasSubstr("500"));
    EXPECT_THAT(error.what(), HasSubstr("at least 1268"));
  }
  EXPECT_EQ(arena.bytes_used(), 600u) << "a refusal takes nothing";
  EXPECT_NO_THROW(arena.take_bytes(256));
  EXPECT_THROW(arena.take_bytes(1), BadArgument);
  EXPECT_THROW(arena.take_bytes(~std::size_t{0}), BadArgument);
}

TEST_P(SmallMemory, a_reset_arena_gives_out_the_same_addresses) {
  Arena arena(device(), 4096);
  const int* a = arena.take<int>(10);
  const int* b = arena.take<int>(10);
  arena.reset();
  EXPECT_EQ(arena.bytes_used(), 0u);
  EXPECT_EQ(arena.take<int>(10), a);
  EXPECT_EQ(arena.take<int>(10), b);
}

TEST_P(SmallMemory, graphs_of_two_sizes_share_an_arena) {
  Arena arena(device(), 4096);
  int* x = arena.take<int>(8);
  const Buffer<int> out = buffer(std::vector<int>(8, 0));
  const auto make = [&](std::uint64_t count) {
    Graph graph(device());
    const auto clear = graph.fill(x, 0, 8 * sizeof(int));
    const auto add =
        graph.kernel(affine, Grid{}, {.x = x, .count = count, .factor = 1, .summand = 1})
            .after(clear);
    graph.copy(out.data(), x, out.bytes()).after(add);
    return graph.instantiate();
  };
  Exec small = make(2);
  Exec large = make(8);
  run(large);
  EXPECT_EQ(out.read(), std::vector<int>(8, 1));
  run(small);
  EXPECT_EQ(out.read(), (std::vector<int>{1, 1, 0, 0, 0, 0, 0, 0}));
}

TEST_P(SmallMemory, pool_memory_is_used_in_stream_order) {
  Pool pool(device());
  const Buffer<int> out = buffer<int>({0, 0});
  int* x = pool.allocate<int>(stream(), 1);
  stream().kernel(set_value, Grid{}, {.to = x, .value = 6});
  stream().copy(out.data(), x, sizeof(int));
  pool.free(stream(), x);
  int* y = pool.allocate<int>(stream(), 1);
  stream().kernel(set_value, Grid{}, {.to = y, .value = 7});
  stream().copy(out.data() + 1, y, sizeof(int));
  pool.free(stream(), y);
  stream().synchronize();
  EXPECT_EQ(out.read(), (std::vector<int>{6, 7}));
}

TEST_P(SmallMemory, a_pool_counts_what_is_in_use) {
  Pool pool(device());
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  void* a = pool.allocate_bytes(stream(), 1000);
  const std::size_t one = pool.bytes_in_use();
  EXPECT_GE(one, 1000u);
  void* b = pool.allocate_bytes(stream(), 1000);
  EXPECT_EQ(pool.bytes_in_use(), 2 * one);
  EXPECT_GE(pool.bytes_reserved(), pool.bytes_in_use());
  pool.free(stream(), a);
  EXPECT_EQ(pool.bytes_in_use(), one);
  pool.free(stream(), b);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  stream().synchronize();
}

TEST_P(SmallMemory, freed_pool_memory_is_given_out_again) {
  Pool pool(device());
  void* first = pool.allocate_bytes(stream(), 4096);
  pool.free(stream(), first);
  stream().synchronize();
  const std::size_t reserved = pool.bytes_reserved();
  for (int at = 0; at < 50; ++at) {
    void* again = pool.allocate_bytes(stream(), 4096);
    pool.free(stream(), again);
    stream().synchronize();
  }
  EXPECT_EQ(pool.bytes_reserved(), reserved);
}

TEST_P(SmallMemory, pool_addresses_in_use_differ) {
  Pool pool(device());
  std::set<void*> addresses;
  for (int at = 0; at < 20; ++at)
    EXPECT_TRUE(addresses.insert(pool.allocate_bytes(stream(), 64)).second);
  for (void* address : addresses) pool.free(stream(), address);
  stream().synchronize();
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST_P(SmallMemory, a_pool_refuses_to_free_what_it_did_not_give) {
  Pool pool(device());
  Pool other(device());
  const Buffer<int> x = buffer<int>({1});
  void* foreign = other.allocate_bytes(stream(), 16);
  EXPECT_THROW(pool.free(stream(), foreign), BadArgument);
  EXPECT_THROW(pool.free(stream(), x.data()), BadArgument);
  EXPECT_THROW(pool.free(stream(), nullptr), BadArgument);
  other.free(stream(), foreign);
  EXPECT_THROW(other.free(stream(), foreign), BadArgument) << "freed twice";
  stream().synchronize();
}

TEST_P(SmallMemory, a_pool_freed_in_another_stream_than_it_was_allocated_in) {
  Pool pool(device());
  Stream other(device());
  const Event done(device());
  const Buffer<int> out = buffer<int>({0});
  int* x = pool.allocate<int>(stream(), 1);
  stream().kernel(set_value, Grid{}, {.to = x, .value = 6});
  stream().record(done);
  other.wait(done);
  other.copy(out.data(), x, sizeof(int));
  pool.free(other, x);
  other.synchronize();
  EXPECT_EQ(out.read().front(), 6);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace attacca::test
