// draw.hpp: which token a row of logits gives, once they are final.
#pragma once

#include "kernels/sample/host/logit_groups.hpp"
#include "kernels/sample/sample.hpp"

namespace attacca::kernels::host {

struct Candidate {
  float logit;
  std::int32_t token;
  std::uint64_t mass;  // see sampling.hpp
};

/// Memory that is kept from draw to draw.
struct DrawScratch {
  std::vector<std::uint64_t> masses;
  std::vector<Candidate> candidates;
  std::vector<std::size_t> by_token;  // candidates
};

/// The `count` highest logits in order; equal ones by the lowest id. Fewer where the others are
/// minus infinity.
void find_highest(const LogitGroups& logits, std::size_t count, std::vector<Candidate>& to);

/// Draws by temperature, top-k, top-p and min-p. REQUIRES: temperature > 0.
std::int32_t draw(const LogitGroups& logits, const SamplingParams& params, std::int32_t position,
                  DrawScratch& scratch);

}  // namespace attacca::kernels::host
