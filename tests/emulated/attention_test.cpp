// Tests of the CUDA bodies of attention on emulated threads: a row is right, and has the same bits
// beside neighbours in a decode step. With fixed splits it has them alone, in any cut, in long
// runs, with any page size and in decode steps of any size. So a machine without a GPU finds
// mistakes in indices and in the order of sums.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "emulated/cuda_threads.hpp"
#include "emulated/frame.hpp"
#include "kernels/attention/decode_attention.cuh"
#include "kernels/attention/mixed_attention.cuh"
#include "kernels/attention/sm90_prompt_attention.cuh"

namespace attacca::test {
namespace {

using kernels::KvType;

struct Shape {
  std::uint32_t head_size;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t window = 0;
  std::uint32_t page_size = 16;
};

/// One slot with `length` positions. The rest of its pages is NaN. `has_extremes`: scores need
/// bases other than 0.
template <KvType kType>
class World {
 public:
  World(const Shape& shape, std::uint32_t length, bool has_extremes = true)
      : shape_(shape), tables_((length - 1) / shape.page_size + 2) {
    for (std::size_t i = 0; i < tables_.size(); ++i)
      tables_[i] = static_cast<std::int32_t>(tables_.size() - 1 - i);
    keys_.assign(tables_.size() * shape.page_size * shape.kv_heads * shape.head_size * kBytes,
                 0xff);
    values_ = keys_;
    std::minstd_rand random(5);
    for (std::uint32_t at = 0; at < length; ++at)
      for (std::uint32_t head = 0; head < shape.kv_heads; ++head)
        for (std::uint32_t i = 0; i < shape.head_size; ++i) {
          // Some keys are large, so that sums are rescaled. For 64 of 256 positions the scores are
          // far below zero, by the first element, which all queries have in common.
          const float size = at % 50 == 7 ? 4 : has_extremes && at % 83 == 11 ? 24 : 1;
          const bool is_low = has_extremes && i == 0 && at / 64 % 4 == 0;
          const float key = is_low ? -200 : number(random) * size;
          exact_keys_.push_back(store(keys_, at, head, i, key));
          exact_values_.push_back(store(values_, at, head, i, number(random)));
        }
  }

  using Bits = std::vector<std::uint16_t>;  // of a row of y, then of its rounding errors

  /// Rows of positions [first, last], in a mixed step of their own.
  std::vector<Bits> mixed(std::uint32_t first, std::uint32_t last) {
    return in_step(first, last, [&](kernels::MixedAttentionArgs& args) {
      const auto run = [&](auto block) { return rows_of(args, block, args.slot_count); };
      return at_size([&]<unsigned kSize>() {
        return run(static_cast<kernels::attending::MixedBlock<kType, kSize, true>*>(nullptr));
      });
    });
  }
  /// The same by the kernel for long runs, without rounding errors. REQUIRES: a head size and a
  /// type that it takes.
  std::vector<Bits> prompt(std::uint32_t first, std::uint32_t last) {
    return in_step(first, last, [&](kernels::MixedAttentionArgs& args) {
      return shape_.head_size == 64 ? prompt_rows<64>(args) : prompt_rows<128>(args);
    });
  }
  /// A row in a decode step with room for `room` rows. Its own position is not in a page yet.
  Bits decoded(std::uint32_t at, std::uint32_t room) {
    auto keys = keys_, values = values_;
    const auto kv = view(keys, values, true);
    for (std::uint32_t head = 0; head < shape_.kv_heads; ++head)
      for (auto* bytes : {&keys, &values})
        std::memset(bytes->data() + kv.offset(0, at, head) * kBytes, 0xff,
                    shape_.head_size * kBytes);
    const auto rows = decoded<true>({at}, room, kv);
    EXPECT_TRUE(keys == keys_ && values == values_) << "the new position was not stored";
    return rows[0];
  }
  /// Rows of a decode step with room for `room` rows. They share the slot, whose pages have all
  /// positions already.
  template <bool kFixed>
  std::vector<Bits> decoded(const std::vector<std::uint32_t>& at, std::uint32_t room) {
    return decoded<kFixed>(at, room, view(keys_, values_, kFixed));
  }
  std::vector<double> right(std::uint32_t at) const {
    const auto q = query_at(at);
    const std::uint32_t size = shape_.head_size;
    const std::uint32_t first =
        shape_.window != 0 && at >= shape_.window ? at - shape_.window + 1 : 0;
    std::vector<double> y(columns());
    for (std::uint32_t head = 0; head < shape_.heads; ++head) {
      const std::uint32_t kv_head = head / (shape_.heads / shape_.kv_heads);
      double total = 0;
      for (std::uint32_t seen = first; seen <= at; ++seen) {
        const std::size_t cell = (std::size_t{seen} * shape_.kv_heads + kv_head) * size;
        double score = 0;
        for (std::uint32_t i = 0; i < size; ++i)
          score += static_cast<double>(q[head * size + i]) * exact_keys_[cell + i];
        const double weight = std::exp(score * scale());
        total += weight;
        for (std::uint32_t i = 0; i < size; ++i)
          y[head * size + i] += weight * exact_values_[cell + i];
      }
      for (std::uint32_t i = 0; i < size; ++i) y[head * size + i] /= total;
    }
    return y;
  }

