// tiles.cpp: compares tiled_linear summed up in order with tiled_linear as fast as it goes. It
// times the linear kernels of one layer in a chain, with the shapes of Llama 1B and 8B.
#include <attacca/attacca.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>

#include "kernels/linear/sm90_tiled_linear.hpp"
#include "kernels/random_fill.hpp"
#include "lab.hpp"

namespace attacca::lab {
namespace {

using namespace attacca::kernels;

struct Shape {
  const char* name;
  std::uint32_t hidden;
  std::uint32_t qkv;
  std::uint32_t feed_forward;
};
constexpr Shape kShapes[] = {{"llama-1b", 2048, 3072, 8192}, {"llama-8b", 4096, 6144, 14336}};
constexpr unsigned kLayers = 8;  // enough that L2 keeps no weights
constexpr unsigned kLaunches = 10;
constexpr unsigned kRounds = 10;

Buffer<std::uint16_t> random(const Device& device, std::size_t count, float deviation) {
  Buffer<std::uint16_t> made(device, count);
  const RandomFillArgs args{made.data(), TensorType::bf16, count, 1, deviation};
  const Stream stream(device);
  stream.kernel(random_fill(), grid_of(args, true), args);
  stream.synchronize();
  return made;
}

/// The linear kernels of some layers as a graph, in order or not.
class Chain {
 public:
  Chain(const Device& device, const Shape& s, std::uint32_t rows, bool in_order)
      : device_(device),
        rows_(rows),
        in_order_(in_order),
        weights_(random(device, elements(s), 0.02f)),
        x_(random(device, std::size_t{rows} * s.feed_forward, 1)),
        y_(device, std::size_t{rows} * s.qkv),
        values_(device, std::vector<float>(std::size_t{rows} * s.hidden)),
        squares_(device, std::vector<float>(std::size_t{rows} * s.hidden / Residual::kPart, 1)),
        norm_(device, std::vector<float>(s.hidden, 1)),
        gated_(device, std::size_t{rows} * s.feed_forward),
        scaled_(device, std::size_t{rows} * s.hidden),
        count_(device, std::vector<std::uint32_t>{rows}),
        workspace_(device,
                   std::vector<std::byte>(tiled_workspace_bytes(device.processors(), in_order))) {
    next_ = weights_.data();
    for (unsigned i = 0; i < kLayers; ++i) {
      add(s.qkv, s.hidden, Epilogue::store);
      add(s.hidden, s.hidden, Epilogue::add);
      add(s.feed_forward, s.hidden, Epilogue::gate);
      add(s.hidden, s.feed_forward, Epilogue::add);
    }
    maps_on_device_.emplace(device, maps_);
    Graph graph(device);
    std::optional<Node> last;
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const StreamedLinearArgs& p = products_[i];
      const TiledLinearArgs args{.w_map = maps_on_device_->data() + 2 * i,
                                 .x_map = maps_on_device_->data() + 2 * i + 1,
                                 .workspace = workspace_.data(),
                                 .gate_is_second = false,
                                 .in_order = in_order_,
                                 .product = p};
      const auto node = graph.kernel(tiled_linear(args, device.processors()),
                                     tiled_grid(args, device.processors()), args);
      last = !last ? Node(node) : rows <= 64 ? node.after_programmatic(*last) : node.after(*last);
    }
    exec_.emplace(graph.instantiate());
  }

  /// Microseconds of a layer.
  double time() {
    const Stream stream(device_);
    exec_->launch(stream);
    stream.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < kLaunches; ++i) exec_->launch(stream);
    stream.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() * 1e6 /
           kLaunches / kLayers;
  }

 private:
  static std::size_t elements(const Shape& s) {
    return kLayers * std::size_t{s.hidden} * (s.qkv + s.hidden + 3ull * s.feed_forward);
  }
  void add(std::uint32_t outputs, std::uint32_t columns, Epilogue epilogue) {
    const auto matrix = [&] {
      const Matrix w{next_, TensorType::bf16, outputs, columns};
      next_ += std::size_t{outputs} * columns;
      return w;
    };
    StreamedLinearArgs p{};
    p.x = x_.data();
    p.squares = epilogue == Epilogue::add ? nullptr : squares_.data();
    p.epsilon = 1e-5f;
    p.rows = {count_.data(), rows_};
    p.w = matrix();
    p.epilogue = epilogue;
    p.y = y_.data();
    p.residual = {values_.data(), scaled_.data(), squares_.data(), outputs};
    p.next_norm = norm_.data();
    p.gated = gated_.data();
    if (epilogue == Epilogue::gate) p.up = matrix();
    maps_.push_back(epilogue == Epilogue::gate ? map_weights(device_, p.w, p.up)
                                               : map_weights(device_, p.w));
    maps_.push_back(map_rows(device_, p.x, rows_, columns, rows_));
    products_.push_back(p);
  }

  Device device_;
  std::uint32_t rows_;
  bool in_order_;
  Buffer<std::uint16_t> weights_, x_;
  Buffer<float> y_, values_, squares_, norm_;
  Buffer<std::uint16_t> gated_, scaled_;
  Buffer<std::uint32_t> count_;
  Buffer<std::byte> workspace_;
  const std::uint16_t* next_;
  std::vector<StreamedLinearArgs> products_;
  std::vector<TensorMap> maps_;
  std::optional<Buffer<TensorMap>> maps_on_device_;
  std::optional<Exec> exec_;
};

}  // namespace

void compare_tiles(std::uint32_t rows) {
  const Device device = Device::cuda(0);
  for (const Shape& shape : kShapes) {
    Chain fast(device, shape, rows, false), ordered(device, shape, rows, true);
    std::vector<double> times[2];
    for (unsigned i = 0; i < kRounds; ++i) {  // in turn, so that drift shows
      times[0].push_back(fast.time());
      times[1].push_back(ordered.time());
    }
    for (std::vector<double>& all : times) std::sort(all.begin(), all.end());
    std::printf("%s, %u rows: fast %.1f us a layer, in order %.1f us, ratio %.3f\n", shape.name,
                rows, times[0][kRounds / 2], times[1][kRounds / 2],
                times[1][kRounds / 2] / times[0][kRounds / 2]);
  }
}

}  // namespace attacca::lab
