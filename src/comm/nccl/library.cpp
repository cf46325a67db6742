// library.cpp: opens libnccl.so.2 and finds its functions.
#include "comm/nccl/library.hpp"

#include <dlfcn.h>
#include <attacca/nccl.hpp>

#include <fmt/core.h>
#include <optional>

namespace attacca {

namespace comm {

namespace {

constexpr int kOldest = 21000;
constexpr int kFirstThatSharesGpus = 23000;

struct Found {
  std::optional<NcclLibrary> library;
  std::string problem;
};

Found open() {
  void* handle = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return {
        {},
        fmt::format("no libnccl.so.2 ({}); install libnccl2, or pip install nvidia-nccl-cu13 and "
                    "put its folder into LD_LIBRARY_PATH",
                    ::dlerror())};
  NcclLibrary library{};
  std::string missing;
  const auto find = [&]<class F>(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(handle, name));
    if (!function) missing = name;
  };
  find(library.get_version, "ncclGetVersion");
  find(library.get_unique_id, "ncclGetUniqueId");
  find(library.init_rank, "ncclCommInitRank");
  find(library.destroy, "ncclCommDestroy");
  find(library.abort, "ncclCommAbort");
  find(library.all_reduce, "ncclAllReduce");
  find(library.broadcast, "ncclBroadcast");
  find(library.all_gather, "ncclAllGather");
  find(library.reduce_scatter, "ncclReduceScatter");
  find(library.send, "ncclSend");
  find(library.receive, "ncclRecv");
  find(library.error_text, "ncclGetErrorString");
  find(library.last_error, "ncclGetLastError");
  if (!missing.empty())
    return {{}, fmt::format("libnccl.so.2 has no {}; install NCCL 2.13 or later", missing)};
  if (library.get_version(&library.version) != 0 || library.version < kOldest)
    return {{},
            fmt::format("libnccl.so.2 has the version {}; install NCCL 2.13 or later",
                        library.version)};
  return {library, {}};
}

const Found& found() {
  static const Found once = open();
  return once;
}

}  // namespace

const NcclLibrary* find_nccl(std::string& problem) {
  if (found().library) return &*found().library;
  problem = found().problem;
  return nullptr;
}

}  // namespace comm

bool has_nccl() { return comm::found().library.has_value(); }

std::string describe_nccl() {
  const comm::Found& nccl = comm::found();
  if (!nccl.library) return nccl.problem;
  const int version = nccl.library->version;
  return fmt::format("NCCL {}.{}.{}{}", version / 10000, version / 100 % 100, version % 100,
                     version < comm::kFirstThatSharesGpus
                         ? ", for one rank on each GPU; for more on one install 2.30 or later"
                         : "");
}

}  // namespace attacca
