// batch_sizes: one graph for batches of every size.
//
// A batch of requests is scored and the scores are copied out. From one batch to the next only
// sizes differ, so the grid, the arguments and the copy's length are set in place and nothing is
// built again. When the graph itself changes, the update says that it had to start over, and why.
#include <attacca/attacca.hpp>

#include "example.hpp"

namespace attacca::examples {
namespace {

constexpr unsigned kLargest = 100;
constexpr unsigned kFeatures = 32;
constexpr int kUntouched = -1;

struct Score {
  static constexpr const char* name = "score";
  struct Args {
    const int* features;  // [batch, kFeatures]
    int* scores;          // [batch]
    unsigned batch;
  };
  static Cost cost(const Args& a) {
    return {.flops = 2.0 * a.batch * kFeatures, .bytes = 4.0 * a.batch * (kFeatures + 1)};
  }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.index() >= a.batch) return;
    const int* row = a.features + t.index() * kFeatures;
    int sum = 0;
    for (unsigned i = 0; i < kFeatures; ++i) sum += static_cast<int>(i) * row[i];
    a.scores[t.index()] = sum;
  }
};
struct Clamp {
  static constexpr const char* name = "clamp";
  struct Args {
    int* scores;  // [batch]
    int highest;
    unsigned batch;
  };
  static Cost cost(const Args& a) { return {.flops = 1.0 * a.batch, .bytes = 8.0 * a.batch}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.index() < a.batch && a.scores[t.index()] > a.highest) a.scores[t.index()] = a.highest;
  }
};
const Kernel<Score::Args> score = make_kernel<Score>();
const Kernel<Clamp::Args> clamp = make_kernel<Clamp>();

struct Memory {
  explicit Memory(const Device& device)
      : features(device, kLargest * kFeatures),
        scores(device, kLargest),
        answers(device, kLargest, Visibility::shared) {}
  Buffer<int> features, scores, answers;
};

/// The graph, and the handles by which its nodes are changed.
struct Scoring {
  Graph graph;
  KernelNode<Score::Args> score;
  CopyNode download;
};

Score::Args arguments(const Memory& memory, unsigned batch) {
  return {.features = memory.features.data(), .scores = memory.scores.data(), .batch = batch};
}

Scoring build(const Device& device, const Memory& memory) {
  Graph graph(device, "batch_sizes");
  const auto scored =
      graph.kernel(score, Grid::covering(kLargest, 32), arguments(memory, kLargest));
  const auto download =
      graph.copy(memory.answers.data(), memory.scores.data(), memory.scores.bytes())
          .named("download")
          .after(scored);
  return {std::move(graph), scored, download};
}

void run(const Device& device, std::ostream& out) {
  std::vector<int> features(kLargest * kFeatures);
  for (unsigned i = 0; i < features.size(); ++i) features[i] = static_cast<int>(i * 37 % 101);
  Memory memory(device);
  memory.features.write(features);
  const Stream stream(device);

  const auto check = [&](unsigned batch, int highest) {
    std::vector<int> expected(kLargest, kUntouched);
    for (unsigned row = 0; row < batch; ++row) {
      expected[row] = 0;
      for (unsigned i = 0; i < kFeatures; ++i)
        expected[row] += static_cast<int>(i) * features[row * kFeatures + i];
      if (expected[row] > highest) expected[row] = highest;
    }
    expect(memory.answers.read() == expected, "scores of a batch of " + std::to_string(batch));
  };

  Scoring scoring = build(device, memory);
  Exec exec = scoring.graph.instantiate();
  for (const unsigned batch : {64u, 7u, kLargest, 1u}) {
    memory.answers.write(std::vector<int>(kLargest, kUntouched));
    const UpdateReport kernel =
        exec.set(scoring.score, Grid::covering(batch, 32), arguments(memory, batch));
    const UpdateReport copy = exec.set(scoring.download, memory.answers.data(),
                                       memory.scores.data(), batch * sizeof(int));
    exec.launch(stream);
    stream.synchronize();
    check(batch, 1 << 30);
    out << "batch of " << batch << ": "
        << (kernel && copy ? "set in place\n" : kernel.reason + copy.reason + '\n');
  }

  // From now on scores are clamped: another node, hence another graph.
  constexpr int kHighest = 20000;
  Scoring clamped = build(device, memory);
  clamped.download.after(
      clamped.graph
          .kernel(clamp, Grid::covering(kLargest, 32),
                  {.scores = memory.scores.data(), .highest = kHighest, .batch = kLargest})
          .after(clamped.score));
  const UpdateReport report = exec.update(clamped.graph);
  exec.launch(stream);
  stream.synchronize();
  check(kLargest, kHighest);
  expect(report.was_reinstantiated, "another node must mean another instantiation");
  out << "with clamp: instantiated anew, because of '" << report.node << "': " << report.reason
      << '\n'
      << exec.counters().launches << " launches, " << exec.counters().nodes_updated
      << " nodes set in place, " << exec.counters().reinstantiations << " re-instantiation\n";
}

Graph graph(const Device& device) { return build(device, Memory(device)).graph; }

}  // namespace

const Example batch_sizes{"batch_sizes", "one graph, set in place for batches of every size", graph,
                          run};

}  // namespace attacca::examples
