// Tests of attacca as a guest in a CUDA program: plain kernels as nodes, borrowed streams, the
// driver's exec, adopted graphs. On host devices each is refused by name. The plain CUDA code is in
// support/raw_cuda.hpp.
#include <gmock/gmock.h>

#include <memory>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/raw_cuda.hpp"
#include "support/refusals.hpp"

namespace attacca::test {
namespace {

using testing::HasSubstr;

class SmallInterop : public OnEachDevice {
 protected:
  const CudaKernel<int*, char, Pair, std::size_t> affine_ = cuda_kernel("affine", raw_affine);
};
ATTACCA_ON_EACH_DEVICE(SmallInterop);

// --- plain kernels ------------------------------------------------------------------------------

TEST_P(SmallInterop, a_plain_kernel_in_a_graph_gets_each_of_its_arguments) {
  const Buffer<int> x = buffer<int>({1, 2, 3});
  Graph graph(device());
  const auto node = graph.kernel(affine_, Grid::covering(2), x.data(), 10, Pair{4, 1.5}, 2u);
  EXPECT_EQ(node.kind(), NodeKind::kernel);
  if (!is_cuda()) {
    expect_refused(graph, {Rule::no_body_for_backend, "affine", "make_kernel"});
    return;
  }
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{15, 25, 3}));
}

TEST_P(SmallInterop, arguments_of_a_plain_kernel_are_set_in_place) {
  if (!is_cuda()) GTEST_SKIP() << "a host device refuses the graph";
  const Buffer<int> x = buffer<int>({1, 1, 1, 1});
  Graph graph(device());
  const auto node = graph.kernel(affine_, Grid::covering(1), x.data(), 2, Pair{0, 0}, 1u);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_TRUE(exec.set(node, x.data() + 1, 3, Pair{1, 2.0}, 1u));
  run(exec);
  EXPECT_TRUE(exec.set(node, Grid::covering(2, 1), x.data() + 2, 5, Pair{1, 1.0}, 2u));
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{2, 6, 7, 7}));
  EXPECT_EQ(exec.counters().reinstantiations, 0u);
}

TEST_P(SmallInterop, a_plain_kernel_uses_memory_and_conditions_of_its_graph) {
  const Buffer<int> result = buffer<int>({0, 0});
  Graph graph(device());
  const Condition is_on = graph.condition("is on");
  const auto scratch = graph.allocate<int>("scratch", 8);
  const auto zero = graph.fill(scratch.span(), 0).after(scratch);
  const auto work =
      graph.kernel(affine_, Grid{}, scratch.data() + 3, 1, Pair{7, 0}, std::size_t{1}).after(zero);
  // The handle has 8 bytes. Relocation must not write to the parameter behind it.
  const auto decide = graph.kernel(cuda_kernel("decide", raw_set_condition), Grid{}, is_on.target(),
                                   1u, result.data() + 1, 99);
  graph
      .if_("if", is_on,
           [&](Graph& body) { body.copy(result.data(), scratch.data() + 3, sizeof(int)); })
      .after(decide, work);
  const auto uses_too_early = [&] {
    Graph wrong(device());
    const auto late = wrong.allocate<int>("late", 1);
    wrong.kernel(affine_, Grid{}, late.data(), 1, Pair{}, std::size_t{1});
    return wrong.problems();
  }();
  ASSERT_FALSE(uses_too_early.empty());
  EXPECT_EQ(uses_too_early.back().rule(), Rule::outside_allocation_life);
  if (!is_cuda()) return;
  run(graph);
  EXPECT_EQ(result.read(), (std::vector<int>{7, 99}));
}

TEST_P(SmallInterop, a_plain_kernel_runs_on_a_stream) {
  const Buffer<int> x = buffer<int>({1});
  if (!is_cuda()) {
    expect_throws([&] { stream().kernel(affine_, Grid{}, x.data(), 2, Pair{}, std::size_t{1}); },
                  {Rule::no_body_for_backend, "affine", "make_kernel"});
    return;
  }
  stream().kernel(affine_, Grid{}, x.data(), 2, Pair{3, 0}, std::size_t{1});
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 5);
  const Graph captured = capture(stream(), [&](StreamRef on) {
    on.kernel(affine_, Grid{}, x.data(), 2, Pair{1, 0}, std::size_t{1});
  });
  run(captured);
  EXPECT_EQ(x.read().front(), 11);
}

TEST_P(SmallInterop, a_kernel_handle_is_held_to_the_function_s_own_parameters) {
  expect_bad([] { (void)cuda_kernel<int>("nothing", nullptr, CudaKernelTraits{}); }, "'nothing'");
  if (!is_cuda()) return;
  void* handle = raw_kernel_handle(reinterpret_cast<const void*>(raw_affine));
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  graph.kernel(cuda_kernel<int*, char, Pair, std::size_t>("handle", handle), Grid{}, x.data(), 4,
               Pair{}, 1u);
  run(graph);
  EXPECT_EQ(x.read().front(), 4);

  Graph wrong(device());
  wrong.kernel(cuda_kernel<int*, int>("short", handle), Grid{}, x.data(), 4);
  expect_bad([&] { (void)wrong.instantiate(); }, "'short' takes parameters of [8, 1, 16, 8]");
}

