// sample.hpp: sampling of one row on the host, and the check of sampling parameters.
#pragma once

#include <span>
#include <string>

#include "kernels/sample/sample.hpp"

namespace attacca::kernels::host {

/// Samples one row. REQUIRES: row < *args.rows.count.
void sample(const SampleArgs& args, std::uint32_t row);

/// Empty, or a message about the first invalid parameter: its name, its value and what to pass
/// instead.
std::string check_sampling(const SamplingParams& params, std::span<const TokenBias> biases = {});

}  // namespace attacca::kernels::host
