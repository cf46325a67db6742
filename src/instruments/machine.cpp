// Processor, memory and libraries, and the advice that follows. The GPUs are in gpu_driver.cpp.
#include "instruments/machine.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <system_error>

#include "instruments/gpu_driver.hpp"

#if ATTACCA_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace attacca::instruments {
namespace {

namespace fs = std::filesystem;

struct ArmPart {
  std::string_view implementer;
  std::string_view part;
  std::string_view name;
};

// The kernel gives an ARM processor's maker and part as numbers. Servers and the boards developers
// own.
constexpr std::array kArmParts{
    ArmPart{"0x41", "0xd03", "ARM Cortex-A53"},   ArmPart{"0x41", "0xd08", "ARM Cortex-A72"},
    ArmPart{"0x41", "0xd0b", "ARM Cortex-A76"},   ArmPart{"0x41", "0xd42", "ARM Cortex-A78AE"},
    ArmPart{"0x41", "0xd0c", "ARM Neoverse-N1"},  ArmPart{"0x41", "0xd40", "ARM Neoverse-V1"},
    ArmPart{"0x41", "0xd49", "ARM Neoverse-N2"},  ArmPart{"0x41", "0xd4f", "ARM Neoverse-V2"},
    ArmPart{"0x41", "0xd84", "ARM Neoverse-V3"},  ArmPart{"0x41", "0xd8e", "ARM Neoverse-N3"},
    ArmPart{"0x41", "0xd85", "ARM Cortex-X925"},  ArmPart{"0x41", "0xd87", "ARM Cortex-A725"},
    ArmPart{"0xc0", "0xac3", "Ampere AmpereOne"}, ArmPart{"0xc0", "0xac4", "Ampere AmpereOne"},
    ArmPart{"0x61", "0x000", "Apple (virtual)"},
};

struct SimdFlag {
  std::string_view flag;
  std::string_view name;
};

constexpr std::array kSimdFlags{
    SimdFlag{"avx2", "AVX2"},  SimdFlag{"avx512f", "AVX-512"}, SimdFlag{"amx_tile", "AMX"},
    SimdFlag{"asimd", "NEON"}, SimdFlag{"sve", "SVE"},         SimdFlag{"sve2", "SVE2"},
};

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// The fields of the first processor; the others repeat them.
std::map<std::string, std::string, std::less<>> cpuinfo_fields(std::string_view text) {
  std::map<std::string, std::string, std::less<>> fields;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view view = line;
    fields.emplace(trim(view.substr(0, colon)), trim(view.substr(colon + 1)));
  }
  return fields;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

std::uint64_t total_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

std::vector<fs::path> folders_of_variable(const char* variable) {
  std::vector<fs::path> folders;
  const char* value = std::getenv(variable);
  std::istringstream parts(value == nullptr ? "" : value);
  for (std::string part; std::getline(parts, part, ':');) {
    if (!part.empty()) folders.emplace_back(part);
  }
  return folders;
}

std::vector<fs::path> subfolders(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unreadable;
    if (entry->is_directory(unreadable)) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Wheels put a library in <python>/site-packages/nvidia/<package>/lib.
void add_wheel_folders(const fs::path& python_prefix, std::vector<fs::path>& folders) {
  for (const fs::path& python : subfolders(python_prefix)) {
    if (!python.filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const fs::path& package : subfolders(python / packages / "nvidia")) {
        folders.push_back(package / "lib");
      }
    }
  }
}

std::vector<fs::path> library_folders(const std::string& architecture) {
  const std::string triplet = architecture + "-linux-gnu";
  std::vector<fs::path> folders = folders_of_variable("LD_LIBRARY_PATH");
  for (const char* base : {"/usr/local/lib", "/usr/lib", "/lib"}) {
    folders.push_back(fs::path(base) / triplet);
    folders.emplace_back(base);
  }
  folders.emplace_back("/usr/lib64");
  folders.push_back(fs::path("/usr/lib") / triplet / "openmpi" / "lib");

  std::vector<fs::path> toolkits{"/usr/local/cuda"};
  for (const fs::path& folder : subfolders("/usr/local")) {
    if (folder.filename().string().starts_with("cuda-")) toolkits.push_back(folder);
  }
  for (const fs::path& toolkit : toolkits) {
    folders.push_back(toolkit / "lib64");
    folders.push_back(toolkit / "extras" / "CUPTI" / "lib64");
    for (const fs::path& target : subfolders(toolkit / "targets"))
      folders.push_back(target / "lib");
  }

  add_wheel_folders("/usr/lib", folders);
  add_wheel_folders("/usr/local/lib", folders);
  if (const char* home = std::getenv("HOME"))
    add_wheel_folders(fs::path(home) / ".local/lib", folders);
  for (const fs::path& bin : folders_of_variable("PATH")) {
    std::error_code error;
    if (fs::exists(bin / "python3", error)) add_wheel_folders(bin.parent_path() / "lib", folders);
  }
  return folders;
}

std::vector<Library> find_libraries(const std::vector<fs::path>& folders) {
  return {
      find_library({.name = "NCCL",
                    .purpose = "collectives over many GPUs",
                    .remedy = "apt-get install libnccl2 libnccl-dev (NVIDIA's repository), or pip "
                              "install nvidia-nccl-cu13",
                    .path = {},
                    .version = {}},
                   {"libnccl.so.2"}, folders),
      find_library({.name = "NVSHMEM",
                    .purpose = "queues and signals between GPUs",
                    .remedy = "pip install nvidia-nvshmem-cu13",
                    .path = {},
                    .version = {}},
                   {"libnvshmem_host.so.3", "libnvshmem_host.so"}, folders),
      find_library({.name = "MPI",
                    .purpose = "ranks over many machines",
                    .remedy = "apt-get install libopenmpi-dev",
                    .path = {},
                    .version = {}},
                   {"libmpi.so", "libmpi.so.40", "libmpich.so.12"}, folders),
      find_library({.name = "CUPTI",
                    .purpose = "traces of what ran on the GPU",
                    .remedy = "apt-get install cuda-cupti-13-0 (NVIDIA's repository), or pip "
                              "install nvidia-cuda-cupti",
                    .path = {},
                    .version = {}},
                   {"libcupti.so.13", "libcupti.so"}, folders),
  };
}

fs::path find_cuda_compiler() {
  std::vector<fs::path> folders = folders_of_variable("PATH");
  folders.emplace_back("/usr/local/cuda/bin");
  for (const fs::path& folder : folders) {
    if (access((folder / "nvcc").c_str(), X_OK) == 0) return folder / "nvcc";
  }
  return {};
}

std::optional<std::string> linked_runtime() {
#if ATTACCA_WITH_CUDA
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) return cuda_version_text(version);
#endif
  return std::nullopt;
}

