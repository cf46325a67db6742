// decode_attention.cuh: the CUDA body of decode_attention.hpp. A block prefetches while it
// computes: it claims the tile after the next one, and loads the next one's heads and first
// positions. Heads are requested before positions, or they would queue behind them. The products
// are in attention_warp.cuh, splits and their reduction in attention_rows.cuh.
#pragma once

#include "kernels/attention/attention_rope.cuh"
#include "kernels/attention/attention_rows.cuh"
#include "kernels/attention/decode_attention.hpp"

namespace attacca::kernels::attending {

/// `kFixed`: rows are split at fixed positions.
template <KvType kType, unsigned kSize, bool kFixed, class Team = WholeBlock>
class DecodeBlock {
 public:
  /// Floats take twice the registers, so they are loaded when needed.
  using Rows = RowTiles<
      DecodeAttentionArgs, kType, kSize,
      RowWay{.is_fixed = kFixed, .loads_ahead = kType != KvType::f32, .finds_own_page = false},
      Team>;
  using Tile = typename Rows::Tile;
  using CutType = std::conditional_t<kFixed, FixedCut, Cut>;
  static constexpr bool kIsBfloat = is_bfloat(kType);
  static constexpr unsigned kBytes = kv_element_bytes(kType);
  /// Many rows of small heads: 18 instead of 24 us for 32 rows just past 512 positions. With heads
  /// of 128 it was 39 instead of 35.
  static constexpr bool kJoinsRests = kSize <= 64;

  struct Shared {
    typename Rows::Shared rows;
    alignas(16) unsigned char key[kSize * kBytes];  // of the new position, in the cache's type
    alignas(16) unsigned char value[kSize * kBytes];
    /// A tile's heads, then possibly a new key and value. Warp i owns every fourth entry from i on.
    alignas(16) float heads[kTileHeads + 2][kSize];
    float2 angles[kSize / 2];
    Tile next[kWarps];
    std::uint32_t claim;
  };

  /// `memory` holds a Shared, then three words for each row and one more.
  __device__ DecodeBlock(const DecodeAttentionArgs& args, uint4* memory)
      : a_(args),
        shared_(*reinterpret_cast<Shared*>(memory)),
        rows_(args, shared_.rows),
        plan_(cut(), reinterpret_cast<std::uint32_t*>(&shared_ + 1), args.rows.capacity),
        lane_(threadIdx.x % 32),
        warp_(Team::thread() / 32) {}

  __device__ void run(Thread& t) {
    load_frequency();
    shared_.rows.queries.clear(threadIdx.x, blockDim.x);
    clear_new();
    if (!a_.reads_ahead) t.wait_for_producers();
    plan_.template make<kThreads>(a_.positions, a_.slots, a_.rows);
    // The first two tiles are known from the start. Each later one is claimed while the tile two
    // before it is computed, so that no block waits for the counter.
    std::uint32_t index = blockIdx.x;
    std::uint32_t next_index = index + gridDim.x;
    const bool has_tile = index < plan_.tiles();
    std::int32_t page = 0;
    if (has_tile) {
      set_next(plan_.tile(index));
      page = rows_.load_page(next());
      if (starts_early()) rows_.start(next(), page);
      find_angles(next());
    }
    t.release_consumers();
    if (a_.reads_ahead) t.wait_for_producers();
    if (has_tile) {
      load_heads(next());
      if (!starts_early()) rows_.start(next(), page);
    }
    Claims claims{*this};
    run_tiles(index, next_index, claims);
  }

  // The same in steps, for a kernel that attends layer after layer with one plan, with several
  // teams in each block. Tiles are dealt to the teams in turn.

  /// Once, before the first layer.
  __device__ typename Plan<CutType>::Counts make_plan() {
    shared_.rows.queries.clear(Team::thread(), kThreads);
    clear_new();
    plan_.template make<kThreads, Team>(a_.positions, a_.slots, a_.rows);
    return plan_.counts();
  }
  /// Attends to the team's tiles of a layer: `first`, and every `stride` tiles the next one. What
  /// earlier kernels wrote is requested first; `wait` returns when qkv is there.
  template <class Wait>
  __device__ void run_layer(const typename Plan<CutType>::Counts& counts, std::uint32_t first,
                            std::uint32_t stride, const Wait& wait) {
    plan_.set(counts);
    const bool has_tile = first < plan_.tiles();
    if (has_tile) {
      load_frequency();
      set_next(plan_.tile(first));
      rows_.start(next(), rows_.load_page(next()));
      find_angles(next());
    }
    wait();
    if (has_tile) load_heads(next());
    Turns turns{stride};
    run_tiles(first, first + stride, turns);
  }

