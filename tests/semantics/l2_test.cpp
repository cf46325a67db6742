// Tests of l2.hpp: set-aside memory and windows of streams come and go with their guards, windows
// of graph nodes belong to the graph, bad windows are refused, and hints change no result.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "support/kernels.hpp"
#include "support/memory_kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SmallL2 : public OnEachDevice {
 protected:
  /// Whether this device has a persisting cache; a GPU that is partitioned has none.
  bool can_persist() const { return l2_cache(device()).max_set_aside != 0; }

  Buffer<int> x_of_hundred() const {
    std::vector<int> values(100);
    std::iota(values.begin(), values.end(), 0);
    return buffer(values);
  }
};
ATTACCA_ON_EACH_DEVICE(SmallL2);

TEST_P(SmallL2, only_a_gpu_has_a_cache_to_steer) {
  const L2Cache cache = l2_cache(device());
  EXPECT_EQ(cache.bytes != 0, is_cuda());
  EXPECT_LE(cache.max_set_aside, cache.bytes);
  EXPECT_LE(cache.set_aside, cache.max_set_aside);
}

TEST_P(SmallL2, what_is_set_aside_is_given_back_at_the_end) {
  const std::size_t before = l2_cache(device()).set_aside;
  {
    const L2SetAside half = L2SetAside::of_fraction(device(), 0.5);
    EXPECT_EQ(half.has_effect(), can_persist());
    EXPECT_EQ(half.granted(), l2_cache(device()).set_aside);
    {
      const L2SetAside little = L2SetAside::of_bytes(device(), 1 << 20);
      EXPECT_EQ(little.granted(), l2_cache(device()).set_aside);
      if (can_persist()) {
        EXPECT_LT(little.granted(), half.granted());
      }
    }
    EXPECT_EQ(half.granted(), l2_cache(device()).set_aside);
  }
  EXPECT_EQ(l2_cache(device()).set_aside, before);
}

TEST_P(SmallL2, no_more_is_granted_than_the_device_allows) {
  const L2SetAside all = L2SetAside::of_bytes(device(), ~std::size_t{0});
  EXPECT_LE(all.granted(), l2_cache(device()).max_set_aside);
  const L2SetAside whole = L2SetAside::of_fraction(device(), 1);
  EXPECT_LE(whole.granted(), l2_cache(device()).max_set_aside);
}

TEST_P(SmallL2, a_stream_has_its_former_window_back_at_the_end) {
  const Buffer<int> x = x_of_hundred();
  const L2SetAside set_aside = L2SetAside::of_fraction(device(), 0.25);
  const L2Window none = l2_window(stream());
  EXPECT_EQ(none.bytes, 0u);
  {
    const L2Guard outer(stream(), L2Window::persisting(x.data(), x.bytes(), 0.5),
                        L2Guard::AtEnd::reset);
    EXPECT_EQ(outer.has_effect(), can_persist());
    const L2Window persisting = l2_window(stream());
    if (can_persist()) {
      EXPECT_NE(persisting, none);
      EXPECT_EQ(persisting.hit, L2Access::persisting);
      EXPECT_EQ(persisting.hit_ratio, 0.5);
    }
    {
      const L2Guard inner(stream(), L2Window::streaming(x.data(), x.bytes()));
      EXPECT_EQ(inner.has_effect(), is_cuda());
      if (is_cuda()) {
        EXPECT_EQ(l2_window(stream()).hit, L2Access::streaming);
      }
    }
    EXPECT_EQ(l2_window(stream()), persisting);
  }
  EXPECT_EQ(l2_window(stream()).bytes, 0u);
}

TEST_P(SmallL2, windows_change_no_result) {
  const Buffer<int> x = x_of_hundred();
  const L2SetAside set_aside = L2SetAside::of_fraction(device(), 0.75);
  for (const L2Window& window :
       {L2Window::persisting(x.data(), x.bytes()), L2Window::streaming(x.data(), x.bytes()),
        L2Window::interleaved(device(), x.data(), x.bytes())}) {
    const L2Guard guard(stream(), window, L2Guard::AtEnd::reset);
    stream().kernel(affine, Grid::covering(x.size(), 32),
                    {.x = x.data(), .count = x.size(), .factor = 1, .summand = 2});
  }
  stream().synchronize();
  for (int at = 0; const int value : x.read()) EXPECT_EQ(value, at++ + 6);
}

TEST_P(SmallL2, interleaved_windows_persist_in_no_more_than_is_set_aside) {
  const L2SetAside set_aside = L2SetAside::of_bytes(device(), 1 << 20);
  const int base = 0;
  EXPECT_EQ(L2Window::interleaved(device(), &base, 4096).hit_ratio, 1);
  const L2Window large = L2Window::interleaved(device(), &base, 64 << 20);
  EXPECT_EQ(large.hit, L2Access::persisting);
  EXPECT_EQ(large.miss, L2Access::streaming);
  if (set_aside.has_effect()) {
    EXPECT_NEAR(large.hit_ratio * (64 << 20), static_cast<double>(set_aside.granted()), 64);
  } else {
    EXPECT_EQ(large.hit_ratio, 1);
  }
}

