// products.cpp: a lab for the products of a decode step. A variant of thin_linear, which is
// whatever "kernels/cuda/thin_linear.cuh" this file finds first, against the one in the library:
// results, and times of one layer's products in a chain. What wins moves into src/kernels.
//
//   cmake --preset cuda -DATTACCA_LAB_VARIANT=lab/burst   # a folder with kernels/cuda/*.cuh
//   build/cuda/bin/attacca_lab [ROWS]
#include <attacca/attacca.hpp>
#include <attacca/occupancy.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <vector>

#include "kernels/random_fill.hpp"
#include "kernels/thin_linear.hpp"
#if defined(__CUDACC__)
#include "kernels/cuda/thin_linear.cuh"
#endif

namespace {

using namespace attacca;
using namespace attacca::kernels;

struct Variant {
  static constexpr const char* name = "variant";
  static constexpr bool waits = true;
  static constexpr unsigned max_threads = 320;
  static constexpr unsigned min_blocks = 2;
  using Args = ThinLinearArgs;
  static Cost cost(const Args& a) { return thin_linear(a).cost(a); }
  static void host_block(Thread& t, const Args& a) { thin_linear_on_host(t, a); }
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    thin::Block<thin::WeightsOf<TensorType::bf16>, 1>(a).run(t);
#endif
  }
};

constexpr std::uint32_t kHidden = 4096;
constexpr std::uint32_t kQkv = 6144;
constexpr std::uint32_t kFeedForward = 14336;
constexpr unsigned kLayers = 8;  // so many that L2 keeps nothing
constexpr unsigned kRows = 8;    // at most
constexpr unsigned kLaunches = 20;

/// The weights of some layers, and what their products read and write.
class Layers {
 public:
  Layers(const Device& device, std::uint32_t rows)
      : device_(device),
        processors_(occupancy(device, random_fill(), Grid{Dim3{1}, Dim3{32}}).residency.processors),
        weights_(device, kLayers * layer_elements()),
        x_(device, std::size_t{kRows} * kFeedForward),
        gated_(device, std::size_t{kRows} * kFeedForward),
        y_(device, std::size_t{kRows} * kQkv),
        values_(device, std::vector<float>(std::size_t{kRows} * kHidden)),
        squares_(device, std::vector<float>(std::size_t{kRows} * kHidden / Residual::kPart, 1)),
        norm_(device, std::vector<float>(kHidden, 1)),
        count_(device, std::vector<std::uint32_t>{rows}) {
    fill(weights_.data(), kLayers * layer_elements(), 1, 0.02f);
    fill(x_.data(), std::size_t{kRows} * kFeedForward, 2, 1);
  }

  std::vector<ThinLinearArgs> products() const {
    std::vector<ThinLinearArgs> all;
    const std::uint16_t* next = weights_.data();
    const auto matrix = [&](std::uint32_t rows, std::uint32_t columns) {
      const Matrix w{next, TensorType::bf16, rows, columns};
      next += std::size_t{rows} * columns;
      return w;
    };
    for (unsigned i = 0; i < kLayers; ++i) {
      all.push_back(product(matrix(kQkv, kHidden), ThinEnd::store));
      all.push_back(product(matrix(kHidden, kHidden), ThinEnd::add));
      all.push_back(product(matrix(kFeedForward, kHidden), ThinEnd::gate));
      all.back().up = matrix(kFeedForward, kHidden);
      all.push_back(product(matrix(kHidden, kFeedForward), ThinEnd::add));
    }
    return all;
  }
  /// What the last products left, of all kinds.
  std::vector<float> results() const {
    std::vector<float> all = y_.read();
    const std::vector<float> values = values_.read();
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }
  void reset() { values_.write(std::vector<float>(std::size_t{kRows} * kHidden)); }

  unsigned processors() const { return processors_; }
  static std::size_t layer_elements() {
    return std::size_t{kHidden} * (kQkv + kHidden + 3ull * kFeedForward);
  }

 private:
  void fill(std::uint16_t* to, std::uint64_t count, std::uint64_t seed, float deviation) {
    const RandomFillArgs args{to, TensorType::bf16, count, seed, deviation};
    const Stream stream(device_);
    stream.kernel(random_fill(), grid_of(args, device_.is_cuda()), args);
    stream.synchronize();
  }
  ThinLinearArgs product(const Matrix& w, ThinEnd end) const {
    ThinLinearArgs args{};
    args.x = x_.data();
    args.rows = {count_.data(), kRows};
    args.w = w;
    args.end = end;
    args.epsilon = 1e-5f;
    args.y = y_.data();
    args.gated = gated_.data();
    args.residual = {values_.data(), gated_.data(), squares_.data(), kHidden};
    args.next_norm = norm_.data();
    return args;
  }

  Device device_;
  unsigned processors_;
  Buffer<std::uint16_t> weights_, x_, gated_;
  Buffer<float> y_, values_, squares_, norm_;
  Buffer<std::uint32_t> count_;
};

/// Microseconds of a layer, and what the chain left.
struct Outcome {
  double microseconds;
  std::vector<float> results;
};
Outcome run(const Device& device, Layers& layers, const Kernel<ThinLinearArgs>& kernel,
            bool is_early) {
  Graph graph(device);
  std::optional<Node> last;
  for (const ThinLinearArgs& args : layers.products()) {
    const auto node = graph.kernel(kernel, thin_grid(args, layers.processors()), args);
    last = !last ? Node(node) : is_early ? node.after_programmatic(*last) : node.after(*last);
  }
  Exec exec = graph.instantiate();
  const Stream stream(device);
  layers.reset();
  exec.launch(stream);
  stream.synchronize();
  Outcome outcome{0, layers.results()};
  const auto start = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < kLaunches; ++i) exec.launch(stream);
  stream.synchronize();
  outcome.microseconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() * 1e6 /
      kLaunches / kLayers;
  return outcome;
}

/// The largest difference, relative to the largest result.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
    size = std::max(size, std::abs(static_cast<double>(b[i])));
  }
  return size == 0 ? most : most / size;
}

void compare(std::uint32_t rows) {
  const Device device = Device::cuda(0);
  Layers layers(device, rows);
  const Kernel<ThinLinearArgs> variant = make_kernel<Variant>();
  const double bytes = 2.0 * static_cast<double>(Layers::layer_elements());
  for (const bool is_early : {false, true})
    for (int round = 0; round < 2; ++round) {  // in turn: what drifts shows
      const Outcome reference = run(device, layers, thin_linear(layers.products()[0]), is_early);
      const Outcome trial = run(device, layers, variant, is_early);
      std::printf(
          "%u rows, %s: library %.1f us a layer (%.2f TB/s), variant %.1f us (%.2f TB/s), "
          "off by %.1e\n",
          rows, is_early ? "early starts" : "plain edges", reference.microseconds,
          bytes / reference.microseconds / 1e6, trial.microseconds,
          bytes / trial.microseconds / 1e6, difference(trial.results, reference.results));
    }
}

}  // namespace

int main(int count, char** values) {
  const int rows = count > 1 ? std::atoi(values[1]) : 1;
  if (rows < 1 || rows > static_cast<int>(kRows)) {
    std::fprintf(stderr, "attacca_lab: %s rows; use 1 to %u\n", values[1], kRows);
    return 2;
  }
  try {
    compare(static_cast<std::uint32_t>(rows));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attacca_lab: %s\n", error.what());
    return 1;
  }
  return 0;
}