 private:
  /// Tiles as they are claimed from a counter, two ahead.
  struct Claims {
    DecodeBlock& block;
    std::uint32_t claim = 0;
    __device__ void ask() {
      claim = 0;
      if (threadIdx.x == 0)
        claim = atomic_inc_relaxed(block.rows_.claimed(), block.plan_.tiles() - 1);
    }
    __device__ void tell() {
      if (threadIdx.x == 0) block.shared_.claim = claim;
    }
    __device__ std::uint32_t after(std::uint32_t) const {
      return 2 * gridDim.x + block.shared_.claim;
    }
  };
  /// Every `stride` tiles one.
  struct Turns {
    std::uint32_t stride;
    __device__ void ask() {}
    __device__ void tell() {}
    __device__ std::uint32_t after(std::uint32_t next) const { return next + stride; }
  };

  /// Computes tile `index`, whose heads and first positions are requested, then `next_index` and
  /// those that `order` names.
  template <class Order>
  __device__ void run_tiles(std::uint32_t index, std::uint32_t next_index, Order& order) {
    while (index < plan_.tiles()) {
      const Tile tile = next();
      Team::sync();
      order.ask();
      prepare(tile);
      Team::sync();
      const bool has_next = next_index < plan_.tiles();
      std::int32_t next_page = 0;
      if (has_next) {
        set_next(plan_.tile(next_index));
        next_page = rows_.load_page(next());
      }
      if constexpr (kFixed)
        rows_.attend_fixed(tile, NewPosition{shared_}, tile.row);
      else
        rows_.attend(tile, NewPosition{shared_});
      if (has_next) {
        load_heads(next());
        rows_.start(next(), next_page);
      }
      if (tile.is_last_split() && tile.is_first_part(rows_.parts())) store_new(tile);
      rows_.store_partials(tile);
      order.tell();
      Team::sync();
      const std::uint32_t after_next = order.after(next_index);
      if (has_next) find_angles(next());
      if constexpr (kFixed)
        rows_.finish_fixed(tile, tile.row);
      else
        rows_.finish(tile, index, tile.row);
      index = next_index;
      next_index = after_next;
    }
  }

  /// The new position comes from shared memory; it is not in its page yet.
  struct NewPosition {
    const Shared& shared;
    __device__ void load_key(Positions<kType, kSize>& to) const { to.copy_key(shared.key); }
    __device__ void load_value(Positions<kType, kSize>& to) const { to.copy_value(shared.value); }
    __device__ void put_key(Positions<kType, kSize>& to, unsigned at) const {
      to.put_key(shared.key, at);
    }
    __device__ void put_value(Positions<kType, kSize>& to, unsigned at) const {
      to.put_value(shared.value, at);
    }
  };

  __device__ void load_frequency() {
    if (Team::thread() < a_.rotary_size / 2) frequency_ = a_.frequencies[Team::thread()];
  }

  __device__ CutType cut() const {
    if constexpr (kFixed)
      return {rows_.parts(), a_.kv.kv_heads, a_.window, a_.rows.capacity,
              kJoinsRests && a_.rows.capacity > 16};
    else
      return {rows_.parts(), a_.kv.kv_heads, a_.window,
              splits_of(kType == KvType::f32, a_.rows.capacity)};
  }

  __device__ void clear_new() {
    for (unsigned at = Team::thread(); at < kSize * kBytes / 4; at += kThreads) {
      reinterpret_cast<std::uint32_t*>(shared_.key)[at] = 0;
      reinterpret_cast<std::uint32_t*>(shared_.value)[at] = 0;
    }
  }

  /// The next tile is kept in shared memory to save registers.
  __device__ void set_next(const Tile& tile) {
    __syncwarp();
    if (lane_ == 0) shared_.next[warp_] = tile;
    __syncwarp();
  }
  __device__ const Tile& next() const { return shared_.next[warp_]; }

