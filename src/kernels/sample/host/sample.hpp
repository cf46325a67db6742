// sample.hpp: sampling of one row on the host, and the check of sampling parameters.
#pragma once

#include <span>
#include <string>

#include "kernels/sample/sample.hpp"

namespace attacca::kernels::host {

/// Samples one row. `token_at`: the tokens that stand at the places of the row; null: the places
/// are the tokens. REQUIRES: row < *args.rows.count; with `token_at`, parameters that need few
/// logits (see highest.hpp).
void sample(const SampleArgs& args, std::uint32_t row, const std::int32_t* token_at = nullptr);

/// Empty, or a message about the first invalid parameter: its name, its value and what to pass
/// instead.
std::string check_sampling(const SamplingParams& params, std::span<const TokenBias> biases = {});

}  // namespace attacca::kernels::host
