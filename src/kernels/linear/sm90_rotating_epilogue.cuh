// sm90_rotating_epilogue.cuh: rotates a tile of queries, keys or values and stores it where
// attention reads it (rope_epilogue.hpp), at the end of a tile of sm90_tiled_linear.cuh. Both
// warpgroups leave their sums in shared memory: 128 outputs of each row of x, which are a head of
// 128 elements or two of 64. Then 16 lanes take a row, four pairs each.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_elements.cuh"
#include "kernels/attention/attention_rope.cuh"
#include "kernels/linear/sm90_tiled_epilogue.cuh"
#include "kernels/linear/sm90_tiled_linear.hpp"
#include "kernels/linear/sum_order.cuh"

namespace attacca::kernels::tiled {

/// A block's half of a tile: 128 rows of weights and some rows of x, kOctets octets of them at a
/// time. All lanes of both warpgroups call.
template <unsigned kOctets>
class RotatingEpilogue {
 public:
  static constexpr unsigned kFloats = kOctets * 8 * 64;  // of a warpgroup

  /// As of TileEpilogue. The two warpgroups' `shared` are neighbours.
  __device__ RotatingEpilogue(const TiledLinearArgs& args, std::uint32_t weight_block,
                              std::uint32_t first_row, std::uint32_t end_row, const float* factors,
                              float* shared)
      : p_(args.product),
        rope_(args.rope),
        factors_(factors),
        shared_(shared),
        block_(shared - weight_block % 2 * kFloats),
        row_(first_row + row_of_turn()) {
    const std::uint32_t at = threadIdx.x % 16 * 4;
    element_ = half() == 32 ? at % 32 : at;
    output_ = weight_block / 2 * 128 + at + (half() == 32 ? at / 32 * 32 : 0);
    rows_left_ = output_ < p_.w.rows && row_ < end_row ? end_row - row_ : 0;
  }

  /// Loads what the epilogue of the octets from `octet` on needs besides their sums.
  __device__ void load_operands(unsigned octet) {
#pragma unroll
    for (unsigned turn = 0; turn < kTurns; ++turn) load(turn, octet);
  }

  /// Rotates and stores kOctets octets of rows of x from `octet` on, whose operands were loaded.
  /// `sums` is a lane's accumulator. Loads the operands of the next octets.
  __device__ void apply(const float* sums, unsigned octet) {
    const float4 low_bias = bias(0), high_bias = bias(half());
    const Target to = target();
    TileEpilogue<kOctets, false>::store_transposed(shared_, sums);
    sync();
#pragma unroll
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      if (is_real(turn, octet)) {
        const float factor =
            p_.squares ? factors_[8 * octet + kRowsOfTurn * turn + row_of_turn()] : 1.0f;
        Fours heads{scaled(sum(turn, 0), factor, low_bias),
                    scaled(sum(turn, half()), factor, high_bias)};
        if (!is_value()) rotate(heads, angles_[turn]);
        store(heads, to, row_ + 8 * octet + kRowsOfTurn * turn, of_row_[turn]);
      }
      load(turn, octet + kOctets);
    }
    sync();
  }

 private:
  static constexpr unsigned kRowsOfTurn = 16;  // rows of x that 256 lanes take at a time
  static constexpr unsigned kTurns = kOctets * 8 / kRowsOfTurn;

  /// Four elements of the first half of a head, and those as far into its second half.
  struct Fours {
    float4 low;
    float4 high;
  };
  /// Cosines and sines of the lane's four pairs.
  struct Angles {
    float4 first;
    float4 second;
  };
  /// Where the lane's `low` elements go in 16 bits, without what depends on the row.
  struct Target {
    std::uint16_t* first;
    std::uint32_t stride;  // of rows of queries, or of cells
  };

  /// Lanes take four pairs of one head: where heads have halves, elements element_ to element_ + 3
  /// and those half a head further; else these are two pairs each.
  __device__ std::uint32_t half() const { return rope_.kv.head_size / 2; }
  __device__ bool is_adjacent() const { return rope_.pairs == RotaryPairs::adjacent; }
  __device__ std::uint32_t queries() const { return rope_.heads * rope_.kv.head_size; }
  __device__ std::uint32_t keys() const { return rope_.kv.kv_heads * rope_.kv.head_size; }
  __device__ bool is_query() const { return output_ < queries(); }
  __device__ bool is_value() const { return output_ >= queries() + keys(); }

  __device__ void load(unsigned turn, unsigned octet) {
    if (!is_real(turn, octet)) return;
    const std::uint32_t row = row_ + 8 * octet + kRowsOfTurn * turn;
    of_row_[turn] = __ldg((is_query() ? rope_.rows.is_in_long_run : rope_.rows.cells) + row);
    if (is_value()) return;
    const std::uint32_t pair = is_adjacent() ? element_ / 2 : element_;
    const Angle* const from = rope_.rows.angles + std::uint64_t{row} * half() + pair;
    angles_[turn].first = two_angles(from);
    angles_[turn].second = two_angles(from + (is_adjacent() ? half() / 2 : 2));
  }
  __device__ static float4 two_angles(const Angle* from) {
    return __ldg(reinterpret_cast<const float4*>(from));
  }
  __device__ float4 bias(std::uint32_t further) const {
    if (!p_.bias || rows_left_ == 0) return {};
    return __ldg(reinterpret_cast<const float4*>(p_.bias + output_ + further));
  }

