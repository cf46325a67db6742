// sm90_tiled_epilogue.cuh: how a tile of sm90_tiled_linear.cuh ends. A product leaves each lane
// sums of a few rows of weights and of x; in shared memory a warpgroup turns them round, so that 16
// lanes have the 64 outputs of a row of x, and memory is read and written in runs.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/linear/sm90_tiled_linear.hpp"

namespace attacca::kernels::tiled {

/// A warpgroup's part of a tile: 64 rows of weights and some of x, of which kOctets times eight end
/// at a time. All lanes call.
template <unsigned kOctets>
class TileEpilogue {
 public:
  static constexpr unsigned kFloats = kOctets * 8 * 64;

  /// `sixty_four`: which rows of weights. Rows of x from `end_row` on are left alone. `factors` is
  /// what each row is multiplied by where there is a norm; `shared`, kFloats, is this warpgroup's.
  __device__ TileEpilogue(const TiledLinearArgs& args, std::uint32_t sixty_four,
                          std::uint32_t first_row, std::uint32_t end_row, const float* factors,
                          float* shared)
      : a_(args), p_(args.product), factors_(factors), shared_(shared) {
    const bool is_gate = p_.epilogue == Epilogue::gate;
    const std::uint32_t row = first_row + turned_row();
    output_ = is_gate ? sixty_four * 32 + lane() % 16 * 2 : sixty_four * 64 + lane() % 16 * 4;
    rows_left_ = output_ < p_.w.rows && row < end_row ? end_row - row : 0;
    first_ = std::uint64_t{row} * p_.w.rows + output_;
  }

  /// Asks for what will be needed beside the sums of the octets from `octet` on.
  __device__ void begin(unsigned octet) {
    const float* const beside = p_.epilogue == Epilogue::store ? p_.bias : p_.next_norm;
    beside_ = {};
    if (p_.epilogue != Epilogue::gate && beside && output_ < p_.w.rows)
      beside_ = four(beside + output_);
    fetch(octet);
  }