TEST_P(SmallL2, bad_shares_are_refused_with_the_value) {
  const std::pair<double, const char*> bad_fractions[] = {
      {0.0, " 0 "}, {-0.5, " -0.5 "}, {1.5, " 1.5 "}, {std::nan(""), " nan "}};
  for (const auto& [bad, value] : bad_fractions)
    EXPECT_THAT(([&, fraction = bad] { (void)L2SetAside::of_fraction(device(), fraction); }),
                ThrowsMessage<BadArgument>(AllOf(HasSubstr(value), HasSubstr("up to 1"))));
  EXPECT_THAT([&] { (void)L2SetAside::of_bytes(device(), 0); },
              ThrowsMessage<BadArgument>(HasSubstr("0 bytes")));
  const Buffer<int> x = x_of_hundred();
  for (const double bad : {-0.1, 1.1, std::nan("")})
    EXPECT_THROW(L2Guard(stream(), L2Window::persisting(x.data(), x.bytes(), bad)), BadArgument);
}

TEST_P(SmallL2, bad_windows_are_refused_and_change_nothing) {
  const Buffer<int> x = x_of_hundred();
  const auto refusal = [&](const L2Window& window) -> std::string {
    try {
      const L2Guard guard(stream(), window);
    } catch (const BadArgument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(L2Window::streaming(x.data(), 0)), HasSubstr("0 bytes"));
  EXPECT_THAT(refusal(L2Window::streaming(nullptr, 16)), HasSubstr("give it an address"));
  L2Window window = L2Window::streaming(x.data(), x.bytes());
  window.miss = L2Access::persisting;
  EXPECT_THAT(refusal(window), HasSubstr("misses persist"));
  const std::size_t most = l2_cache(device()).max_window;
  const L2Window too_large = L2Window::streaming(x.data(), most + 1);
  if (most != 0) {
    EXPECT_THAT(refusal(too_large), HasSubstr(std::to_string(most)));
  }
  if (can_persist() && l2_cache(device()).set_aside == 0) {
    EXPECT_THAT(refusal(L2Window::persisting(x.data(), x.bytes())), HasSubstr("L2SetAside"));
  }
  EXPECT_EQ(l2_window(stream()).bytes, 0u);
}

TEST_P(SmallL2, a_stream_that_is_captured_takes_no_window) {
  const Buffer<int> x = x_of_hundred();
  const auto guarded = [&](StreamRef captured) {
    const L2Guard guard(captured, L2Window::streaming(x.data(), x.bytes()));
  };
  EXPECT_THROW((void)capture(stream(), guarded), BadArgument);
}

TEST_P(SmallL2, a_kernel_of_a_graph_runs_with_its_window) {
  const Buffer<int> x = x_of_hundred();
  const L2SetAside set_aside = L2SetAside::of_fraction(device(), 0.5);
  const AffineArgs add{.x = x.data(), .count = x.size(), .factor = 1, .summand = 1};
  const auto windowed = [&](Graph& graph, const L2Window& window) {
    return graph.kernel(affine, Grid::covering(x.size(), 32), add).l2_window(window);
  };
  Graph graph(device());
  const auto first = windowed(graph, L2Window::persisting(x.data(), x.bytes()));
  const auto inside = graph.child(
      "inside", [&](Graph& child) { windowed(child, L2Window::streaming(x.data(), x.bytes())); });
  inside.after(first);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_TRUE(exec.set(first, add)) << "in place, the window stays";
  run(exec);
  for (int at = 0; const int value : x.read()) EXPECT_EQ(value, at++ + 4);
}

TEST_P(SmallL2, so_does_a_kernel_of_a_device_graph_and_of_a_loop) {
  const Buffer<int> x = x_of_hundred();
  const Buffer<unsigned> left = buffer<unsigned>({3});
  const auto add_windowed = [&](Graph& graph) {
    return graph
        .kernel(affine, Grid::covering(x.size(), 32),
                {.x = x.data(), .count = x.size(), .factor = 1, .summand = 1})
        .l2_window(L2Window::streaming(x.data(), x.bytes()));
  };
  Graph graph(device());
  add_windowed(graph);
  DeviceExec exec = graph.instantiate_for_device();
  exec.start(stream());
  Loop loop(device(), "windowed", [&](Graph& body, Condition again) {
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()})
        .after(add_windowed(body));
  });
  LoopExec passes = loop.instantiate(LoopForm::while_node);
  passes.launch(stream());
  stream().synchronize();
  for (int at = 0; const int value : x.read()) EXPECT_EQ(value, at++ + 4);
}

