// l2.cu: two sweeps of a stencil with L2 hints, and data used again beside data used once.
#include "claims/l2.hpp"

#include <cuda_runtime.h>
#include <attacca/l2.hpp>

namespace bench::l2 {

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kPerThread = kTile / kThreads / 4;  // float4 each
constexpr unsigned kLineElements = attacca::kL2LineBytes / sizeof(float);

__device__ float weigh(float left, float middle, float right) { return left + 2 * middle + right; }

template <bool kStreams, class T>
__device__ T read(const T* from, const attacca::L2Hint& once) {
  if constexpr (kStreams)
    return once.load(from);
  else
    return *from;
}
template <bool kStreams, class T>
__device__ void write(T* to, const T& value, const attacca::L2Hint& once) {
  if constexpr (kStreams)
    once.store(to, value);
  else
    *to = value;
}

/// The stencil over one tile; past the ends of the array the last element repeats.
template <bool kStreamsIn, bool kStreamsOut>
__device__ void sweep_tile(const float* in, float* out, std::uint64_t tile, std::uint64_t count) {
  const attacca::L2Hint once = attacca::L2Hint::evict_first();
  float4 middle[kPerThread];
  float left[kPerThread];
  float right[kPerThread];
#pragma unroll
  for (unsigned step = 0; step < kPerThread; ++step) {
    const std::uint64_t at = tile * kTile + (step * kThreads + threadIdx.x) * 4;
    middle[step] = read<kStreamsIn>(reinterpret_cast<const float4*>(in + at), once);
    left[step] = read<kStreamsIn>(in + (at == 0 ? 0 : at - 1), once);
    right[step] = read<kStreamsIn>(in + (at + 4 == count ? at + 3 : at + 4), once);
  }
#pragma unroll
  for (unsigned step = 0; step < kPerThread; ++step) {
    const std::uint64_t at = tile * kTile + (step * kThreads + threadIdx.x) * 4;
    const float4 m = middle[step];
    write<kStreamsOut>(reinterpret_cast<float4*>(out + at),
                       make_float4(weigh(left[step], m.x, m.y), weigh(m.x, m.y, m.z),
                                   weigh(m.y, m.z, m.w), weigh(m.z, m.w, right[step])),
                       once);
  }
}

template <bool kStreams>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const float* in, float* scratch, std::uint64_t count) {
  sweep_tile<kStreams, false>(in, scratch, blockIdx.x, count);
}

template <bool kStreams, bool kDiscards>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(float* scratch, float* out, std::uint64_t count) {
  const std::uint64_t tile = gridDim.x - 1 - blockIdx.x;
  sweep_tile<false, kStreams>(scratch, out, tile, count);
  if constexpr (kDiscards) {
    // All of the block has read; the tile's first and last line are read by its neighbours too.
    __syncthreads();
    const unsigned line = threadIdx.x + 1;
    if (line < kTile / kLineElements - 1)
      attacca::discard_l2(scratch + tile * kTile + line * kLineElements, attacca::kL2LineBytes);
  }
}

__global__ void set_input_kernel(float* in, std::uint64_t count) {
  const std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at < count) in[at] = static_cast<float>(static_cast<unsigned>(at) * 2654435761u >> 22);
}

__device__ float once_swept(const float* in, std::uint64_t at, std::uint64_t count) {
  return weigh(in[at == 0 ? 0 : at - 1], in[at], in[at + 1 == count ? at : at + 1]);
}

__global__ void count_wrong_kernel(const float* in, const float* out, std::uint64_t count,
                                   unsigned* wrong) {
  const std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= count) return;
  const float expected =
      weigh(once_swept(in, at == 0 ? 0 : at - 1, count), once_swept(in, at, count),
            once_swept(in, at + 1 == count ? at : at + 1, count));
  if (!(out[at] == expected)) atomicAdd(wrong, 1u);  // the poison is NaN
}

/// In 32 bits: the remainder of 64-bit numbers would cost more than the memory that is measured.
__device__ unsigned hot_index(const Reuse& reuse, std::uint64_t at) {
  return static_cast<unsigned>(at) % static_cast<unsigned>(reuse.hot_count);
}

