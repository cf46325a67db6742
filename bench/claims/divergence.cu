// divergence.cu: threads that branch by lane, warp or block, and ways to add up the lanes of a
// warp.
#include "claims/divergence.hpp"

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <utility>

namespace bench::divergence {

namespace {

namespace cg = cooperative_groups;

constexpr unsigned kWarp = 32;
constexpr unsigned kAll = 0xFFFFFFFFu;

/// Inline assembly, so that the compiler cannot merge all paths into one with variable constants.
template <unsigned kPath>
__device__ unsigned walk(unsigned from, unsigned turns) {
#pragma unroll 1  // all paths together fit the instruction cache
  for (unsigned turn = 0; turn < turns; ++turn)
#pragma unroll
    for (unsigned step = 0; step < kStepsPerTurn; ++step)
      asm volatile("mad.lo.u32 %0, %0, %1, %2;"
                   : "+r"(from)
                   : "n"(factor_of(kPath)), "n"(summand_of(kPath)));
  return from;
}

template <unsigned... kPaths>
__device__ unsigned walk_one(unsigned path, unsigned turns,
                             std::integer_sequence<unsigned, kPaths...>) {
  unsigned place = 1;
  const auto take = [&](bool is_mine, auto go) {
    if (is_mine) place = go();
  };
  (take(path == kPaths, [&] { return walk<kPaths>(place, turns); }), ...);
  return place;
}

__global__ void walk_kernel(unsigned* out, Grain grain, unsigned paths, unsigned turns) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned number = grain == Grain::lane   ? threadIdx.x % kWarp
                          : grain == Grain::warp ? thread / kWarp
                                                 : blockIdx.x;
  out[thread] = walk_one(number % paths, turns, std::make_integer_sequence<unsigned, kMostPaths>());
}

template <unsigned kLanes>
__device__ unsigned add_up_masked(unsigned value, unsigned mask) {
#pragma unroll
  for (unsigned far = kLanes / 2; far > 0; far /= 2) value += __shfl_xor_sync(mask, value, far);
  return value;
}
template <unsigned kLanes>
__device__ unsigned add_up_tile(unsigned value) {
  const auto tile = cg::tiled_partition<kLanes>(cg::this_thread_block());
#pragma unroll
  for (unsigned far = kLanes / 2; far > 0; far /= 2) value += tile.shfl_xor(value, far);
  return value;
}
__device__ unsigned add_up_shared(unsigned value, unsigned lane) {
  __shared__ unsigned cells[1024];
  unsigned* own = cells + threadIdx.x - lane;
  own[lane] = value;
  __syncwarp();
#pragma unroll
  for (unsigned far = kWarp / 2; far > 0; far /= 2) {
    if (lane < far) own[lane] += own[lane + far];
    __syncwarp();
  }
  value = own[0];
  __syncwarp();
  return value;
}

template <Sum kSum>
__device__ unsigned add_up(unsigned value, unsigned lane) {
  constexpr unsigned kLow = 0x0000FFFFu;
  if constexpr (kSum == Sum::shuffle) return add_up_masked<32>(value, kAll);
  if constexpr (kSum == Sum::redux) return __reduce_add_sync(kAll, value);
  if constexpr (kSum == Sum::tile_32) return add_up_tile<32>(value);
  if constexpr (kSum == Sum::tile_16) return add_up_tile<16>(value);
  if constexpr (kSum == Sum::tile_8) return add_up_tile<8>(value);
  if constexpr (kSum == Sum::tile_4) return add_up_tile<4>(value);
  if constexpr (kSum == Sum::halves_masked)
    return add_up_masked<16>(value, lane < 16 ? kLow : ~kLow);
  if constexpr (kSum == Sum::halves_branched) {
    if (lane < 16)
      value = add_up_masked<16>(value, kLow);
    else
      value = add_up_masked<16>(value, ~kLow);
    __syncwarp();
    return value;
  }
  if constexpr (kSum == Sum::shared) return add_up_shared(value, lane);
}

template <Sum kSum>
__global__ void sum_kernel(unsigned* out, unsigned rounds) {
  const unsigned lane = threadIdx.x % kWarp;
  unsigned value = lane;
  for (unsigned round = 0; round < rounds; ++round) value = add_up<kSum>(value, lane) ^ lane;
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

using SumKernel = void (*)(unsigned*, unsigned);
template <unsigned... kAt>
SumKernel kernel_of(Sum sum, std::integer_sequence<unsigned, kAt...>) {
  constexpr SumKernel kernels[] = {&sum_kernel<static_cast<Sum>(kAt)>...};
  return kernels[static_cast<unsigned>(sum)];
}

}  // namespace

cudaError_t launch_walk(const Walk& walk, cudaStream_t stream) {
  walk_kernel<<<walk.blocks, walk.threads, 0, stream>>>(walk.out, walk.grain, walk.paths,
                                                        walk.turns);
  return cudaGetLastError();
}

cudaError_t launch_sum(const Rounds& rounds, cudaStream_t stream) {
  const SumKernel kernel = kernel_of(rounds.sum, std::make_integer_sequence<unsigned, kSums>());
  kernel<<<rounds.blocks, rounds.threads, 0, stream>>>(rounds.out, rounds.rounds);
  return cudaGetLastError();
}

}  // namespace bench::divergence
