// frame.hpp: what an emulated kernel may ask of its launch: nothing happens.
#pragma once

#include <attacca/kernel.hpp>

namespace attacca::test {

struct Frame final : detail::HostFrame {
  void run_blocks(std::uint64_t, BlockRange, void*) override {}
  LaunchStatus launch(DeviceGraph, LaunchMode) override { return {}; }
  LaunchStatus relaunch_self() override { return {}; }
  LaunchStatus spawn(const KernelInfo&, const Grid&, const void*, bool) override { return {}; }
  void waited() override {}
  void give_up(const detail::WaitFacts&) override {}
  void source_broke(unsigned) override {}
};

}  // namespace attacca::test
