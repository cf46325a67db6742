// checks.cpp: the words for arguments that a Ring refuses, and for sizes that must be powers of
// two.
#include <attacca/device/ring.hpp>
#include <attacca/error.hpp>

#include <fmt/core.h>

#include <bit>

namespace attacca::device::detail {

void check_capacity(const char* what, std::size_t capacity, std::size_t most) {
  if (capacity == 0)
    throw BadArgument(fmt::format("{}: a capacity of 0; use a power of two, at least 1", what));
  if (capacity > most)
    throw BadArgument(fmt::format("{}: a capacity of {}; use at most {}", what, capacity, most));
  if (!std::has_single_bit(capacity))
    throw BadArgument(fmt::format("{}: a capacity of {} is not a power of two; use {} or {}", what,
                                  capacity, std::bit_floor(capacity), std::bit_ceil(capacity)));
}

void refuse_second(const char* what) {
  throw BadArgument(fmt::format(
      "Ring: a second {}; a ring has one, so make another Ring or use a WorkQueue", what));
}

}  // namespace attacca::device::detail
