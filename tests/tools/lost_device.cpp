// lost_device.cpp: makes of the command `attacca` one whose host device is lost at SIGUSR1. The
// linker lets calls of Device::host(threads) come here.
#include <attacca/device.hpp>

#include <csignal>
#include <memory>

#include "graph/access.hpp"
#include "support/faulty_device.hpp"

namespace attacca::test {

Device host_with(unsigned threads) __asm__("__real__ZN7attacca6Device4hostEj");
Device faulty_host_with(unsigned threads) __asm__("__wrap__ZN7attacca6Device4hostEj");

Device faulty_host_with(unsigned threads) {
  static const auto faults = std::make_shared<Faults>();
  std::signal(SIGUSR1, [](int) { faults->is_lost = true; });
  return graph::Access::device(std::make_shared<FaultyDevice>(host_with(threads), faults));
}

}  // namespace attacca::test