 private:
  static constexpr unsigned kBytes = kernels::kv_element_bytes(kType);

  /// Calls run(args) for a step of these positions.
  template <class Run>
  auto in_step(std::uint32_t first, std::uint32_t last, const Run& run) {
    const std::uint32_t count = last - first + 1;
    std::vector<float> q;
    std::vector<std::int32_t> positions, slots(count);
    for (std::uint32_t at = first; at <= last; ++at) {
      const auto query = query_at(at);
      q.insert(q.end(), query.begin(), query.end());
      positions.push_back(static_cast<std::int32_t>(at));
    }
    kernels::MixedAttentionArgs args{};
    args.q = q.data();
    args.q_stride = columns();
    args.heads = shape_.heads;
    args.rows = {&count, count};
    args.positions = positions.data();
    args.slots = slots.data();
    args.slot_count = 1;
    args.scale = scale();
    args.window = shape_.window;
    args.kv = view(keys_, values_, true);
    return run(args);
  }
  template <unsigned kSize>
  std::vector<Bits> prompt_rows(kernels::MixedAttentionArgs& args) {
    constexpr std::size_t kMemoryBytes = kernels::prompts::Sizes<kSize, true>::kSharedBytes;
    constexpr unsigned kBlocks = 2;
    Bits y(std::size_t{args.rows.capacity} * columns());
    args.y = y.data();
    Frame frame;
    WaitingThread thread(frame, Grid{Dim3{kBlocks}, Dim3{kernels::prompts::kThreads}, 0});
    auto* memory = static_cast<unsigned char*>(std::aligned_alloc(1024, kMemoryBytes));
    emulated::Block::now().shared_memory = memory;
    emulated::Block::now().run(kBlocks, kernels::prompts::kThreads, [&] {
      if (threadIdx.x == 0) std::memset(memory, 0xff, kMemoryBytes);
      __syncthreads();
      kernels::prompts::attend_prompts<kType == KvType::bf16, kSize, true>(thread, args, memory);
    });
    std::free(memory);
    std::vector<Bits> rows;
    for (auto row = y.begin(); row != y.end(); row += columns())
      rows.emplace_back(row, row + columns());
    return rows;
  }

  template <bool kFixed>
  std::vector<Bits> decoded(const std::vector<std::uint32_t>& at, std::uint32_t room,
                            const kernels::PagedKv& kv) {
    const auto count = static_cast<std::uint32_t>(at.size());
    std::vector<float> qkv;
    std::vector<std::int32_t> positions(room), slots(room);
    for (std::uint32_t row = 0; row < count; ++row) {
      const std::vector<float> query = query_at(at[row]);
      qkv.insert(qkv.end(), query.begin(), query.end());
      const auto each = static_cast<std::ptrdiff_t>(shape_.kv_heads * shape_.head_size);
      for (const auto* exact : {&exact_keys_, &exact_values_})
        qkv.insert(qkv.end(), exact->begin() + at[row] * each,
                   exact->begin() + (at[row] + 1) * each);
      positions[row] = static_cast<std::int32_t>(at[row]);
    }
    kernels::DecodeAttentionArgs args{};
    args.qkv = qkv.data();
    args.rows = {&count, room};
    args.positions = positions.data();
    args.slots = slots.data();
    args.slot_count = room;
    args.heads = shape_.heads;
    args.scale = scale();
    args.window = shape_.window;
    args.kv = kv;
    args.reads_ahead = kFixed;
    const auto run = [&](auto block) { return rows_of(args, block, room); };
    return at_size([&]<unsigned kSize>() {
      return run(static_cast<kernels::attending::DecodeBlock<kType, kSize, kFixed>*>(nullptr));
    });
  }

