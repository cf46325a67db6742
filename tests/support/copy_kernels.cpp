// copy_kernels.cpp: the bodies of the kernels that stream and transpose. nvcc compiles them in a
// CUDA build.
#include "support/copy_kernels.hpp"

#include <attacca/device/staged_copy.hpp>
#include <attacca/device/tile.hpp>

namespace attacca::test {

namespace {

struct Three {
  std::uint32_t words[3];
};
struct alignas(16) Four {
  std::uint32_t words[4];
};

/// The elements of a block.
struct Range {
  std::uint64_t first;
  std::uint64_t count;
};
ATTACCA_HD Range range_of(const Thread& t, const StreamArgs& a) {
  const std::uint64_t first = t.block.x * a.per_block;
  if (first >= a.count) return {0, 0};
  const std::uint64_t left = a.count - first;
  return {first, left < a.per_block ? left : a.per_block};
}

template <class T>
ATTACCA_HD void write_backwards(const Thread& t, T* out, const T* chunk, unsigned n) {
  for (unsigned i = t.thread.x; i < n; i += t.threads.x) out[i] = chunk[n - 1 - i];
}

/// The common part of both stream kernels.
template <class Copy>
struct StreamOf {
  static constexpr const char* waits_for[] = {"a chunk to be copied by TMA"};
  using Args = StreamArgs;
  using T = typename Copy::Element;
  static Cost cost(const Args& a) {
    return {.bytes = 2.0 * sizeof(T) * static_cast<double>(a.count) * a.passes};
  }
};

template <class Copy>
struct Stream : StreamOf<Copy> {
  static constexpr const char* name = "stream";
  using typename StreamOf<Copy>::Args;
  using typename StreamOf<Copy>::T;
  ATTACCA_HD static void body(typename Copy::ThreadType& t, const Args& a) {
    ATTACCA_SHARED typename Copy::Storage storage;
    Copy copy(t, storage);
    const Range range = range_of(t, a);
    for (unsigned pass = 0; pass < a.passes; ++pass) {
      const T* in = static_cast<const T*>(a.in) + range.first + pass;
      T* out = static_cast<T*>(a.out) + range.first + pass * a.count;
      device::for_each_chunk(copy, in, range.count, [&](const T* chunk, unsigned n) {
        write_backwards(t, out, chunk, n);
        out += n;
      });
    }
  }
};

/// The same with every buffer filled before the first is used, by fetch, wait and release.
template <class Copy>
struct StreamByHand : StreamOf<Copy> {
  static constexpr const char* name = "stream_by_hand";
  using typename StreamOf<Copy>::Args;
  using typename StreamOf<Copy>::T;
  ATTACCA_HD static void body(typename Copy::ThreadType& t, const Args& a) {
    ATTACCA_SHARED typename Copy::Storage storage;
    Copy copy(t, storage);
    const Range range = range_of(t, a);
    const auto size_at = [&](std::uint64_t at) {
      const std::uint64_t left = range.count - at;
      return left < Copy::kChunk ? static_cast<unsigned>(left) : Copy::kChunk;
    };
    for (unsigned pass = 0; pass < a.passes; ++pass) {
      const T* in = static_cast<const T*>(a.in) + range.first + pass;
      T* out = static_cast<T*>(a.out) + range.first + pass * a.count;
      std::uint64_t fetched = 0;
      for (unsigned stage = 0; stage < Copy::kStages && fetched < range.count; ++stage) {
        copy.fetch(in + fetched, size_at(fetched));
        fetched += size_at(fetched);
      }
      for (std::uint64_t used = 0; used < range.count; used += Copy::kChunk) {
        write_backwards(t, out + used, copy.wait(), size_at(used));
        copy.release();
        if (fetched == range.count) continue;
        copy.fetch(in + fetched, size_at(fetched));
        fetched += size_at(fetched);
      }
    }
  }
};

template <class Copy, template <class> class Body = Stream>
StreamCase stream_case(const char* name) {
  return {name, make_kernel<Body<Copy>>(), sizeof(typename Copy::Element), Copy::kChunk};
}

template <class T>
struct Transpose {
  static constexpr const char* name = "transpose";
  using Args = TransposeArgs;
  using Tile = device::PaddedTile<T, kTransposeTile, kTransposeTile>;

  static Cost cost(const Args& a) { return {.bytes = 2.0 * sizeof(T) * a.rows * a.columns}; }