  /// Four sums of a turn's row, `further` behind the lane's first output. store_transposed has
  /// swizzled them.
  __device__ float4 sum(unsigned turn, std::uint32_t further) const {
    const std::uint32_t at = output_ % 128 + further;
    const unsigned row = kRowsOfTurn * turn + row_of_turn();
    return *reinterpret_cast<const float4*>(block_ + at / 64 * kFloats + row * 64 +
                                            (at % 64 ^ row_of_turn() % 8 / 2 * 8));
  }
  __device__ static float4 scaled(const float4& sum, float factor, const float4& bias) {
    return {
        sum_order::scaled_sum(sum.x, factor, bias.x), sum_order::scaled_sum(sum.y, factor, bias.y),
        sum_order::scaled_sum(sum.z, factor, bias.z), sum_order::scaled_sum(sum.w, factor, bias.w)};
  }
  __device__ void rotate(Fours& x, const Angles& by) const {
    using attending::rotate_pair;
    if (is_adjacent()) {
      rotate_pair(x.low.x, x.low.y, by.first.x, by.first.y);
      rotate_pair(x.low.z, x.low.w, by.first.z, by.first.w);
      rotate_pair(x.high.x, x.high.y, by.second.x, by.second.y);
      rotate_pair(x.high.z, x.high.w, by.second.z, by.second.w);
    } else {
      rotate_pair(x.low.x, x.high.x, by.first.x, by.first.y);
      rotate_pair(x.low.y, x.high.y, by.first.z, by.first.w);
      rotate_pair(x.low.z, x.high.z, by.second.x, by.second.y);
      rotate_pair(x.low.w, x.high.w, by.second.z, by.second.w);
    }
  }

  __device__ Target target() const {
    if (is_query()) return {reinterpret_cast<std::uint16_t*>(p_.y) + output_, 2 * queries()};
    // A page has all its positions of one head, then those of the next.
    const std::uint32_t head = output_ - element_ - queries() - (is_value() ? keys() : 0);
    auto* const pool = static_cast<std::uint16_t*>(is_value() ? rope_.kv.values : rope_.kv.keys);
    return {pool + std::uint64_t{head} * rope_.kv.page_size + element_, rope_.kv.head_size};
  }
  /// `of_row`: as of_row_.
  __device__ void store(Fours& x, const Target& target, std::uint32_t row,
                        std::uint32_t of_row) const {
    if (is_query()) {
      if (!rope_.rounds_queries || of_row == 0)
        return store_floats(x, p_.y + std::uint64_t{row} * queries() + output_);
      multiply(x.low, rope_.query_factor);
      multiply(x.high, rope_.query_factor);
    }
    std::uint16_t* const to =
        target.first + std::uint64_t{is_query() ? row : of_row} * target.stride;
    __stcg(reinterpret_cast<uint2*>(to), rounded(x.low));
    __stcg(reinterpret_cast<uint2*>(to + half()), rounded(x.high));
  }
  __device__ void store_floats(const Fours& x, float* to) const {
    __stcg(reinterpret_cast<float4*>(to), x.low);
    __stcg(reinterpret_cast<float4*>(to + half()), x.high);
  }
  __device__ static void multiply(float4& x, float factor) {
    x = {__fmul_rn(x.x, factor), __fmul_rn(x.y, factor), __fmul_rn(x.z, factor),
         __fmul_rn(x.w, factor)};
  }
  __device__ uint2 rounded(const float4& x) const {
    using attending::pair_of;
    if (rope_.kv.type == KvType::bf16) return {pair_of<true>(x.x, x.y), pair_of<true>(x.z, x.w)};
    return {pair_of<false>(x.x, x.y), pair_of<false>(x.z, x.w)};
  }

  /// Whether a turn's row exists.
  __device__ bool is_real(unsigned turn, unsigned octet) const {
    return 8 * octet + kRowsOfTurn * turn < rows_left_;
  }
  /// The row of a turn that the lane takes; the consumers' first thread is 128.
  __device__ static unsigned row_of_turn() { return (threadIdx.x - 128) / 16; }
  /// Named barrier of both warpgroups.
  __device__ static void sync() { asm volatile("bar.sync 4, 256;" ::: "memory"); }

  const StreamedLinearArgs& p_;
  const RopeEpilogue& rope_;
  const float* factors_;
  float* shared_;            // of this warpgroup
  float* block_;             // of both
  std::uint32_t row_;        // the lane's first
  std::uint32_t rows_left_;  // from there on
  std::uint32_t output_;     // the lane's first
  std::uint32_t element_;    // of its head
  Angles angles_[kTurns];
  std::uint32_t of_row_[kTurns];  // of queries, is_in_long_run; else cells
};

}  // namespace attacca::kernels::tiled
