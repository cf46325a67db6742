// peak.hpp: the measured peak multiply-add rate of this processor, the ceiling of a prefill.
#pragma once

namespace bench {

/// 32-bit float multiply-adds per second of `threads` threads together, with all operands in
/// registers; the best of a few tries. 0: all cores.
double multiply_add_rate(unsigned threads = 0);

}  // namespace bench
