// Tests of machine.hpp: what it reads from text and files, and that it can describe this machine.
#include "instruments/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace attacca::instruments {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

TEST(Machine, reads_an_x86_processor) {
  const Cpu cpu = parse_cpuinfo(
      "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\n"
      "flags\t\t: fpu avx avx2 avx512f avx512vl amx_bf16 amx_tile\n\n"
      "processor\t: 1\nmodel name\t: another\n",
      "x86_64");
  EXPECT_EQ(cpu.model, "Intel(R) Xeon(R) Platinum 8480C");
  EXPECT_THAT(cpu.simd, ElementsAre("AVX2", "AVX-512", "AMX"));
}

TEST(Machine, names_an_arm_processor_by_its_part) {
  const Cpu cpu = parse_cpuinfo(
      "processor\t: 0\nFeatures\t: fp asimd sve sve2\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n",
      "aarch64");
  EXPECT_EQ(cpu.model, "ARM Neoverse-V2");
  EXPECT_THAT(cpu.simd, ElementsAre("NEON", "SVE", "SVE2"));
}

TEST(Machine, gives_the_numbers_of_an_arm_processor_it_does_not_know) {
  const Cpu cpu = parse_cpuinfo("CPU implementer\t: 0x7f\nCPU part\t: 0x001\n", "aarch64");
  EXPECT_EQ(cpu.model, "ARM implementer 0x7f part 0x001");
  EXPECT_TRUE(cpu.simd.empty());
}

TEST(Machine, says_unknown_where_the_kernel_says_nothing) {
  EXPECT_EQ(parse_cpuinfo("", "riscv64").model, "unknown riscv64");
}

TEST(Machine, finds_a_library_and_reads_the_version_its_link_leads_to) {
  const fs::path folder =
      fs::temp_directory_path() / ("attacca_machine_test_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "libnccl.so.2.28.3") << "x";
  fs::create_symlink("libnccl.so.2.28.3", folder / "libnccl.so.2");

  Library wanted;
  wanted.name = "NCCL";
  const Library found = find_library(wanted, {"libnccl.so.2"}, {folder / "absent", folder});
  const Library absent = find_library(wanted, {"libnvshmem_host.so.3"}, {folder});
  fs::remove_all(folder);

  EXPECT_EQ(found.path, folder / "libnccl.so.2");
  EXPECT_EQ(found.version, "2.28.3");
  EXPECT_FALSE(absent.is_found());
}

TEST(Machine, writes_a_cuda_version_as_people_do) {
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(12040), "12.4");
}

TEST(Machine, describes_this_machine) {
  const Machine machine = describe_machine();
  EXPECT_FALSE(machine.cpu.model.empty());
  EXPECT_GE(machine.cpu.cores, 1);
  EXPECT_GT(machine.memory_bytes, 0u);
  EXPECT_EQ(machine.libraries.size(), 4u);
  EXPECT_EQ(machine.gpus.empty(), !machine.driver.error.empty());
  EXPECT_EQ(machine.cuda_runtime.has_value(), ATTACCA_WITH_CUDA == 1);
}

}  // namespace
}  // namespace attacca::instruments
