// What this machine is: processor, memory, GPUs, driver, and the libraries attacca can make use of.
// Nothing here starts a CUDA context or loads a communication library: GPUs are asked through the
// driver, opened at run time, so that a host build reports them too, and libraries are found as
// files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attacca::instruments {

struct Cpu {
  std::string model;
  std::string architecture;       // as the kernel names it: x86_64, aarch64
  int cores = 0;                  // that this process may run on
  std::vector<std::string> simd;  // of AVX2, AVX-512, AMX, NEON, SVE, SVE2
};

struct Gpu {
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
  double peak_bytes_per_second = 0;  // of the device memory, from its clock and width
};

struct CudaDriver {
  bool is_loaded = false;
  std::string version;       // the kernel driver's, "580.95.05"; empty where unknown
  std::string cuda_version;  // the newest CUDA it can run, "13.0"
  std::string error;         // why there are no GPUs to report; empty where there are some
};

struct Library {
  std::string name;  // NCCL, NVSHMEM, MPI, CUPTI
  std::string purpose;
  std::string remedy;          // how to get it
  std::filesystem::path path;  // empty where not found
  std::string version;         // as its file name says

  bool is_found() const { return !path.empty(); }
};

// Something that would let attacca do more on this machine.
struct Advice {
  std::string missing;
  std::string remedy;
};

struct Machine {
  Cpu cpu;
  std::uint64_t memory_bytes = 0;
  CudaDriver driver;
  std::vector<Gpu> gpus;
  std::filesystem::path cuda_compiler;  // nvcc; empty where not found
  std::optional<std::string>
      cuda_runtime;  // the runtime this build is linked with; none in a host build
  std::vector<Library> libraries;
  bool has_mps = false;  // its daemon runs, and this process would use it
  std::vector<Advice> advice;
};

Machine describe_machine();
Cpu describe_cpu();

// The pieces that do not depend on this machine.

// Reads the text of /proc/cpuinfo; `architecture` is uname's machine field. Leaves `cores` at zero.
Cpu parse_cpuinfo(std::string_view text, std::string_view architecture);

// Fills in the first file with one of the names, earlier names first, in the folders given, and the
// version in the name of the file it leads to: "2.28.3" for a link to libnccl.so.2.28.3.
Library find_library(Library wanted, const std::vector<std::string>& names,
                     const std::vector<std::filesystem::path>& folders);

// CUDA writes 13.0 as 13000.
std::string cuda_version_text(int version);

}  // namespace attacca::instruments
