// Tests of the CUDA body of attention for prompts on emulated threads, against doubles: groups of
// heads, head sizes, pages, windows, and what it leaves to mixed_attention.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "emulated/cuda_threads.hpp"
#include "emulated/frame.hpp"
#include "kernels/attention/attention_reference.hpp"
#include "kernels/attention/mixed_attention.cuh"
#include "kernels/attention/sm90_prompt_attention.cuh"

namespace attacca::test::prompt_attention {
namespace {

using kernels::KvType;

struct Shape {
  std::uint32_t head_size;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t page_size = 16;
  std::uint32_t window = 0;
};
/// Positions [first, last] of a slot are rows of the step.
struct Stretch {
  std::uint32_t slot;
  std::uint32_t first;
  std::uint32_t last;
  bool is_long() const { return last - first + 1 >= kernels::kLongRun; }
};

constexpr std::uint16_t kUntouched = 0xffff;

template <bool kIsBfloat>
class World {
 public:
  static constexpr KvType kType = kIsBfloat ? KvType::bf16 : KvType::f16;

  /// Each slot has the positions up to its stretch's last one. The rest of its pages is NaN, and so
  /// is what no row sees.
  World(const Shape& shape, const std::vector<Stretch>& step) : shape_(shape), step_(step) {
    for (const Stretch& run : step) stride_ = std::max(stride_, run.last / shape.page_size + 1);
    const auto slots = static_cast<std::uint32_t>(step.size());
    tables_.assign(std::size_t{slots} * stride_, -1);
    std::int32_t pages = 0;
    for (const Stretch& run : step)
      for (std::uint32_t i = run.last / shape.page_size + 1; i-- > 0;)
        tables_[std::size_t{run.slot} * stride_ + i] = pages++;
    const std::size_t cells = std::size_t{static_cast<std::uint32_t>(pages)} * shape.page_size *
                              shape.kv_heads * shape.head_size;
    keys_.assign(cells, kUntouched);
    values_ = keys_;
    exact_keys_.assign(cells, NAN);
    exact_values_ = exact_keys_;
    std::minstd_rand random(5);
    for (const Stretch& run : step)
      for (std::uint32_t at = first_seen(run.first); at <= run.last; ++at)
        for (std::uint32_t head = 0; head < shape.kv_heads; ++head)
          for (std::uint32_t i = 0; i < shape.head_size; ++i) {
            const std::size_t cell = view().offset(run.slot, at, head) + i;
            const float size = at % 50 == 7 ? 4 : 1;  // so that sums are rescaled
            keys_[cell] = rounded(number(random) * size, exact_keys_[cell]);
            values_[cell] = rounded(number(random), exact_values_[cell]);
          }
    for (const Stretch& run : step)
      for (std::uint32_t at = run.first; at <= run.last; ++at) {
        positions_.push_back(static_cast<std::int32_t>(at));
        slots_.push_back(static_cast<std::int32_t>(run.slot));
      }
    count_ = static_cast<std::uint32_t>(positions_.size());
    q_.resize(std::size_t{count_} * columns());
    for (float& x : q_) x = number(random);
    y_.assign(std::size_t{count_ + 2} * columns(), kUntouched);
  }

  void attend_prompts(unsigned blocks) {
    auto args = arguments();
    Frame frame;
    WaitingThread thread(frame, Grid{Dim3{blocks}, Dim3{384}, 0});
    with_size([&]<unsigned kSize>() {
      constexpr std::size_t kBytes = kernels::prompts::Sizes<kSize, false>::kSharedBytes;
      auto* memory = static_cast<unsigned char*>(std::aligned_alloc(1024, kBytes));
      emulated::Block::now().shared_memory = memory;
      emulated::Block::now().run(blocks, kernels::prompts::kThreads, [&] {
        if (threadIdx.x == 0) std::memset(memory, 0xff, kBytes);
        __syncthreads();
        if (args.has_rounded_queries)
          kernels::prompts::attend_prompts<kIsBfloat, kSize, false, true>(thread, args, memory);
        else
          kernels::prompts::attend_prompts<kIsBfloat, kSize>(thread, args, memory);
      });
      std::free(memory);
    });
  }
  void attend_rest() {
    auto args = arguments();
    args.leaves_long_runs = true;
    std::vector<uint4> workspace(
        kernels::attention_workspace_bytes(args.slot_count, args.heads, args.kv, args.window, 2) /
        16);
    args.workspace = workspace.data();
    Frame frame;
    Thread thread(frame, Grid{Dim3{2}, Dim3{128}, 0});
    with_size([&]<unsigned kSize>() {
      using Block = kernels::attending::MixedBlock<kType, kSize, false, true>;
      std::vector<uint4> memory(sizeof(typename Block::Shared) / 16 + args.slot_count / 4 + 1);
      emulated::Block::now().run(2, 128, [&] { Block(args, memory.data()).run(thread); });
    });
  }

