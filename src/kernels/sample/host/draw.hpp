// draw.hpp: draws a token from a row of final logits on the host. Bias, penalties and mask were
// applied before; see sample.cpp.
#pragma once

#include "kernels/sample/host/logit_groups.hpp"
#include "kernels/sample/sample.hpp"

namespace attacca::kernels::host {

struct Candidate {
  float logit;
  std::int32_t token;
  std::uint64_t mass;  // see sampling.hpp
};

/// Memory reused from draw to draw.
struct DrawScratch {
  std::vector<std::uint64_t> masses;
  std::vector<Candidate> candidates;
  std::vector<std::size_t> by_token;  // indices of candidates
};

/// The `count` highest logits in order, equal ones by id. Fewer if the others are minus infinity.
void find_highest(const LogitGroups& logits, std::size_t count, std::vector<Candidate>& to);

/// Draws a token by temperature, top-k, top-p and min-p. REQUIRES: temperature > 0.
std::int32_t draw(const LogitGroups& logits, const SamplingParams& params, std::int32_t position,
                  DrawScratch& scratch);

}  // namespace attacca::kernels::host
