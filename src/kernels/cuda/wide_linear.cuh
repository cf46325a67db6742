// wide_linear.cuh: the CUDA body of wide_linear.hpp: y = W x for many rows of x through Hopper's
// warpgroup products. Two blocks, a pair, have tiles of 256 rows of weights by 64 or 128 rows of x:
// in each block one thread has the copy engine fill a ring of stages, 64 columns each, with its
// half of the weights and, for both blocks, half of x; two warpgroups multiply straight from there.
//
// Where whole tiles would leave processors idle, pairs share columns too: each takes an equal run
// of stages. What it has of a shared tile it leaves in memory; in the end each of the pairs that
// share a tile adds up a slice of it, always in the same order. All blocks are resident, or the
// waiting would not end: there is at most one for each processor.
#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/wide_multiply.cuh"
#include "kernels/wide_linear.hpp"

namespace attacca::kernels::wide {

/// Which stages of which tiles a pair has.
class Walk {
 public:
  struct Segment {
    std::uint32_t tile;
    std::uint32_t begin;  // of the tile's stages
    std::uint32_t end;
  };

  /// `steps`: stages of a tile.
  __device__ Walk(std::uint32_t tiles, std::uint32_t steps)
      : tiles_(tiles), steps_(steps), pairs_(gridDim.x / 2), pair_(blockIdx.x / 2) {
    // Equal numbers of pairs for each tile, or of tiles for each pair, where that uses nearly all.
    const auto are_most = [&](std::uint32_t some, std::uint32_t all) {
      return some * 10 >= all * 9;
    };
    const std::uint32_t each = tiles == 0 ? 0 : min(pairs_ / tiles, steps);
    const std::uint32_t waves = (tiles + pairs_ - 1) / pairs_;
    if (each > 1 && are_most(tiles * each, pairs_)) pairs_ = tiles * each;
    shares_ = !are_most(tiles, waves * pairs_);
    start_ = shares_ ? first_unit(pair_) : pair_;
    end_ = pair_ >= pairs_ ? 0 : shares_ ? first_unit(pair_ + 1) : tiles_;
    rewind();
  }
  __device__ void rewind() { at_ = start_; }
  __device__ bool has_more() const { return at_ < end_; }
  /// REQUIRES: has_more().
  __device__ Segment next() {
    if (!shares_) {
      const std::uint32_t tile = at_;
      at_ += pairs_;
      return {tile, 0, steps_};
    }
    const std::uint32_t tile = at_ / steps_;
    const std::uint32_t begin = at_ - tile * steps_;
    const std::uint32_t end = min(steps_, begin + (end_ - at_));
    at_ += end - begin;
    return {tile, begin, end};
  }
  __device__ bool is_whole(const Segment& s) const { return s.end - s.begin == steps_; }

  /// The pairs that share a tile are neighbours. Each has room for two results: of the tile it
  /// begins with, and of the one it ends with; only the first of a tile's pairs may end with it.
  struct Sharing {
    std::uint32_t first;
    std::uint32_t count;
    std::uint32_t first_place;
    __device__ std::uint32_t place(std::uint32_t index) const {
      return index == 0 ? first_place : 2 * (first + index);
    }
  };
  __device__ Sharing sharing(std::uint32_t tile) const {
    const std::uint32_t first = pair_of(tile * steps_);
    const bool is_end = first_unit(first) < tile * steps_;
    return {first, pair_of((tile + 1) * steps_ - 1) + 1 - first, 2 * first + is_end};
  }
  __device__ std::uint32_t pair() const { return pair_; }

 private:
  __device__ std::uint32_t first_unit(std::uint32_t pair) const {
    return pair * (tiles_ * steps_) / pairs_;
  }
  __device__ std::uint32_t pair_of(std::uint32_t unit) const {
    return ((unit + 1) * pairs_ - 1) / (tiles_ * steps_);
  }

