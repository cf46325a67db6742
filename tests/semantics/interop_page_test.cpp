// Compiles and runs the code of docs/interop.md. tests/scripts/page_code.py checks that the page
// has no other code.
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/raw_cuda.hpp"

namespace attacca::test {
namespace {

class SmallInteropPage : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(SmallInteropPage);

TEST_P(SmallInteropPage, a_borrowed_stream) {
  if (!is_cuda()) GTEST_SKIP() << "needs CUDA";
  const RawStream theirs;
  void* const cuda_stream = theirs.get();
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  graph.fill(x.span(), 0);
  Exec exec = graph.instantiate();

  BorrowedStream stream(device(), cuda_stream);
  exec.launch(stream);
  stream.synchronize();
  EXPECT_EQ(x.read().front(), 0);
}

TEST_P(SmallInteropPage, a_plain_kernel) {
  const Buffer<int> x = buffer<int>({1, 2});
  const Device& device = this->device();
  const std::size_t n = 2;

  const auto kernel = cuda_kernel("affine", raw_affine);  // void(int* x, char, Pair, std::size_t)
  Graph graph(device);
  const auto node = graph.kernel(kernel, Grid::covering(n), x.data(), 2, Pair{1, 0.0}, n);
  if (!is_cuda()) return;
  Exec exec = graph.instantiate();
  exec.set(node, x.data(), 3, Pair{1, 0.0}, n);  // other types do not compile
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{4, 7}));
}

TEST_P(SmallInteropPage, an_adopted_graph) {
  if (!is_cuda()) GTEST_SKIP() << "needs CUDA";
  const Device& device = this->device();
  const Buffer<int> x = buffer<int>({1});
  const Buffer<int> y = buffer<int>({1});
  const std::size_t n = 1;
  void* const cuda_graph = make_raw_graph(x.data(), y.data(), n);

  Graph graph = adopt_cuda(device, cuda_graph, "theirs");
  Exec exec = graph.instantiate();
  const auto node = cuda_kernel_node<int*, char, Pair, std::size_t>(graph.nodes()[1]);
  exec.set(node, x.data(), 5, Pair{0, 0.0}, n);
  run(exec);
  destroy_raw_graph(cuda_graph);
  EXPECT_EQ(x.read().front(), 5);
}

TEST_P(SmallInteropPage, copies_of_spans_and_rows) {
  const Buffer<int> x = buffer<int>({1, 2, 3, 4});
  const Buffer<int> y = buffer(std::vector<int>(4, 0));
  Graph graph(device());

  const auto all = graph.copy(y.span(), x.span());  // sizes must agree
  const auto left = graph.fill(y.span().first(2), 0).after(all);
  // The second column of two rows of two, into the first.
  graph.copy_2d({y.data(), 8}, {x.data() + 1, 8}, sizeof(int), 2).after(left);
  run(graph);
  EXPECT_EQ(y.read(), (std::vector<int>{2, 0, 4, 4}));
}

TEST_P(SmallInteropPage, events) {
  Stream stream(device(), {.priority = 1});
  const Buffer<int> x = buffer<int>({1});

  const Event start(device(), Event::Timing::on);
  const Event end(device(), Event::Timing::on);
  stream.record(start);
  stream.fill(x.span(), 0);
  stream.record(end);
  while (!end.query()) continue;  // or stream.synchronize()
  const std::chrono::duration<double> took = end.since(start);
  EXPECT_GE(took.count(), 0);
}

TEST_P(SmallInteropPage, declared_accesses) {
  const Buffer<int> x = buffer<int>({1, 2});
  const Buffer<int> y = buffer<int>({0, 0});
  const auto double_x = AffineArgs{.x = x.data(), .count = 2, .factor = 2, .summand = 0};
  const auto add_to_y = AffineArgs{.x = y.data(), .count = 2, .factor = 1, .summand = 5};

  Graph graph(device());
  graph.kernel(affine, Grid{}, double_x).writes(x.span());
  graph.copy(y.span(), x.span());
  graph.kernel(affine, Grid{}, add_to_y).writes(y.span());
  graph.derive_edges();  // the copy follows the first kernel, the second kernel follows the copy
  run(graph);
  EXPECT_EQ(y.read(), (std::vector<int>{7, 9}));
}

}  // namespace
}  // namespace attacca::test
