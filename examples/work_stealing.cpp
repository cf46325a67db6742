// work_stealing: ranks that take work from one counter.
//
// Rank 0 has a counter in symmetric memory. Every rank takes the next item with a remote fetch-add,
// so a rank with short items takes more of them. With a static split the rank that got the long
// items would work while the other waits.
#include <attacca/attacca.hpp>
#include <chrono>

#include "example.hpp"

namespace attacca::examples {
namespace {

constexpr int kRanks = 2;
constexpr std::uint64_t kItems = 96;

/// The first half of the items has nearly all the work.
ATTACCA_HD unsigned rounds_of(std::uint64_t item) { return item < kItems / 2 ? 240000 : 8000; }
ATTACCA_HD std::uint64_t result_of(std::uint64_t item) {
  std::uint64_t x = item + 1;
  for (unsigned round = 0; round < rounds_of(item); ++round) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

/// Does the item whose number is in memory, if there is such an item.
struct Work {
  static constexpr const char* name = "work";
  struct Args {
    const std::uint64_t* item;
    std::uint64_t* results;  // [items]
  };
  static Cost cost(const Args&) { return {.flops = 6.0 * rounds_of(0), .bytes = 24.0}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.index() == 0 && *a.item < kItems) a.results[*a.item] += result_of(*a.item);
  }
};
const Kernel<Work::Args> work = make_kernel<Work>();

/// What one rank has.
struct Stealer {
  Stealer(const Device& like, const Group& group)
      : device(rank_device(like, 1)),
        counter(group.symmetric<std::uint64_t>(1)),
        item(device, std::vector<std::uint64_t>{0}, Visibility::shared),
        results(device, std::vector<std::uint64_t>(kItems), Visibility::shared) {}

  Device device;
  SymmetricBuffer<std::uint64_t> counter;  // rank 0's is used
  Buffer<std::uint64_t> item;
  Buffer<std::uint64_t> results;
};

Graph build(const Group& group, const Stealer& own) {
  Graph graph(own.device, "work_stealing");
  const auto claim =
      group.fetch_add(own.counter.data(), 1, 0, own.item.data()).named("claim").add_to(graph);
  graph.kernel(work, Grid{}, {own.item.data(), own.results.data()}).after(claim);
  return graph;
}

using Clock = std::chrono::steady_clock;
double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void run(const Device& device, std::ostream& out) {
  std::vector<double> stolen(kRanks), split(kRanks);
  std::vector<std::uint64_t> taken(kRanks), results(kItems);
  run_loopback(kRanks, [&](const Group& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const Stealer own(device, group);
    Exec exec = build(group, own).instantiate();
    const Stream stream(own.device);

    group.barrier().run();
    auto start = Clock::now();
    for (;;) {
      exec.launch(stream);
      stream.synchronize();
      if (*own.item.data() >= kItems) break;
      ++taken[rank];
    }
    stolen[rank] = milliseconds_since(start);
    group.all_reduce(own.results.span()).run();
    if (rank == 0) results = own.results.read();

    group.barrier().run();
    start = Clock::now();
    for (std::uint64_t at = 0; at < kItems / kRanks; ++at) {
      *own.item.data() = rank * (kItems / kRanks) + at;
      stream.kernel(work, Grid{}, {own.item.data(), own.results.data()});
      stream.synchronize();
    }
    split[rank] = milliseconds_since(start);
  });
  for (std::uint64_t item = 0; item < kItems; ++item)
    expect(results[item] == result_of(item), "an item was not done exactly once");
  const auto times = [](const std::vector<double>& of) {
    return "rank 0 worked " + written("%.1f", of[0]) + " ms, rank 1 " + written("%.1f", of[1]) +
           " ms\n";
  };
  out << "static split   " << times(split) << "work stealing  " << times(stolen) << "All " << kItems
      << " items were done once; rank 0 took " << taken[0] << ", rank 1 " << taken[1] << ".\n";
}

Graph graph(const Device& device) {
  const Group group = make_loopback(1).front();
  return build(group, Stealer(device, group));
}

}  // namespace

const Example work_stealing{"work_stealing", "ranks that take work from one counter", graph, run};

}  // namespace attacca::examples
