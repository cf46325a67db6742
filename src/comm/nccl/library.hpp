// library.hpp: NCCL, opened when the program runs, so that building attacca needs neither its
// headers nor its library. Here are the few functions that ranks use, and the numbers that NCCL
// gives to types and reductions; they have been the same since NCCL 2.10.
#pragma once

#include <cstddef>
#include <string>

namespace attacca::comm {

struct NcclComm;  // a communicator

struct NcclId {
  char bytes[128];
};

enum class NcclType : int { u8 = 1, i32 = 2, u32 = 3, i64 = 4, u64 = 5, f32 = 7, f64 = 8 };
enum class NcclReduction : int { sum = 0, max = 2, min = 3 };

/// All functions return 0, or the number of an error. A stream is a cudaStream_t.
struct NcclLibrary {
  int (*get_version)(int* version);
  int (*get_unique_id)(NcclId* id);
  int (*init_rank)(NcclComm** comm, int ranks, NcclId id, int rank);
  int (*destroy)(NcclComm* comm);
  int (*abort)(NcclComm* comm);
  int (*all_reduce)(const void* from, void* to, std::size_t count, NcclType type,
                    NcclReduction reduction, NcclComm* comm, void* stream);
  int (*broadcast)(const void* from, void* to, std::size_t count, NcclType type, int root,
                   NcclComm* comm, void* stream);
  int (*all_gather)(const void* from, void* to, std::size_t count, NcclType type, NcclComm* comm,
                    void* stream);
  int (*reduce_scatter)(const void* from, void* to, std::size_t count, NcclType type,
                        NcclReduction reduction, NcclComm* comm, void* stream);
  int (*send)(const void* from, std::size_t count, NcclType type, int peer, NcclComm* comm,
              void* stream);
  int (*receive)(void* to, std::size_t count, NcclType type, int peer, NcclComm* comm,
                 void* stream);
  const char* (*error_text)(int error);
  const char* (*last_error)(NcclComm* comm);

  int version = 0;  // 22803 is 2.28.3
};

/// libnccl.so.2, opened at the first call. Null if there is none; `problem` then says why.
const NcclLibrary* find_nccl(std::string& problem);

}  // namespace attacca::comm
