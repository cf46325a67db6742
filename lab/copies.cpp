// copies.cpp: measures how fast TMA streams rows of 2 KB from memory and from L2 into a ring in
// shared memory, by where rows land: their stride, and the offset of the first one from a multiple
// of 1024 bytes. Rows come as in streamed_linear, eight of a matrix to a stage, and hardly any work
// is done with them.
#include <attacca/attacca.hpp>

#include <chrono>
#include <cstdio>
#include <vector>

#include "kernels/linear/ring.cuh"
#include "kernels/random_fill.hpp"
#include "lab.hpp"

namespace attacca::lab {
namespace {

constexpr unsigned kStages = 6;
constexpr unsigned kProducers = 2;
constexpr unsigned kConsumers = 8;  // warps; each reads one row of a stage
constexpr unsigned kStageRows = 8;
constexpr unsigned kPiece = 2048;  // bytes of one copy
constexpr unsigned kPieces = 4;    // pieces of a row
constexpr unsigned kRingBytes = 1024;

/// Where rows land in shared memory.
struct Layout {
  unsigned stride;  // bytes from row to row, a multiple of 16, at least kPiece
  unsigned offset;  // bytes before the first row, a multiple of 16
};

struct CopyRows {
  static constexpr const char* name = "copy_rows";
  static constexpr const char* waits_for[] = {kernels::kFullWait, kernels::kEmptyWait};
  static constexpr unsigned max_threads = (kConsumers + kProducers) * 32;
  static constexpr unsigned min_blocks = 1;
  struct Args {
    const unsigned char* from;  // [rows, kPieces * kPiece]
    std::uint64_t rows;         // a multiple of kStageRows
    unsigned passes;            // over all rows
    Layout layout;
    std::uint32_t* sums;  // [blocks, kConsumers * 32]: sums of the words that each thread read

    /// A block copies the groups of eight rows from first(block) to first(block + 1).
    ATTACCA_HD std::uint64_t first(std::uint64_t block, unsigned blocks) const {
      return block * (rows / kStageRows) / blocks;
    }
    ATTACCA_HD const unsigned char* piece(std::uint64_t eight, unsigned row, unsigned index) const {
      return from + ((eight * kStageRows + row) * kPieces + index) * kPiece;
    }
  };

  static Cost cost(const Args& a) {
    return {.flops = 0, .bytes = 1.0 * a.passes * static_cast<double>(a.rows) * kPieces * kPiece};
  }

  static void host_block(Thread& t, const Args& a) {
    const std::uint64_t begin = a.first(t.block.x, t.blocks.x);
    const std::uint64_t end = a.first(t.block.x + 1, t.blocks.x);
    for (unsigned thread = 0; thread < kConsumers * 32; ++thread) {
      std::uint32_t sum = 0;
      for (std::uint64_t i = begin; i < end; ++i)
        for (unsigned piece = 0; piece < kPieces; ++piece)
          sum += word(a.piece(i, thread / 32, piece), thread % 32);
      a.sums[t.block.x * kConsumers * 32 + thread] = a.passes * sum;
    }
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    extern __shared__ __align__(1024) unsigned char copy_memory[];
    auto& ring = *reinterpret_cast<CopyRing*>(copy_memory);
    unsigned char* const rows = copy_memory + kRingBytes + a.layout.offset;
    if (threadIdx.x == 0) ring.init();
    __syncthreads();
    const unsigned warp = threadIdx.x / 32;
    const unsigned lane = threadIdx.x % 32;
    const std::uint64_t begin = a.first(blockIdx.x, gridDim.x);
    const std::uint64_t end = a.first(blockIdx.x + 1, gridDim.x);
    CopyRing::State at;
    std::uint32_t sum = 0;
    for (unsigned pass = 0; pass < a.passes; ++pass)
      for (std::uint64_t i = begin; i < end; ++i)
        for (unsigned piece = 0; piece < kPieces; ++piece, at.advance()) {
          unsigned char* const stage = rows + at.stage * kStageRows * a.layout.stride;
          if (warp < kConsumers) {
            if (!ring.wait_full(at)) return ring.report(t);
            sum += word(stage + warp * a.layout.stride, lane);
            ring.release(at, sum);
          } else {
            constexpr unsigned kEach = kStageRows / kProducers;
            const unsigned row = (warp - kConsumers) * kEach + lane;
            if (!ring.begin_fill(at, kEach * kPiece)) return ring.report(t);
            if (lane < kEach)
              ring.copy(at, stage + row * a.layout.stride, a.piece(i, row, piece), kPiece);
          }
        }
    if (warp < kConsumers) a.sums[blockIdx.x * kConsumers * 32 + threadIdx.x] = sum;
#endif
  }