  /// Computes cosines and sines of a tile's position for all warps. A barrier must follow.
  __device__ void find_angles(const Tile& tile) {
    if (Team::thread() < a_.rotary_size / 2)
      shared_.angles[Team::thread()] =
          angle_of(frequency_, static_cast<std::int32_t>(tile.position));
  }
  /// Whether the blocks of few rows fit beside the linear kernel before them. Loads that need not
  /// wait for it are then issued first.
  __device__ bool starts_early() const { return a_.reads_ahead && a_.rows.capacity <= kFewRows; }

  /// The heads of a tile, plus the new key and value in its last split.
  __device__ static unsigned items_of(const Tile& tile) {
    return tile.heads + (tile.is_last_split() ? 2 : 0);
  }
  /// Starts to copy heads into shared memory, each by the warp that will apply RoPE to it.
  __device__ void load_heads(const Tile& tile) {
    const std::uint32_t size = a_.kv.head_size;
    const std::uint64_t row_heads = a_.heads + 2 * a_.kv.kv_heads;
    const float* row = a_.qkv + tile.row * row_heads * size;
    for (unsigned item = warp_; item < items_of(tile); item += kWarps) {
      const std::uint32_t head = item < tile.heads    ? tile.first_head + item
                                 : item == tile.heads ? a_.heads + tile.kv_head
                                                      : a_.heads + a_.kv.kv_heads + tile.kv_head;
      for (unsigned at = 4 * lane_; at < size; at += 128)
        cp_async(shared_.heads[item] + at, row + std::uint64_t{head} * size + at, true);
    }
    cp_async_commit();
  }
  /// Applies norm and RoPE to the copied heads: stores the queries in shared memory, and in the
  /// last split the new key and value.
  __device__ void prepare(const Tile& tile) {
    const std::uint32_t size = a_.kv.head_size;
    RopeParams rope{a_.query_norm, a_.epsilon, a_.pairs, a_.rotary_size / 2, size};
    Angles<kSize> angles;
    angles.load(shared_.angles);
    const float factor = a_.scale * 1.4426950408889634f;
    cp_async_wait<0>();
    __syncwarp();
    for (unsigned item = warp_; item < items_of(tile); item += kWarps) {
      float* head = shared_.heads[item];
      if (item < tile.heads) {
        rope_head<kSize>(head, head, angles, rope);
        for (unsigned at = 2 * lane_; at < size; at += 64)
          shared_.rows.queries.template store_pair<kIsBfloat>(
              item, at, product<kFixed>(head[at], factor), product<kFixed>(head[at + 1], factor));
      } else if (item == tile.heads) {
        RopeParams key_rope = rope;
        key_rope.norm = a_.key_norm;
        rope_head<kSize>(head, head, angles, key_rope);
        for (unsigned at = 2 * lane_; at < size; at += 64)
          store_two<kType>(shared_.key + at * kBytes, head[at], head[at + 1]);
      } else {
        for (unsigned at = 2 * lane_; at < size; at += 64)
          store_two<kType>(shared_.value + at * kBytes, head[at], head[at + 1]);
      }
    }
  }

  /// Stores the new key and value in their page.
  __device__ void store_new(const Tile& tile) {
    const std::uint32_t words = a_.kv.head_size * kBytes / 4;
    const std::uint64_t to = a_.kv.offset(tile.slot, tile.position, tile.kv_head) * kBytes / 4;
    for (unsigned at = Team::thread(); at < 2 * words; at += kThreads) {
      const bool is_value = at >= words;
      const unsigned word = is_value ? at - words : at;
      auto* page = is_value ? a_.kv.template values_as<std::uint32_t>()
                            : a_.kv.template keys_as<std::uint32_t>();
      page[to + word] =
          reinterpret_cast<const std::uint32_t*>(is_value ? shared_.value : shared_.key)[word];
    }
  }

  const DecodeAttentionArgs& a_;
  Shared& shared_;
  Rows rows_;
  Plan<CutType> plan_;
  unsigned lane_;
  unsigned warp_;
  float frequency_ = 0;  // of this thread's angle
};

}  // namespace attacca::kernels::attending
