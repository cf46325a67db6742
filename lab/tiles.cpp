// tiles.cpp: times tiled_linear with tiles of different sizes and in order, beside cuBLASLt's
// products, matrix by matrix and as the chain of a layer, with the shapes of Llama 1B and 8B.
#include <attacca/attacca.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cublas.hpp"
#include "kernels/linear/sm90_tiled_linear.hpp"
#include "kernels/quantization.hpp"
#include "kernels/random_fill.hpp"
#include "lab.hpp"
#include "roofline/sm90_matrix.hpp"

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
constexpr unsigned kRounds = 7;
constexpr double kRoundSeconds = 4e-3;

/// A way to multiply: the rows of x of a tile, and whether it is summed up in order.
struct Form {
  const char* name;
  std::uint32_t tile_rows;
  bool in_order;
};
std::vector<Form> forms_for(std::uint32_t rows) {
  if (rows <= 64) return {{"64", 64, false}, {"64 in order", 64, true}};
  return {{"128", 128, false}, {"256", 256, false}, {"128 in order", 128, true}};
}

struct Factors {
  const char* name;
  std::uint32_t outputs;
  std::uint32_t columns;
  Epilogue epilogue;
  std::size_t weights() const {
    return std::size_t{outputs} * columns * (epilogue == Epilogue::gate ? 2 : 1);
  }
};
std::vector<Factors> matrices_of(const Shape& s) {
  return {{"qkv", s.qkv, s.hidden, Epilogue::store},
          {"output", s.hidden, s.hidden, Epilogue::add},
          {"gate+up", s.feed_forward, s.hidden, Epilogue::gate},
          {"down", s.hidden, s.feed_forward, Epilogue::add}};
}

Buffer<std::uint16_t> random(const Device& device, std::size_t count, float deviation) {
  Buffer<std::uint16_t> made(device, count);
  const RandomFillArgs args{made.data(), TensorType::bf16, count, 1, deviation};
  const Stream stream(device);
  stream.kernel(random_fill(), grid_of(args, true), args);
  stream.synchronize();
  return made;
}

/// What all forms share: weights of some layers, x and room for the results.
struct Setup {
  Setup(const Device& on, const Shape& s, std::uint32_t row_count)
      : device(on),
        rows(row_count),
        matrices(matrices_of(s)),
        weights(random(on, kLayers * per_layer(), 0.02f)),
        x(random(on, std::size_t{rows} * s.feed_forward, 1)),
        squares_in(on, std::vector<float>(std::size_t{rows} * s.feed_forward / Residual::kPart,
                                          Residual::kPart)),
        y(on, std::size_t{rows} * s.qkv),
        values(on, std::size_t{rows} * s.hidden),
        squares(on, std::size_t{rows} * s.hidden / Residual::kPart),
        norm(on, std::vector<float>(s.hidden, 1)),
        gated(on, std::size_t{rows} * s.feed_forward),
        scaled(on, std::size_t{rows} * s.hidden),
        plain(on, std::size_t{rows} * 2 * s.feed_forward),
        count(on, std::vector<std::uint32_t>{rows}),
        workspace(on, std::max(tiled_workspace_bytes(on.processors(), false),
                               tiled_workspace_bytes(on.processors(), true))) {
    const Stream stream(device);
    stream.fill(workspace.data(), 0, workspace.bytes());
    stream.synchronize();
  }
  std::size_t per_layer() const {
    std::size_t sum = 0;
    for (const Factors& m : matrices) sum += m.weights();
    return sum;
  }
  const std::uint16_t* weights_of(unsigned layer, std::size_t matrix) const {
    const std::uint16_t* at = weights.data() + layer * per_layer();
    for (std::size_t i = 0; i < matrix; ++i) at += matrices[i].weights();
    return at;
  }
  StreamedLinearArgs product(unsigned layer, std::size_t matrix) const {
    const Factors& m = matrices[matrix];
    const std::uint16_t* const first = weights_of(layer, matrix);
    StreamedLinearArgs p{};
    p.x = x.data();
    p.squares = m.epilogue == Epilogue::add ? nullptr : squares_in.data();
    p.epsilon = 1e-5f;
    p.rows = {count.data(), rows};
    p.w = {first, TensorType::bf16, m.outputs, m.columns};
    p.up = {first + std::size_t{m.outputs} * m.columns, TensorType::bf16, m.outputs, m.columns};
    p.epilogue = m.epilogue;
    p.y = const_cast<float*>(y.data());
    p.residual = {const_cast<float*>(values.data()), const_cast<std::uint16_t*>(scaled.data()),
                  const_cast<float*>(squares.data()), m.outputs};
    p.next_norm = norm.data();
    p.gated = const_cast<std::uint16_t*>(gated.data());
    return p;
  }
  double flops(std::size_t matrix) const {
    return 2.0 * rows * static_cast<double>(matrices[matrix].weights());
  }

