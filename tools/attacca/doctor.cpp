// `attacca doctor`: describes the machine, the parts of it that this build can use, and how to get
// the parts that are missing.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <attacca/device.hpp>
#include <attacca/mpi.hpp>
#include <attacca/nccl.hpp>
#include <attacca/nvshmem.hpp>
#include <attacca/version.hpp>

#include <memory>
#include <string>

#include "command.hpp"
#include "core/counted.hpp"
#include "instruments/machine.hpp"
#include "json.hpp"

namespace attacca::tool {
namespace {

using instruments::Gpu;
using instruments::Library;
using instruments::Machine;

constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;
constexpr double kMebi = 1024.0 * 1024.0;

void say(std::string_view label, const std::string& text) { fmt::print("{:<12}{}\n", label, text); }

std::string or_unknown(const std::string& text) { return text.empty() ? "unknown" : text; }

std::string describe(const Gpu& gpu) {
  return fmt::format("{}, compute {}.{}, {} SMs, {:.1f} GiB at {:.2f} TB/s peak, {:.0f} MiB L2",
                     gpu.name, gpu.compute_major, gpu.compute_minor, gpu.multiprocessors,
                     static_cast<double>(gpu.memory_bytes) / kGibi,
                     gpu.peak_bytes_per_second / 1e12, static_cast<double>(gpu.l2_bytes) / kMebi);
}

void print_text(const Machine& machine) {
  say("attacca",
      fmt::format("{}, backends: {}", version(), machine.cuda_runtime ? "host, cuda" : "host"));
  say("processor",
      fmt::format(
          "{}, {}, {}{}", machine.cpu.model, counted(machine.cpu.cores, "core"),
          machine.cpu.architecture,
          machine.cpu.simd.empty() ? "" : fmt::format(", {}", fmt::join(machine.cpu.simd, " "))));
  say("memory", fmt::format("{:.1f} GiB", static_cast<double>(machine.memory_bytes) / kGibi));
  if (machine.gpus.empty()) say("GPU", "none: " + machine.driver.error);
  for (std::size_t index = 0; index < machine.gpus.size(); ++index) {
    say(fmt::format("GPU {}", index), describe(machine.gpus[index]));
  }
  if (machine.driver.is_loaded) {
    say("driver", fmt::format("{}, runs CUDA up to {}", or_unknown(machine.driver.version),
                              or_unknown(machine.driver.cuda_version)));
  }
  if (machine.cuda_runtime) say("runtime", "CUDA " + *machine.cuda_runtime + ", linked in");
  if (!machine.cuda_compiler.empty()) say("nvcc", machine.cuda_compiler.string());

  say("ranks", "threads (loopback); processes (TCP, MPI): " + describe_mpi());
  const bool has_gpu = Device::cuda_count() > 0;
  say("ranks GPU", has_gpu
                       ? "threads that share one (edges); processes, through host memory (staged), "
                         "or directly on streams with a CUDA-aware MPI"
                       : "none: there is no GPU that this build can use");
  if (has_gpu)
    say("ranks peers", Device::cuda_count() > 1
                           ? fmt::format("copies between {} GPUs, on streams", Device::cuda_count())
                           : "none: one GPU is visible, and copies between GPUs need two");
  const auto usable = [&](bool has_library) {
    return has_library && !has_gpu ? ", and no GPU to use it" : "";
  };
  say("ranks NCCL", describe_nccl() + usable(has_nccl()));
  say("ranks SHMEM", describe_nvshmem() + usable(has_nvshmem()));
  if (has_gpu)
    say("ranks MPS", machine.has_mps ? "runs, so processes can share a GPU at the same time"
                                     : "does not run, so processes that share a GPU take turns, "
                                       "and NVSHMEM refuses them; nvidia-cuda-mps-control -d "
                                       "starts it");

  fmt::print("\nlibraries (found here; {})\n", has_mpi()
                                                   ? "attacca links MPI and no other"
                                                   : "this build of attacca links none of them");
  for (const Library& library : machine.libraries) {
    fmt::print("  {:<10}{:<34}{}\n", library.name, library.purpose,
               library.is_found() ? fmt::format("{} {}", library.version, library.path.string())
                                  : "not found");
  }
  if (machine.advice.empty()) return;
  fmt::print("\nmissing\n");
  for (const instruments::Advice& advice : machine.advice) {
    fmt::print("  {}\n      {}\n", advice.missing, advice.remedy);
  }
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json to_json(const Machine& machine) {
  Json::List gpus;
  for (const Gpu& gpu : machine.gpus) {
    gpus.push_back(
        {{"name", gpu.name},
         {"compute_capability", fmt::format("{}.{}", gpu.compute_major, gpu.compute_minor)},
         {"multiprocessors", gpu.multiprocessors},
         {"memory_bytes", gpu.memory_bytes},
         {"l2_bytes", gpu.l2_bytes},
         {"peak_bytes_per_second", gpu.peak_bytes_per_second}});
  }
  Json::List libraries;
  for (const Library& library : machine.libraries) {
    libraries.push_back({{"name", library.name},
                         {"purpose", library.purpose},
                         {"found", library.is_found()},
                         {"version", text_or_null(library.version)},
                         {"path", text_or_null(library.path.string())},
                         {"linked", library.name == "MPI" && has_mpi()}});
  }
  Json::List missing;
  for (const instruments::Advice& advice : machine.advice) {
    missing.push_back({{"what", advice.missing}, {"how_to_get_it", advice.remedy}});
  }
  Json::List backends = {"host"};
  if (machine.cuda_runtime) backends.push_back("cuda");
  return {{"version", version()},
          {"backends", backends},
          {"cpu",
           {{"model", machine.cpu.model},
            {"architecture", machine.cpu.architecture},
            {"cores", machine.cpu.cores},
            {"simd", machine.cpu.simd}}},
          {"memory_bytes", machine.memory_bytes},
          {"gpus", gpus},
          {"cuda",
           {{"driver_version", text_or_null(machine.driver.version)},
            {"driver_supports", text_or_null(machine.driver.cuda_version)},
            {"runtime_version", text_or_null(machine.cuda_runtime.value_or(""))},
            {"compiler", text_or_null(machine.cuda_compiler.string())},
            {"error", text_or_null(machine.driver.error)}}},
          {"ranks",
           {{"loopback", true},
            {"mpi", has_mpi()},
            {"mpi_library", describe_mpi()},
            {"edges", Device::cuda_count() > 0},
            {"nccl", has_nccl() && Device::cuda_count() > 0},
            {"nccl_library", describe_nccl()},
            {"nvshmem", has_nvshmem() && Device::cuda_count() > 0},
            {"nvshmem_library", describe_nvshmem()},
            {"mps", machine.has_mps}}},
          {"libraries", libraries},
          {"missing", missing}};
}

}  // namespace

void add_doctor(Program& program) {
  Command command = program.command("doctor", "Show what this machine and this build can do");
  command.footer("Examples:\n  attacca doctor\n  attacca doctor --json");
  const auto json = std::make_shared<bool>(false);
  command.flag("--json", *json, "Print JSON");
  command.action([json] {
    const Machine machine = instruments::describe_machine();
    if (*json) {
      fmt::print("{}\n", to_json(machine).text(2));
    } else {
      print_text(machine);
    }
  });
}

}  // namespace attacca::tool