  /// From now on queries of long runs are multiplied and rounded beforehand. What nobody may read
  /// of their rows is NaN.
  void round_queries() {
    has_rounded_queries_ = true;
    const float factor = scale() * 1.4426950408889634f;
    std::uint32_t row = 0;
    for (const Stretch& run : step_)
      for (std::uint32_t at = run.first; at <= run.last; ++at, ++row) {
        if (!run.is_long()) continue;
        float* const q = q_.data() + std::size_t{row} * columns();
        const std::vector<float> exact(q, q + columns());
        std::fill_n(q, columns(), NAN);
        for (std::uint32_t i = 0; i < columns(); i += 2) {
          const std::uint32_t pair =
              kernels::attending::pair_of<kIsBfloat>(exact[i] * factor, exact[i + 1] * factor);
          std::memcpy(q + i / 2, &pair, sizeof pair);
        }
      }
  }

  /// Every `every`-th row of long runs (or of all others) agrees with doubles, and no other was
  /// written.
  void expect_rows(bool of_long_runs, std::uint32_t every = 1) const {
    std::uint32_t row = 0;
    for (const Stretch& run : step_)
      for (std::uint32_t at = run.first; at <= run.last; ++at, ++row) {
        SCOPED_TRACE(testing::Message() << "slot " << run.slot << ", position " << at);
        if (run.is_long() != of_long_runs)
          expect_untouched(row);
        else if ((at - run.first) % every == 0 || at == run.last)
          expect_right(row, run.slot, at, of_long_runs);
        if (testing::Test::HasFailure()) return;
      }
    expect_untouched(count_);
    expect_untouched(count_ + 1);
  }
  std::vector<std::uint16_t> take_results() {
    std::vector<std::uint16_t> y(y_.size(), kUntouched);
    y.swap(y_);
    return y;
  }
  std::uint32_t columns() const { return shape_.heads * shape_.head_size; }

 private:
  static float number(std::minstd_rand& random) {
    return (static_cast<float>(random() % 65) - 32) / 16;
  }
  static std::uint16_t rounded(float x, float& exact) {
    const std::uint32_t pair = kernels::attending::pair_of<kIsBfloat>(x, 0);
    exact = kernels::attending::floats_of<kIsBfloat>(pair).x;
    return static_cast<std::uint16_t>(pair);
  }
  std::uint32_t first_seen(std::uint32_t at) const {
    return shape_.window != 0 && at >= shape_.window ? at - shape_.window + 1 : 0;
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_size)); }
  kernels::PagedKv view() const {
    kernels::PagedKv kv;
    kv.tables = tables_.data();
    kv.table_stride = stride_;
    kv.page_size = shape_.page_size;
    kv.kv_heads = shape_.kv_heads;
    kv.head_size = shape_.head_size;
    return kv;
  }
  kernels::MixedAttentionArgs arguments() {
    kernels::MixedAttentionArgs args{};
    args.q = q_.data();
    args.q_stride = columns();
    args.heads = shape_.heads;
    args.rows = {&count_, count_ + 2};
    args.positions = positions_.data();
    args.slots = slots_.data();
    args.slot_count = static_cast<std::uint32_t>(step_.size());
    args.scale = scale();
    args.window = shape_.window;
    args.kv = view();
    args.kv.type = kType;
    args.kv.keys = keys_.data();
    args.kv.values = values_.data();
    args.y = y_.data();
    args.has_rounded_queries = has_rounded_queries_;
    return args;
  }
  template <class Run>
  void with_size(const Run& run) const {
    if (shape_.head_size == 64)
      run.template operator()<64>();
    else
      run.template operator()<128>();
  }
  /// For long runs the reference takes rounded queries. The exponential has base 2.
  void expect_right(std::uint32_t row, std::uint32_t slot, std::uint32_t at,
                    bool rounds_queries) const {
    kernels::PagedKv kv = view();
    kv.keys = const_cast<float*>(exact_keys_.data());
    kv.values = const_cast<float*>(exact_values_.data());
    const std::uint32_t size = shape_.head_size;
    const float factor = scale() * 1.4426950408889634f;
    for (std::uint32_t head = 0; head < shape_.heads; ++head) {
      std::vector<double> query(size);
      for (std::uint32_t i = 0; i < size; ++i) {
        const float x = q_[std::size_t{row} * columns() + head * size + i] * factor;
        float exact;
        rounded(x, exact);
        query[i] = rounds_queries ? exact : x;
      }
      const auto sum =
          kernels::attended(kv, query, std::log(2.0), slot, head / (shape_.heads / shape_.kv_heads),
                            first_seen(at), at);
      for (std::uint32_t i = 0; i < size; ++i)
        ASSERT_NEAR(kernels::float_of_bfloat(y_[std::size_t{row} * columns() + head * size + i]),
                    sum[i], std::abs(sum[i]) / 250 + (kIsBfloat ? 4e-3 : 1e-3))
            << "head " << head << ", element " << i;
    }
  }
  void expect_untouched(std::uint32_t row) const {
    for (std::uint32_t i = 0; i < columns(); ++i)
      ASSERT_EQ(y_[std::size_t{row} * columns() + i], kUntouched) << "another kernel's row";
  }