TEST_P(SmallInterop, nodes_of_a_graph_give_typed_handles_back) {
  const Buffer<int> x = buffer<int>({0, 0});
  Graph graph(device(), "graph");
  graph.kernel(affine_, Grid{}, x.data(), 1, Pair{}, std::size_t{1});
  graph.copy(x.span().first(1), x.span().last(1));
  graph.fill(x.span(), 0);
  const std::vector<Node> nodes = graph.nodes();
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[1].kind(), NodeKind::copy);
  EXPECT_EQ((cuda_kernel_node<int*, char, Pair, std::size_t>(nodes[0]).id()), 0u);
  EXPECT_EQ(copy_node(nodes[1]).id(), 1u);
  EXPECT_EQ(fill_node(nodes[2]).id(), 2u);
  expect_bad([&] { (void)cuda_kernel_node<int*>(nodes[0]); }, "[8, 1, 16, 8]");
  expect_bad([&] { (void)cuda_kernel_node<int*>(nodes[1]); }, "copy 'copy'");
  expect_bad([&] { (void)fill_node(nodes[1]); }, "copy 'copy' is no fill");
}

// --- borrowed streams and native execs ----------------------------------------------------------

TEST_P(SmallInterop, a_host_device_lends_no_stream) {
  if (is_cuda()) GTEST_SKIP() << "only of host devices";
  expect_bad([&] { BorrowedStream(device(), nullptr); }, device().name());
}

TEST_P(SmallInterop, a_graph_on_a_borrowed_stream_runs_between_its_owner_s_kernels) {
  if (!is_cuda()) GTEST_SKIP() << "host devices have no native streams";
  constexpr std::size_t kCount = 100'000;
  const RawStream owner;
  for (void* native : {owner.get(), static_cast<void*>(nullptr)}) {
    const Buffer<int> x(device(), std::vector<int>(kCount, 1));
    Graph graph(device());
    graph.kernel(affine, Grid::covering(kCount),
                 {.x = x.data(), .count = kCount, .factor = 2, .summand = 0});
    Exec exec = graph.instantiate();
    for (int at = 0; at < 10; ++at) {
      launch_raw_add(native, x.data(), 1, kCount);
      const BorrowedStream borrowed(device(), native);  // its destructor neither waits nor destroys
      exec.launch(borrowed);
    }
    launch_raw_add(native, x.data(), 1, kCount);
    BorrowedStream last(device(), native);
    EXPECT_EQ(last.native(), native);
    last.synchronize();
    EXPECT_EQ(x.read(), std::vector<int>(kCount, 3071));
  }
}

TEST_P(SmallInterop, the_stream_of_each_thread_is_not_borrowed) {
  if (!is_cuda()) GTEST_SKIP() << "host devices have no native streams";
  auto* const per_thread = reinterpret_cast<void*>(0x2);  // cudaStreamPerThread
  expect_bad([&] { BorrowedStream(device(), per_thread); }, "cudaStreamCreate");
}

TEST_P(SmallInterop, failures_of_host_calls_come_out_of_a_borrowed_stream) {
  if (!is_cuda()) GTEST_SKIP() << "host devices have no native streams";
  RawStream owner;
  const BorrowedStream borrowed(device(), owner.get());
  borrowed.host("break", [] { throw std::runtime_error("on purpose"); });
  EXPECT_THROW(borrowed.synchronize(), NodeFailed);
  borrowed.synchronize();
  BorrowedStream(device(), owner.get()).host("break", [] { throw std::runtime_error("again"); });
  EXPECT_THROW(borrowed.synchronize(), NodeFailed);
}

TEST_P(SmallInterop, a_borrowed_stream_respects_its_owner_s_capture) {
  if (!is_cuda()) GTEST_SKIP() << "host devices have no native streams";
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  graph.fill(x.span(), 0);
  Exec exec = graph.instantiate();
  RawStream owner;
  const BorrowedStream borrowed(device(), owner.get());
  Pool pool(device());
  void* const lent = pool.allocate_bytes(borrowed, 16);
  borrowed.synchronize();
  owner.begin_capture();
  borrowed.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 3, .summand = 1});
  expect_bad([&] { borrowed.host("call", [] {}); }, "its owner is capturing");
  expect_bad([&] { borrowed.synchronize(); }, "its owner is capturing");
  expect_bad([&] { exec.launch(borrowed); }, "its owner is capturing");
  expect_bad([&] { pool.allocate_bytes(borrowed, 16); }, "its owner is capturing");
  expect_bad([&] { pool.free(borrowed, lent); }, "its owner is capturing");
  void* captured = owner.end_capture();
  EXPECT_EQ(count_raw_nodes(captured), 1u);
  EXPECT_EQ(x.read().front(), 1);
  run_raw_graph(captured, owner.get());
  destroy_raw_graph(captured);
  EXPECT_EQ(x.read().front(), 4);
  pool.free(borrowed, lent);
  exec.launch(borrowed);
  borrowed.synchronize();
  EXPECT_EQ(x.read().front(), 0);
}

