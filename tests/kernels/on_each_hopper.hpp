// on_each_hopper.hpp: the fixture of tests that run tiled linear layers. They skip devices without
// the kernel.
#pragma once

#include <vector>

#include "kernels/linear/sm90_tiled_linear.hpp"
#include "kernels/product_world.hpp"

namespace attacca::test {

class OnEachHopper : public OnEachDevice {
 protected:
  static constexpr unsigned kProcessors = 132;

  void SetUp() override {
    OnEachDevice::SetUp();
    if (!is_cuda()) GTEST_SKIP() << "the host's body is the reference";
    if (!IsSkipped() && !kernels::has_tiled_linear(device()))
      GTEST_SKIP() << "products of whole tiles: not on this GPU";
  }

  struct Run {
    bool in_order = false;
    std::uint32_t tile_rows = 0;  // 0: as many as tiled_rows says
    unsigned processors = kProcessors;
    unsigned times = 1;  // one after another
    std::uint64_t patience_nanoseconds = kernels::kPatienceNanoseconds;
    kernels::RopeEpilogue rope = {};
  };
  static std::vector<std::uint32_t> empty_workspace(bool in_order) {
    return std::vector<std::uint32_t>(kernels::tiled_workspace_bytes(kProcessors, in_order) / 4);
  }
  void run_tiled(ProductWorld& world, const Run& how) {
    const Buffer<std::uint32_t> workspace(device(), empty_workspace(how.in_order));
    run_tiled(world, how, workspace);
  }
  void run_tiled(ProductWorld& world, const Run& how, const Buffer<std::uint32_t>& workspace) {
    const kernels::StreamedLinearArgs& p = world.product;
    const std::uint32_t tile_rows =
        how.tile_rows != 0 ? how.tile_rows : kernels::tiled_rows(p, how.in_order, how.processors);
    const std::vector<TensorMap> maps{
        p.epilogue == kernels::Epilogue::gate ? kernels::map_weights(device(), p.w, p.up)
                                              : kernels::map_weights(device(), p.w),
        kernels::map_rows(device(), p.x, world.sizes.capacity, p.w.columns, tile_rows)};
    const Buffer<TensorMap> on_device(device(), maps);
    const kernels::TiledLinearArgs args{.w_map = on_device.data(),
                                        .x_map = on_device.data() + 1,
                                        .workspace = workspace.data(),
                                        .gate_is_second = gate_is_second(p.w, p.up),
                                        .in_order = how.in_order,
                                        .tile_rows = tile_rows,
                                        .product = p,
                                        .patience_nanoseconds = how.patience_nanoseconds,
                                        .rope = how.rope};
    repeat(tiled_linear(args, how.processors), tiled_grid(args, how.processors), args, how.times);
  }

  /// Runs a kernel some times, each behind a programmatic edge.
  template <class Args>
  void repeat(const Kernel<Args>& kernel, const Grid& grid, const Args& args, unsigned times) {
    Graph graph(device());
    Node last = graph.kernel(kernel, grid, args);
    for (unsigned i = 1; i < times; ++i)
      last = graph.kernel(kernel, grid, args).after_programmatic(last);
    run(graph);
  }
};

}  // namespace attacca::test
