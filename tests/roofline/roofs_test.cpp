// Tests of measured roofs: that they make sense, and that they are kept and read back.
#include "roofline/roofs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "roofline/paper_machine.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::HasSubstr;

TEST(RoofsText, comes_back_as_it_was) {
  const Roofs roofs = paper_roofs();
  const auto read = roofline::read_roofs(roofline::roofs_text(roofs));
  ASSERT_TRUE(read);
  EXPECT_EQ(roofline::roofs_text(*read), roofline::roofs_text(roofs));
  EXPECT_EQ(read->device, "paper");
  EXPECT_EQ(read->early_node_us, 0.8);
}

TEST(RoofsText, anything_cut_or_changed_is_refused) {
  const std::string text = roofline::roofs_text(paper_roofs());
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(roofline::read_roofs(text.substr(0, length))) << length;
  EXPECT_FALSE(roofline::read_roofs(text + "more 1\n"));
  for (const char* wrong : {"nan", "inf", "-1", "1e400", "1x", ""}) {
    std::string changed = text;
    const std::size_t at = changed.find("node_us ") + 8;
    changed.replace(at, changed.find('\n', at) - at, wrong);
    EXPECT_FALSE(roofline::read_roofs(changed)) << wrong;
  }
}

TEST(AtWidth, lies_on_the_line_between_two_widths_and_stays_beyond_the_last) {
  const ByWidth us{1, 7, 31, 31};
  EXPECT_EQ(at_width(us, 1), 1);
  EXPECT_EQ(at_width(us, 2), 1);
  EXPECT_EQ(at_width(us, 5), 4);
  EXPECT_EQ(at_width(us, 8), 7);
  EXPECT_EQ(at_width(us, 20), 19);
  EXPECT_EQ(at_width(us, 64), 31);
  EXPECT_EQ(at_width(us, 1000), 31);
}

/// Lets the cache folder be another one for the time of a test.
class KeptRoofs : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv("XDG_CACHE_HOME")) before_ = value;
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("roofs" + std::to_string(reinterpret_cast<std::uintptr_t>(this)));
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    before_.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", before_.c_str(), 1);
  }
  std::filesystem::path file() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      if (entry.is_regular_file()) return entry.path();
    return {};
  }
  std::filesystem::path folder_;
  std::string before_;
};

TEST_F(KeptRoofs, are_measured_once_and_again_when_the_file_is_broken) {
  const Device device = Device::host_serial();
  Roofs kept = paper_roofs();
  kept.device = roofline::hardware_name(device);
  ASSERT_TRUE(keep_roofs(kept));
  struct Measures {};
  const auto stop = [](const char*, unsigned, unsigned) { throw Measures(); };
  EXPECT_EQ(roofs_of(device, stop).read, 1e12);
  std::ofstream(file()) << "attacca roofs 2: " << kept.device << "\nread 12\n";
  EXPECT_THROW(roofs_of(device, stop), Measures);
  ASSERT_TRUE(keep_roofs(kept));
  EXPECT_EQ(roofs_of(device, stop).read, 1e12);
}

TEST_F(KeptRoofs, of_other_hardware_are_not_taken) {
  const Device device = Device::host_serial();
  Roofs kept = paper_roofs();
  kept.device = roofline::hardware_name(device);
  ASSERT_TRUE(keep_roofs(kept));
  kept.device = "another";
  std::ofstream(file()) << roofline::roofs_text(kept);
  EXPECT_ANY_THROW(roofs_of(
      device, [](const char*, unsigned, unsigned) { throw std::runtime_error("measures"); }));
}

class MeasuredRoofs : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(MeasuredRoofs);

TEST_P(MeasuredRoofs, are_positive_and_in_an_order_that_hardware_has) {
  if (GetParam() == DeviceKind::host_serial)
    GTEST_SKIP() << "the threads of host_threads do the same";
  const Roofs roofs = measure_roofs(device());
  EXPECT_GT(roofs.read, 1e8);
  EXPECT_GT(roofs.copy, 1e8);
  EXPECT_GT(roofs.cache, 1e8);
  EXPECT_GT(roofs.flops_of(Arithmetic::fp32), 1e8);
  EXPECT_GT(roofs.launch_us, 0);
  if (is_cuda()) {  // elsewhere it may get lost between two times, as on a busy machine
    EXPECT_GT(roofs.node_us, 0);
  }
  EXPECT_GE(roofs.node_us, roofs.tiny_us);
  EXPECT_THAT(to_text(roofs), HasSubstr(roofs.device));
  if (device().compute_capability() == 90) {
    EXPECT_GT(roofs.flops_of(Arithmetic::bf16), 4 * roofs.flops_of(Arithmetic::fp32));
    EXPECT_GT(roofs.flops_of(Arithmetic::fp8), roofs.flops_of(Arithmetic::bf16));
  }
}

}  // namespace
}  // namespace attacca::test