TEST_P(SmallInterop, the_driver_s_exec_is_handed_out) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  graph.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 3, .summand = 1});
  Exec exec = graph.instantiate();
  if (!is_cuda()) {
    EXPECT_EQ(exec.native(), nullptr);
    return;
  }
  RawStream owner;
  launch_raw_exec(exec.native(), owner.get());
  owner.synchronize();
  EXPECT_EQ(x.read().front(), 4);
}

// --- adopted graphs -----------------------------------------------------------------------------

TEST_P(SmallInterop, a_host_device_adopts_no_graph) {
  if (is_cuda()) GTEST_SKIP() << "only of host devices";
  int some = 0;
  expect_bad([&] { (void)adopt_cuda(device(), &some, "theirs"); }, "'theirs'");
  expect_bad([&] { (void)adopt_cuda(device(), &some, "theirs"); }, "use a CUDA device");
}

TEST_P(SmallInterop, an_adopted_graph_runs_prints_and_its_nodes_are_set) {
  if (!is_cuda()) GTEST_SKIP() << "host devices have no native graphs";
  constexpr std::size_t kCount = 100;
  const Buffer<int> x(device(), std::vector<int>(kCount, 1));
  const Buffer<int> y(device(), std::vector<int>(kCount, -1));
  void* theirs = make_raw_graph(x.data(), y.data(), kCount);
  const Graph graph = adopt_cuda(device(), theirs, "theirs");
  destroy_raw_graph(theirs);
  const std::vector<Node> nodes = graph.nodes();
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[0].kind(), NodeKind::fill);
  EXPECT_EQ(nodes[1].kind(), NodeKind::kernel);
  EXPECT_EQ(nodes[2].kind(), NodeKind::copy);
  EXPECT_EQ(nodes[3].kind(), NodeKind::child);
  EXPECT_THAT(to_text(graph), HasSubstr("raw_affine_kernel"));
  EXPECT_THAT(to_text(graph), HasSubstr("after copy"));
  EXPECT_EQ(graph.node_count(), 5u);

  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(x.read(), std::vector<int>(kCount, 5));
  EXPECT_EQ(y.read(), std::vector<int>(kCount, 6));

  const auto kernel = cuda_kernel_node<int*, char, Pair, std::size_t>(nodes[1]);
  EXPECT_TRUE(exec.set(kernel, x.data(), 1, Pair{10, 0}, kCount / 2));
  EXPECT_TRUE(exec.set(copy_node(nodes[2]), y.span().first(1), x.span().first(1)));
  run(exec);
  std::vector<int> expected(kCount, 15);
  std::fill(expected.begin() + kCount / 2, expected.end(), 5);
  EXPECT_EQ(x.read(), expected);
  EXPECT_EQ(y.read().front(), 16);
  EXPECT_EQ(y.read().back(), 1);  // filled with zero, then one added
  EXPECT_TRUE(exec.enable(kernel, false));
  EXPECT_EQ(exec.counters().reinstantiations, 0u);

  Graph around(device());
  const auto first = around.child("first", graph);
  around.child("again", graph).after(first);
  run(around);
  EXPECT_EQ(x.read().front(), (15 * 2 + 3) * 2 + 3);
}

TEST_P(SmallInterop, what_others_captured_is_adopted) {
  if (!is_cuda()) GTEST_SKIP() << "host devices have no native graphs";
  const Buffer<int> x = buffer<int>({1, 1});
  RawStream owner;
  owner.begin_capture();
  launch_raw_add(owner.get(), x.data(), 5, 1);
  launch_raw_add(owner.get(), x.data(), 6, 2);
  void* theirs = owner.end_capture();
  const Graph graph = adopt_cuda(device(), theirs);
  destroy_raw_graph(theirs);
  Exec exec = graph.instantiate();
  EXPECT_TRUE(exec.set(cuda_kernel_node<int*, int, std::size_t>(graph.nodes()[0]), x.data() + 1, 2,
                       std::size_t{1}));
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{7, 9}));
}

TEST_P(SmallInterop, a_graph_with_a_host_call_is_not_adopted) {
  if (!is_cuda()) GTEST_SKIP() << "host devices have no native graphs";
  const Buffer<int> x = buffer<int>({1});
  void* theirs = make_raw_graph_with_host_call(x.data());
  expect_bad([&] { (void)adopt_cuda(device(), theirs, "theirs"); },
             "adopting 'theirs': node 1 is a host call");
  destroy_raw_graph(theirs);
  expect_bad([&] { (void)adopt_cuda(device(), nullptr, "none"); }, "is null");
}

}  // namespace
}  // namespace attacca::test
