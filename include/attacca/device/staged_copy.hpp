// staged_copy.hpp: streams an array through shared memory in chunks, which the whole block copies
// ahead of their use:
//
//   using Copy = device::StagedCopy<float, 1024, 4>;  // 1024 elements a chunk, 4 buffers
//   ATTACCA_SHARED Copy::Storage storage;
//   Copy copy(t, storage);
//   device::for_each_chunk(copy, a.x, a.count, [&](const float* chunk, unsigned n) {
//     for (unsigned i = t.thread.x; i < n; i += t.threads.x) sum += chunk[i];
//   });
//
// In StagedCopy every thread copies its share (cp.async). BulkCopy copies each chunk with one TMA
// instruction of sm_90. It is for bodies that take a WaitingThread: the wait for a chunk that does
// not arrive times out, under a name from the kernel's `waits_for`. On the host, where the block's
// threads run one after another, chunks are read in place. The same body gives the same result
// there, as long as its threads do not write to shared memory for each other.
#pragma once

#include <attacca/device/memory_model.hpp>
#include <attacca/device/tile.hpp>
#include <attacca/thread.hpp>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline_primitives.h>
#endif

namespace attacca::device {

namespace detail {

/// Bytes that both kinds of copy move at a time; source and target are aligned to it.
inline constexpr unsigned kCopyBytes = 16;

ATTACCA_HD constexpr unsigned rounded_to_copies(unsigned bytes) {
  return (bytes + kCopyBytes - 1) / kCopyBytes * kCopyBytes;
}

/// The place of a thread in its block, and the number of threads.
struct Rank {
  unsigned rank;
  unsigned threads;
};

/// Every thread copies its share.
template <unsigned kStages>
struct AsyncMover {
  using ThreadType = Thread;
  struct State {};

#if defined(__CUDACC__)
  __device__ static void open(State&, Rank) {}
  __device__ static void close(State&, Rank) {}
  __device__ static void copy(State&, unsigned, unsigned char* to, const unsigned char* from,
                              unsigned bytes, Rank self) {
    const unsigned step = self.threads * kCopyBytes;
    for (unsigned at = self.rank * kCopyBytes; at < bytes; at += step)
      __pipeline_memcpy_async(to + at, from + at, kCopyBytes);
    __pipeline_commit();
  }
  __device__ static void touched_by_hand() {}
  /// Waits until this thread's copies have arrived, except those of the last `behind` chunks.
  __device__ static bool wait(State&, unsigned, bool, unsigned behind, const Thread&, unsigned) {
    wait_at_most<kStages - 1>(behind);
    return true;
  }

 private:
  /// The instruction takes a constant; in the middle of a stream the first comparison holds.
  template <unsigned kBehind>
  __device__ static void wait_at_most(unsigned behind) {
    if constexpr (kBehind > 0) {
      if (behind < kBehind) return wait_at_most<kBehind - 1>(behind);
    }
    __pipeline_wait_prior(kBehind);
  }
#endif
};

/// One thread issues the TMA copy, which counts the bytes delivered on an mbarrier.
template <unsigned kStages, std::uint64_t kPatienceNanoseconds = 20'000'000'000>
struct BulkMover {
  using ThreadType = WaitingThread;
  struct State {
    std::uint64_t arrived[kStages];  // mbarriers: phase n ends when the stage's chunk n is there
  };

#if defined(__CUDACC__)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static_assert(kStages == 0, "BulkCopy needs sm_90: compile for it, or use StagedCopy");
#endif
  __device__ static void open(State& state, Rank self) {
    if (self.rank == 0) {
      for (std::uint64_t& barrier : state.arrived) __mbarrier_init(&barrier, 1);
      touched_by_hand();
    }
    __syncthreads();
  }
  __device__ static void close(State& state, Rank self) {
    if (self.rank == 0)
      for (std::uint64_t& barrier : state.arrived) __mbarrier_inval(&barrier);
  }
  __device__ static void copy(State& state, unsigned stage, unsigned char* to,
                              const unsigned char* from, unsigned bytes, Rank self) {
    if (self.rank != 0) return;
    const unsigned barrier = shared_address(&state.arrived[stage]);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
    if (bytes == 0) return;
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
        : "memory");
  }
  /// Orders this thread's reads and writes before a later TMA write to the same place: a load may
  /// still be under way when its thread is past a barrier.
  __device__ static void touched_by_hand() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  /// False where the chunk did not arrive; the host is told. TMA that cannot read the source ends
  /// the kernel with an error, so the bound is only for a caller that waits for a chunk it has not
  /// fetched.
  __device__ static bool wait(State& state, unsigned stage, bool parity, unsigned,
                              const WaitingThread& t, unsigned what) {
    if (is_past(state.arrived[stage], parity)) [[likely]]
      return true;
    const std::uint64_t start = now_nanoseconds();
    while (!is_past(state.arrived[stage], parity)) {
      const std::uint64_t waited = now_nanoseconds() - start;
      if (waited < kPatienceNanoseconds) continue;
      t.give_up(what, stage, state.arrived[stage], waited);
      return false;
    }
    return true;
  }

