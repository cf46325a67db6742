// products.cpp: compares a variant of streamed_linear with the library's: the results, and the
// times of one layer's linear kernels in a chain. The variant is
// "kernels/linear/streamed_linear.cuh" and the files that it includes, taken from the folder
// ATTACCA_LAB_VARIANT. Without that folder it is the library's own kernel again.
#include <attacca/attacca.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/linear/streamed_linear.hpp"
#include "kernels/quantization.hpp"
#include "kernels/random_fill.hpp"
#include "lab.hpp"

// Its own namespace, so that no linker or profiler confuses the two.
#define streamed streamed_variant
#include "kernels/linear/streamed_linear.cuh"
#undef streamed

namespace attacca::lab {
namespace {

using namespace attacca::kernels;

struct Variant {
  static constexpr const char* name = "streamed_variant";
  static constexpr bool waits = true;
  static constexpr const char* waits_for[] = {kFullWait, kEmptyWait};
  static constexpr unsigned max_threads =
      (streamed_variant::kConsumerWarps + streamed_variant::kProducerWarps) * 32;
  static constexpr unsigned min_blocks = 2;
  using Args = StreamedLinearArgs;
  static Cost cost(const Args& a) { return streamed_linear(a).cost(a); }
  static void host_block(Thread& t, const Args& a) { streamed_linear_on_host(t, a); }
  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    streamed_variant::Block<streamed_variant::WeightsOf<TensorType::bf16, false>, kMaxRows / 8>(a)
        .run(t);
#endif
  }
};

Grid library_grid(const StreamedLinearArgs& args, unsigned processors) {
  return streamed_grid(args, processors);
}
/// A variant may have other threads than the library's. One that needs more shared memory asks for
/// it here.
Grid variant_grid(const StreamedLinearArgs& args, unsigned processors) {
  Grid grid = library_grid(args, processors);
  grid.threads = Dim3{Variant::max_threads};
  return grid;
}

constexpr std::uint32_t kHidden = 4096;
constexpr std::uint32_t kQkv = 6144;
constexpr std::uint32_t kFeedForward = 14336;
constexpr unsigned kLayers = 8;  // enough that L2 keeps no weights
constexpr unsigned kLaunches = 20;

/// The weights of some layers, and the operands and results of their linear kernels.
class Layers {
 public:
  Layers(const Device& device, std::uint32_t rows)
      : device_(device),
        processors_(device.processors()),
        weights_(device, kLayers * layer_elements()),
        x_(device, std::size_t{kMaxRows} * kFeedForward),
        gated_(device, std::vector<std::uint16_t>(std::size_t{kMaxRows} * kFeedForward)),
        scaled_(device, std::vector<std::uint16_t>(std::size_t{kMaxRows} * kHidden)),
        y_(device, std::vector<float>(std::size_t{kMaxRows} * kQkv)),
        values_(device, std::vector<float>(std::size_t{kMaxRows} * kHidden)),
        squares_(device, std::size_t{kMaxRows} * kHidden / Residual::kPart),
        norm_(device, std::vector<float>(kHidden, 1)),
        count_(device, std::vector<std::uint32_t>{rows}) {
    fill(weights_.data(), kLayers * layer_elements(), 1, 0.02f);
    fill(x_.data(), std::size_t{kMaxRows} * kFeedForward, 2, 1);
  }

  std::vector<StreamedLinearArgs> products() const {
    std::vector<StreamedLinearArgs> all;
    const std::uint16_t* next = weights_.data();
    const auto matrix = [&](std::uint32_t rows, std::uint32_t columns) {
      const Matrix w{next, TensorType::bf16, rows, columns};
      next += std::size_t{rows} * columns;
      return w;
    };
    for (unsigned i = 0; i < kLayers; ++i) {
      all.push_back(product(matrix(kQkv, kHidden), Epilogue::store));
      all.push_back(product(matrix(kHidden, kHidden), Epilogue::add));
      all.push_back(product(matrix(kFeedForward, kHidden), Epilogue::gate));
      all.back().up = matrix(kFeedForward, kHidden);
      all.push_back(product(matrix(kHidden, kFeedForward), Epilogue::add));
    }
    return all;
  }
  /// The results of the last layer, for each kind of epilogue.
  std::vector<std::vector<float>> results() const {
    std::vector<float> gated;
    for (const std::uint16_t bits : gated_.read()) gated.push_back(float_of_bfloat(bits));
    return {y_.read(), values_.read(), gated};
  }
  /// Clears the results of another kernel.
  void reset() {
    y_.write(std::vector<float>(y_.size()));
    values_.write(std::vector<float>(values_.size()));
    gated_.write(std::vector<std::uint16_t>(gated_.size()));
  }

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
  StreamedLinearArgs product(const Matrix& w, Epilogue epilogue) const {
    StreamedLinearArgs args{};
    args.x = x_.data();
    args.rows = {count_.data(), kMaxRows};
    args.w = w;
    args.epilogue = epilogue;
    args.epsilon = 1e-5f;
    args.y = y_.data();
    args.gated = gated_.data();
    args.residual = {values_.data(), scaled_.data(), squares_.data(), kHidden};
    args.next_norm = norm_.data();
    return args;
  }

  Device device_;
  unsigned processors_;
  Buffer<std::uint16_t> weights_, x_, gated_, scaled_;
  Buffer<float> y_, values_, squares_, norm_;
  Buffer<std::uint32_t> count_;
};

using GridOf = Grid (*)(const StreamedLinearArgs&, unsigned processors);

/// Microseconds of a layer, and the results of the chain.
struct Outcome {
  double microseconds;
  std::vector<std::vector<float>> results;
};
Outcome run(const Device& device, Layers& layers, const Kernel<StreamedLinearArgs>& kernel,
            GridOf grid_of, bool is_early) {
  Graph graph(device);
  std::optional<Node> last;
  for (const StreamedLinearArgs& args : layers.products()) {
    const auto node = graph.kernel(kernel, grid_of(args, layers.processors()), args);
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

/// The largest difference, relative to the largest result of its kind.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!std::isfinite(off)) return std::numeric_limits<double>::infinity();
    most = std::max(most, off);
    size = std::max(size, std::abs(static_cast<double>(b[i])));
  }
  return size == 0 ? most : most / size;
}
double difference(const Outcome& a, const Outcome& b) {
  double most = 0;
  for (std::size_t kind = 0; kind < a.results.size(); ++kind)
    most = std::max(most, difference(a.results[kind], b.results[kind]));
  return most;
}

}  // namespace

void compare_products(std::uint32_t rows) {
  const Device device = Device::cuda(0);
  Layers layers(device, rows);
  const Kernel<StreamedLinearArgs> variant = make_kernel<Variant>();
  const double bytes = 2.0 * static_cast<double>(Layers::layer_elements());
  std::printf("variant: %s; rows of x: %u\n", ATTACCA_LAB_VARIANT, rows);
  std::printf("edges         library              variant              off by\n");
  for (const bool is_early : {false, true})
    for (int round = 0; round < 2; ++round) {  // alternating, so that drift shows
      const Outcome reference =
          run(device, layers, streamed_linear(layers.products()[0]), library_grid, is_early);
      const Outcome trial = run(device, layers, variant, variant_grid, is_early);
      std::printf("%-12s  %6.1f us %4.2f TB/s  %6.1f us %4.2f TB/s  %.1e\n",
                  is_early ? "programmatic" : "plain", reference.microseconds,
                  bytes / reference.microseconds / 1e6, trial.microseconds,
                  bytes / trial.microseconds / 1e6, difference(trial, reference));
    }
}

}  // namespace attacca::lab
