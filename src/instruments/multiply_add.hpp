// multiply_add.hpp: the measured peak of the host's vector units, the ceiling of what it computes.
#pragma once

namespace attacca::instruments {

/// 32-bit float multiply-adds per second of `threads` threads together, with all operands in
/// registers; the best of a few tries. 0: all cores. Takes a tenth of a second.
double multiply_add_rate(unsigned threads = 0);

/// Computes on this thread. The result keeps the compiler from leaving anything out.
float multiply_add(unsigned rounds);
/// How many multiply-adds these are.
double multiply_adds(unsigned rounds);

}  // namespace attacca::instruments
