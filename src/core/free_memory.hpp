// free_memory.hpp: how much memory the operating system would still give this process.
#pragma once

#include <cstddef>

namespace attacca::core {

/// What Linux calls available, and no more than the process's control group has left.
std::size_t free_memory();

}  // namespace attacca::core