  Device device;
  std::uint32_t rows;
  std::vector<Factors> matrices;
  Buffer<std::uint16_t> weights, x;
  Buffer<float> squares_in, y, values, squares, norm;
  Buffer<std::uint16_t> gated, scaled, plain;
  Buffer<std::uint32_t> count;
  Buffer<std::byte> workspace;
};

/// Some matrices of all layers as a graph, in one form.
class Products {
 public:
  Products(const Setup& s, const std::vector<std::size_t>& which, const Form& form) : s_(s) {
    std::vector<TensorMap> maps;
    std::vector<StreamedLinearArgs> products;
    for (unsigned layer = 0; layer < kLayers; ++layer)
      for (const std::size_t matrix : which) {
        const StreamedLinearArgs p = s.product(layer, matrix);
        maps.push_back(p.epilogue == Epilogue::gate ? map_weights(s.device, p.w, p.up)
                                                    : map_weights(s.device, p.w));
        maps.push_back(map_rows(s.device, p.x, s.rows, p.w.columns, form.tile_rows));
        products.push_back(p);
      }
    maps_.emplace(s.device, maps);
    Graph graph(s.device);
    std::optional<Node> last;
    for (std::size_t i = 0; i < products.size(); ++i) {
      const TiledLinearArgs args{.w_map = maps_->data() + 2 * i,
                                 .x_map = maps_->data() + 2 * i + 1,
                                 .workspace = const_cast<std::byte*>(s.workspace.data()),
                                 .gate_is_second = false,
                                 .in_order = form.in_order,
                                 .tile_rows = form.tile_rows,
                                 .product = products[i]};
      const unsigned processors = s.device.processors();
      const auto node =
          graph.kernel(tiled_linear(args, processors), tiled_grid(args, processors), args);
      last = last ? node.after_programmatic(*last) : Node(node);
    }
    exec_.emplace(graph.instantiate());
  }
  void run(unsigned launches) {
    const Stream stream(s_.device);
    for (unsigned i = 0; i < launches; ++i) exec_->launch(stream);
    stream.synchronize();
  }

 private:
  const Setup& s_;
  std::optional<Buffer<TensorMap>> maps_;
  std::optional<Exec> exec_;
};

/// The results of one launch, as floats.
std::vector<float> results(const Setup& s, Epilogue epilogue, Products& products) {
  const Stream stream(s.device);
  stream.fill(const_cast<float*>(s.values.data()), 0, s.values.bytes());
  stream.fill(const_cast<float*>(s.y.data()), 0, s.y.bytes());
  stream.fill(const_cast<std::uint16_t*>(s.gated.data()), 0, s.gated.bytes());
  stream.synchronize();
  products.run(1);
  if (epilogue == Epilogue::store) return s.y.read();
  if (epilogue == Epilogue::add) return s.values.read();
  std::vector<float> all;
  for (const std::uint16_t bits : s.gated.read()) all.push_back(float_of_bfloat(bits));
  return all;
}
/// The largest difference as a share of the largest value.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::isfinite(a[i]) ? std::abs(double{a[i]} - b[i]) : 1e30);
    size = std::max(size, std::abs(double{b[i]}));
  }
  return most / size;
}

/// FLOP/s of the matrix units alone, once the clock has settled.
double matrix_rate(const Device& device) {
  const Buffer<float> out(device, 1);
  const Stream stream(device);
  double flops = 0;
  const auto start = std::chrono::steady_clock::now();
  double took = 0, last = 0;
  while (took < 0.4) {
    const auto began = std::chrono::steady_clock::now();
    flops = roofline::launch_sm90_matrix(stream, Arithmetic::bf16, out.data());
    stream.synchronize();
    const auto now = std::chrono::steady_clock::now();
    last = std::chrono::duration<double>(now - began).count();
    took = std::chrono::duration<double>(now - start).count();
  }
  return flops / last;
}