  /// Ends kOctets octets of rows of x, as many as there are, from one that was begun. `sums`: a
  /// lane's, as products leave them. kMore: the octets after these are begun.
  template <bool kMore>
  __device__ void end(const float* sums, unsigned octet) {
    if (p_.epilogue == Epilogue::gate) return end_gated(sums, octet);
    float4 values[kOctets];
    turn(sums, values);
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      const float factor =
          p_.squares && is_real(octet + i) ? factors_[8 * (octet + i) + turned_row()] : 1.0f;
      const float4 more = p_.epilogue == Epilogue::add ? before_[i] : beside_;
      values[i] = {values[i].x * factor + more.x, values[i].y * factor + more.y,
                   values[i].z * factor + more.z, values[i].w * factor + more.w};
    }
    if (kMore) fetch(octet + kOctets);
    if (p_.epilogue == Epilogue::add) return end_added(values, octet);
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i)
      if (is_real(octet + i)) put(p_.y + at(octet + i), values[i]);
  }

 private:
  // In shared memory are rows of x, 64 floats each, or 32 of a gate. Each eight floats lie where
  // the row's place among eight says, so that neither those who write nor those who read meet in
  // a bank. Lanes that multiplied have two rows of each octet, and of the warp's 16 rows of weights
  // the lane's eighth and the one eight after it.

  __device__ void turn(const float* sums, float4 (&values)[kOctets]) {
    float* const row = shared_ + multiplied_row() * 64;
    float* const low = row + ((16 * warp() + lane() / 4) ^ 4 * multiplied_row());
    float* const high = row + ((16 * warp() + lane() / 4 + 8) ^ 4 * multiplied_row());
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      low[i * 512] = sums[4 * i];
      low[i * 512 + 64] = sums[4 * i + 1];
      high[i * 512] = sums[4 * i + 2];
      high[i * 512 + 64] = sums[4 * i + 3];
    }
    synchronize();
    const float* const from = shared_ + turned_row() * 64 + ((lane() % 16 * 4) ^ 8 * warp());
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i)
      values[i] = *reinterpret_cast<const float4*>(from + i * 512);
    synchronize();
  }

  __device__ void end_gated(const float* sums, unsigned octet) {
    float2 values[kOctets];
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      float2 factor{1, 1};
      if (p_.squares)
        factor = *reinterpret_cast<const float2*>(factors_ + 8 * (octet + i) + multiplied_row());
      values[i] = {gated(sums[4 * i] * factor.x, sums[4 * i + 2] * factor.x),
                   gated(sums[4 * i + 1] * factor.y, sums[4 * i + 3] * factor.y)};
    }
    float* const to =
        shared_ + multiplied_row() * 32 + ((8 * warp() + lane() / 4) ^ 4 * multiplied_row());
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      to[i * 256] = values[i].x;
      to[i * 256 + 32] = values[i].y;
    }
    synchronize();
    const float* const from = shared_ + turned_row() * 32 + ((lane() % 16 * 2) ^ 8 * warp());
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i)
      values[i] = *reinterpret_cast<const float2*>(from + i * 256);
    synchronize();
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i)
      if (is_real(octet + i))
        __stcg(reinterpret_cast<unsigned*>(p_.gated + at(octet + i)),
               bfloats(values[i].x, values[i].y));
  }
  __device__ float gated(float low, float high) const {
    const float gate = a_.gate_is_second ? high : low;
    const float up = a_.gate_is_second ? low : high;
    return divided(gate, 1.0f + __expf(-gate)) * up;
  }
  /// a / b for b >= 1, rounded as a division is (beyond 2^126 as if b were that), but without the
  /// branch that divisions have for extremes: so the divisions of a lane are under way together.
  __device__ static float divided(float a, float b) {
    b = fminf(b, 0x1p126f);
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
    inverse = fmaf(inverse, fmaf(-b, inverse, 1.0f), inverse);
    float quotient = a * inverse;
    quotient = fmaf(inverse, fmaf(-b, quotient, a), quotient);
    return fmaf(inverse, fmaf(-b, quotient, a), quotient);
  }

  __device__ void end_added(const float4 (&values)[kOctets], unsigned octet) {
    float squares[kOctets];  // of 16 outputs, which four lanes have
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      const float4& v = values[i];
      squares[i] = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
      squares[i] += __shfl_xor_sync(~0u, squares[i], 1);
      squares[i] += __shfl_xor_sync(~0u, squares[i], 2);
    }
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      if (!is_real(octet + i)) continue;
      const float4& v = values[i];
      const std::uint64_t to = at(octet + i);
      put(p_.residual.values + to, v);
      __stcg(reinterpret_cast<uint2*>(p_.residual.scaled + to),
             uint2{bfloats(v.x * beside_.x, v.y * beside_.y),
                   bfloats(v.z * beside_.z, v.w * beside_.w)});
      if (lane() % 4 == 0) p_.residual.squares[to / Residual::kPart] = squares[i];
    }
  }

  /// What the rows of octets are added to.
  __device__ void fetch(unsigned octet) {
    if (p_.epilogue != Epilogue::add) return;
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      before_[i] = {};
      if (is_real(octet + i)) before_[i] = four(p_.residual.values + at(octet + i));
    }
  }
  __device__ static float4 four(const float* from) {
    return __ldcg(reinterpret_cast<const float4*>(from));
  }
  __device__ static void put(float* to, const float4& values) {
    __stcg(reinterpret_cast<float4*>(to), values);  // or four stores would be made of it
  }
  __device__ static unsigned bfloats(float first, float second) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const unsigned*>(&two);
  }

  /// This lane's row of an octet, and where its outputs lie.
  __device__ bool is_real(unsigned octet) const { return 8 * octet < rows_left_; }
  __device__ std::uint64_t at(unsigned octet) const {
    return first_ + std::uint64_t{8 * octet} * p_.w.rows;
  }

  __device__ static unsigned lane() { return threadIdx.x % 32; }
  __device__ static unsigned warp() { return threadIdx.x / 32 % 4; }
  /// Of an octet: the first of the two rows that a lane multiplied, and the one that it ends.
  __device__ static unsigned multiplied_row() { return lane() % 4 * 2; }
  __device__ static unsigned turned_row() { return warp() * 2 + lane() / 16; }
  /// The warpgroup, one of two. A block takes as many barriers as it names, or all of them.
  __device__ static void synchronize() {
    if (threadIdx.x / 128 == 1)
      asm volatile("bar.sync 4, 128;" ::: "memory");
    else
      asm volatile("bar.sync 5, 128;" ::: "memory");
  }

  const TiledLinearArgs& a_;
  const StreamedLinearArgs& p_;
  const float* factors_;
  float* shared_;
  std::uint32_t output_;     // the first of this lane's
  std::uint32_t rows_left_;  // of x, from this lane's first on
  std::uint64_t first_;      // this lane's first number in a matrix of outputs
  float4 beside_;            // bias, or the next norm's weights
  float4 before_[kOctets];
};

}  // namespace attacca::kernels::tiled
