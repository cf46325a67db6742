// streamed_linear.cuh: the CUDA body of streamed_linear.hpp for up to 16 rows of x. Each block has
// a run of tiles, 8 or 16 rows of weights each. Two producer warps have TMA stream the tiles into a
// ring of stages in shared memory. Eight consumer warps split the columns among them (split-K
// inside the block) and reduce their sums after every few tiles. Any 16 columns may meet in one
// tensor-core instruction as long as weights and x agree, so each lane reads 16 contiguous bytes of
// both; in the order of sum_order.cuh, where each warp is a class, it reads 8. For f16 weights x
// becomes f16. e4m3 weights become bf16 on the way from shared memory to the tensor cores. Quants
// are multiplied as integers, and so is x, with one scale for each 32 columns; see
// streamed_weights.cuh and streamed_multiply.cuh.
//
// The instruction is m16n8k16, or m16n8k32 for integers. With bf16 and f16 weights the 16 rows are
// rows of x. With other types they are rows of weights, so each lane holds the products of the rows
// whose scales lie beside its quants.
//
// Programmatic dependent launch: the first stages are filled before the kernel waits for its
// producers, and the next kernel may start as soon as an SM has room. Memory does not idle between
// two kernels. The ring is small enough that the stages of both fit.
#pragma once

#include "kernels/linear/ring.cuh"
#include "kernels/linear/streamed_linear.hpp"
#include "kernels/linear/streamed_memory.cuh"
#include "kernels/linear/streamed_multiply.cuh"
#include "kernels/linear/streamed_tiles.hpp"
#include "kernels/linear/sum_order.cuh"

namespace attacca::kernels::streamed {

constexpr unsigned kConsumerWarps = sum_order::kClasses;
constexpr unsigned kProducerWarps = 2;  // they issue the TMA copies
constexpr unsigned kGroup = 32;         // columns that a warp multiplies at a time
/// Contiguous columns of a copy: a TMA request takes some 40 ns.
constexpr unsigned kChunk = sum_order::kChunk;
constexpr unsigned kConsumerThreads = kConsumerWarps * 32;
constexpr unsigned kSharedBytes = 6 * 8 * (2 * kChunk + 128);

/// As the function of streamed_tiles.hpp. A call of that one made ptxas change all kernels of one
/// product. No weights can be requested before this is known, so it takes one 32-bit division.
/// Outputs whose squares are summed together stay in one block. Other pairs of tiles are separated
/// where that makes the largest run shorter.
template <unsigned kTileRows>
__device__ inline TileRange tile_range(const StreamedLinearArgs& a) {
  constexpr unsigned kTilesPerPart = Residual::kPart / kTileRows;
  const std::uint32_t parts =
      a.w.rows / (a.epilogue == Epilogue::gate ? Residual::kPart / 2 : Residual::kPart);
  const std::uint32_t block = blockIdx.x;
  std::uint32_t each = parts / gridDim.x;
  std::uint32_t more = parts - each * gridDim.x;  // blocks that have one part more
  std::uint32_t width = kTilesPerPart;
  if (kTilesPerPart == 2 && a.epilogue != Epilogue::add && 2 * more <= gridDim.x) {
    each *= 2;
    more *= 2;
    width = 1;
  }
  return {width * (block * each + min(block, more)), width * (each + (block < more ? 1 : 0))};
}

/// Named barrier 1, for the consumer warps only.
__device__ inline void sync_consumers() {
  asm volatile("bar.sync 1, %0;" ::"n"(kConsumerThreads) : "memory");
}

/// Multiplies up to 8 * kRows8 rows of x at a time, with `kRingBytes` of shared memory for stages.
/// A kernel of one product calls `run`.
template <class Weights, unsigned kRows8, unsigned kRingBytes = kSharedBytes>
class Block {
 public:
  static constexpr bool kIsQuantized = Weights::kIsQuantized;
  static constexpr bool kInOrder = Weights::kInOrder;
  static constexpr bool kIsHalf = Weights::kIsHalf;
  static_assert(!(kIsQuantized || kIsHalf) || kRows8 == 1);
  static constexpr unsigned kRows = 8 * kRows8;
  static constexpr unsigned kPlanes =
      kIsQuantized ? 2 : kRows8;  // operands of 8 rows: x, or x and its rounding error
  static constexpr unsigned kTileRows = Weights::kTileRows;
  static constexpr bool kWeightsAre16 = kTileRows == 16;
  static constexpr unsigned kSums = kWeightsAre16 ? kRows8 : 1;  // accumulators of each tile
  static constexpr unsigned kTiles = 4;                          // that share one read of x
  /// Small weights use up a chunk quickly. Where there are registers for two chunks of x, the next
  /// one is loaded as a chunk begins.
  static constexpr bool kLoadsAhead = kWeightsAre16 && kPlanes == 1;
  // Groups of a chunk that each warp multiplies.
  static constexpr unsigned kPieces = kChunk / kGroup / kConsumerWarps;
  static constexpr unsigned kGroupBytes = bytes_of<Weights>(kGroup);
  static_assert(bytes_of<Weights>(kChunk) % 16 == 0,
                "a row is as far from 16 bytes in every chunk");
  static constexpr unsigned kRowBytes = bytes_of<Weights>(kChunk) + Weights::kPadding;
  static constexpr unsigned kStageBytes = kTileRows * kRowBytes;
  static constexpr unsigned kStages = kRingBytes / kStageBytes;
  // The warps' sums are reduced for so many outputs, and tiles, at a time.
  static constexpr unsigned kOutputs = 32 / kRows8;
  static constexpr unsigned kTilesAtOnce = kOutputs / kTileRows;