 private:
  __device__ static bool is_past(std::uint64_t& barrier, bool parity) {
    constexpr unsigned kNapNanoseconds = 1'000'000;
    return __mbarrier_try_wait_parity(&barrier, parity, kNapNanoseconds);
  }
  __device__ static unsigned shared_address(const void* address) {
    return static_cast<unsigned>(__cvta_generic_to_shared(address));
  }
#endif
};

}  // namespace detail

/// A queue of at most `kStageCount` chunks on their way from global to shared memory or in use
/// there. All threads of the block make every call together, from the constructor to the end, with
/// the same arguments. The source lies in global memory, is not written while the kernel runs, and
/// may start and end at any element: the parts of a chunk before the first and after the last
/// multiple of 16 bytes are copied by plain loads and stores. Use `for_each_chunk`, or write its
/// loop with the members.
template <class T, unsigned kChunkElements, unsigned kStageCount, class Mover>
class ChunkPipeline {
  static_assert(std::is_trivially_copyable_v<T>, "chunks are copied as bytes");
  static_assert(alignof(T) <= detail::kCopyBytes, "elements are aligned to at most 16 bytes");
  static_assert(kChunkElements > 0, "a chunk has at least one element");
  static_assert(kStageCount > 0, "a pipeline has at least one buffer");

  // A chunk keeps its source's offset from a multiple of 16 bytes, which takes some room.
  static constexpr bool kIsAligned = alignof(T) == detail::kCopyBytes;
  static constexpr unsigned kStageBytes =
      detail::rounded_to_copies(kChunkElements * sizeof(T)) + detail::kCopyBytes;

 public:
  using Element = T;
  using ThreadType = typename Mover::ThreadType;  // the least type for a body that uses it
  static constexpr unsigned kChunk = kChunkElements;
  static constexpr unsigned kStages = kStageCount;

  struct Storage {
#if defined(__CUDA_ARCH__)
    alignas(detail::kCopyBytes) unsigned char bytes[kStages][kStageBytes];
    typename Mover::State mover;
    unsigned shifts[kStages];  // the start of a chunk in its buffer
#else
    const T* sources[kStages];
#endif
  };
  /// Enough dynamic shared memory for a Storage on the device.
  static constexpr unsigned kSharedBytes =
      kStages * kStageBytes +
      detail::rounded_to_copies(sizeof(typename Mover::State) + 8 + kStages * sizeof(unsigned));

  /// For BulkCopy, `what` is an index in the kernel's `waits_for`. A chunk that does not arrive is
  /// reported under it, with the number of its buffer and the mbarrier that was seen. The kernel
  /// then runs on to its end with garbage from `wait`.
  ATTACCA_HD explicit ChunkPipeline(const ThreadType& t, Storage& storage, unsigned what = 0)
      : thread_(t),
        what_(what),
        storage_(storage),
        self_{t.thread.x + t.threads.x * (t.thread.y + t.threads.y * t.thread.z),
              static_cast<unsigned>(t.threads.count())} {
#if defined(__CUDA_ARCH__)
    static_assert(sizeof(Storage) <= kSharedBytes);
    Mover::open(storage_.mover, self_);
#endif
  }
  /// Afterwards the storage is free for other use. REQUIRES: everything fetched was waited for. A
  /// chunk whose wait timed out may still arrive and overwrite the storage.
  ATTACCA_HD ~ChunkPipeline() {
#if defined(__CUDA_ARCH__)
    Mover::close(storage_.mover, self_);
    __syncthreads();
#endif
  }
  ChunkPipeline(const ChunkPipeline&) = delete;
  ChunkPipeline& operator=(const ChunkPipeline&) = delete;

  /// Begins to copy `count` elements. REQUIRES: at most kChunk of them; fewer than kStages chunks
  /// fetched and not released.
  ATTACCA_HD void fetch(const T* from, unsigned count) {
#if defined(__CUDA_ARCH__)
    if (held_ == kStages) synchronize();  // others may still read the buffer this thread released
    start(reinterpret_cast<const unsigned char*>(from), count * static_cast<unsigned>(sizeof(T)));
#else
    (void)count;
    storage_.sources[next_in_] = from;
#endif
    next_in_ = next_in_ + 1 == kStages ? 0 : next_in_ + 1;
    ++held_;
    ++waiting_;
  }

