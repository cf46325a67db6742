// overlap_allocation.cpp: memory that is allocated, written and freed repeatedly, from a pool in
// stream order or directly; and whether direct allocation waits for other streams.
#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/memory.hpp>

#include <algorithm>

#include "claims/overlap.hpp"
#include "harness.hpp"
#if ATTACCA_WITH_CUDA
#include "raw.hpp"
#endif

namespace bench::overlap {

namespace {

using attacca::Buffer;
using attacca::Pool;
using attacca::Stream;

constexpr int kRounds = 20;
constexpr std::size_t kCudaSizes[] = {64 << 10, 1 << 20, 64 << 20};
constexpr std::size_t kHostSizes[] = {16 << 10, 256 << 10, 4 << 20};

/// A way to get memory, use it in the stream and give it back.
struct Allocator {
  const char* name;
  std::function<void(Stream&, std::size_t bytes)> use;
};

/// The ways that every device has: direct, which must wait for the stream, and pooled.
std::vector<Allocator> portable(const attacca::Device& device, Pool& pool) {
  return {{"Buffer",
           [device](Stream& stream, std::size_t bytes) {
             const Buffer<std::byte> memory(device, bytes);
             stream.fill(memory.data(), 1, bytes);
             stream.synchronize();
           }},
          {"attacca::Pool", [&pool](Stream& stream, std::size_t bytes) {
             void* memory = pool.allocate_bytes(stream, bytes);
             stream.fill(memory, 1, bytes);
             pool.free(stream, memory);
           }}};
}

#if ATTACCA_WITH_CUDA
cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

std::vector<Allocator> raw(Pool& pool) {
  return {{"cudaMalloc",
           [](Stream& stream, std::size_t bytes) {
             void* memory = nullptr;
             check(cudaMalloc(&memory, bytes));
             check(cudaMemsetAsync(memory, 1, bytes, native(stream)));
             check(cudaStreamSynchronize(native(stream)));  // as cudaFree would, undocumented
             check(cudaFree(memory));
           }},
          {"attacca::Pool",
           [&pool](Stream& stream, std::size_t bytes) {
             void* memory = pool.allocate_bytes(stream, bytes);
             check(cudaMemsetAsync(memory, 1, bytes, native(stream)));
             pool.free(stream, memory);
           }},
          {"cudaMallocAsync", [](Stream& stream, std::size_t bytes) {
             void* memory = nullptr;
             check(cudaMallocAsync(&memory, bytes, native(stream)));
             check(cudaMemsetAsync(memory, 1, bytes, native(stream)));
             check(cudaFreeAsync(memory, native(stream)));
           }}};
}

/// A kernel of one thread that keeps a stream busy, and how long calls take meanwhile.
struct Calls {
  double allocate;
  double free;
};
template <class Allocate, class Free>
Calls while_busy(Stream& busy, const Buffer<std::uint32_t>& cells, unsigned turns,
                 Allocate&& allocate, Free&& free) {
  busy.kernel(scramble, attacca::Grid{}, {cells.data(), cells.data() + 1, 1, turns});
  void* memory = nullptr;
  Calls calls{};
  calls.allocate = microseconds([&] { memory = allocate(); });
  calls.free = microseconds([&] { free(memory); });
  busy.synchronize();
  return calls;
}

/// Whether allocating and freeing wait for the work of an unrelated stream.
void measure_waiting(Run& run) {
  constexpr std::size_t kBytes = 64 << 20;
  Gpu gpu(run.device);
  Stream busy(gpu.device);
  const Buffer<std::uint32_t> cells(gpu.device, std::vector<std::uint32_t>{1, 0});
  unsigned turns = 10'000;
  const auto kernel_alone = [&] {
    return microseconds([&] {
      busy.kernel(scramble, attacca::Grid{}, {cells.data(), cells.data() + 1, 1, turns});
      busy.synchronize();
    });
  };
  kernel_alone();
  turns = static_cast<unsigned>(turns * 2000 / kernel_alone());  // some 2 ms
  const auto at_once = [&] {
    return while_busy(
        busy, cells, turns,
        [&] {
          void* memory = nullptr;
          check(cudaMalloc(&memory, kBytes));
          return memory;
        },
        [&](void* memory) { check(cudaFree(memory)); });
  };
  const auto in_order = [&] {
    return while_busy(
        busy, cells, turns,
        [&] {
          void* memory = nullptr;
          check(cudaMallocAsync(&memory, kBytes, gpu.native));
          return memory;
        },
        [&](void* memory) { check(cudaFreeAsync(memory, gpu.native)); });
  };
  const auto times = run.interleave(
      "waiting for another stream", 11,
      {kernel_alone, [&] { return at_once().allocate; }, [&] { return at_once().free; },
       [&] { return in_order().allocate; }, [&] { return in_order().free; }});
  if (cells.read()[1] != scrambled(1, turns))
    throw attacca::Error("the kernel that keeps a stream busy did not run to its end");
  const char* names[] = {"another stream's kernel", "cudaMalloc beside it", "cudaFree beside it",
                         "cudaMallocAsync beside it", "cudaFreeAsync beside it"};
  for (std::size_t at = 0; at < times.size(); ++at)
    run.add(compared(names[at], {{"MiB", kBytes >> 20}}, times[at], times[0]));
  const auto waits = [&](std::size_t at) { return times[at].median > 0.5 * times[0].median; };
  const int waiting = waits(1) + waits(2);
  run.add(Finding{
      "cudaMalloc and cudaFree synchronize the GPU across all streams; cudaMallocAsync and "
      "cudaFreeAsync do not.",
      "CUDA Programming Guide, https://docs.nvidia.com/cuda/cuda-programming-guide/"
      "04-special-topics/stream-ordered-memory-allocation.html",
      fmt::format("beside a kernel of {:.0f} µs in another stream cudaMalloc takes {:.0f} µs and "
                  "cudaFree {:.0f}; in stream order {:.1f} and {:.1f}",
                  times[0].median, times[1].median, times[2].median, times[3].median,
                  times[4].median),
      waits(3) || waits(4) || waiting == 0 ? Verdict::failed
      : waiting == 2                       ? Verdict::held
                                           : Verdict::partly});
}
#endif

}  // namespace

void measure_allocation(Run& run) {
  Pool pool(run.device);
  Stream stream(run.device);
#if ATTACCA_WITH_CUDA
  const std::vector<Allocator> allocators =
      run.device.is_cuda() ? raw(pool) : portable(run.device, pool);
#else
  const std::vector<Allocator> allocators = portable(run.device, pool);
#endif
  double least_gain = 1e9;
  double most_gain = 0;
  for (const std::size_t bytes : run.device.is_cuda() ? kCudaSizes : kHostSizes)
    for (const bool waits_each_time : {false, true}) {
      std::vector<std::function<double()>> variants;
      for (const Allocator& allocator : allocators)
        variants.push_back([&] {
          const double sum = microseconds([&] {
            for (int round = 0; round < kRounds; ++round) {
              allocator.use(stream, bytes);
              if (waits_each_time) stream.synchronize();
            }
            stream.synchronize();
          });
          return sum / kRounds;
        });
      const auto times = run.interleave(fmt::format("allocating {} bytes", bytes), 15, variants);
      for (std::size_t at = 0; at < allocators.size(); ++at)
        run.add(compared(
            fmt::format("{}: allocate, fill, free", allocators[at].name),
            {{"KiB", bytes >> 10}, {"synchronize", waits_each_time ? "each time" : "at the end"}},
            times[at], times[0]));
      const double gain = times[0].median / times[1].median;
      least_gain = std::min(least_gain, gain);
      most_gain = std::max(most_gain, gain);
    }
  run.add(
      Finding{"Memory from a pool in stream order is cheaper than memory allocated at once.",
              "NVIDIA, Using the NVIDIA CUDA Stream-Ordered Memory Allocator, Part 1",
              fmt::format("allocating, filling and freeing is {:.2f} to {:.2f} times as fast from "
                          "a pool as with {}, depending on size and synchronization",
                          least_gain, most_gain, allocators[0].name),
              least_gain > 1.1  ? Verdict::held
              : most_gain > 1.1 ? Verdict::partly
                                : Verdict::failed});
#if ATTACCA_WITH_CUDA
  if (run.device.is_cuda()) measure_waiting(run);
#endif
}

}  // namespace bench::overlap
