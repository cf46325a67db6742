// library.hpp: the functions of NVSHMEM that ranks use to share memory, opened when the program
// runs, so that building attacca needs neither its headers nor its library. Its exchanges are not
// used: ranks whose memory a GPU can address need none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace attacca::comm {

/// The layouts of version 1, which later libraries take too. The first word of each has the version
/// and the size.
struct NvshmemId {
  int version = (1 << 16) + 128;
  char bytes[124] = {};
};
struct NvshmemAttributes {
  int version = (1 << 16) + 144;
  void* mpi_comm = nullptr;
  int arguments_version = (1 << 16) + 128;
  struct {
    int version = (1 << 16) + 24;
    NvshmemId* id = nullptr;
    int rank = -1;
    int ranks = -1;
  } id;
  char rest[96] = {};
};
static_assert(sizeof(NvshmemId) == 128 && sizeof(NvshmemAttributes) == 144);

constexpr unsigned kNvshmemInitWithId = 1 << 3;

struct NvshmemLibrary {
  void (*get_version)(int* major, int* minor, int* patch);
  int (*get_unique_id)(NvshmemId* id);
  int (*set_id)(int rank, int ranks, const NvshmemId* id, NvshmemAttributes* attributes);
  int (*init)(unsigned flags, NvshmemAttributes* attributes);
  void (*finalize)();
  void* (*allocate)(std::size_t bytes);
  void* (*address_of)(const void* own, int rank);

  int version = 0;  // 30400 is 3.4.0
};

/// libnvshmem_host.so.3, opened at the first call. Null if there is none; `problem` then says why.
const NvshmemLibrary* find_nvshmem(std::string& problem);

}  // namespace attacca::comm
