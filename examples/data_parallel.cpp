// data_parallel: a training step whose exchanges hide behind its kernels.
//
// Two ranks train a stack of linear layers, each on half of the batch. As soon as a layer's
// gradient is there, an all-reduce adds up that bucket, while the kernels of the layers before it
// go on. All of it is code for two streams, captured into one graph. The weights are then compared
// with those of plain C++ on the whole batch.
#include <algorithm>
#include <attacca/attacca.hpp>
#include <cmath>
#include <string>

#include "example.hpp"

namespace attacca::examples {
namespace {

constexpr int kRanks = 2;
constexpr unsigned kLayers = 4, kSize = 24, kBatch = 32, kSteps = 5;
constexpr float kRate = 0.5f;

// The numbers of a model and a batch, the same on all ranks.
float weight_at(unsigned layer, unsigned at) {
  return std::sin(0.37f * static_cast<float>(at + 7 * layer)) / 3.0f;
}
float input_at(unsigned row, unsigned at) {
  return std::cos(0.11f * static_cast<float>(row * kSize + at));
}
float target_at(unsigned row, unsigned at) {
  return std::sin(0.05f * static_cast<float>(row + 3 * at));
}

struct LayerArgs {
  const float* x;   // [rows, size]: the layer's input
  const float* w;   // [size, size]
  const float* dy;  // [rows, size]: the loss's gradient by the output
  float* out;
  unsigned rows;
};
struct LayerKernel {
  using Args = LayerArgs;
  static Cost cost(const Args& a) {
    return {.flops = 2.0 * a.rows * kSize * kSize, .bytes = 4.0 * kSize * (2.0 * a.rows + kSize)};
  }
};
/// out = x wᵀ
struct Forward : LayerKernel {
  static constexpr const char* name = "forward";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (const std::uint64_t i = t.index(); i < std::uint64_t{a.rows} * kSize) {
      const float *x = a.x + i / kSize * kSize, *w = a.w + i % kSize * kSize;
      float sum = 0;
      for (unsigned k = 0; k < kSize; ++k) sum += x[k] * w[k];
      a.out[i] = sum;
    }
  }
};
/// out = dy w: the gradient by the layer's input
struct Backward : LayerKernel {
  static constexpr const char* name = "backward";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (const std::uint64_t i = t.index(); i < std::uint64_t{a.rows} * kSize) {
      const float* dy = a.dy + i / kSize * kSize;
      float sum = 0;
      for (unsigned k = 0; k < kSize; ++k) sum += dy[k] * a.w[k * kSize + i % kSize];
      a.out[i] = sum;
    }
  }
};
/// out = dyᵀ x: the gradient by the weights, over this rank's rows
struct Gradient : LayerKernel {
  static constexpr const char* name = "gradient";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (const std::uint64_t i = t.index(); i < kSize * kSize) {
      float sum = 0;
      for (unsigned row = 0; row < a.rows; ++row)
        sum += a.dy[row * kSize + i / kSize] * a.x[row * kSize + i % kSize];
      a.out[i] = sum;
    }
  }
};
/// out = (x - dy) / batch: the gradient of half the mean square error; dy holds the targets
struct Loss : LayerKernel {
  static constexpr const char* name = "loss";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (const std::uint64_t i = t.index(); i < std::uint64_t{a.rows} * kSize)
      a.out[i] = (a.x[i] - a.dy[i]) / kBatch;
  }
};
/// out -= rate * x, for weights
struct Update : LayerKernel {
  static constexpr const char* name = "update";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (const std::uint64_t i = t.index(); i < kSize * kSize) a.out[i] -= kRate * a.x[i];
  }
};
const Kernel<LayerArgs> forward = make_kernel<Forward>(), backward = make_kernel<Backward>(),
                        gradient = make_kernel<Gradient>(), loss = make_kernel<Loss>(),
                        update = make_kernel<Update>();

/// One rank's weights, its rows of the batch, and all that a step computes from them.
struct Trainer {
  Trainer(const Device& like, const Group& group)
      : device(rank_device(like, 2)),  // one worker computes while the other exchanges
        rows(kBatch / static_cast<unsigned>(group.size())),
        targets(device, rows * kSize) {
    const unsigned first = rows * static_cast<unsigned>(group.rank());
    std::vector<float> x, t, w;
    for (unsigned row = first; row < first + rows; ++row)
      for (unsigned at = 0; at < kSize; ++at) {
        x.push_back(input_at(row, at));
        t.push_back(target_at(row, at));
      }
    targets.write(t);
    for (unsigned layer = 0; layer <= kLayers; ++layer) {
      values.emplace_back(device, x);
      deltas.emplace_back(device, rows * kSize);
      if (layer == kLayers) break;
      w.clear();
      for (unsigned at = 0; at < kSize * kSize; ++at) w.push_back(weight_at(layer, at));
      weights.emplace_back(device, w);
      gradients.emplace_back(device, kSize * kSize);
    }
  }

  Device device;
  unsigned rows;
  Buffer<float> targets;
  std::vector<Buffer<float>> values, deltas;  // before and behind each layer
  std::vector<Buffer<float>> weights, gradients;
};