  std::uint32_t tiles_;
  std::uint32_t steps_;
  std::uint32_t pairs_;
  std::uint32_t pair_;
  bool shares_;
  std::uint32_t start_;
  std::uint32_t end_;
  std::uint32_t at_;
};

/// For `kRows` rows of x at a time.
template <unsigned kRows>
class Block {
 public:
  using Sizes = wide::Sizes<kRows>;
  static constexpr unsigned kStageBytes = Sizes::kStageBytes;
  static constexpr unsigned kStages = Sizes::kStages;
  static constexpr unsigned kWeightBytes = Sizes::kWeightBytes;
  static constexpr unsigned kXBytes = Sizes::kXBytes;
  static constexpr unsigned kReaders = 256;
  static constexpr unsigned kBatch = 4;           // octets whose loads are under way together
  static constexpr unsigned kOctets = kRows / 8;  // of rows of x
  static constexpr unsigned kSums = kRows / 2;    // of a thread

  __device__ explicit Block(const WideLinearArgs& args)
      : a_(args),
        p_(args.product),
        lane_(threadIdx.x % 32),
        count_(min(*args.product.rows.count, args.product.rows.capacity)),
        x_tiles_((count_ + kRows - 1) / kRows),
        rank_(blockIdx.x % 2),
        walk_(x_tiles_ * args.weight_tiles(), (args.product.w.columns + kStep - 1) / kStep) {}

  __device__ void run(Thread& t) {
    if (threadIdx.x == 0) ring().open();
    synchronize_pair();
    if (threadIdx.x != 0) t.release_consumers();  // the filling thread has the last word
    if (threadIdx.x < 128) {
      if (threadIdx.x == 0)
        fill(t);
      else if (threadIdx.x >= 32 && p_.squares)
        find_factors(t);
    } else {
      t.wait_for_producers();
      while (walk_.has_more()) compute(walk_.next());
      each_shared([&](const Segment& s) { end_shared(s); });
    }
    synchronize_pair();  // no one may leave whom the other still gives something
  }

 private:
  using BlockRing = PairRing<kStages, 8>;
  using Place = typename BlockRing::Place;
  using Segment = Walk::Segment;

  __device__ std::uint32_t first_row(std::uint32_t tile) const { return tile % x_tiles_ * kRows; }
  __device__ std::uint32_t first_octet(std::uint32_t tile) const {
    return (tile / x_tiles_ * 2 + rank_) * a_.block_octets();
  }
  /// Once more over the walk, for the tiles that are not this block's alone.
  template <class Use>
  __device__ void each_shared(const Use& use) {
    walk_.rewind();
    while (walk_.has_more()) {
      const Segment s = walk_.next();
      if (!walk_.is_whole(s)) use(s);
    }
  }

  /// The filling thread. Weights need not wait for the kernels before.
  __device__ void fill(Thread& t) {
    fetch_map(a_.w_map);
    fetch_map(a_.x_map);
    Place place;
    unsigned early = 0;
    while (walk_.has_more() && early < kStages) {
      const Segment s = walk_.next();
      for (std::uint32_t k = s.begin; k < s.end && early < kStages; ++k, ++early) {
        begin_stage(place, s.tile, k);
        place.advance();
      }
    }
    t.wait_for_producers();
    place = {};
    unsigned filled = 0;
    for (walk_.rewind(); walk_.has_more();) {
      const Segment s = walk_.next();
      for (std::uint32_t k = s.begin; k < s.end; ++k, ++filled) {
        if (filled >= kStages) begin_stage(place, s.tile, k);
        copy_to_pair(ring().full(place), stage(place) + kWeightBytes + rank_ * (kXBytes / 2),
                     a_.x_map, k * kStep, first_row(s.tile) + rank_ * (kRows / 2));
        place.advance();
      }
    }
    t.release_consumers();
  }
  __device__ void begin_stage(const Place& at, std::uint32_t tile, std::uint32_t k) {
    ring().begin_fill(at, kStageBytes);
    // With one tile of x no one reads weights again.
    copy_weights(ring().full(at), stage(at), a_.w_map, k * kStep, first_octet(tile),
                 x_tiles_ == 1 ? kEvictFirst : kEvictNormal);
  }

