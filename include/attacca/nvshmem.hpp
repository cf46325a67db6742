// nvshmem.hpp: whether ranks can use NVSHMEM. The library is opened when the program runs;
// Group::on with Transport::nvshmem uses it.
#pragma once

#include <string>

namespace attacca {

/// Whether libnvshmem_host.so.3 can be opened.
bool has_nvshmem();
/// The version of the library. If there is none: why, and how to get one.
std::string describe_nvshmem();

}  // namespace attacca