  using BlockRing = Ring<kStages, kProducerWarps, kConsumerWarps>;
  using State = typename BlockRing::State;

  __device__ explicit Block(const StreamedLinearArgs& args)
      : a_(args),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        tiles_(tile_range<kTileRows>(args)) {
    groups_ = args.w.columns / kGroup;
    chunks_ = (args.w.columns + kChunk - 1) / kChunk;
    first_chunk_ = blockIdx.x / 2 % chunks_;
    for (unsigned i = 0; i < kTileRows / 8; ++i) row_offset_[i] = row_at(i * 8 + lane_ / 4);
  }

  __device__ void run(WaitingThread& t) {
    if (threadIdx.x == 0) ring().init();
    __syncthreads();
    if (warp_ >= kConsumerWarps)
      produce();
    else
      consume(t);
    ring().report(t);
  }

  // The same in steps, for a kernel of several products with one ring and up to kRows rows of x.
  // Every warp hands its place in the ring from one product to the next.

  __device__ static BlockRing& ring() {
    __shared__ BlockRing value;
    return value;
  }
  __device__ Block(const StreamedLinearArgs& args, const State& state) : Block(args) {
    tiles_ = tile_range<kTileRows>(args.w.rows, args.epilogue, blockIdx.x, gridDim.x);
    state_ = state;
  }
  __device__ State state() const { return state_; }
  __device__ bool has_tiles() const { return tiles_.count != 0; }
  /// Producer warps: request all tiles, without waiting for x. False: no stage became free.
  __device__ bool stream() {
    for (std::uint32_t tile = 0; tile < tiles_.count; tile = next_tile(tile))
      for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk)
        for (std::uint32_t one = tile; one < min(tile + kTiles, limit_of(tile)); ++one)
          if (!fill_stage(tile_at(one), chunk_at(tile, chunk) * kChunk)) return false;
    return true;
  }
  /// Consumer warps: what does not read x. REQUIRES, here and below: 0 < count <= kRows.
  __device__ void prepare(std::uint32_t count) { find_rows(0, count); }
  /// Consumer warps: multiply all tiles by `count` rows. REQUIRES: has_tiles(). `kFactorsFirst`:
  /// the norm's squares are requested together with x, not after the first products.
  template <bool kFactorsFirst>
  __device__ void multiply_all(std::uint32_t count) {
    pass<kFactorsFirst>(0, count);
  }

 private:
  /// The consumer warps.
  __device__ void consume(WaitingThread& t) {
    t.release_consumers();
    const std::uint32_t count = count_of_rows();
    find_rows(0, count);
    t.wait_for_producers();
    if (count == 0) return drain();
    for (std::uint32_t base = 0; base < count; base += kRows) {
      if (base != 0) find_rows(base, count);
      pass(base, min(count - base, kRows));
    }
  }