  static float number(std::minstd_rand& random) {
    return (static_cast<float>(random() % 65) - 32) / 16;
  }
  std::uint32_t columns() const { return shape_.heads * shape_.head_size; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_size)); }
  std::vector<float> query_at(std::uint32_t at) const {
    std::minstd_rand random(77 + 13 * at);
    random.discard(3);
    std::vector<float> query(columns());
    for (float& x : query) x = (static_cast<float>(random() % 4001) - 2000) / 1000;
    for (std::uint32_t head = 0; head < shape_.heads; ++head) query[head * shape_.head_size] = 2;
    return query;
  }
  kernels::PagedKv view(std::vector<unsigned char>& keys, std::vector<unsigned char>& values,
                        bool same_bits) {
    return {keys.data(),      values.data(),
            tables_.data(),   static_cast<std::uint32_t>(tables_.size()),
            shape_.page_size, shape_.kv_heads,
            shape_.head_size, kType,
            same_bits};
  }
  /// Stores a number in the cache's type, and returns it as it was rounded.
  float store(std::vector<unsigned char>& bytes, std::uint32_t at, std::uint32_t head,
              std::uint32_t i, float x) {
    unsigned char* to =
        bytes.data() + (view(keys_, values_, true).offset(0, at, head) + i) * kBytes;
    if constexpr (kType == KvType::fp8) {
      *to = kernels::e4m3_of_float(x);
      return kernels::float_of_e4m3(*to);
    } else {
      constexpr bool kIsBfloat = kType == KvType::bf16;
      const std::uint32_t pair = kernels::attending::pair_of<kIsBfloat>(x, 0);
      std::memcpy(to, &pair, 2);
      return kernels::attending::floats_of<kIsBfloat>(pair).x;
    }
  }
  template <class Run>
  auto at_size(const Run& run) const {
    if (shape_.head_size <= 64) return run.template operator()<64>();
    if (shape_.head_size <= 128) return run.template operator()<128>();
    return run.template operator()<256>();
  }
  /// Runs blocks with `words` rows in their plan, and splits y into rows.
  template <class Args, class Block>
  std::vector<Bits> rows_of(Args& args, Block*, std::uint32_t planned) {
    constexpr unsigned kBlocks = 3;
    const std::uint32_t capacity = args.rows.capacity;
    std::vector<uint4> workspace(kernels::attention_workspace_bytes(args.slot_count, args.heads,
                                                                    args.kv, args.window, kBlocks) /
                                 16);
    std::vector<uint4> memory(sizeof(typename Block::Shared) / 16 + planned + 1);
    Bits y(std::size_t{capacity} * columns()), rest(y.size());
    args.workspace = workspace.data();
    args.y = y.data();
    args.y_rest = rest.data();
    Frame frame;
    Thread thread(frame, Grid{Dim3{kBlocks}, Dim3{128}, 0});
    emulated::Block::now().run(kBlocks, 128, [&] {
      if (threadIdx.x == 0) std::memset(memory.data(), 0xff, memory.size() * 16);
      __syncthreads();
      Block(args, memory.data()).run(thread);
    });
    std::vector<Bits> rows(capacity);
    for (std::size_t row = 0; row < capacity; ++row)
      for (const Bits* from : {&y, &rest})
        rows[row].insert(rows[row].end(),
                         from->begin() + static_cast<std::ptrdiff_t>(row * columns()),
                         from->begin() + static_cast<std::ptrdiff_t>((row + 1) * columns()));
    return rows;
  }

  Shape shape_;
  std::vector<std::int32_t> tables_;
  std::vector<unsigned char> keys_, values_;
  std::vector<float> exact_keys_, exact_values_;  // [position, kv_head, element]
};

/// Compares every `step`-th row of positions [first, last].
template <KvType kType>
void expect_same(const Shape& shape, std::uint32_t first, std::uint32_t last, std::uint32_t step) {
  World<kType> world(shape, last + 1);
  const auto all = world.mixed(first, last);
  for (std::uint32_t at = first + 1; at < last; at += step) {
    SCOPED_TRACE(testing::Message() << "head size " << shape.head_size << ", window "
                                    << shape.window << ", position " << at);
    const auto& bits = all[at - first];
    ASSERT_EQ(world.mixed(at, at)[0], bits) << "alone";
    ASSERT_EQ(world.mixed(at - 1, at + 1)[1], bits) << "in another cut";
    ASSERT_EQ(world.decoded(at, 1), bits);
    ASSERT_EQ(world.decoded(at, 40), bits) << "with room for others";
    const auto right = world.right(at);  // the kernels round weights to 16 bits
    for (std::size_t i = 0; i < right.size(); ++i)
      ASSERT_NEAR(
          kernels::float_of_bfloat(bits[i]) + kernels::float_of_bfloat(bits[right.size() + i]),
          right[i], 1e-2);
  }
  Shape other = shape;
  other.page_size = shape.page_size == 16 ? 64 : 16;
  ASSERT_EQ(World<kType>(other, last + 1).mixed(first, last), all) << "other pages";
}

TEST(EmulatedAttention, gives_rows_of_every_head_size_and_type_the_same_bits_everywhere) {
  expect_same<KvType::bf16>({64, 4, 2}, 120, 135, 6);
  expect_same<KvType::bf16>({128, 4, 1, 0, 32}, 120, 150, 13);
  expect_same<KvType::bf16>({256, 3, 1}, 125, 140, 7);
  expect_same<KvType::f16>({80, 6, 1, 0, 64}, 250, 262, 5);
  expect_same<KvType::fp8>({48, 6, 2}, 126, 140, 6);
  expect_same<KvType::fp8>({256, 2, 1}, 30, 40, 5);
}

