// copy.cu: adds up an array straight from memory, through registers and shared memory, and by
// staged copies.
#include "claims/copy.hpp"

#include <cuda_runtime.h>
#include <attacca/device/staged_copy.hpp>

namespace bench::copying {

namespace {

using attacca::device::BulkCopy;
using attacca::device::StagedCopy;

__device__ unsigned digest_of(uint4 v) {
  return digest(v.x) + digest(v.y) + digest(v.z) + digest(v.w);
}

__device__ void add_to(unsigned* sum, unsigned own) {
  const unsigned warp = __reduce_add_sync(0xFFFFFFFFu, own);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, warp);
}

/// The block's digest of a chunk of kElements. Each thread reads what a thread of another warp
/// copied, so every way must synchronize the block.
template <unsigned kElements>
__device__ unsigned use(const uint4* chunk) {
  unsigned own = 0;
#pragma unroll
  for (unsigned i = 0; i < kElements; i += kThreads)
    own += digest_of(chunk[i + (threadIdx.x ^ 32)]);
  return own;
}

/// The chunks of this block: whole chunks, spread as evenly as possible.
struct Chunks {
  std::uint64_t first;
  std::uint64_t last;
};
__device__ Chunks chunks_of_block(std::uint64_t chunks) {
  return {chunks * blockIdx.x / gridDim.x, chunks * (blockIdx.x + 1) / gridDim.x};
}

extern __shared__ uint4 shared_memory[];

template <unsigned kElements>
__global__ void __launch_bounds__(kThreads)
    registers_kernel(const unsigned* words, std::uint64_t chunks, unsigned* sum) {
  constexpr unsigned kEach = kElements / kThreads;
  const Chunks mine = chunks_of_block(chunks);
  const uint4* in = reinterpret_cast<const uint4*>(words) + threadIdx.x;
  unsigned own = 0;
  for (std::uint64_t chunk = mine.first; chunk < mine.last; ++chunk) {
    uint4 held[kEach];
#pragma unroll
    for (unsigned at = 0; at < kEach; ++at) held[at] = in[chunk * kElements + at * kThreads];
#pragma unroll
    for (unsigned at = 0; at < kEach; ++at) shared_memory[at * kThreads + threadIdx.x] = held[at];
    __syncthreads();
    own += use<kElements>(shared_memory);
    __syncthreads();
  }
  add_to(sum, own);
}

template <unsigned kElements>
__global__ void __launch_bounds__(kThreads)
    registers_ahead_kernel(const unsigned* words, std::uint64_t chunks, unsigned* sum) {
  constexpr unsigned kEach = kElements / kThreads;
  const Chunks mine = chunks_of_block(chunks);
  const uint4* in = reinterpret_cast<const uint4*>(words) + threadIdx.x;
  unsigned own = 0;
  uint4 held[kEach] = {};
  const auto load = [&](std::uint64_t chunk) {
#pragma unroll
    for (unsigned at = 0; at < kEach; ++at) held[at] = in[chunk * kElements + at * kThreads];
  };
  if (mine.first < mine.last) load(mine.first);
  for (std::uint64_t chunk = mine.first; chunk < mine.last; ++chunk) {
#pragma unroll
    for (unsigned at = 0; at < kEach; ++at) shared_memory[at * kThreads + threadIdx.x] = held[at];
    if (chunk + 1 < mine.last) load(chunk + 1);
    __syncthreads();
    own += use<kElements>(shared_memory);
    __syncthreads();
  }
  add_to(sum, own);
}

template <class Copy>
__global__ void __launch_bounds__(kThreads)
    staged_kernel(const unsigned* words, std::uint64_t chunks, unsigned* sum) {
  const Chunks mine = chunks_of_block(chunks);
  unsigned own = 0;
  {
    typename Copy::ThreadType thread;
    Copy copy(thread, *reinterpret_cast<typename Copy::Storage*>(shared_memory));
    attacca::device::for_each_chunk(
        copy, reinterpret_cast<const uint4*>(words) + mine.first * Copy::kChunk,
        (mine.last - mine.first) * Copy::kChunk,
        [&](const uint4* chunk, unsigned) { own += use<Copy::kChunk>(chunk); });
  }
  add_to(sum, own);
}

__global__ void fill_kernel(uint4* words, std::uint64_t count) {
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    words[i] =
        make_uint4(word_at(4 * i), word_at(4 * i + 1), word_at(4 * i + 2), word_at(4 * i + 3));
  }
}