  /// Waits for the oldest chunk that was fetched and not waited for. It lies in shared memory,
  /// aligned as its source, until it is released.
  ATTACCA_HD const T* wait() {
    const unsigned stage = next_out_;
    --waiting_;
    next_out_ = stage + 1 == kStages ? 0 : stage + 1;
#if defined(__CUDA_ARCH__)
    if (!has_given_up_)
      has_given_up_ = !Mover::wait(storage_.mover, stage, parity_, waiting_, thread_, what_);
    if (next_out_ == 0) parity_ = !parity_;
    synchronize();
    const unsigned shift = kIsAligned ? 0 : storage_.shifts[stage];
    return reinterpret_cast<const T*>(storage_.bytes[stage] + shift);
#else
    return storage_.sources[stage];
#endif
  }

  /// This thread is done with the oldest chunk it waited for.
  ATTACCA_HD void release() {
#if defined(__CUDA_ARCH__)
    Mover::touched_by_hand();
    ++released_;
#else
    --held_;
#endif
  }

 private:
#if defined(__CUDACC__)
  /// All threads' writes become visible to all, and chunks that all have released are free.
  __device__ void synchronize() {
    __syncthreads();
    held_ -= released_;
    released_ = 0;
  }
  __device__ void start([[maybe_unused]] const unsigned char* from,
                        [[maybe_unused]] unsigned bytes) {
#if defined(__CUDA_ARCH__)
    const unsigned shift =
        kIsAligned ? 0 : reinterpret_cast<std::uintptr_t>(from) % detail::kCopyBytes;
    unsigned char* to = storage_.bytes[next_in_] + shift;
    unsigned head = (detail::kCopyBytes - shift) % detail::kCopyBytes;
    if (head > bytes) head = bytes;
    const unsigned body = (bytes - head) / detail::kCopyBytes * detail::kCopyBytes;
    if (!kIsAligned && self_.rank == 0) storage_.shifts[next_in_] = shift;
    // After a chunk that did not arrive nothing is fetched: its mbarrier is in the middle of a
    // phase.
    if (!has_given_up_) Mover::copy(storage_.mover, next_in_, to + head, from + head, body, self_);
    if (body == bytes) return;
    for (unsigned at = self_.rank; at < bytes - body; at += self_.threads) {
      const unsigned place = at < head ? at : at + body;
      to[place] = from[place];
    }
    Mover::touched_by_hand();
#endif
  }
#endif

  const ThreadType& thread_;
  unsigned what_;
  Storage& storage_;
  detail::Rank self_;
  unsigned next_in_ = 0;   // buffer of the next fetch
  unsigned next_out_ = 0;  // buffer of the next wait
  unsigned waiting_ = 0;   // chunks fetched and not waited for
  unsigned held_ = 0;      // buffers in use, as far as this thread knows
  unsigned released_ = 0;  // of those, released by this thread; by all once they synchronize
  bool parity_ = false;    // of the phase that the next wait waits for
  bool has_given_up_ = false;
};

template <class T, unsigned kChunk, unsigned kStages>
using StagedCopy = ChunkPipeline<T, kChunk, kStages, detail::AsyncMover<kStages>>;

/// The same with TMA, on sm_90.
template <class T, unsigned kChunk, unsigned kStages>
using BulkCopy = ChunkPipeline<T, kChunk, kStages, detail::BulkMover<kStages>>;

/// Calls `use(chunk, n)` for the `count` elements at `source`, chunk by chunk and in order, while
/// the next chunks are on their way. All threads of the block call; each sees every chunk.
template <class Copy, class Use>
ATTACCA_HD void for_each_chunk(Copy& copy, const typename Copy::Element* source,
                               std::uint64_t count, Use use) {
  std::uint64_t fetched = 0;
  const auto fetch_next = [&] {
    if (fetched == count) return;
    const std::uint64_t left = count - fetched;
    const unsigned n = left < Copy::kChunk ? static_cast<unsigned>(left) : Copy::kChunk;
    copy.fetch(source + fetched, n);
    fetched += n;
  };
  for (unsigned ahead = 1; ahead < Copy::kStages; ++ahead) fetch_next();
  for (std::uint64_t used = 0; used < count; used += Copy::kChunk) {
    if constexpr (Copy::kStages == 1) fetch_next();
    const auto* chunk = copy.wait();
    // After the wait all threads are done with the previous chunk, so one barrier per chunk is
    // enough.
    if constexpr (Copy::kStages > 1) fetch_next();
    const std::uint64_t left = count - used;
    use(chunk, left < Copy::kChunk ? static_cast<unsigned>(left) : Copy::kChunk);
    copy.release();
  }
}

}  // namespace attacca::device
