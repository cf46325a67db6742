// free_memory.hpp: the memory that the operating system would still give this process.
#pragma once

#include <cstddef>

namespace attacca::core {

/// MemAvailable of Linux, but no more than the process's control group has left.
std::size_t free_memory();

}  // namespace attacca::core