  // Three warps find what the norm before this product multiplies each row of x by, for each tile
  // in the order in which tiles end.

  __device__ void find_factors(Thread& t) {
    t.wait_for_producers();
    std::uint32_t known = ~0u;
    const auto find = [&](const Segment& s) {
      if (first_row(s.tile) != known) find_factors_from(first_row(s.tile));
      known = first_row(s.tile);
      arrive<kFactorsReady>();
      meet<kFactorsRead>();
    };
    while (walk_.has_more()) {
      const Segment s = walk_.next();
      if (walk_.is_whole(s)) find(s);
    }
    each_shared(find);
  }
  /// Four lanes for each row.
  __device__ void find_factors_from(std::uint32_t base) {
    const std::uint32_t quads = p_.w.columns / Residual::kPart / 4;
    const unsigned thread = threadIdx.x - 32;
    for (std::uint32_t first = 0; first < kRows && base + first < count_; first += 24) {
      const std::uint32_t row = first + thread / 4;
      float sum = 0;
      if (row < kRows && base + row < count_) {
        const auto* squares =
            reinterpret_cast<const float4*>(p_.squares + std::uint64_t{base + row} * quads * 4);
#pragma unroll 4
        for (std::uint32_t i = thread % 4; i < quads; i += 4) {
          const float4 four = squares[i];
          sum += (four.x + four.y) + (four.z + four.w);
        }
      }
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (thread % 4 == 0 && row < kRows)
        factors()[row] = rsqrtf(sum / static_cast<float>(p_.w.columns) + p_.epsilon);
    }
  }

  __device__ void compute(const Segment& s) {
    float sums[kSums];
    multiply_all(s, sums);
    if (!walk_.is_whole(s)) return leave_share(s, sums);
    if (p_.squares) meet<kFactorsReady>();
#pragma unroll
    for (unsigned octet = 0; octet < kOctets; octet += kBatch) {
      Result results[kBatch];
#pragma unroll
      for (unsigned i = 0; i < kBatch; ++i) results[i] = result_of(s.tile, octet + i);
#pragma unroll
      for (unsigned i = 0; i < kBatch; ++i) {
        const float* sum = sums + 4 * (octet + i);
        end(results[i], {sum[0], sum[1], sum[2], sum[3]});
      }
    }
    if (p_.squares) arrive<kFactorsRead>();
  }

  /// This block's stages of a tile.
  __device__ void multiply_all(const Segment& s, float (&sums)[kSums]) {
#pragma unroll
    for (unsigned i = 0; i < kSums; ++i) sums[i] = 0;
    Place last = place_;
    for (std::uint32_t k = s.begin; k < s.end; ++k) {
      ring().wait_full(place_);
      const unsigned char* from = stage(place_);
      const std::uint64_t w = describe(from + group() * 64 * kStep * 2);
      const std::uint64_t x = describe(from + kWeightBytes);
      begin_products();
#pragma unroll
      for (unsigned i = 0; i < kStep / 16; ++i) multiply(sums, w + 2 * i, x + 2 * i);
      end_products();
      // The products of the stage before have ended when only this one's are under way.
      await_products<1>();
      if (k != s.begin) ring().release(last);
      last = place_;
      place_.advance();
    }
    await_products<0>();
    hold(sums);
    ring().release(last);
  }

  // Shares of a tile. A counter goes from 0 to the number of its pairs as they leave theirs, and on
  // to twice that, which is 0 again, as they have read what they need.

