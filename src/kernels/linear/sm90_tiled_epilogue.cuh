// sm90_tiled_epilogue.cuh: the epilogue of a tile of sm90_tiled_linear.cuh. wgmma leaves each lane
// sums of a few rows of weights and of x. A warpgroup transposes them in shared memory, so that 16
// lanes hold the 64 outputs of a row of x, and global memory is read and written in runs. Reducing
// split tiles is left to sm90_tiled_linear.cuh.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/linear/sm90_tiled_linear.hpp"
#include "kernels/linear/sum_order.cuh"

namespace attacca::kernels::tiled {

/// A warpgroup's part of a tile: 64 rows of weights and some rows of x, kOctets octets of them at a
/// time. All lanes call. `kInOrder`: with the bits of streamed_linear.
template <unsigned kOctets, bool kInOrder>
class TileEpilogue {
 public:
  static constexpr unsigned kFloats = kOctets * 8 * 64;

  /// `weight_block` counts 64 rows of weights. Rows of x from `end_row` on are not stored.
  /// `factors` holds the norm factor of each row, if there is a norm. `shared`, kFloats long,
  /// belongs to this warpgroup.
  __device__ TileEpilogue(const TiledLinearArgs& args, std::uint32_t weight_block,
                          std::uint32_t first_row, std::uint32_t end_row, const float* factors,
                          float* shared)
      : a_(args), p_(args.product), factors_(factors), shared_(shared) {
    const bool is_gate = p_.epilogue == Epilogue::gate;
    const std::uint32_t row = first_row + (is_gate ? gated_row() : transposed_row());
    output_ = is_gate ? weight_block * 32 + lane() % 4 * 8 : weight_block * 64 + lane() % 16 * 4;
    rows_left_ = output_ < p_.w.rows && row < end_row ? end_row - row : 0;
    first_ = std::uint64_t{row} * p_.w.rows + output_;
  }

  /// Loads what the epilogue of the octets from `octet` on needs besides their sums.
  __device__ void load_operands(unsigned octet) {
    const float* const per_output = p_.epilogue == Epilogue::store ? p_.bias : p_.next_norm;
    per_output_ = {};
    if (p_.epilogue != Epilogue::gate && per_output && output_ < p_.w.rows)
      per_output_ = load4(per_output + output_);
    load_residual(octet);
  }

  /// Stores kOctets octets of rows of x from `octet` on, whose operands were loaded. `sums` is a
  /// lane's accumulator. Loads the operands of the next octets.
  __device__ void apply(const float* sums, unsigned octet) {
    if (p_.epilogue == Epilogue::gate) return apply_gate(sums, octet);
    float4 values[kOctets];
    transpose(sums, values);
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      const float factor =
          p_.squares && is_real(octet + i) ? factors_[8 * (octet + i) + transposed_row()] : 1.0f;
      const float4 more = p_.epilogue == Epilogue::add ? residual_[i] : per_output_;
      values[i] = {sum_order::scaled_sum(values[i].x, factor, more.x),
                   sum_order::scaled_sum(values[i].y, factor, more.y),
                   sum_order::scaled_sum(values[i].z, factor, more.z),
                   sum_order::scaled_sum(values[i].w, factor, more.w)};
    }
    load_residual(octet + kOctets);
    if (p_.epilogue == Epilogue::add) return apply_add(values, octet);
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i)
      if (is_real(octet + i)) store4(p_.y + at(octet + i), values[i]);
  }

  /// Stores a lane's sums of kOctets octets in its warpgroup's shared memory. That holds rows of x,
  /// 64 floats each. Each row's groups of eight floats are swizzled by the row's index among eight,
  /// so that neither writes nor reads have bank conflicts. A lane of an accumulator holds two rows
  /// of x of each octet and, of its warp's 16 rows of weights, rows lane / 4 and lane / 4 + 8.
  __device__ static void store_transposed(float* shared, const float* sums) {
    float* const row = shared + multiplied_row() * 64;
    float* const low = row + ((16 * warp() + lane() / 4) ^ 4 * multiplied_row());
    float* const high = row + ((16 * warp() + lane() / 4 + 8) ^ 4 * multiplied_row());
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      low[i * 512] = sums[4 * i];
      low[i * 512 + 64] = sums[4 * i + 1];
      high[i * 512] = sums[4 * i + 2];
      high[i * 512 + 64] = sums[4 * i + 3];
    }
  }

 private:
  __device__ void transpose(const float* sums, float4 (&values)[kOctets]) {
    store_transposed(shared_, sums);
    sync_warpgroup();
    const float* const from = shared_ + transposed_row() * 64 + ((lane() % 16 * 4) ^ 8 * warp());
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i)
      values[i] = *reinterpret_cast<const float4*>(from + i * 512);
    sync_warpgroup();
  }

  /// A gate's results are rounded first, so a row of x has 64 bytes in shared memory, in four
  /// pieces of 16 bytes: one for each warp, swizzled by the row's index. stmatrix transposes.
  __device__ void apply_gate(const float* sums, unsigned octet) {
    static_assert(kOctets % 4 == 0);
    std::uint32_t values[kOctets];
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      float2 factor{1, 1};
      if (p_.squares)
        factor = *reinterpret_cast<const float2*>(factors_ + 8 * (octet + i) + multiplied_row());
      values[i] = bfloats(
          gated(__fmul_rn(sums[4 * i], factor.x), __fmul_rn(sums[4 * i + 2], factor.x)),
          gated(__fmul_rn(sums[4 * i + 1], factor.y), __fmul_rn(sums[4 * i + 3], factor.y)));
    }
    const unsigned to = piece(lane(), warp());
