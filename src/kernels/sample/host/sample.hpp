// sample.hpp: sampling on the host, and what is wrong with parameters.
#pragma once

#include <span>
#include <string>

#include "kernels/sample/sample.hpp"

namespace attacca::kernels::host {

/// Samples one row. REQUIRES: row < *args.rows.count.
void sample(const SampleArgs& args, std::uint32_t row);

/// Empty, or the first parameter that makes no sense: its name, its value and what to pass instead.
std::string check_sampling(const SamplingParams& params, std::span<const TokenBias> biases = {});

}  // namespace attacca::kernels::host
