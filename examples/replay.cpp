// replay: build a graph once, launch it many times.
//
// Three short kernels, each waiting for the one before, advance 256 random number generators by one
// step. As a graph a step is one launch; as stream calls it is three, and the device waits for each
// launch.
#include <attacca/attacca.hpp>
#include <chrono>
#include <functional>

#include "example.hpp"

namespace attacca::examples {
namespace {

constexpr unsigned kCount = 256;
constexpr int kSteps = 1000;

struct Step {
  struct Args {
    unsigned* x;
    unsigned count;
  };
  static Cost cost(const Args& a) { return {.flops = 1.0 * a.count, .bytes = 8.0 * a.count}; }
};
using Args = Step::Args;

struct Multiply : Step {
  static constexpr const char* name = "multiply";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.index() < a.count) a.x[t.index()] *= 1664525u;
  }
};
struct Add : Step {
  static constexpr const char* name = "add";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.index() < a.count) a.x[t.index()] += 1013904223u;
  }
};
struct Mix : Step {
  static constexpr const char* name = "mix";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.index() < a.count) a.x[t.index()] ^= a.x[t.index()] >> 16;
  }
};
const Kernel<Args> multiply = make_kernel<Multiply>();
const Kernel<Args> add = make_kernel<Add>();
const Kernel<Args> mix = make_kernel<Mix>();

Graph build(const Device& device, unsigned* x) {
  const Args args{.x = x, .count = kCount};
  const Grid grid = Grid::covering(kCount);
  Graph graph(device, "replay");
  const auto a = graph.kernel(multiply, grid, args);
  const auto b = graph.kernel(add, grid, args).after(a);
  graph.kernel(mix, grid, args).after(b);
  return graph;
}

long long microseconds(const Stream& stream, const std::function<void()>& work) {
  stream.synchronize();
  const auto start = std::chrono::steady_clock::now();
  work();
  stream.synchronize();
  const auto taken = std::chrono::steady_clock::now() - start;
  return std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
}

void run(const Device& device, std::ostream& out) {
  std::vector<unsigned> expected(kCount);
  for (unsigned i = 0; i < kCount; ++i) expected[i] = i;
  Buffer<unsigned> x(device, expected);
  const Stream stream(device);

  Exec exec = build(device, x.data()).instantiate();
  exec.launch(stream);  // warm-up: the first launch may load code
  const auto replayed = microseconds(stream, [&] {
    for (int step = 1; step < kSteps; ++step) exec.launch(stream);
  });
  const auto called = microseconds(stream, [&] {
    for (int step = 1; step < kSteps; ++step)
      for (const Kernel<Args>& kernel : {multiply, add, mix})
        stream.kernel(kernel, Grid::covering(kCount), {.x = x.data(), .count = kCount});
  });

  for (int step = 1; step < 2 * kSteps; ++step)
    for (unsigned& value : expected) {
      value = value * 1664525u + 1013904223u;
      value ^= value >> 16;
    }
  expect(x.read() == expected, "the generators are not where plain C++ takes them");
  out << "replayed    " << kSteps - 1 << " graph launches of 3 kernels in " << replayed << " us\n"
      << "one by one  " << 3 * (kSteps - 1) << " kernel launches in " << called << " us\n"
      << "All " << kCount << " generators are where plain C++ takes them.\n";
}

Graph graph(const Device& device) {
  const Buffer<unsigned> x(device, kCount);
  return build(device, x.data());
}

}  // namespace

const Example replay{"replay", "build a graph once, launch it many times", graph, run};

}  // namespace attacca::examples
