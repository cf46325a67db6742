// attention_chunk_lines.cuh: what a chunk of neighbouring rows of one slot is, and how its lines
// are loaded, masked and written. A chunk has up to 64 lines; a line is one query, of one row and
// one head of a kv head's group. How they attend is in attention_chunks.cuh
// and, with the bits of single rows, in attention_fixed_chunks.cuh.
#pragma once

#include "kernels/attention/attention_elements.cuh"
#include "kernels/attention/attention_rows.cuh"

namespace attacca::kernels::attending {

inline constexpr std::uint32_t kLines = 64;

/// Neighbouring rows of one slot, for one kv head.
struct Chunk {
  std::uint32_t row;   // the first
  std::uint32_t rows;  // at most kLines / group
  std::uint32_t slot;
  std::uint32_t position;  // of the first row; the others follow
  std::uint32_t kv_head;
  std::uint32_t first_line;  // that a block computes; 0 where it computes all
};

/// `Args` has q, q_stride, kv, heads, scale, window and y.
template <class Args, KvType kType, unsigned kSize>
class ChunkLines {
 protected:
  static constexpr bool kIsBfloat = is_bfloat(kType);
  static constexpr unsigned kBytes = kv_element_bytes(kType);
  static constexpr unsigned kEights = kSize / 8;
  /// 16-bit types need no conversion and are copied with cp.async.
  static constexpr bool kCopies = kBytes == 2;
  static_assert(kType != KvType::f32);

  __device__ ChunkLines(const Args& args, std::uint32_t group)
      : a_(args),
        group_(group),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        page_bits_(4 + args.kv.page_size / 32) {}

  __device__ std::uint32_t first_seen(std::uint32_t position) const {
    return a_.window != 0 && position >= a_.window ? position - a_.window + 1 : 0;
  }

  /// `page_` holds the pages of 512 positions, 16 positions for each lane.
  __device__ void load_pages(const Chunk& chunk, std::uint32_t from, std::uint32_t last) {
    const std::uint32_t at = from + lane_ * 16;
    const bool is_seen = at <= last && at + 15 >= first_seen(chunk.position);
    page_ = is_seen ? __ldcg(a_.kv.tables + std::uint64_t{chunk.slot} * a_.kv.table_stride +
                             (at >> page_bits_))
                    : 0;
  }
  /// Loads kStep positions from `at` on; the chunk's first step is at `begin`. `key_at` and
  /// `value_at` say where eight dimensions of a position go.
  template <unsigned kStep, class KeyAt, class ValueAt>
  __device__ void load(const Chunk& chunk, std::uint32_t begin, std::uint32_t at,
                       std::uint32_t last, const KeyAt& key_at, const ValueAt& value_at) {
    constexpr unsigned kEach = kStep * kEights / kThreads;
    const std::uint32_t walked = at - begin;
    if (walked % 512 == 0 && walked != 0) load_pages(chunk, at, last);
    const std::uint32_t first = first_seen(chunk.position);
#pragma unroll 2  // more would take registers for addresses
    for (unsigned i = 0; i < kEach; ++i) {
      const unsigned index = i * kThreads + threadIdx.x;
      const unsigned row = index / kEights;
      const unsigned dimension = index % kEights * 8;
      const auto page =
          static_cast<std::uint64_t>(__shfl_sync(~0u, page_, (walked % 512 + row) / 16));
      const std::uint32_t position = at + row;
      const bool is_there = position >= first && position <= last && dimension < a_.kv.head_size;
      const std::uint32_t inside = position & (a_.kv.page_size - 1);
      const std::uint64_t offset =
          is_there ? ((((page * a_.kv.kv_heads + chunk.kv_head) << page_bits_) + inside) *
                          a_.kv.head_size +
                      dimension) *
                         kBytes
                   : 0;
      const unsigned char* key = a_.kv.template keys_as<unsigned char>() + offset;
      const unsigned char* value = a_.kv.template values_as<unsigned char>() + offset;
      if constexpr (kCopies) {
        cp_async(key_at(row, dimension), key, is_there);
        cp_async(value_at(row, dimension), value, is_there);
      } else {
        store_eight(key_at(row, dimension), key, is_there);
        store_eight(value_at(row, dimension), value, is_there);
      }
    }
  }

  /// A lane holds lines lane / 4 and lane / 4 + 8 of its warp's, which begin at `first_line`.
  __device__ void find_positions(const Chunk& chunk, std::uint32_t first_line) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint32_t row = (first_line + lane_ / 4 + half * 8) / group_;
      position_[half] = chunk.position + min(row, chunk.rows - 1);
    }
  }
  /// Masks the positions that a line does not see. The scores' first is at `at`.
  template <unsigned kEightsOfScores>
  __device__ void mask(float (&scores)[kEightsOfScores][4], std::uint32_t at) const {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint32_t first = first_seen(position_[half]);
#pragma unroll
      for (unsigned i = 0; i < kEightsOfScores; ++i)
#pragma unroll
        for (unsigned j = 0; j < 2; ++j) {
          const std::uint32_t position = at + i * 8 + lane_ % 4 * 2 + j;
          if (position < first || position > position_[half]) scores[i][half * 2 + j] = -INFINITY;
        }
    }
  }
  template <unsigned kCount>
  __device__ static void clear(float (&sums)[kCount][4]) {
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) sums[i][j] = 0;
  }
  /// Multiplies 16 lines by two groups of eight positions or dimensions.
  __device__ static void mma_two(float (&first)[4], float (&second)[4], const std::uint32_t (&a)[4],
                                 const std::uint32_t (&b)[4]) {
    mma<kIsBfloat>(first, a[0], a[1], a[2], a[3], b[0], b[1]);
    mma<kIsBfloat>(second, a[0], a[1], a[2], a[3], b[2], b[3]);
  }
  /// Writes kCount dimensions of the warp's 16 lines; `line_at` finds eight of them.
  template <unsigned kCount, class LineAt>
  __device__ void write_lines(const Chunk& chunk, std::uint32_t first_line,
                              std::uint32_t first_dimension, std::uint16_t* to,
                              const LineAt& line_at) const {
    for (unsigned index = lane_; index < 16 * kCount / 8; index += 32) {
      const unsigned line = first_line + index / (kCount / 8);
      const unsigned inside = index % (kCount / 8) * 8;
      const unsigned dimension = first_dimension + inside;
      const std::uint32_t row = line / group_;
      if (row >= chunk.rows || dimension >= a_.kv.head_size) continue;
      const std::uint32_t head = chunk.kv_head * group_ + line % group_;
      std::uint16_t* y =
          to + (std::uint64_t{chunk.row + row} * a_.heads + head) * a_.kv.head_size + dimension;
      *reinterpret_cast<uint4*>(y) =
          *reinterpret_cast<const uint4*>(line_at(index / (kCount / 8), inside));
    }
  }

  const Args& a_;
  std::uint32_t group_;
  unsigned lane_;
  unsigned warp_;
  std::uint32_t page_bits_;
  std::int32_t page_ = 0;
  std::uint32_t position_[2];  // of this lane's two lines

 private:
  __device__ static void store_eight(std::uint16_t* to, const unsigned char* from, bool is_there) {
    Eight<kType> eight;
    eight.load(from, is_there);
    const Pairs pairs = eight.pairs();
    *reinterpret_cast<uint4*>(to) = {pairs.words[0], pairs.words[1], pairs.words[2],
                                     pairs.words[3]};
  }
};

}  // namespace attacca::kernels::attending