  __device__ void leave_share(const Segment& s, const float (&sums)[kSums]) {
    const Walk::Sharing sharing = walk_.sharing(s.tile);
    float4* const to = share(sharing.place(walk_.pair() - sharing.first));
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i)
      __stcg(to + i * kReaders,
             float4{sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]});
    synchronize_readers();
    if (threadIdx.x == 128) count_written(s.tile, sharing);
  }
  /// Waits for the others and ends this block's slice of the tile.
  __device__ void end_shared(const Segment& s) {
    const Walk::Sharing sharing = walk_.sharing(s.tile);
    const std::uint32_t mine = walk_.pair() - sharing.first;
    const std::uint32_t end_of_mine = (mine + 1) * kOctets / sharing.count;
    if (threadIdx.x == 128) wait_for_shares(s.tile, sharing);
    synchronize_readers();
    if (p_.squares) meet<kFactorsReady>();
    for (std::uint32_t octet = mine * kOctets / sharing.count; octet < end_of_mine;
         octet += kBatch) {
      Result results[kBatch];
      float4 sums[kBatch];
#pragma unroll
      for (unsigned i = 0; i < kBatch; ++i) {
        if (octet + i >= end_of_mine) break;
        results[i] = result_of(s.tile, octet + i);
        sums[i] = sum_of_shares(sharing, octet + i);
      }
#pragma unroll
      for (unsigned i = 0; i < kBatch; ++i) {
        if (octet + i >= end_of_mine) break;
        end(results[i], sums[i]);
      }
    }
    if (p_.squares) arrive<kFactorsRead>();
    synchronize_readers();
    if (threadIdx.x == 128) count_read(s.tile, sharing);
  }
  __device__ float4 sum_of_shares(const Walk::Sharing& sharing, std::uint32_t octet) const {
    float4 sum{};
#pragma unroll 4
    for (std::uint32_t i = 0; i < sharing.count; ++i) {
      const float4 more = __ldcg(share(sharing.place(i)) + octet * kReaders);
      sum.x += more.x;
      sum.y += more.y;
      sum.z += more.z;
      sum.w += more.w;
    }
    return sum;
  }
  __device__ void count_written(std::uint32_t tile, const Walk::Sharing& sharing) {
    asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(counter(tile)),
                 "r"(2 * sharing.count - 1)
                 : "memory");
  }
  __device__ void count_read(std::uint32_t tile, const Walk::Sharing& sharing) {
    asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;" ::"l"(counter(tile)),
                 "r"(2 * sharing.count - 1)
                 : "memory");
  }
  __device__ void wait_for_shares(std::uint32_t tile, const Walk::Sharing& sharing) {
    std::uint32_t left = 0;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                   : "=r"(left)
                   : "l"(counter(tile))
                   : "memory");
    } while (left < sharing.count);
  }

  /// What a lane has of eight rows of x and 16 rows of weights: two rows of x, and of weights rows
  /// lane / 4 and lane / 4 + 8, partners where there is a gate; and what is added to.
  struct Result {
    std::uint32_t sixteen;
    std::uint32_t row;  // of x
    unsigned place;     // of its factor
    float4 before;
  };
  __device__ Result result_of(std::uint32_t tile, unsigned octet) const {
    Result r;
    r.sixteen = (tile / x_tiles_ * 2 + rank_) * (kPairRows / 32) + (threadIdx.x - 128) / 32;
    r.place = octet * 8 + lane_ % 4 * 2;
    r.row = first_row(tile) + r.place;
    r.before = {};
    if (p_.end == ThinEnd::add && is_inside(r)) {
      const float* at = p_.residual.values + std::uint64_t{r.row} * p_.w.rows + output_of(r);
      if (r.row < count_) {
        r.before.x = __ldcg(at);
        r.before.z = __ldcg(at + 8);
      }
      if (r.row + 1 < count_) {
        r.before.y = __ldcg(at + p_.w.rows);
        r.before.w = __ldcg(at + p_.w.rows + 8);
      }
    }
    return r;
  }
  __device__ bool is_inside(const Result& r) const { return r.sixteen * 16 < a_.weight_rows(); }
  __device__ std::uint32_t output_of(const Result& r) const { return r.sixteen * 16 + lane_ / 4; }

  /// All lanes of a warp call, for the same 16 rows of weights.
  __device__ void end(const Result& r, const float4& sum) const {
    if (!is_inside(r)) return;
    const float first = p_.squares ? factors()[r.place] : 1.0f;
    const float second = p_.squares ? factors()[r.place + 1] : 1.0f;
    end_row(r, r.row, sum.x * first, sum.z * first, r.before.x, r.before.z);
    end_row(r, r.row + 1, sum.y * second, sum.w * second, r.before.y, r.before.w);
  }
  __device__ void end_row(const Result& r, std::uint32_t row, float low, float high,
                          float low_before, float high_before) const {
    const bool is_real = row < count_;
    const std::uint64_t at = std::uint64_t{row} * p_.w.rows;
    if (p_.end == ThinEnd::gate) {
      const float gate = a_.gate_is_second ? high : low;
      const float up = a_.gate_is_second ? low : high;
      if (is_real)
        p_.gated[at + r.sixteen * 8 + lane_ / 4] = bfloat_bits(gate / (1.0f + __expf(-gate)) * up);
      return;
    }
    const std::uint32_t output = output_of(r);
    if (p_.end == ThinEnd::store) {
      if (!is_real) return;
      p_.y[at + output] = low + (p_.bias ? p_.bias[output] : 0.0f);
      p_.y[at + output + 8] = high + (p_.bias ? p_.bias[output + 8] : 0.0f);
      return;
    }
    low += low_before;
    high += high_before;
    float square = low * low + high * high;
#pragma unroll
    for (unsigned step = 4; step < 32; step *= 2) square += __shfl_xor_sync(~0u, square, step);
    if (!is_real) return;
    p_.residual.values[at + output] = low;
    p_.residual.values[at + output + 8] = high;
    p_.residual.scaled[at + output] = bfloat_bits(low * p_.next_norm[output]);
    p_.residual.scaled[at + output + 8] = bfloat_bits(high * p_.next_norm[output + 8]);
    if (lane_ < 4) p_.residual.squares[row * p_.residual.parts() + r.sixteen] = square;
  }
  __device__ static std::uint16_t bfloat_bits(float value) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
  }

  // Barriers of some of the block's warps.
  static constexpr unsigned kFactorsReady = 2;
  static constexpr unsigned kFactorsRead = 3;
  static constexpr unsigned kFactorThreads = kReaders + 96;
  template <unsigned kBarrier>
  __device__ static void meet() {
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kFactorThreads) : "memory");
  }
  template <unsigned kBarrier>
  __device__ static void arrive() {
    asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(kFactorThreads) : "memory");
  }
  __device__ static void synchronize_readers() {
    asm volatile("bar.sync 1, %0;" ::"n"(kReaders) : "memory");
  }

  /// Of the two warpgroups that multiply.
  __device__ static unsigned group() { return threadIdx.x / 128 - 1; }
  __device__ static BlockRing& ring() {
    __shared__ BlockRing value;
    return value;
  }
  __device__ static float* factors() {
    __shared__ float values[kRows];
    return values;
  }
  __device__ static unsigned char* stage(const Place& at) {
    extern __shared__ uint4 wide_stages[];
    return aligned_stages(wide_stages) + at.stage * kStageBytes;
  }
  __device__ std::uint32_t* counter(std::uint32_t tile) const {
    return static_cast<std::uint32_t*>(a_.workspace) + 2 * tile + rank_;
  }
  __device__ float4* share(std::uint32_t place) const {
    auto* shares = static_cast<unsigned char*>(a_.workspace) + kCounterBytes;
    return reinterpret_cast<float4*>(shares) +
           std::uint64_t{2 * place + rank_} * (kPairRows * kRows / 8) + (threadIdx.x - 128);
  }

  const WideLinearArgs& a_;
  const ThinLinearArgs& p_;
  unsigned lane_;
  std::uint32_t count_;
  std::uint32_t x_tiles_;
  unsigned rank_;  // in the pair
  Walk walk_;
  Place place_;
};

}  // namespace attacca::kernels::wide