#pragma unroll
    for (unsigned i = 0; i < kOctets; i += 4)
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                       to + i * 512),
                   "r"(values[i]), "r"(values[i + 1]), "r"(values[i + 2]), "r"(values[i + 3])
                   : "memory");
    sync_warpgroup();
    const unsigned from = piece(gated_row(), lane() % 4);
    uint4 rows[kOctets / 4];
#pragma unroll
    for (unsigned i = 0; i < kOctets / 4; ++i)
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(rows[i].x), "=r"(rows[i].y), "=r"(rows[i].z), "=r"(rows[i].w)
                   : "r"(from + i * 2048)
                   : "memory");
    sync_warpgroup();
#pragma unroll
    for (unsigned i = 0; i < kOctets / 4; ++i)
      if (is_real(octet + 4 * i))
        __stcg(reinterpret_cast<uint4*>(p_.gated + at(octet + 4 * i)), rows[i]);
  }
  /// The address of a piece of one of the first 32 rows.
  __device__ unsigned piece(unsigned row, unsigned index) const {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared_)) + row * 64 +
           (index ^ (row / 2 % 4)) * 16;
  }
  __device__ float gated(float low, float high) const {
    const float gate = a_.gate_is_second ? high : low, up = a_.gate_is_second ? low : high;
    if constexpr (kInOrder) return sum_order::gated(gate, up);
    return __fdividef(gate, 1.0f + __expf(-gate)) * up;
  }

  __device__ void apply_add(const float4 (&values)[kOctets], unsigned octet) {
    float squares[kOctets];  // of 16 outputs, which four lanes hold
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      const float4& v = values[i];
      squares[i] = __fadd_rn(__fadd_rn(__fmul_rn(v.x, v.x), __fmul_rn(v.y, v.y)),
                             __fadd_rn(__fmul_rn(v.z, v.z), __fmul_rn(v.w, v.w)));
      squares[i] += __shfl_xor_sync(~0u, squares[i], 1);
      squares[i] += __shfl_xor_sync(~0u, squares[i], 2);
    }
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      if (!is_real(octet + i)) continue;
      const float4& v = values[i];
      const std::uint64_t to = at(octet + i);
      store4(p_.residual.values + to, v);
      __stcg(reinterpret_cast<uint2*>(p_.residual.scaled + to),
             uint2{bfloats(v.x * per_output_.x, v.y * per_output_.y),
                   bfloats(v.z * per_output_.z, v.w * per_output_.w)});
      if (lane() % 4 == 0) p_.residual.squares[to / Residual::kPart] = squares[i];
    }
  }

  /// The residual that the sums of some octets are added to.
  __device__ void load_residual(unsigned octet) {
    if (p_.epilogue != Epilogue::add) return;
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i) {
      residual_[i] = {};
      if (is_real(octet + i)) residual_[i] = load4(p_.residual.values + at(octet + i));
    }
  }
  __device__ static float4 load4(const float* from) {
    return __ldcg(reinterpret_cast<const float4*>(from));
  }
  __device__ static void store4(float* to, const float4& values) {
    __stcg(reinterpret_cast<float4*>(to), values);  // a plain store becomes four
  }
  __device__ static unsigned bfloats(float first, float second) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const unsigned*>(&two);
  }

  /// Whether this lane's row of an octet exists, and the offset of its outputs.
  __device__ bool is_real(unsigned octet) const { return 8 * octet < rows_left_; }
  __device__ std::uint64_t at(unsigned octet) const {
    return first_ + std::uint64_t{8 * octet} * p_.w.rows;
  }

  __device__ static unsigned lane() { return threadIdx.x % 32; }
  __device__ static unsigned warp() { return threadIdx.x / 32 % 4; }
  /// Rows of an octet: the first of two that the lane accumulated, and the one that it stores.
  __device__ static unsigned multiplied_row() { return lane() % 4 * 2; }
  __device__ static unsigned transposed_row() { return warp() * 2 + lane() / 16; }
  /// The first row of a gate that the lane stores; others are 32 rows further.
  __device__ static unsigned gated_row() { return warp() * 8 + lane() / 4; }
  /// Named barrier of this warpgroup. The barrier ids are constants, or the block would reserve all
  /// 16.
  __device__ static void sync_warpgroup() {
    if (threadIdx.x / 128 == 1)
      asm volatile("bar.sync 4, 128;" ::: "memory");
    else
      asm volatile("bar.sync 5, 128;" ::: "memory");
  }

  const TiledLinearArgs& a_;
  const StreamedLinearArgs& p_;
  const float* factors_;
  float* shared_;
  std::uint32_t output_;     // this lane's first
  std::uint32_t rows_left_;  // rows of x from this lane's first on
  std::uint64_t first_;      // offset of this lane's first output
  float4 per_output_;        // bias, or the next norm's weights
  float4 residual_[kOctets];
};

}  // namespace attacca::kernels::tiled