std::vector<Advice> advise(const Machine& machine) {
  std::vector<Advice> advice;
  if (machine.gpus.empty()) {
    advice.push_back({"a GPU: " + machine.driver.error,
                      machine.driver.is_loaded
                          ? "check nvidia-smi; graphs run on the host backend meanwhile"
                          : "install NVIDIA's driver (580 or newer) on a machine with a GPU; "
                            "graphs run on the host "
                            "backend meanwhile"});
  }
  if (!machine.cuda_runtime) {
    advice.push_back({"the CUDA backend in this build",
                      machine.cuda_compiler.empty()
                          ? "install NVIDIA's CUDA 13 toolkit, then cmake --preset cuda && cmake "
                            "--build --preset cuda"
                          : "cmake --preset cuda && cmake --build --preset cuda"});
  }
  for (const Library& library : machine.libraries) {
    if (!library.is_found())
      advice.push_back({library.name + ", " + library.purpose, library.remedy});
  }
  return advice;
}

/// The daemon leaves its pipes and its number in a folder.
bool runs_mps() {
  const char* folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const fs::path pipes = folder ? folder : "/tmp/nvidia-mps";
  std::error_code ignored;
  if (!fs::exists(pipes / "control", ignored)) return false;
  pid_t daemon = 0;
  std::ifstream file(pipes / "nvidia-cuda-mps-control.pid");
  return !(file >> daemon) || daemon <= 0 || ::kill(daemon, 0) == 0 || errno == EPERM;
}

}  // namespace

Cpu parse_cpuinfo(std::string_view text, std::string_view architecture) {
  const auto fields = cpuinfo_fields(text);
  const auto field = [&](std::string_view name) -> std::string {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
  };

  Cpu cpu;
  cpu.architecture = architecture;
  cpu.model = field("model name");
  const std::string part = field("CPU part");
  if (cpu.model.empty() && !part.empty()) {
    const std::string implementer = field("CPU implementer");
    const auto known = std::find_if(kArmParts.begin(), kArmParts.end(), [&](const ArmPart& arm) {
      return arm.implementer == implementer && arm.part == part;
    });
    cpu.model = known != kArmParts.end() ? std::string(known->name)
                                         : "ARM implementer " + implementer + " part " + part;
  }
  if (cpu.model.empty()) cpu.model = "unknown " + cpu.architecture;

  // "flags" on x86, "Features" (the kernel's hwcaps by name) on ARM.
  std::istringstream flags(field("flags") + " " + field("Features"));
  const std::vector<std::string> words{std::istream_iterator<std::string>(flags), {}};
  for (const SimdFlag& simd : kSimdFlags) {
    if (std::find(words.begin(), words.end(), simd.flag) != words.end())
      cpu.simd.emplace_back(simd.name);
  }
  return cpu;
}

Library find_library(Library wanted, const std::vector<std::string>& names,
                     const std::vector<fs::path>& folders) {
  const auto version_in = [](const std::string& file) {
    const auto at = file.find(".so.");
    return at == std::string::npos ? std::string() : file.substr(at + 4);
  };
  for (const std::string& name : names) {
    for (const fs::path& folder : folders) {
      std::error_code error;
      if (!fs::is_regular_file(folder / name, error)) continue;
      wanted.path = folder / name;
      const fs::path target = fs::canonical(wanted.path, error);
      wanted.version = version_in((error ? wanted.path : target).filename().string());
      return wanted;
    }
  }
  return wanted;
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Cpu describe_cpu() {
  utsname system{};
  uname(&system);
  Cpu cpu = parse_cpuinfo(read_file("/proc/cpuinfo"), system.machine);
  cpu.cores = usable_cores();
  return cpu;
}

Machine describe_machine() {
  Machine machine;
  machine.cpu = describe_cpu();
  machine.memory_bytes = total_memory();
  machine.driver = ask_driver(machine.gpus);
  machine.cuda_compiler = find_cuda_compiler();
  machine.cuda_runtime = linked_runtime();
  machine.libraries = find_libraries(library_folders(machine.cpu.architecture));
  machine.has_mps = runs_mps();
  machine.advice = advise(machine);
  return machine;
}

}  // namespace attacca::instruments
