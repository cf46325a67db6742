// on_each_device.cpp: makes the devices that tests share, and checks after each test that its
// device still works.
#include "support/on_each_device.hpp"

#include "support/kernels.hpp"

namespace attacca::test {

std::vector<DeviceKind> device_kinds() {
  std::vector<DeviceKind> kinds{DeviceKind::host_serial, DeviceKind::host_threads};
#if ATTACCA_WITH_CUDA
  kinds.push_back(DeviceKind::cuda);
#endif
  return kinds;
}

std::string device_kind_name(const testing::TestParamInfo<DeviceKind>& info) {
  switch (info.param) {
    case DeviceKind::host_serial:
      return "host_serial";
    case DeviceKind::host_threads:
      return "host_threads";
    case DeviceKind::cuda:
      return "cuda";
  }
  return "unknown";
}

Device device_of(DeviceKind kind) {
  if (kind == DeviceKind::host_serial) return Device::host_serial();
  if (kind == DeviceKind::cuda) return Device::cuda(0);
  static const Device threads = Device::host(4);
  return threads;
}

void OnEachDevice::SetUp() {
  if (is_cuda() && Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
  device_ = device_of(GetParam());
  stream_.emplace(*device_);
}

void OnEachDevice::TearDown() {
  if (!stream_) return;
  EXPECT_NO_THROW(stream_->synchronize()) << "the test left a failure behind";
  EXPECT_NO_THROW(expect_healthy());
  stream_.reset();
}

void OnEachDevice::expect_healthy() {
  const Buffer<int> cell(*device_, 2);
  Graph graph(*device_, "health check");
  const auto clear = graph.fill(cell.data(), 0, cell.bytes());
  graph.kernel(affine, Grid{}, {.x = cell.data(), .count = 2, .factor = 1, .summand = 7})
      .after(clear);
  run(graph);
  EXPECT_EQ(cell.read(), (std::vector<int>{7, 7})) << "the device no longer computes";
}

}  // namespace attacca::test