  /// The chunk that comes at `index` for the tiles that are multiplied together with `tile`.
  __device__ std::uint32_t chunk_at(std::uint32_t tile, std::uint32_t index) const {
    const std::uint32_t at =
        index +
        (kInOrder ? sum_order::first_chunk(tile_at(tile) * kTileRows, chunks_) : first_chunk_);
    return at < chunks_ ? at : at - chunks_;
  }
  /// Up to kTiles tiles are multiplied together from `tile` on, those before limit_of(tile): they
  /// begin with the same chunk. The next ones begin with next_tile(tile).
  __device__ std::uint32_t limit_of(std::uint32_t tile) const {
    if constexpr (!kInOrder) return tiles_.count;
    constexpr unsigned kTogether = sum_order::kRowsTogether / kTileRows;
    return min(tile + kTogether - tile_at(tile) % kTogether, tiles_.count);
  }
  __device__ std::uint32_t next_tile(std::uint32_t tile) const {
    return kInOrder ? min(tile + kTiles, limit_of(tile)) : tile + kTiles;
  }
  /// The group of a chunk that is a warp's piece `p`.
  __device__ unsigned group_of(unsigned p) const {
    return kInOrder ? warp_ * kPieces + p : p * kConsumerWarps + warp_;
  }
  __device__ std::uint32_t tile_at(std::uint32_t index) const { return tiles_.first + index; }
  __device__ bool is_gate() const { return a_.epilogue == Epilogue::gate; }
  /// The host writes the counts of a step before its first kernel starts, so they can be read
  /// without waiting for the producers.
  __device__ std::uint32_t count_of_rows() const { return min(*a_.rows.count, a_.rows.capacity); }

