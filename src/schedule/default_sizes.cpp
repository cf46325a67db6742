// default_sizes.cpp: lists sizes that are close enough together to pad little.
#include "schedule/default_sizes.hpp"

#include <algorithm>
#include <bit>
#include <set>

namespace attacca::schedule {

std::vector<unsigned> default_decode_sizes(unsigned slots) {
  std::vector<unsigned> sizes;
  for (unsigned size = 1; size < slots;
       size += size < 8 ? size : std::max(8u, std::bit_ceil(size + 1) / 8))
    sizes.push_back(size);
  sizes.push_back(slots);
  return sizes;
}

std::vector<unsigned> default_mixed_sizes(unsigned most, unsigned decode_step_tokens) {
  std::set<unsigned> sizes;
  for (unsigned size = 8; size < most; size += size < 64 ? size : std::bit_floor(size) / 2)
    sizes.insert(size);
  sizes.insert(std::min(decode_step_tokens, most));
  sizes.insert(most);
  return {sizes.begin(), sizes.end()};
}

}  // namespace attacca::schedule
