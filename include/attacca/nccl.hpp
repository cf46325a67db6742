// nccl.hpp: whether ranks can exchange GPU memory through NCCL. The library is opened when the
// program runs; Group::on with Transport::nccl uses it.
#pragma once

#include <string>

namespace attacca {

/// Whether libnccl.so.2 can be opened.
bool has_nccl();
/// The version of the library. If there is none: why, and how to get one.
std::string describe_nccl();

}  // namespace attacca