__device__ uint4 hot_value(std::uint64_t at) {
  const auto low = static_cast<unsigned>(at);
  return make_uint4(low, low * 3, low ^ 0x5555u, 1);
}

__global__ void __launch_bounds__(kThreads) reuse_kernel(Reuse reuse) {
  const std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const uint4 hot = reuse.hot[hot_index(reuse, at)];
  const uint4 cold = reuse.cold[at];
  reuse.cold[at] = make_uint4(cold.x + hot.x, cold.y + hot.y, cold.z + hot.z, cold.w + hot.w);
}

__global__ void set_hot_kernel(uint4* hot) {
  const std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  hot[at] = hot_value(at);
}

__global__ void count_wrong_reuse_kernel(Reuse reuse, unsigned times, unsigned* wrong) {
  const std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const uint4 hot = hot_value(hot_index(reuse, at));
  const uint4 cold = reuse.cold[at];
  if (cold.x != hot.x * times || cold.y != hot.y * times || cold.z != hot.z * times ||
      cold.w != hot.w * times)
    atomicAdd(wrong, 1u);
}

__global__ void hold_kernel(unsigned nanoseconds) {
  const auto now = [] {
    std::uint64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
  };
  const std::uint64_t start = now();
  // The timer of some GPUs stands still for a microsecond; the count bounds the loop on any.
  for (unsigned polls = 0; polls < 1'000'000 && now() - start < nanoseconds; ++polls)
    __nanosleep(100);
}

unsigned blocks_for(std::uint64_t count, unsigned per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

template <bool kStreams>
void backward(const Sweeps& s, cudaStream_t stream) {
  const unsigned blocks = blocks_for(s.count, kTile);
  if (s.discards)
    backward_kernel<kStreams, true><<<blocks, kThreads, 0, stream>>>(s.scratch, s.out, s.count);
  else
    backward_kernel<kStreams, false><<<blocks, kThreads, 0, stream>>>(s.scratch, s.out, s.count);
}

}  // namespace

cudaError_t launch_forward(const Sweeps& s, cudaStream_t stream) {
  const unsigned blocks = blocks_for(s.count, kTile);
  if (s.streams)
    forward_kernel<true><<<blocks, kThreads, 0, stream>>>(s.in, s.scratch, s.count);
  else
    forward_kernel<false><<<blocks, kThreads, 0, stream>>>(s.in, s.scratch, s.count);
  return cudaGetLastError();
}

cudaError_t launch_backward(const Sweeps& s, cudaStream_t stream) {
  if (s.streams)
    backward<true>(s, stream);
  else
    backward<false>(s, stream);
  return cudaGetLastError();
}

cudaError_t launch_set_input(float* in, std::uint64_t count, cudaStream_t stream) {
  set_input_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(in, count);
  return cudaGetLastError();
}

cudaError_t launch_count_wrong(const Sweeps& s, unsigned* wrong, cudaStream_t stream) {
  count_wrong_kernel<<<blocks_for(s.count, kThreads), kThreads, 0, stream>>>(s.in, s.out, s.count,
                                                                             wrong);
  return cudaGetLastError();
}

cudaError_t launch_reuse(const Reuse& reuse, cudaStream_t stream) {
  reuse_kernel<<<blocks_for(reuse.cold_count, kThreads), kThreads, 0, stream>>>(reuse);
  return cudaGetLastError();
}

cudaError_t launch_set_hot(uint4* hot, std::uint64_t count, cudaStream_t stream) {
  set_hot_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(hot);
  return cudaGetLastError();
}

cudaError_t launch_count_wrong(const Reuse& reuse, unsigned times, unsigned* wrong,
                               cudaStream_t stream) {
  count_wrong_reuse_kernel<<<blocks_for(reuse.cold_count, kThreads), kThreads, 0, stream>>>(
      reuse, times, wrong);
  return cudaGetLastError();
}

cudaError_t launch_hold(unsigned microseconds, cudaStream_t stream) {
  hold_kernel<<<1, 1, 0, stream>>>(microseconds * 1000);
  return cudaGetLastError();
}

}  // namespace bench::l2