  /// The reads, and then the writes, of thread (x, y) of the block at tile (column, row).
  ATTACCA_HD static void read(Tile& tile, const Args& a, Dim3 block, Dim3 thread) {
    const unsigned column = block.x * kTransposeTile + thread.x;
    for (unsigned y = thread.y; y < kTransposeTile; y += kTransposeRows) {
      const unsigned row = block.y * kTransposeTile + y;
      if (row < a.rows && column < a.columns)
        tile.at(y, thread.x) = static_cast<const T*>(a.in)[row * a.columns + column];
    }
  }
  ATTACCA_HD static void write(const Tile& tile, const Args& a, Dim3 block, Dim3 thread) {
    const unsigned row = block.y * kTransposeTile + thread.x;
    for (unsigned y = thread.y; y < kTransposeTile; y += kTransposeRows) {
      const unsigned column = block.x * kTransposeTile + y;
      if (row < a.rows && column < a.columns)
        static_cast<T*>(a.out)[column * a.rows + row] = tile.at(thread.x, y);
    }
  }

  static void host(const Grid& grid, const Args& a) {
    Tile tile{};
    const auto for_threads = [&](auto&& call) {
      for (unsigned y = 0; y < grid.threads.y; ++y)
        for (unsigned x = 0; x < grid.threads.x; ++x) call(Dim3{x, y, 0});
    };
    for (unsigned y = 0; y < grid.blocks.y; ++y) {
      for (unsigned x = 0; x < grid.blocks.x; ++x) {
        for_threads([&](Dim3 thread) { read(tile, a, {x, y, 0}, thread); });
        for_threads([&](Dim3 thread) { write(tile, a, {x, y, 0}, thread); });
      }
    }
  }
#if defined(__CUDACC__)
  __device__ static void cuda(Thread& t, const Args& a) {
    ATTACCA_SHARED Tile tile;
    read(tile, a, t.block, t.thread);
    __syncthreads();
    write(tile, a, t.block, t.thread);
  }
#endif
};

template <class T>
TransposeCase transpose_case() {
  return {make_kernel<Transpose<T>>(), sizeof(T)};
}

}  // namespace

const std::vector<StreamCase>& stream_cases() {
  using device::BulkCopy;
  using device::StagedCopy;
  static const std::vector<StreamCase> cases{
      stream_case<StagedCopy<std::uint8_t, 80, 1>>("staged, 1 byte, 1 stage"),
      stream_case<StagedCopy<std::uint16_t, 100, 2>>("staged, 2 bytes, 2 stages"),
      stream_case<StagedCopy<std::uint32_t, 64, 3>>("staged, 4 bytes, 3 stages"),
      stream_case<StagedCopy<std::uint64_t, 33, 8>>("staged, 8 bytes, 8 stages"),
      stream_case<StagedCopy<Three, 21, 2>>("staged, 12 bytes, 2 stages"),
      stream_case<StagedCopy<Four, 40, 4>>("staged, 16 bytes, 4 stages"),
      stream_case<StagedCopy<std::uint32_t, 64, 4>, StreamByHand>("staged by hand"),
      stream_case<BulkCopy<std::uint8_t, 80, 1>>("bulk, 1 byte, 1 stage"),
      stream_case<BulkCopy<std::uint16_t, 100, 2>>("bulk, 2 bytes, 2 stages"),
      stream_case<BulkCopy<std::uint32_t, 64, 3>>("bulk, 4 bytes, 3 stages"),
      stream_case<BulkCopy<std::uint64_t, 33, 8>>("bulk, 8 bytes, 8 stages"),
      stream_case<BulkCopy<Three, 21, 2>>("bulk, 12 bytes, 2 stages"),
      stream_case<BulkCopy<Four, 40, 4>>("bulk, 16 bytes, 4 stages"),
      stream_case<BulkCopy<std::uint32_t, 64, 4>, StreamByHand>("bulk by hand"),
  };
  return cases;
}

const std::vector<TransposeCase>& transpose_cases() {
  static const std::vector<TransposeCase> cases{
      transpose_case<std::uint8_t>(), transpose_case<std::uint16_t>(),
      transpose_case<std::uint32_t>(), transpose_case<std::uint64_t>(), transpose_case<Four>()};
  return cases;
}

}  // namespace attacca::test