__global__ void __launch_bounds__(kThreads)
    direct_kernel(const uint4* in, std::uint64_t count, unsigned* sum) {
  constexpr unsigned kAtOnce = 8;
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * kThreads;
  std::uint64_t i = blockIdx.x * kThreads + threadIdx.x;
  unsigned own = 0;
  for (; i + (kAtOnce - 1) * stride < count; i += kAtOnce * stride) {
    uint4 held[kAtOnce];
#pragma unroll
    for (unsigned at = 0; at < kAtOnce; ++at) held[at] = in[i + at * stride];
#pragma unroll
    for (unsigned at = 0; at < kAtOnce; ++at) own += digest_of(held[at]);
  }
  for (; i < count; i += stride) own += digest_of(in[i]);
  add_to(sum, own);
}

template <class Copy>
Variant staged(Way way) {
  return {way, Copy::kStages, Copy::kChunk * static_cast<unsigned>(sizeof(uint4)),
          Copy::kSharedBytes, reinterpret_cast<const void*>(&staged_kernel<Copy>)};
}

template <unsigned kElements, unsigned... kStages>
void add_chunk_size(std::vector<Variant>& to) {
  constexpr unsigned kBytes = kElements * sizeof(uint4);
  to.push_back({Way::registers, 1, kBytes, kBytes,
                reinterpret_cast<const void*>(&registers_kernel<kElements>)});
  to.push_back({Way::registers_ahead, 2, kBytes, kBytes,
                reinterpret_cast<const void*>(&registers_ahead_kernel<kElements>)});
  (to.push_back(staged<StagedCopy<uint4, kElements, kStages>>(Way::asynchronous)), ...);
  (to.push_back(staged<BulkCopy<uint4, kElements, kStages>>(Way::bulk)), ...);
}

}  // namespace

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = [] {
    std::vector<Variant> made;
    add_chunk_size<256, 1, 2, 3, 4, 6, 8>(made);
    add_chunk_size<1024, 1, 2, 3, 4, 6, 8>(made);
    return made;
  }();
  return all;
}

cudaError_t launch_fill(unsigned* words, std::uint64_t count, cudaStream_t stream) {
  fill_kernel<<<1024, kThreads, 0, stream>>>(reinterpret_cast<uint4*>(words), count / 4);
  return cudaGetLastError();
}

cudaError_t launch_direct(const unsigned* words, std::uint64_t count, unsigned* sum,
                          unsigned blocks, cudaStream_t stream) {
  direct_kernel<<<blocks, kThreads, 0, stream>>>(reinterpret_cast<const uint4*>(words), count / 4,
                                                 sum);
  return cudaGetLastError();
}

cudaError_t launch(const Variant& variant, const unsigned* words, std::uint64_t count,
                   unsigned* sum, unsigned blocks, cudaStream_t stream) {
  std::uint64_t chunks = count * sizeof(unsigned) / variant.chunk_bytes;
  void* args[] = {&words, &chunks, &sum};
  return cudaLaunchKernel(variant.kernel, dim3(blocks), dim3(kThreads), args, variant.shared_bytes,
                          stream);
}

cudaError_t prepare(const Variant& variant, int* blocks_per_sm) {
  const cudaError_t result =
      cudaFuncSetAttribute(variant.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(variant.shared_bytes));
  if (result != cudaSuccess) return result;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_per_sm, variant.kernel, kThreads,
                                                       variant.shared_bytes);
}

}  // namespace bench::copying
