// library.cpp: opens libnvshmem_host.so.3 and finds its functions.
#include "comm/nvshmem/library.hpp"

#include <dlfcn.h>
#include <attacca/nvshmem.hpp>

#include <fmt/core.h>
#include <optional>

namespace attacca {

namespace comm {

namespace {

struct FoundNvshmem {
  std::optional<NvshmemLibrary> library;
  std::string problem;
};

FoundNvshmem open_nvshmem() {
  void* handle = ::dlopen("libnvshmem_host.so.3", RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    return {{},
            fmt::format("no libnvshmem_host.so.3 ({}); pip install nvidia-nvshmem-cu13 and put its "
                        "folder into LD_LIBRARY_PATH",
                        ::dlerror())};
  NvshmemLibrary library{};
  std::string missing;
  const auto find = [&]<class F>(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(handle, name));
    if (!function) missing = name;
  };
  find(library.get_version, "nvshmemx_vendor_get_version_info");
  find(library.get_unique_id, "nvshmemx_get_uniqueid");
  find(library.set_id, "nvshmemx_set_attr_uniqueid_args");
  find(library.init, "nvshmemx_hostlib_init_attr");
  find(library.finalize, "nvshmemx_hostlib_finalize");
  find(library.allocate, "nvshmem_malloc");
  find(library.address_of, "nvshmem_ptr");
  if (!missing.empty())
    return {{}, fmt::format("libnvshmem_host.so.3 has no {}; install NVSHMEM 3", missing)};
  int major = 0, minor = 0, patch = 0;
  library.get_version(&major, &minor, &patch);
  library.version = major * 10000 + minor * 100 + patch;
  return {library, {}};
}

const FoundNvshmem& found_nvshmem() {
  static const FoundNvshmem once = open_nvshmem();
  return once;
}

}  // namespace

const NvshmemLibrary* find_nvshmem(std::string& problem) {
  if (found_nvshmem().library) return &*found_nvshmem().library;
  problem = found_nvshmem().problem;
  return nullptr;
}

}  // namespace comm

bool has_nvshmem() { return comm::found_nvshmem().library.has_value(); }

std::string describe_nvshmem() {
  const comm::FoundNvshmem& found = comm::found_nvshmem();
  if (!found.library) return found.problem;
  const int version = found.library->version;
  return fmt::format("NVSHMEM {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace attacca
