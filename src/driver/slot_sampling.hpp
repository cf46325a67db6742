// slot_sampling.hpp: how a sequence samples, with the lists of tokens that its parameters refer to.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/sample/sample.hpp"

namespace attacca::driver {

/// The allowed tokens; see kernels::SlotTokens. Null: all are.
using MaskPtr = std::shared_ptr<const std::vector<std::uint32_t>>;

struct SlotSampling {
  // Its counts are the lengths of the lists below. Its mask is set when the mask has a row.
  kernels::SamplingParams params;
  std::vector<std::int32_t> stop_tokens;
  std::vector<kernels::TokenBias> biases;  // by token, ascending, each once
  MaskPtr allowed;                         // at first
  bool loops = false;  // tokens of plain characters lead from there to the same mask
};

}  // namespace attacca::driver