  /// The producer warps fill stages with all tiles, once for every kRows rows of x.
  __device__ void produce() {
    const std::uint32_t count = count_of_rows();
    unsigned filled = 0;
    for (std::uint32_t base = 0; base < count || base == 0; base += kRows)
      for (std::uint32_t tile = 0; tile < tiles_.count; tile = next_tile(tile))
        for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk)
          for (std::uint32_t one = tile; one < min(tile + kTiles, limit_of(tile));
               ++one, ++filled) {
            if (count == 0 && filled == kStages) return;
            if (!fill_stage(tile_at(one), chunk_at(tile, chunk) * kChunk)) return;
          }
    prefetch_next();
  }
  /// Requests this warp's rows of a stage. The rows of a gate and its partner alternate, so that
  /// both meet in one lane. Returns false if no stage became free.
  __device__ bool fill_stage(std::uint32_t tile, std::uint32_t column) {
    constexpr unsigned kRowsEach = kTileRows / kProducerWarps;
    const unsigned slot = (warp_ - kConsumerWarps) * kRowsEach + lane_;
    const std::uint64_t row =
        is_gate() ? tile * (kTileRows / 2) + slot / 2 : tile * kTileRows + slot;
    const void* matrix = is_gate() && slot % 2 != 0 ? a_.up.data : a_.w.data;
    std::uint64_t from = row_bytes(Weights::kType, row * a_.w.columns + column);
    unsigned bytes = bytes_of<Weights>(min(a_.w.columns - column, kChunk));
    unsigned all = kRowsEach * bytes;
    if constexpr (kIsQuantized) {  // TMA copies multiples of 16 bytes; so are 8 rows
      bytes = (static_cast<unsigned>(from % 16) + bytes + 15) / 16 * 16;
      from = from / 16 * 16;
      all = __reduce_add_sync(~0u, lane_ < kRowsEach ? bytes : 0);
    }
    if (!ring().begin_fill(state_, all)) return false;
    if (lane_ < kRowsEach)
      ring().copy(state_, stage() + slot * kRowBytes,
                  static_cast<const unsigned char*>(matrix) + from, bytes);
    state_.advance();
    return true;
  }
  /// Offset of a row of a tile in a stage. The tiles before it take a multiple of 16 bytes.
  __device__ unsigned row_at(unsigned slot) const {
    if constexpr (!kIsQuantized) return slot * kRowBytes;
    const unsigned row = is_gate() ? slot / 2 : slot;
    return slot * kRowBytes + row * bytes_of<Weights>(a_.w.columns) % 16;
  }
  /// Offset of a lane's bytes in a group.
  __device__ unsigned lane_at() const { return Weights::kHead + lane_ % 4 * Weights::kLaneBytes; }
  /// Keeps memory busy while this kernel ends and the next one begins.
  __device__ void prefetch_next() const {
    if (lane_ >= StreamedLinearArgs::kMaxNext / kProducerWarps) return;
    const Upcoming& next =
        a_.next[(warp_ - kConsumerWarps) * (StreamedLinearArgs::kMaxNext / kProducerWarps) + lane_];
    if (next.most == 0) return;
    // Each block prefetches the range that the same block of the next kernel reads first.
    const std::uint64_t share = next.bytes / gridDim.x / 16 * 16;
    const auto* from = static_cast<const unsigned char*>(next.data) + blockIdx.x * share;
    prefetch(from, static_cast<unsigned>(min(share, static_cast<std::uint64_t>(next.most))));
  }
  /// Copies in flight must complete before the block may exit.
  __device__ void drain() {
    for (std::uint32_t i = 0; i < min(tiles_.count * chunks_, kStages); ++i) {
      if (!ring().wait_full(state_)) return;
      state_.advance();
    }
  }

  __device__ std::uint64_t index_of_x(std::uint32_t row) const {
    return a_.gather ? static_cast<std::uint64_t>(a_.gather[row]) : row;
  }
  /// Lanes past the last row read the last row: an unconditional load can stay in flight.
  __device__ void find_rows(std::uint32_t base, std::uint32_t count) {
#pragma unroll
    for (unsigned n = 0; n < kRows8; ++n) {
      const std::uint32_t row = min(base + n * 8 + lane_ / 4, max(count, 1u) - 1);
      const std::uint64_t at = index_of_x(row) * a_.w.columns;
      if constexpr (kIsQuantized) {
        x_rows_[0] = reinterpret_cast<const unsigned char*>(a_.x + at) + lane_ % 4 * 8;
        x_rows_[1] = reinterpret_cast<const unsigned char*>(a_.x_rest + at) + lane_ % 4 * 8;
      } else {
        x_rows_[n] = reinterpret_cast<const unsigned char*>(a_.x + at) +
                     lane_ % 4 * (Weights::kHasHalves ? 8 : 16);
      }
    }
  }

  /// The consumer warps multiply all tiles of the block by up to kRows rows of x.
  template <bool kFactorsFirst = false>
  __device__ void pass(std::uint32_t base, std::uint32_t count) {
    load_x(chunk_at(0, 0) * (kChunk / kGroup));
    if constexpr (kFactorsFirst) find_factors(base, count);
    for (std::uint32_t tile = 0; tile < tiles_.count; tile = next_tile(tile)) {
      Sums sums = {};
      load_epilogue_operands(tile, base, count);
      for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk) {
        const std::uint32_t group = chunk_at(tile, chunk) * (kChunk / kGroup);
        const std::uint32_t next =
            (chunk + 1 < chunks_ ? chunk_at(tile, chunk + 1) : chunk_at(next_tile(tile), 0)) *
            (kChunk / kGroup);
        if (has_large_x())
          multiply_chunk<false, true>(tile, group, next, sums);
        else if (group + kChunk / kGroup <= groups_)
          multiply_chunk<true>(tile, group, next, sums);
        else
          multiply_chunk<false>(tile, group, next, sums);
      }
      // After the first products, which then need not wait for it.
      if (!kFactorsFirst && tile == 0) find_factors(base, count);
      reduce_tiles(tile, sums, base, count);
    }
  }

  using Sums = float[kTiles][kSums][4];
  using X = uint4[kPieces][kPlanes];

  /// Multiplies one chunk of up to kTiles tiles, and loads x of the next chunk. `kIsWhole`: all
  /// groups exist, so no branch separates their loads and products. `kSplitsX`: for f16 weights, x
  /// has large numbers and stays bf16 until it is multiplied.
  template <bool kIsWhole, bool kSplitsX = false>
  __device__ void multiply_chunk(std::uint32_t tile, std::uint32_t group, std::uint32_t next,
                                 Sums& sums) {
    [[maybe_unused]] X held;
    if constexpr (kWeightsAre16)
#pragma unroll
      for (unsigned p = 0; p < kPieces; ++p) arrange(x_[p]);
    if constexpr (kIsHalf && !kSplitsX)
#pragma unroll
      for (unsigned p = 0; p < kPieces; ++p) x_[p][0] = halves(x_[p][0], kSmallScale);
    if constexpr (kLoadsAhead) {
#pragma unroll
      for (unsigned p = 0; p < kPieces; ++p)
#pragma unroll
        for (unsigned n = 0; n < kPlanes; ++n) held[p][n] = x_[p][n];
      load_x(next);
    }
    const X& x = kLoadsAhead ? held : x_;
#pragma unroll
    for (unsigned r = 0; r < kTiles; ++r) {
      if (tile + r >= limit_of(tile)) break;
      const bool is_last = r + 1 == kTiles || tile + r + 1 == limit_of(tile);
      unsigned seen = 0;
      if (!ring().wait_full(state_))
        return;  // the sums are then garbage, and the host learns of it
      const auto has_piece = [&](unsigned p) { return kIsWhole || group + group_of(p) < groups_; };
      if constexpr (kInOrder) {
        seen = multiply_in_order(x, sums[r], has_piece);
#pragma unroll
        for (unsigned p = 0; p < kPieces; ++p)
          if (!kLoadsAhead && is_last) load_piece(p, next);
      } else {
#pragma unroll
        for (unsigned p = 0; p < kPieces; ++p) {
          if (has_piece(p)) seen |= multiply_piece<kSplitsX>(x[p], group_of(p), sums[r]);
          if (!kWeightsAre16 && is_last) load_piece(p, next);
        }
        // Behind all pieces, so that no branch keeps these from being under way together.
        if (kWeightsAre16 && !kLoadsAhead && is_last) load_x(next);
      }
      ring().release(state_, seen);
      state_.advance();
    }
  }
  /// Whether this warp's chunk of x has numbers that are large beside f16 weights.
  __device__ bool has_large_x() const {
    if constexpr (!kIsHalf) return false;
    __nv_bfloat162 most{};
#pragma unroll
    for (unsigned p = 0; p < kPieces; ++p) most = largest(x_[p][0], most);
    return __any_sync(~0u, mask_of_large(reinterpret_cast<const unsigned&>(most)) != 0);
  }
  /// Turns x as it was loaded into what is multiplied, in the same registers.
  __device__ static void arrange(uint4 (&x)[kPlanes]) {
    if constexpr (kIsQuantized) {
      integers<Weights::kHasLeast>(x[0], x[1]).put(x);
    } else {
#pragma unroll
      for (uint4& plane : x) plane = Weights::arranged(plane);
    }
  }
  /// Multiplies 32 columns of a tile. The result depends on all that was read of the stage, for
  /// Ring::release.
  template <bool kSplitsX>
  __device__ unsigned multiply_piece(const uint4 (&x)[kPlanes], unsigned mine,
                                     float (&sums)[kSums][4]) {
    const unsigned char* low = stage() + row_offset_[0] + mine * kGroupBytes;
    if constexpr (!kWeightsAre16) {
      const uint4 w = Weights::pairs(low + lane_at());
      multiply_tile<kSplitsX>(sums[0], x, w);
      return w.w;
    } else {
      const unsigned char* high = stage() + row_offset_[1] + mine * kGroupBytes;
      if constexpr (kIsQuantized) {
        add_blocks<Weights>(sums[0], low, high, lane_at(), IntegerX::from(x));
      } else {
        const WeightFragments pairs(Weights::pairs(low + lane_at()),
                                    Weights::pairs(high + lane_at()));
        for (unsigned n = 0; n < kPlanes; ++n) {
          multiply(sums[n], pairs.first, x[n].x, x[n].y);
          multiply(sums[n], pairs.second, x[n].z, x[n].w);
        }
      }
      return __float_as_uint(sums[0][0]) | __float_as_uint(sums[0][3]);
    }
  }
  /// The same for all pieces of a chunk, with columns in order.
  template <class Has>
  __device__ unsigned multiply_in_order(const X& x, float (&sums)[kSums][4],
                                        const Has& has_piece) const {
    unsigned seen = 0;
#pragma unroll
    for (unsigned p = 0; p < kPieces; p += 2) {
      if (!has_piece(p)) continue;
      uint4 w[2];
      Weights::read(w, stage() + row_offset_[0] + group_of(p) * kGroupBytes + lane_at(), lane_ / 4);
#pragma unroll
      for (unsigned i = 0; i < 2; ++i) {
        seen |= w[i].x | w[i].z;
        if (has_piece(p + i)) multiply_tile(sums[0], x[p + i], w[i]);
      }
    }
    return seen;
  }
  /// c += x w for 32 columns of eight rows of weights.
  template <bool kSplitsX = false>
  __device__ static void multiply_tile(float (&c)[4], const uint4 (&x)[kPlanes], const uint4& w) {
    uint4 rows[2] = {x[0], kPlanes == 1 ? uint4{} : x[kPlanes - 1]};
    if constexpr (kSplitsX) split_by_size(rows, x[0]);
    multiply<kIsHalf>(c, {rows[0].x, rows[1].x, rows[0].y, rows[1].y}, w.x, w.y);
    multiply<kIsHalf>(c, {rows[0].z, rows[1].z, rows[0].w, rows[1].w}, w.z, w.w);
  }
  /// Loads this lane's columns of x for a chunk. Past the last column any valid address will do.
  __device__ void load_x(std::uint32_t group) {
#pragma unroll
    for (unsigned p = 0; p < kPieces; ++p) load_piece(p, group);
  }
  __device__ void load_piece(unsigned p, std::uint32_t group) {
    const std::uint32_t mine = min(group + group_of(p), groups_ - 1);
#pragma unroll
    for (unsigned n = 0; n < kPlanes; ++n) {
      const unsigned char* at = x_rows_[n] + mine * (2 * kGroup);
      if constexpr (Weights::kHasHalves) {
        if (kIsQuantized && n == 1 && !a_.x_rest) {
          x_[p][n] = {};
          continue;
        }
        const uint2 first = load<uint2>(at);
        const uint2 second = load<uint2>(at + kGroup);
        x_[p][n] = {first.x, first.y, second.x, second.y};
      } else {
        x_[p][n] = load<uint4>(at);
      }
    }
  }

  /// Finds each row's norm factor; see sum_order::norm_factor. One warp for each row.
  __device__ void find_factors(std::uint32_t base, std::uint32_t count) {
    const std::uint32_t parts = a_.w.columns / Residual::kPart;
    for (std::uint32_t row = warp_; row < count; row += kConsumerWarps) {
      float sum = 0;
      if (a_.squares) {
        const float* squares = a_.squares + index_of_x(base + row) * parts;
        for (std::uint32_t i = lane_; i < parts; i += 32) sum += squares[i];
#pragma unroll
        for (unsigned step = 16; step != 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
      }
      if (lane_ == 0)
        factors()[row] = a_.squares ? sum_order::norm_factor(sum, a_.w.columns, a_.epsilon) : 1.0f;
    }
  }

  /// Adds up the warps' sums, kTilesAtOnce tiles at a time, and applies the epilogue.
  __device__ void reduce_tiles(std::uint32_t tile, const Sums& sums, std::uint32_t base,
                               std::uint32_t count) {
    constexpr unsigned kStride = kOutputs + 1;  // floats from one row of x to the next
    constexpr unsigned kPart = kRows * kStride;
    __shared__ float parts[kConsumerWarps * kPart];
#pragma unroll
    for (unsigned r = 0; r < kTiles; r += kTilesAtOnce) {
      if (tile + r >= limit_of(tile)) break;
#pragma unroll
      for (unsigned i = 0; i < kTilesAtOnce; ++i) {
        float* to = parts + warp_ * kPart + i * kTileRows;
        if constexpr (kWeightsAre16) {
          to += lane_ % 4 * 2 * kStride + lane_ / 4;
#pragma unroll
          for (unsigned n = 0; n < kSums; ++n)
#pragma unroll
            for (unsigned k = 0; k < 4; ++k)
              to[(n * 8 + k % 2) * kStride + k / 2 * 8] = sums[r + i][n][k];
        } else {
          to += lane_ / 4 * kStride + lane_ % 4 * 2;
          const float(&sum)[4] = sums[r + i][0];
          to[0] = kIsHalf ? joined(sum[0], sum[2]) : sum[0];
          to[1] = kIsHalf ? joined(sum[1], sum[3]) : sum[1];
          if (kRows8 == 2) {
            to[8 * kStride] = sum[2];
            to[8 * kStride + 1] = sum[3];
          }
        }
      }
      sync_consumers();
      const Result to = result_of(tile, r, count);
      float sum = 0;
#pragma unroll
      for (unsigned warp = 0; warp < kConsumerWarps; ++warp)
        sum += parts[warp * kPart + to.row * kStride + threadIdx.x % kOutputs];
      if (to.is_real) sum = __fmul_rn(sum, factors()[to.row]);
      if constexpr (Weights::kHasRowScales) sum *= scale_[r / kTilesAtOnce];
      apply_epilogue(base, to, sum, residual_[r / kTilesAtOnce], next_norm_[r / kTilesAtOnce]);
      sync_consumers();
    }
  }

  /// The result that a thread reduces: a row of x and an output.
  struct Result {
    std::uint32_t row;
    std::uint32_t output;
    bool is_real;
  };
  /// Results begin with tile `tile` + `more`. Tiles that are not multiplied together with `tile`
  /// are not real.
  __device__ Result result_of(std::uint32_t tile, unsigned more, std::uint32_t count) const {
    static_assert(kRows * kOutputs == kConsumerThreads);
    const std::uint32_t row = threadIdx.x / kOutputs;
    const std::uint32_t one = tile + more + threadIdx.x % kOutputs / kTileRows;
    return {row, tile_at(one) * kTileRows + threadIdx.x % kTileRows,
            row < count && one < limit_of(tile)};
  }
  /// Applies the epilogue to one sum. All lanes of a warp call, with neighbouring outputs of one or
  /// two rows; outputs of a gate and its partner alternate.
  __device__ void apply_epilogue(std::uint32_t base, const Result& to, float sum, float residual,
                                 float norm) const {
    const std::uint64_t row = base + to.row;
    const std::uint64_t outputs = a_.w.rows;
    const std::uint64_t at = row * outputs + to.output;
    if (a_.epilogue == Epilogue::store) {
      if (to.is_real) a_.y[at] = __fadd_rn(sum, a_.bias ? a_.bias[to.output] : 0.0f);
    } else if (is_gate()) {
      const float up = __shfl_down_sync(~0u, sum, 1);
      if (to.is_real && to.output % 2 == 0)
        put(a_.gated, a_.gated_rest, row * outputs + to.output / 2, sum_order::gated(sum, up));
    } else {
      float square = 0;
      if (to.is_real) {
        const float value = __fadd_rn(residual, sum);
        a_.residual.values[at] = value;
        put(a_.residual.scaled, a_.residual.rest, at, __fmul_rn(value, norm));
        square = __fmul_rn(value, value);
      }
#pragma unroll
      for (unsigned step = 1; step < Residual::kPart; step *= 2)
        square += __shfl_xor_sync(~0u, square, step);
      if (to.is_real && to.output % Residual::kPart == 0)
        a_.residual.squares[row * a_.residual.parts() + to.output / Residual::kPart] = square;
    }
  }
  /// Loads what the epilogue will add and multiply by, long before it is needed.
  __device__ void load_epilogue_operands(std::uint32_t tile, std::uint32_t base,
                                         std::uint32_t count) {
    if constexpr (Weights::kHasRowScales) {
#pragma unroll
      for (unsigned r = 0; r < kTiles; r += kTilesAtOnce) {
        const Result to = result_of(tile, r, count);
        const std::uint32_t row = is_gate() ? to.output / 2 : to.output;
        const float* scales = is_gate() && to.output % 2 != 0 ? a_.up.scales : a_.w.scales;
        if (to.is_real) scale_[r / kTilesAtOnce] = scales[row] * Weights::kRowScale;
      }
    }
    if (a_.epilogue != Epilogue::add) return;
#pragma unroll
    for (unsigned r = 0; r < kTiles; r += kTilesAtOnce) {
      const Result to = result_of(tile, r, count);
      if (!to.is_real) continue;
      residual_[r / kTilesAtOnce] =
          a_.residual.values[static_cast<std::uint64_t>(base + to.row) * a_.w.rows + to.output];
      next_norm_[r / kTilesAtOnce] = a_.next_norm[to.output];
    }
  }

  __device__ static float* factors() {
    __shared__ float values[kRows];
    return values;
  }
  __device__ unsigned char* stage() const {
    extern __shared__ __align__(128) uint4 streamed_stages[];
    return reinterpret_cast<unsigned char*>(streamed_stages) + state_.stage * kStageBytes;
  }

  const StreamedLinearArgs& a_;
  unsigned lane_;
  unsigned warp_;
  TileRange tiles_;
  std::uint32_t groups_;
  std::uint32_t chunks_;
  std::uint32_t first_chunk_;  // the block starts with this chunk, if not in order
  typename BlockRing::State state_;
  unsigned row_offset_[kTileRows / 8];    // of this lane's rows in a stage
  const unsigned char* x_rows_[kPlanes];  // this lane's rows of x
  X x_;                                   // this lane's part of a chunk
  float residual_[kTiles / kTilesAtOnce];
  float next_norm_[kTiles / kTilesAtOnce];
  float scale_[kTiles / kTilesAtOnce];
};

}  // namespace attacca::kernels::streamed