TEST_P(SmallL2, another_window_is_another_instance) {
  const Buffer<int> x = x_of_hundred();
  const auto graph_with = [&](std::size_t bytes) {
    Graph graph(device());
    const auto node =
        graph.kernel(affine, Grid{}, {.x = x.data(), .count = x.size(), .factor = 1, .summand = 1});
    if (bytes != 0) node.named("windowed").l2_window(L2Window::streaming(x.data(), bytes));
    return graph;
  };
  Exec exec = graph_with(x.bytes()).instantiate();
  EXPECT_TRUE(exec.update(graph_with(x.bytes()))) << "the same window";
  for (const std::size_t bytes : {x.bytes() / 2, std::size_t{0}}) {
    const UpdateReport report = exec.update(graph_with(bytes));
    EXPECT_TRUE(report.was_reinstantiated);
    EXPECT_THAT(report.reason, HasSubstr("L2 window"));
  }
  run(exec);
  for (int at = 0; const int value : x.read()) EXPECT_EQ(value, at++ + 1);
}

TEST_P(SmallL2, a_node_s_window_prints_with_it) {
  const Buffer<int> x = x_of_hundred();
  Graph graph(device());
  graph.kernel(affine, Grid{}, {.x = x.data(), .count = x.size(), .factor = 1, .summand = 1})
      .l2_window(L2Window::streaming(x.data(), x.bytes()));
  EXPECT_THAT(to_text(graph), HasSubstr("L2 window of 400 bytes, streaming"));
  EXPECT_THAT(to_json(graph), HasSubstr(R"("l2_window": {"bytes": 400, "hit_ratio": 1)"));
}

TEST_P(SmallL2, a_node_refuses_a_bad_window_by_name) {
  const Buffer<int> x = x_of_hundred();
  Graph graph(device());
  const auto node =
      graph.kernel(affine, Grid{}, {.x = x.data(), .count = x.size(), .factor = 1, .summand = 1})
          .named("careless");
  const auto scratch = graph.allocate<int>("scratch", 100);
  const auto giving = [&](const void* base, std::size_t bytes) {
    return [&node, base, bytes] { node.l2_window(L2Window::streaming(base, bytes)); };
  };
  EXPECT_THAT(giving(x.data(), 0),
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("'careless'"), HasSubstr("0 bytes"))));
  EXPECT_THAT(giving(scratch.data(), 400),
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("'careless'"), HasSubstr("allocates"))));
}

TEST_P(SmallL2, hinted_loads_and_stores_copy_what_is_there) {
  constexpr unsigned kQuads = 300;
  std::vector<Quad> values(kQuads);
  for (unsigned at = 0; at < kQuads; ++at) values[at] = {{at, ~at, at * at, at << 16}};
  const Buffer<Quad> from = buffer(values);
  for (const unsigned width : {4u, 8u, 16u}) {
    const Buffer<Quad> to = buffer(std::vector<Quad>(kQuads));
    stream().kernel(hinted_copy, Grid{Dim3{2}, Dim3{64}},
                    {.from = from.data(), .to = to.data(), .count = kQuads, .width = width});
    stream().synchronize();
    EXPECT_EQ(to.read(), values) << width << " bytes at a time";
  }
}

TEST_P(SmallL2, discard_leaves_lines_alone_that_are_not_wholly_in_its_range) {
  constexpr std::size_t kLineWords = kL2LineBytes / sizeof(std::uint32_t);
  std::vector<std::uint32_t> values(4 * kLineWords);
  std::iota(values.begin(), values.end(), 100u);
  const Buffer<std::uint32_t> x = buffer(values);  // aligned to 256 bytes
  // From the middle of the first line to the middle of the third: only the second lies inside.
  stream().kernel(discard, Grid{Dim3{2}, Dim3{32}},
                  {.at = x.data() + kLineWords / 2, .bytes = 2 * kL2LineBytes});
  stream().kernel(discard, Grid{},
                  {.at = x.data() + 3 * kLineWords + 1, .bytes = kL2LineBytes - 4});
  stream().synchronize();
  const std::vector<std::uint32_t> after = x.read();
  for (std::size_t at = 0; at < values.size(); ++at)
    if (!is_cuda() || at / kLineWords != 1) {
      EXPECT_EQ(after[at], values[at]) << at;
    }
  stream().fill(x.data(), 7, x.bytes());
  stream().synchronize();
  EXPECT_EQ(x.read(), std::vector<std::uint32_t>(values.size(), 0x07070707u));
}

TEST_P(SmallL2, a_reset_leaves_failures_for_the_stream_to_report) {
  stream().host("fail", [] { throw std::runtime_error("out of paper"); });
  reset_l2(stream());
  EXPECT_THROW(stream().synchronize(), NodeFailed);
}

}  // namespace
}  // namespace attacca::test
