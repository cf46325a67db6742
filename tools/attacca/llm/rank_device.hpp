// rank_device.hpp: which GPU of its machine a rank takes where --device names none by number, and
// how ranks that are threads exchange then.
#pragma once

#include <attacca/ranks.hpp>
#include <string>

namespace attacca::tool {

/// By the rank's number on its machine: those that name no GPU get them in turn.
inline std::string device_of_rank(const std::string& name, int number, int gpus) {
  if (gpus == 0 || (name != "cuda" && name != "best")) return name;
  return "cuda:" + std::to_string(number % gpus);
}

/// Where no transport was named: NCCL if each thread can have a GPU. Of the others only edges go
/// into graphs, and those need one GPU for all.
inline Transport transport_of_threads(Transport asked, int ranks, int gpus, bool has_nccl) {
  if (asked != Transport::automatic || gpus < 2) return asked;
  return ranks <= gpus && has_nccl ? Transport::nccl : Transport::edges;
}

}  // namespace attacca::tool
