// sm90_tiled_weights.cuh: how sm90_tiled_linear.cuh multiplies the weights of a stage, by their
// type. wgmma reads bf16 and f16 from shared memory. e4m3 becomes bf16 in registers, from which
// wgmma reads it, while the products of the columns before are under way.
#pragma once

#include <cstdint>

#include "core/sm90_wgmma.cuh"
#include "kernels/linear/sm90_tiled_linear.hpp"
#include "kernels/linear/streamed_weights.cuh"

namespace attacca::kernels::tiled {

/// A warpgroup's weights of one stage: 64 rows of each of `kHeight` boxes. They are read and
/// multiplied in `kGroups` groups of columns, one while wgmma still multiplies the one before.
/// RowScales are what the sums of a tile are multiplied by.
///
/// Here they have two bytes each, and x has their type.
template <unsigned kHeight, TensorType kType>
struct StageWeights {
  static constexpr unsigned kGroups = 1;
  struct RowScales {
    __device__ RowScales(const TiledLinearArgs&, std::uint32_t) {}
    template <class Sums>
    __device__ void apply(Sums&) const {}
  };
  static constexpr unsigned kBoxBytes = kPairRows / 2 * kStep * 2;

  __device__ void read(const unsigned char* stage, unsigned warpgroup, unsigned) {
    first_ = sm90::smem_descriptor(stage + warpgroup * 64 * kStep * 2);
  }
  /// 16 columns of one box, from column 16 * `i` on.
  template <unsigned kSums>
  __device__ void multiply(float (&sums)[kSums], unsigned part, unsigned i, std::uint64_t x) const {
    const std::uint64_t w = first_ + part * (kBoxBytes / 16) + 2 * i;
    if constexpr (kType == TensorType::f16)
      sm90::multiply_f16(sums, w, x);
    else
      sm90::multiply(sums, w, x);
  }

 private:
  std::uint64_t first_;
};

/// The numbers are those of e4m3 without the scales of their rows, which bf16 has exactly.
template <unsigned kHeight>
struct StageWeights<kHeight, TensorType::e4m3> {
  static constexpr unsigned kGroups = 2;
  class RowScales;
  static constexpr unsigned kBoxBytes = kPairRows / 2 * kStep;

  /// A lane reads two rows. Of 16 columns it reads four: lane % 4 * 2 and the next, twice, 8 apart.
  /// The 16 columns of a row are one piece of the swizzle, which the row's place among eight moves,
  /// so lanes have no bank conflicts.
  __device__ void read(const unsigned char* stage, unsigned warpgroup, unsigned group) {
    constexpr unsigned kEach = kStep / 16 / kGroups;
    const unsigned lane = threadIdx.x % 32;
    const unsigned row = warpgroup * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
    const unsigned char* const first = stage + row * kStep + lane % 4 * 2;
#pragma unroll
    for (unsigned part = 0; part < kHeight; ++part)
#pragma unroll
      for (unsigned i = group * kEach; i < (group + 1) * kEach; ++i) {
        const unsigned char* const at = first + part * kBoxBytes + (i ^ lane / 8) * 16;
#pragma unroll
        for (unsigned octet = 0; octet < 2; ++octet) {
          const uint2 both = columns(at + octet * 8 * kStep);
          pairs_[part][i][octet] = both.x;
          pairs_[part][i][octet + 2] = both.y;
        }
        sm90::fence_operands(pairs_[part][i]);  // none is converted between two products
      }
  }
  template <unsigned kSums>
  __device__ void multiply(float (&sums)[kSums], unsigned part, unsigned i, std::uint64_t x) const {
    sm90::multiply(sums, pairs_[part][i], x);
  }

 private:
  /// Two neighbours, and the two that are eight columns further.
  __device__ static uint2 columns(const unsigned char* at) {
    constexpr unsigned kScale = 0x7b807b80u;  // 2^120
    const unsigned word = __byte_perm(streamed::load<std::uint16_t>(at),
                                      streamed::load<std::uint16_t>(at + 8), 0x5140);
    const uint2 pairs = streamed::E4m3::pairs_of(word);
    return {streamed::multiply_pair(pairs.x, kScale), streamed::multiply_pair(pairs.y, kScale)};
  }

  std::uint32_t pairs_[kHeight][kStep / 16][4];
};

/// The scales of the two rows of each box whose sums a lane has. In a gate they are rows of both
/// matrices.
template <unsigned kHeight>
class StageWeights<kHeight, TensorType::e4m3>::RowScales {
 public:
  /// `weight_block` counts 64 rows of weights; boxes are two of them apart.
  __device__ RowScales(const TiledLinearArgs& a, std::uint32_t weight_block) {
    const StreamedLinearArgs& p = a.product;
    const bool is_gate = p.epilogue == Epilogue::gate;
    const float* const low = is_gate && a.gate_is_second ? p.up.scales : p.w.scales;
    const float* const high = is_gate && !a.gate_is_second ? p.up.scales : p.w.scales;
    const unsigned warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned part = 0; part < kHeight; ++part) {
      const std::uint32_t sixteen = (weight_block + 2 * part) * 4 + warp;
      const std::uint32_t row = sixteen * (is_gate ? 8 : 16) + lane / 4;
      const std::uint32_t other = row + (is_gate ? 0 : 8);
      scales_[part][0] = row < p.w.rows ? low[row] : 0.0f;
      scales_[part][1] = other < p.w.rows ? high[other] : 0.0f;
    }
  }
  template <unsigned kSums>
  __device__ void apply(float (&sums)[kHeight][kSums]) const {
#pragma unroll
    for (unsigned part = 0; part < kHeight; ++part)
#pragma unroll
      for (unsigned i = 0; i < kSums; ++i) sums[part][i] *= scales_[part][i % 4 / 2];
  }

 private:
  float scales_[kHeight][2];
};

}  // namespace attacca::kernels::tiled