/// Microseconds of a layer of each, in turn, so that drift shows.
std::vector<double> medians(const std::vector<std::function<void(unsigned)>>& all, double flops) {
  const auto launches =
      static_cast<unsigned>(std::ceil(kRoundSeconds / (kLayers * flops / 600e12 + kLayers * 4e-6)));
  std::vector<std::vector<double>> times(all.size());
  for (unsigned round = 0; round <= kRounds; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      all[i](launches);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (round != 0) times[i].push_back(took.count() * 1e6 / launches / kLayers);
    }
  std::vector<double> middle;
  for (std::vector<double>& t : times) {
    std::sort(t.begin(), t.end());
    middle.push_back(t[t.size() / 2]);
  }
  return middle;
}

/// cuBLASLt's products with one matrix of each layer.
std::unique_ptr<CublasProducts> cublas_products(const Setup& s, std::size_t matrix) {
  const Factors& m = s.matrices[matrix];
  std::vector<const void*> weights;
  for (unsigned layer = 0; layer < kLayers; ++layer) weights.push_back(s.weights_of(layer, matrix));
  const auto outputs = static_cast<std::uint32_t>(m.weights() / m.columns);
  return std::make_unique<CublasProducts>(CublasProducts::Shape{outputs, m.columns, s.rows},
                                          weights, s.x.data(),
                                          const_cast<std::uint16_t*>(s.plain.data()));
}

void print(double us, double flops, double rate) {
  std::printf(" | %8.1f us %3.0f %%", us, flops / us / 1e-6 / rate * 100);
}

/// One matrix: our forms, cuBLASLt, and how far the other forms are from the first.
void compare_matrix(const Setup& s, std::size_t matrix, const std::vector<Form>& forms,
                    double rate) {
  std::vector<std::unique_ptr<Products>> ours;
  std::unique_ptr<CublasProducts> theirs;
  std::vector<std::function<void(unsigned)>> run;
  for (const Form& form : forms) {
    ours.push_back(std::make_unique<Products>(s, std::vector{matrix}, form));
    run.push_back([p = ours.back().get()](unsigned launches) { p->run(launches); });
  }
  if (CublasProducts::is_there()) {
    theirs = cublas_products(s, matrix);
    run.push_back([&](unsigned launches) { theirs->run(launches); });
  }
  const Factors& m = s.matrices[matrix];
  std::printf("%-8s", m.name);
  for (const double us : medians(run, s.flops(matrix))) print(us, s.flops(matrix), rate);
  const std::vector<float> wanted = results(s, m.epilogue, *ours[0]);
  double most = 0;
  for (std::size_t i = 1; i < ours.size(); ++i)
    most = std::max(most, difference(results(s, m.epilogue, *ours[i]), wanted));
  std::printf(" | %.0e\n", most);
}

/// The chain of all matrices.
void compare_layer(const Setup& s, const std::vector<Form>& forms, double rate) {
  std::vector<std::unique_ptr<Products>> ours;
  std::vector<std::function<void(unsigned)>> run;
  double flops = 0;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < s.matrices.size(); ++i) {
    all.push_back(i);
    flops += s.flops(i);
  }
  for (const Form& form : forms) {
    ours.push_back(std::make_unique<Products>(s, all, form));
    run.push_back([p = ours.back().get()](unsigned launches) { p->run(launches); });
  }
  std::printf("%-8s", "layer");
  for (const double us : medians(run, flops)) print(us, flops, rate);
  std::printf("\n");
}

}  // namespace

void compare_tiles(std::uint32_t rows) {
  const Device device = Device::cuda(0);
  const double rate = matrix_rate(device);
  const std::vector<Form> forms = forms_for(rows);
  for (const Shape& shape : kShapes) {
    std::printf("%s, %u rows, of %.0f TFLOP/s; rows of a tile", shape.name, rows, rate / 1e12);
    for (const Form& form : forms) std::printf(" | %s", form.name);
    std::printf("%s | difference\n", CublasProducts::is_there() ? " | cuBLASLt" : "");
    const Setup setup(device, shape, rows);
    for (std::size_t i = 0; i < setup.matrices.size(); ++i) compare_matrix(setup, i, forms, rate);
    compare_layer(setup, forms, rate);
  }
  if (!CublasProducts::is_there()) std::printf("cuBLASLt left out: libcublasLt.so was not found\n");
}

}  // namespace attacca::lab