  Shape shape_;
  std::vector<Stretch> step_;
  std::uint32_t stride_ = 0;
  std::vector<std::int32_t> tables_, positions_, slots_;
  std::vector<std::uint16_t> keys_, values_;
  std::vector<float> exact_keys_, exact_values_, q_;
  std::uint32_t count_ = 0;
  std::vector<std::uint16_t> y_;
  bool has_rounded_queries_ = false;
};

template <bool kIsBfloat = true>
void expect_prompts(const Shape& shape, const std::vector<Stretch>& step, unsigned blocks = 3) {
  SCOPED_TRACE(testing::Message() << "head size " << shape.head_size << ", heads " << shape.heads
                                  << ", kv heads " << shape.kv_heads << ", page size "
                                  << shape.page_size << ", window " << shape.window);
  World<kIsBfloat> world(shape, step);
  world.attend_prompts(blocks);
  world.expect_rows(true, 7);
}

TEST(EmulatedPromptAttention, any_group_of_heads_and_both_head_sizes_agree_with_doubles) {
  for (const std::uint32_t group : {1u, 2u, 4u, 8u}) {
    expect_prompts({64, group, 1}, {{0, 0, 139}});
    expect_prompts({128, group, 1}, {{0, 0, 139}});
  }
  expect_prompts({64, 6, 2}, {{0, 0, 99}});
}

TEST(EmulatedPromptAttention, numbers_of_16_bits_of_both_types) {
  expect_prompts<false>({64, 2, 2}, {{0, 0, 129}});
  expect_prompts<false>({128, 2, 1}, {{0, 30, 129}});
}

TEST(EmulatedPromptAttention, a_prompt_behind_a_cached_past_in_pages_of_every_size) {
  for (const std::uint32_t page_size : {16u, 32u, 64u})
    expect_prompts({128, 4, 1, page_size}, {{0, 517, 600}});
}

TEST(EmulatedPromptAttention, a_past_of_more_pages_than_a_warp_has_lanes) {
  expect_prompts({64, 4, 1}, {{0, 1100, 1170}});
}

TEST(EmulatedPromptAttention, windows_hide_what_lies_further_back) {
  for (const std::uint32_t window : {1u, 64u, 130u, 300u})
    expect_prompts({64, 2, 1, 32, window}, {{0, 400, 500}, {1, 0, 80}});
}

TEST(EmulatedPromptAttention, lengths_that_end_anywhere_in_a_tile) {
  for (const std::uint32_t last : {63u, 64u, 127u, 128u, 129u, 255u})
    expect_prompts({64, 2, 1, 64}, {{0, 0, last}}, 2);
}

TEST(EmulatedPromptAttention, prompts_and_the_rest_of_a_step_share_its_rows) {
  const std::vector<Stretch> step{{0, 40, 40},   {1, 0, 70},    {2, 5, 67},
                                  {3, 300, 300}, {4, 9, 72},    {5, 60, 122},
                                  {6, 17, 18},   {7, 100, 250}, {8, 33, 33}};
  for (const std::uint32_t size : {64u, 128u}) {
    World<true> world({size, 4, 2}, step);
    world.attend_prompts(5);
    world.expect_rows(true, 9);
    world.take_results();
    world.attend_rest();
    world.expect_rows(false);
  }
}

template <bool kIsBfloat>
void expect_same_of_rounded_queries(const Shape& shape) {
  const std::vector<Stretch> step{{0, 40, 40}, {1, 0, 70},  {2, 5, 67}, {3, 300, 300},
                                  {4, 9, 72},  {5, 17, 18}, {6, 33, 33}};
  World<kIsBfloat> plain(shape, step), rounded(shape, step);
  rounded.round_queries();
  for (World<kIsBfloat>* world : {&plain, &rounded}) {
    world->attend_prompts(3);
    world->attend_rest();
  }
  ASSERT_EQ(plain.take_results(), rounded.take_results()) << "head size " << shape.head_size;
}

TEST(EmulatedPromptAttention, queries_that_were_multiplied_and_rounded_before_give_the_same_bits) {
  expect_same_of_rounded_queries<true>({64, 4, 2});
  expect_same_of_rounded_queries<true>({128, 4, 1});
  expect_same_of_rounded_queries<false>({64, 3, 1});
  expect_same_of_rounded_queries<false>({128, 2, 2});
}

TEST(EmulatedPromptAttention, a_step_without_long_runs_is_left_alone) {
  World<true> world({64, 2, 1}, {{0, 0, 62}, {1, 5, 5}, {2, 0, 62}});
  world.attend_prompts(2);
  world.expect_rows(true);
}

TEST(EmulatedPromptAttention, a_row_has_the_same_bits_however_blocks_pages_and_runs_are_cut) {
  const auto results = [](std::uint32_t page_size, unsigned blocks) {
    World<true> world({64, 4, 2, page_size}, {{0, 140, 290}, {1, 0, 64}});
    world.attend_prompts(blocks);
    return world.take_results();
  };
  const auto right = results(16, 1);
  EXPECT_EQ(results(64, 3), right);
  EXPECT_EQ(results(32, 64), right);
}

}  // namespace
}  // namespace attacca::test::prompt_attention