TEST(EmulatedAttention, gives_the_same_bits_where_a_window_begins_inside_a_split) {
  for (const std::uint32_t window : {1u, 16u, 17u, 100u})
    expect_same<KvType::bf16>({16, 3, 1, window}, 290, 300, 6);
}

TEST(EmulatedAttention, gives_the_same_bits_to_more_heads_than_a_block_computes) {
  expect_same<KvType::bf16>({64, 40, 1}, 14, 20, 3);
  expect_same<KvType::bf16>({160, 64, 1}, 30, 34, 2);
}

TEST(EmulatedAttention, gives_the_same_bits_where_splits_grow) {
  expect_same<KvType::bf16>({16, 2, 1}, 2'300, 2'308, 5);
}

/// Compares every `step`-th row of a long run.
template <KvType kType>
void expect_same_in_prompt(const Shape& shape, std::uint32_t first, std::uint32_t last,
                           std::uint32_t step, bool has_extremes = true) {
  World<kType> world(shape, last + 1, has_extremes);
  const auto prompt = world.prompt(first, last);
  for (std::uint32_t at = first; at <= last; at += step) {
    SCOPED_TRACE(testing::Message() << "head size " << shape.head_size << ", window "
                                    << shape.window << ", position " << at);
    auto bits = world.decoded(at, 1);
    bits.resize(bits.size() / 2);  // without rounding errors
    ASSERT_EQ(prompt[at - first], bits);
  }
}

TEST(EmulatedAttention, gives_rows_of_long_runs_the_bits_of_single_rows) {
  expect_same_in_prompt<KvType::bf16>({64, 4, 2}, 0, 130, 9);
  expect_same_in_prompt<KvType::bf16>({128, 4, 1, 0, 32}, 217, 290, 7);
  expect_same_in_prompt<KvType::f16>({128, 2, 1, 0, 64}, 60, 150, 11);
  expect_same_in_prompt<KvType::bf16>({64, 4, 2}, 120, 260, 9, false);
  expect_same_in_prompt<KvType::bf16>({128, 2, 1}, 70, 290, 17, false);
}

TEST(EmulatedAttention, gives_rows_of_long_runs_the_same_bits_behind_a_window) {
  for (const std::uint32_t window : {1u, 17u, 100u, 130u})
    for (const bool has_extremes : {false, true})
      expect_same_in_prompt<KvType::bf16>({64, 2, 1, window}, 240, 310, 9, has_extremes);
}

TEST(EmulatedAttention, gives_rows_of_long_runs_the_same_bits_where_splits_grow) {
  expect_same_in_prompt<KvType::bf16>({64, 2, 1}, 2'280, 2'350, 23);
  expect_same_in_prompt<KvType::bf16>({64, 2, 1}, 2'280, 2'350, 23, false);
  expect_same_in_prompt<KvType::bf16>({128, 1, 1, 4'100}, 4'390, 4'460, 35);
}

/// Rows of a decode step, one tile after another in few blocks.
template <KvType kType, bool kFixed>
void expect_decoded(const Shape& shape, const std::vector<std::uint32_t>& at) {
  World<kType> world(shape, *std::max_element(at.begin(), at.end()) + 1);
  const auto room = static_cast<std::uint32_t>(at.size());
  const auto rows = world.template decoded<kFixed>(at, room);
  for (std::size_t row = 0; row < at.size(); ++row) {
    SCOPED_TRACE(testing::Message() << "head size " << shape.head_size << ", position " << at[row]);
    ASSERT_EQ((world.template decoded<kFixed>({at[row]}, room)[0]), rows[row]) << "alone";
    const auto right = world.right(at[row]);
    for (std::size_t i = 0; i < right.size(); ++i)
      ASSERT_NEAR(kernels::float_of_bfloat(rows[row][i]), right[i], 2e-2);
  }
}

TEST(EmulatedAttention, attends_to_short_and_long_rows_one_after_another) {
  const std::vector<std::uint32_t> at{300, 0, 1, 0, 200, 15, 16, 129, 17, 64, 65, 40, 255, 63};
  expect_decoded<KvType::bf16, false>({64, 4, 2}, at);
  expect_decoded<KvType::bf16, true>({64, 4, 2}, at);
  expect_decoded<KvType::f16, false>({80, 3, 1, 70, 32}, at);
  expect_decoded<KvType::fp8, false>({48, 2, 1, 0, 64}, at);
  expect_decoded<KvType::bf16, false>({256, 2, 1}, {20, 0, 100});
}

}  // namespace
}  // namespace attacca::test