 private:
  using CopyRing = kernels::Ring<kStages, kProducers, kConsumers>;
  static_assert(sizeof(CopyRing) <= kRingBytes);
  ATTACCA_HD static std::uint32_t word(const unsigned char* row, unsigned index) {
    return reinterpret_cast<const std::uint32_t*>(row)[index];
  }
};

/// The memory of a device that rows are copied from.
class Memory {
 public:
  Memory(const Device& device, std::uint64_t rows, unsigned blocks)
      : stream_(device),
        blocks_(blocks),
        bytes_(device, rows * kPieces * kPiece),
        sums_(device, std::size_t{blocks} * kConsumers * 32) {
    const kernels::RandomFillArgs fill{bytes_.data(), kernels::TensorType::bf16, bytes_.size() / 2,
                                       1, 1};
    stream_.kernel(kernels::random_fill(), grid_of(fill, device.is_cuda()), fill);
  }

  /// The seconds that `launches` launches take.
  double copy(std::uint64_t rows, unsigned passes, const Layout& layout, unsigned launches) {
    const CopyRows::Args args{bytes_.data(), rows, passes, layout, sums_.data()};
    Grid grid{Dim3{blocks_}, Dim3{CopyRows::max_threads}};
    grid.shared_bytes = kRingBytes + layout.offset + kStages * kStageRows * layout.stride;
    stream_.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < launches; ++i) stream_.kernel(make_kernel<CopyRows>(), grid, args);
    stream_.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  /// TB/s after a warm-up.
  double speed(std::uint64_t rows, unsigned passes, const Layout& layout) {
    constexpr unsigned kLaunches = 8;
    copy(rows, passes, layout, 2);
    const double bytes = 1.0 * kLaunches * passes * static_cast<double>(rows) * kPieces * kPiece;
    return bytes / copy(rows, passes, layout, kLaunches) / 1e12;
  }
  std::vector<std::uint32_t> sums() const { return sums_.read(); }

 private:
  Stream stream_;
  unsigned blocks_;
  Buffer<unsigned char> bytes_;
  Buffer<std::uint32_t> sums_;
};

}  // namespace

void time_copies() {
  constexpr std::uint64_t kRows = (4ull << 30) / (kPieces * kPiece);  // many times the size of L2
  constexpr unsigned kPasses = 100;
  constexpr Layout kLayouts[] = {{2048, 0},  {2176, 0},  {2112, 0}, {2048, 64},
                                 {2176, 64}, {2048, 16}, {2064, 0}};
  const Device device = Device::cuda(0);
  const unsigned blocks = device.processors();
  const std::uint64_t few = 2ull * kStageRows * blocks;
  Memory memory(device, kRows, blocks);
  Memory reference(Device::host(), few, blocks);
  reference.copy(few, kPasses, kLayouts[0], 1);
  const auto megabytes = [](std::uint64_t rows) {
    return static_cast<double>(rows) * kPieces * kPiece / 1e6;
  };
  std::printf("rows of %u bytes into shared memory, from %.0f MB, and from %.0f MB in L2\n", kPiece,
              megabytes(kRows), megabytes(few));
  std::printf("stride  offset   from memory      from L2\n");
  for (const Layout& layout : kLayouts) {
    const double from_memory = memory.speed(kRows, 1, layout);
    const double from_l2 = memory.speed(few, kPasses, layout);
    const bool is_right = memory.sums() == reference.sums();
    std::printf("%6u  %6u   %6.2f TB/s  %6.2f TB/s%s\n", layout.stride, layout.offset, from_memory,
                from_l2, is_right ? "" : "  not the same bytes");
  }
}

}  // namespace attacca::lab
