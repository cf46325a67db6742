// Tests of sums over ranks that share a device: with the exchange fused into the kernel that adds
// to the residual they have the bits that they have without.
#include <gtest/gtest.h>
#include <attacca/memory.hpp>
#include <attacca/ranks.hpp>

#include <vector>

#include "kernels/add_residual.hpp"
#include "model/config.hpp"
#include "step/tensor_parallel.hpp"

namespace attacca::step {
namespace {

constexpr std::uint32_t kHidden = 64;
constexpr std::uint32_t kTokens = 5;
constexpr std::size_t kElements = std::size_t{kTokens} * kHidden;

/// A part of a sum that depends on the residual before it, as a product's does.
struct MakePart {
  static constexpr const char* name = "make_part";
  struct Args {
    const float* residual;
    float* to;
    float factor;
  };
  static Cost cost(const Args&) { return {}; }
  static void host(const Grid&, const Args& a) {
    for (std::size_t at = 0; at < kElements; ++at)
      a.to[at] = a.residual[at] * a.factor + 1.0f / static_cast<float>(at + 3);
  }
};
const Kernel<MakePart::Args>& make_part() {
  static const Kernel<MakePart::Args> kernel = make_kernel<MakePart>();
  return kernel;
}

struct Sums {
  std::vector<float> values, squares;  // of all ranks, which are the same
  std::vector<std::uint16_t> scaled;
  bool operator==(const Sums&) const = default;
};

/// Six sums, each of parts that depend on the sum before, launched many times.
Sums sums_of(int ranks, bool fuses, bool in_graph) {
  const Device device = Device::host(2);
  std::vector<Sums> by_rank(static_cast<std::size_t>(ranks));
  run_loopback(ranks, [&](const Group& group) {
    const Group there = group.on(device);
    model::ModelConfig config;
    config.hidden = kHidden;
    config.vocabulary = 64;
    const TensorParallel parallel(device, there, config, {kTokens, 1}, {.fuses_sums = fuses});
    EXPECT_EQ(parallel.fuses_sums(), fuses);
    const Buffer<float> values(device, std::vector<float>(kElements, 0.5f));
    const Buffer<float> squares(device, std::vector<float>(kElements / 16));
    const Buffer<std::uint16_t> scaled(device, std::vector<std::uint16_t>(kElements));
    const Buffer<float> norm(device, std::vector<float>(kHidden, 1.25f));
    const Buffer<std::uint32_t> count(device, std::vector<std::uint32_t>{kTokens - 1});
    Chain chain(device);
    for (unsigned number = 0; number < 6; ++number) {
      const unsigned sum = number % 2;
      const float factor = 0.1f * static_cast<float>(group.rank() + 1) - 0.2f;
      chain.add(Part::product, "part", make_part(), Grid{},
                {values.data(), parallel.partial(sum), factor});
      parallel.add_to_residual(chain, "product", sum,
                               {{},
                                0,
                                {count.data(), kTokens},
                                {values.data(), scaled.data(), squares.data(), kHidden},
                                norm.data()});
    }
    Graph graph(device, "sums");
    chain.append_to(graph);
    Exec exec = graph.instantiate();
    const Stream stream(device);
    for (int launch = 0; launch < 30; ++launch) {
      if (in_graph)
        exec.launch(stream);
      else
        chain.launch(stream);
    }
    stream.synchronize();
    by_rank[static_cast<std::size_t>(group.rank())] = {values.read(), squares.read(),
                                                       scaled.read()};
    group.barrier().run();  // nobody's memory goes while others use it
  });
  for (const Sums& sums : by_rank) EXPECT_EQ(sums, by_rank[0]);
  return by_rank[0];
}

TEST(FusedSums, have_the_bits_of_an_exchange_and_a_residual) {
  for (const int ranks : {1, 2, 3}) {
    const Sums plain = sums_of(ranks, false, true);
    EXPECT_NE(plain.values[0], 0.5f);
    EXPECT_EQ(plain.values[kElements - 1], 0.5f) << "the last row is not one of the step";
    EXPECT_EQ(sums_of(ranks, true, true), plain) << ranks << " ranks";
    EXPECT_EQ(sums_of(ranks, true, false), plain) << ranks << " ranks, without a graph";
  }
}

TEST(FusedSums, need_symmetric_memory_of_the_device) {
  run_loopback(2, [](const Group& group) {
    const Device own = Device::host(1);
    model::ModelConfig config;
    config.hidden = kHidden;
    config.vocabulary = 64;
    const TensorParallel parallel(own, group.on(own), config, {kTokens, 1}, {.fuses_sums = true});
    EXPECT_FALSE(parallel.fuses_sums());
  });
}

}  // namespace
}  // namespace attacca::step
