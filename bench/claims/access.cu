// access.cu: the kernels of access.hpp and their launchers.
#include "claims/access.hpp"

#include <cuda_runtime.h>
#include <attacca/device/tile.hpp>

namespace bench::accessing {

namespace {

__device__ std::uint64_t thread_index() {
  return static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

unsigned blocks_for(std::uint64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

__global__ void fill_kernel(unsigned* words, std::uint64_t count) {
  const std::uint64_t i = thread_index();
  if (i < count) words[i] = static_cast<unsigned>(i) * 2'654'435'761u & 0x7FFFFFFFu;
}

__global__ void __launch_bounds__(kThreads)
    strided_kernel(const unsigned* in, unsigned* out, std::uint64_t count, Pattern pattern) {
  const std::uint64_t i = thread_index();
  if (i >= count) return;
  const std::uint64_t at = i * pattern.stride + pattern.offset;
  out[at] = in[at];
}

__global__ void check_strided_kernel(Arrays arrays, Pattern pattern, unsigned* wrong) {
  const std::uint64_t at = thread_index();
  if (at >= arrays.words) return;
  const bool is_copied = at >= pattern.offset && (at - pattern.offset) % pattern.stride == 0;
  if (arrays.out[at] != (is_copied ? arrays.in[at] : kPoison)) atomicAdd(wrong, 1);
}

template <class T, unsigned kEach>
__global__ void __launch_bounds__(kThreads) wide_kernel(const T* in, T* out) {
  const std::uint64_t first =
      static_cast<std::uint64_t>(blockIdx.x) * kThreads * kEach + threadIdx.x;
  T held[kEach];
#pragma unroll
  for (unsigned at = 0; at < kEach; ++at) held[at] = in[first + at * kThreads];
#pragma unroll
  for (unsigned at = 0; at < kEach; ++at) out[first + at * kThreads] = held[at];
}

template <class T>
void start_wide(const Arrays& arrays, bool is_four_each, cudaStream_t stream) {
  const T* in = reinterpret_cast<const T*>(arrays.in);
  T* out = reinterpret_cast<T*>(arrays.out);
  const unsigned blocks = blocks_for(arrays.words * sizeof(unsigned) / sizeof(T));
  if (is_four_each)
    wide_kernel<T, 4><<<blocks / 4, kThreads, 0, stream>>>(in, out);
  else
    wide_kernel<T, 1><<<blocks, kThreads, 0, stream>>>(in, out);
}

constexpr unsigned kRowsAtOnce = kThreads / kTile;

/// A tile as it is usually written, whose columns lie in one bank.
struct PlainTile {
  unsigned cells[kTile][kTile];
  __device__ unsigned& at(unsigned row, unsigned column) { return cells[row][column]; }
};

__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const unsigned* in, unsigned* out, unsigned side) {
  const std::uint64_t column = blockIdx.x * kTile + threadIdx.x;
#pragma unroll
  for (unsigned at = 0; at < kTile; at += kRowsAtOnce) {
    const std::uint64_t row = blockIdx.y * kTile + threadIdx.y + at;
    out[column * side + row] = in[row * side + column];
  }
}

template <class Tile>
__global__ void __launch_bounds__(kThreads)
    transpose_tile_kernel(const unsigned* in, unsigned* out, unsigned side) {
  __shared__ Tile tile;
  const std::uint64_t row = blockIdx.y * kTile;
  const std::uint64_t column = blockIdx.x * kTile;
  const unsigned x = threadIdx.x;
#pragma unroll
  for (unsigned at = 0; at < kTile; at += kRowsAtOnce) {
    const unsigned y = threadIdx.y + at;
    tile.at(y, x) = in[(row + y) * side + column + x];
  }
  __syncthreads();
#pragma unroll
  for (unsigned at = 0; at < kTile; at += kRowsAtOnce) {
    const unsigned y = threadIdx.y + at;
    out[(column + y) * side + row + x] = tile.at(x, y);
  }
}

__global__ void check_transpose_kernel(Arrays arrays, unsigned side, unsigned* wrong) {
  const std::uint64_t at = thread_index();
  if (at >= arrays.words) return;
  if (arrays.out[at] != arrays.in[at % side * side + at / side]) atomicAdd(wrong, 1);
}

__global__ void __launch_bounds__(kThreads)
    banks_kernel(unsigned* out, unsigned stride, unsigned rounds) {
  __shared__ unsigned words[kSharedWords];
  for (unsigned at = threadIdx.x; at < kSharedWords; at += kThreads) words[at] = shared_word(at);
  __syncthreads();
  // Volatile, or the compiler would read once and add up `rounds` times.
  const volatile unsigned* own = words + threadIdx.x % 32 * stride;
  unsigned sum = 0;
  for (unsigned round = 0; round < rounds; ++round)
#pragma unroll
    for (unsigned at = 0; at < kReads; ++at) sum += own[at];
  out[thread_index()] = sum;
}

}  // namespace

cudaError_t launch_fill(unsigned* words, std::uint64_t count, cudaStream_t stream) {
  fill_kernel<<<blocks_for(count), kThreads, 0, stream>>>(words, count);
  return cudaGetLastError();
}

cudaError_t launch_strided(const Arrays& arrays, Pattern pattern, cudaStream_t stream) {
  const std::uint64_t count = accesses(arrays.words, pattern);
  strided_kernel<<<blocks_for(count), kThreads, 0, stream>>>(arrays.in, arrays.out, count, pattern);
  return cudaGetLastError();
}

cudaError_t launch_check_strided(const Arrays& arrays, Pattern pattern, unsigned* wrong,
                                 cudaStream_t stream) {
  check_strided_kernel<<<blocks_for(arrays.words), kThreads, 0, stream>>>(arrays, pattern, wrong);
  return cudaGetLastError();
}

cudaError_t launch_wide(const Arrays& arrays, unsigned bytes, bool is_four_each,
                        cudaStream_t stream) {
  switch (bytes) {
    case 1:
      start_wide<std::uint8_t>(arrays, is_four_each, stream);
      break;
    case 2:
      start_wide<std::uint16_t>(arrays, is_four_each, stream);
      break;
    case 4:
      start_wide<std::uint32_t>(arrays, is_four_each, stream);
      break;
    case 8:
      start_wide<uint2>(arrays, is_four_each, stream);
      break;
    case 16:
      start_wide<uint4>(arrays, is_four_each, stream);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

cudaError_t launch_transpose(const Arrays& arrays, unsigned side, Transpose how,
                             cudaStream_t stream) {
  const dim3 blocks(side / kTile, side / kTile);
  const dim3 threads(kTile, kRowsAtOnce);
  using Padded = attacca::device::PaddedTile<unsigned, kTile, kTile>;
  switch (how) {
    case Transpose::naive:
      transpose_kernel<<<blocks, threads, 0, stream>>>(arrays.in, arrays.out, side);
      break;
    case Transpose::tile:
      transpose_tile_kernel<PlainTile><<<blocks, threads, 0, stream>>>(arrays.in, arrays.out, side);
      break;
    case Transpose::padded_tile:
      transpose_tile_kernel<Padded><<<blocks, threads, 0, stream>>>(arrays.in, arrays.out, side);
      break;
  }
  return cudaGetLastError();
}

cudaError_t launch_check_transpose(const Arrays& arrays, unsigned side, unsigned* wrong,
                                   cudaStream_t stream) {
  check_transpose_kernel<<<blocks_for(arrays.words), kThreads, 0, stream>>>(arrays, side, wrong);
  return cudaGetLastError();
}

cudaError_t launch_banks(unsigned* out, unsigned stride, unsigned rounds, unsigned blocks,
                         cudaStream_t stream) {
  banks_kernel<<<blocks, kThreads, 0, stream>>>(out, stride, rounds);
  return cudaGetLastError();
}

}  // namespace bench::accessing
