// pairs.hpp: the order in which ranks and sections of columns are added up, wherever the same bits
// are to come out: neighbours first, then the sums of neighbours, (0 + 1) + (2 + 3).
#pragma once

#include <attacca/target.hpp>

namespace attacca {

/// The sum of value_of(0) to value_of(count - 1) in pairs. REQUIRES: 1 <= count <= kMost.
template <int kMost, class T, class ValueOf, class Add>
ATTACCA_HD T sum_in_pairs(int count, const ValueOf& value_of, const Add& add) {
  T sums[kMost];
  for (int at = 0; at < kMost; ++at)
    if (at < count) sums[at] = value_of(at);
  for (int step = 1; step < kMost; step *= 2)
    for (int at = 0; at + step < kMost; at += 2 * step)
      if (at + step < count) sums[at] = add(sums[at], sums[at + step]);
  return sums[0];
}

}  // namespace attacca