/// Ordinary code for two streams, captured: one computes, the other exchanges and updates.
Graph build(const Group& group, const Trainer& own) {
  const Stream computing(own.device);
  const Stream exchanging(own.device);
  const auto let_wait = [&](StreamRef later, StreamRef earlier) {
    const Event event(own.device);
    earlier.record(event);
    later.wait(event);
  };
  const auto enqueue_step = [&](StreamRef compute) {
    const StreamRef exchange = exchanging;
    const Grid grid = Grid::covering(kBatch * kSize);
    for (unsigned layer = 0; layer < kLayers; ++layer)
      compute.kernel(forward, grid,
                     {own.values[layer].data(), own.weights[layer].data(), nullptr,
                      own.values[layer + 1].data(), own.rows});
    compute.kernel(loss, grid,
                   {own.values[kLayers].data(), nullptr, own.targets.data(),
                    own.deltas[kLayers].data(), own.rows});
    for (unsigned layer = kLayers; layer-- > 0;) {
      const float* dy = own.deltas[layer + 1].data();
      compute.kernel(
          gradient, grid,
          {own.values[layer].data(), nullptr, dy, own.gradients[layer].data(), own.rows});
      let_wait(exchange, compute);
      group.all_reduce(own.gradients[layer].span())
          .named("bucket " + std::to_string(layer))
          .enqueue(exchange);
      compute.kernel(backward, grid,
                     {nullptr, own.weights[layer].data(), dy, own.deltas[layer].data(), own.rows});
      let_wait(exchange, compute);  // `backward` still reads the old weights
      exchange.kernel(
          update, grid,
          {own.gradients[layer].data(), nullptr, nullptr, own.weights[layer].data(), own.rows});
    }
    let_wait(compute, exchange);
  };
  return capture(computing, enqueue_step, "data_parallel");
}

/// The same training in plain C++ and double precision, on the whole batch.
std::vector<std::vector<double>> reference() {
  std::vector<std::vector<double>> w(kLayers);
  for (unsigned layer = 0; layer < kLayers; ++layer)
    for (unsigned at = 0; at < kSize * kSize; ++at) w[layer].push_back(weight_at(layer, at));
  for (unsigned step = 0; step < kSteps; ++step) {
    std::vector<std::vector<double>> dw(kLayers, std::vector<double>(kSize * kSize));
    for (unsigned row = 0; row < kBatch; ++row) {
      std::vector<std::vector<double>> x(kLayers + 1, std::vector<double>(kSize));
      for (unsigned at = 0; at < kSize; ++at) x[0][at] = input_at(row, at);
      for (unsigned layer = 0; layer < kLayers; ++layer)
        for (unsigned i = 0; i < kSize; ++i)
          for (unsigned k = 0; k < kSize; ++k)
            x[layer + 1][i] += w[layer][i * kSize + k] * x[layer][k];
      std::vector<double> dy(kSize);
      for (unsigned i = 0; i < kSize; ++i) dy[i] = (x[kLayers][i] - target_at(row, i)) / kBatch;
      for (unsigned layer = kLayers; layer-- > 0;) {
        std::vector<double> dx(kSize);
        for (unsigned i = 0; i < kSize; ++i)
          for (unsigned k = 0; k < kSize; ++k) {
            dw[layer][i * kSize + k] += dy[i] * x[layer][k];
            dx[k] += dy[i] * w[layer][i * kSize + k];
          }
        dy = dx;
      }
    }
    for (unsigned layer = 0; layer < kLayers; ++layer)
      for (unsigned at = 0; at < kSize * kSize; ++at) w[layer][at] -= kRate * dw[layer][at];
  }
  return w;
}

void run(const Device& device, std::ostream& out) {
  const std::vector<std::vector<double>> right = reference();
  std::vector<double> farthest(kRanks), moved(kRanks);
  std::size_t nodes = 0;
  run_loopback(kRanks, [&](const Group& group) {
    const Trainer own(device, group);
    const Graph step = build(group, own);
    Exec exec = step.instantiate();
    const Stream stream(own.device);
    for (unsigned at = 0; at < kSteps; ++at) exec.launch(stream);
    stream.synchronize();
    const auto rank = static_cast<std::size_t>(group.rank());
    for (unsigned layer = 0; layer < kLayers; ++layer) {
      const std::vector<float> w = own.weights[layer].read();
      for (unsigned at = 0; at < w.size(); ++at) {
        farthest[rank] = std::max(farthest[rank], std::abs(w[at] - right[layer][at]));
        moved[rank] =
            std::max(moved[rank], std::abs(right[layer][at] - double{weight_at(layer, at)}));
      }
    }
    if (rank == 0) nodes = step.node_count();
  });
  for (const double distance : farthest)
    expect(distance < 1e-5, "the ranks did not learn what one rank learns");
  out << kSteps << " steps of one graph with " << nodes << " nodes on " << kRanks << " ranks\n"
      << "A weight moved by up to " << written("%.1e", moved[0])
      << ", and differs from plain C++ by at most "
      << written("%.1e", std::max(farthest[0], farthest[1])) << ".\n";
}

Graph graph(const Device& device) {
  const Group group = make_loopback(1).front();
  return build(group, Trainer(device, group));
}

}  // namespace

const Example data_parallel{"data_parallel", "a training step whose exchanges hide behind kernels",
                            graph, run};

}  // namespace attacca::examples
