// on_each_device.hpp: the fixture of every semantics test: one device per parameter, a stream, and
// after each test a check that the device still works.
#pragma once

#include <gtest/gtest.h>
#include <attacca/attacca.hpp>

#include <optional>
#include <string>
#include <vector>

namespace attacca::test {

/// The kinds of device that this build supports. Whether the machine has a GPU is checked by each
/// test.
std::vector<DeviceKind> device_kinds();
std::string device_kind_name(const testing::TestParamInfo<DeviceKind>& info);

/// The device of a kind that all tests share; four threads for host_threads.
Device device_of(DeviceKind kind);

class OnEachDevice : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override;
  void TearDown() override;

  const Device& device() const { return *device_; }
  Stream& stream() { return *stream_; }
  bool is_cuda() const { return GetParam() == DeviceKind::cuda; }

  /// Launches and waits.
  void run(Exec& exec) {
    exec.launch(stream());
    stream().synchronize();
  }
  /// Instantiates, launches and waits.
  void run(const Graph& graph) {
    Exec exec = graph.instantiate();
    run(exec);
  }
  template <class T>
  Buffer<T> buffer(const std::vector<T>& values) const {
    return Buffer<T>(device(), values);
  }

 private:
  void expect_healthy();

  std::optional<Device> device_;
  std::optional<Stream> stream_;
};

}  // namespace attacca::test

/// Instantiates a suite derived from OnEachDevice for each device: "Suite.test/host_serial", ….
#define ATTACCA_ON_EACH_DEVICE(suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(, suite, testing::ValuesIn(::attacca::test::device_kinds()), \
                           ::attacca::test::device_kind_name)
