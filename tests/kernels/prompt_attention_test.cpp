// Tests of attention for prompts against doubles, beside mixed_attention, which computes the rest
// of a step: groups of heads, head sizes, types, windows, pages, that results do not depend on how
// a prompt is cut, and with the same bits not on whether a row is alone.
#include <gtest/gtest.h>

#include "kernels/attention/prompt_runs.hpp"
#include "kernels/attention/sm90_prompt_attention.hpp"
#include "kernels/paged_cells.hpp"
#include "kernels/quantization.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::prompt_attention_test {
namespace {

using kernels::MixedAttentionArgs;

constexpr std::uint16_t kUntouched = 0xffff;

struct Shape {
  std::uint32_t head_size;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t page_size = 16;
  std::uint32_t window = 0;

  std::uint32_t columns() const { return heads * head_size; }
  std::uint32_t first(std::uint32_t last) const {
    return window != 0 && last >= window ? last - window + 1 : 0;
  }
};
/// Positions [first, last] of one slot are rows of the step.
struct Stretch {
  std::uint32_t slot;
  std::uint32_t first;
  std::uint32_t last;
  bool is_long() const { return last - first + 1 >= kernels::kLongRun; }
};

float rounded(float x, KvType type) {
  switch (type) {
    case KvType::bf16:
      return kernels::float_of_bfloat(kernels::bfloat_of_float(x));
    case KvType::f16:
      return kernels::float_of_half(kernels::half_of_float(x));
    default:
      return x;
  }
}

class PromptAttention : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!IsSkipped() && is_cuda() && device().compute_capability() != 90)
      GTEST_SKIP() << "attention with wgmma: not on this GPU";
  }
  std::vector<KvType> types() const {
    if (!is_cuda()) return {KvType::f32};
    return {KvType::bf16, KvType::f16};
  }

  /// Which of a step's kernels run, and on how many blocks.
  struct Run {
    bool attends_prompts = true;
    bool attends_rest = true;
    unsigned processors = 132;
    unsigned launches = 1;
    bool same_bits = false;
  };
  struct Result {
    std::vector<std::uint16_t> y;
    Cells keys;
    Cells values;
    std::vector<float> q;
  };

  static kernels::PagedKv view(const Shape& shape, const Tables& tables) {
    kernels::PagedKv kv;
    kv.tables = tables.pages.data();
    kv.table_stride = tables.stride;
    kv.page_size = shape.page_size;
    kv.kv_heads = shape.kv_heads;
    kv.head_size = shape.head_size;
    return kv;
  }
  static Tables tables_of(const Shape& shape, const std::vector<Stretch>& step) {
    std::vector<std::uint32_t> lengths(step.size());
    for (const Stretch& run : step) lengths[run.slot] = run.last + 1;
    return {lengths, shape.page_size};
  }
  static float scale(const Shape& shape) {
    return 1 / std::sqrt(static_cast<float>(shape.head_size));
  }

  /// Keys, values and queries depend only on slot and position. What no row sees is NaN.
  Result attend(const Shape& shape, KvType type, const std::vector<Stretch>& step, const Run& how) {
    const Tables tables = tables_of(shape, step);
    const kernels::PagedKv host_view = view(shape, tables);
    const std::size_t cells =
        std::size_t{tables.count} * shape.kv_heads * shape.page_size * shape.head_size;
    Result result{{}, Cells(cells, type), Cells(cells, type), {}};
    std::vector<std::int32_t> positions, slots;
    const std::uint32_t stride = shape.columns() + 2 * shape.kv_heads * shape.head_size;
    for (const Stretch& run : step) {
      for (std::uint32_t at = shape.first(run.first); at <= run.last; ++at)
        for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
          std::minstd_rand random(1 + 1000 * run.slot + 7 * at + 31 * head);
          random.discard(3);
          const std::size_t cell = host_view.offset(run.slot, at, head);
          for (std::uint32_t i = 0; i < shape.head_size; ++i) {
            result.keys[cell + i] = random_eighth(random);
            result.values[cell + i] = random_eighth(random);
          }
        }
      for (std::uint32_t at = run.first; at <= run.last; ++at) {
        const auto query = random_eighths(shape.columns(), 77 + 1000 * run.slot + 13 * at);
        result.q.insert(result.q.end(), query.begin(), query.end());
        result.q.resize(result.q.size() + stride - shape.columns());
        positions.push_back(static_cast<std::int32_t>(at));
        slots.push_back(static_cast<std::int32_t>(run.slot));
      }
    }
    const auto count = static_cast<std::uint32_t>(slots.size());
    positions.resize(count + 2);
    slots.resize(count + 2);
    const Buffer<unsigned char> keys = buffer(result.keys.bytes());
    const Buffer<unsigned char> values = buffer(result.values.bytes());
    const Buffer<std::int32_t> pages = buffer(tables.pages);
    const Buffer<float> q = buffer(result.q);
    const Buffer<std::int32_t> position_buffer = buffer(positions);
    const Buffer<std::int32_t> slot_buffer = buffer(slots);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
    const Buffer<std::uint16_t> y =
        buffer(std::vector<std::uint16_t>(std::size_t{count + 2} * shape.columns(), kUntouched));
    MixedAttentionArgs args{};
    args.q = q.data();
    args.q_stride = stride;
    args.heads = shape.heads;
    args.rows = {counts.data(), count + 2};
    args.positions = position_buffer.data();
    args.slots = slot_buffer.data();
    args.slot_count = static_cast<std::uint32_t>(step.size());
    args.scale = scale(shape);
    args.window = shape.window;
    args.kv = host_view;
    args.kv.keys = keys.data();
    args.kv.values = values.data();
    args.kv.tables = pages.data();
    args.kv.type = type;
    args.kv.same_bits = how.same_bits;
    const Buffer<unsigned char> workspace =
        buffer(std::vector<unsigned char>(kernels::attention_workspace_bytes(
            args.slot_count, shape.heads, args.kv, shape.window, 256)));
    args.workspace = workspace.data();
    args.y = y.data();
    EXPECT_TRUE(!is_cuda() || kernels::has_prompt_attention(device(), args));
    for (unsigned launch = 0; launch < how.launches; ++launch) {
      args.leaves_long_runs = false;
      if (how.attends_prompts)
        stream().kernel(kernels::prompt_attention(args),
                        kernels::prompt_grid(args, is_cuda(), how.processors), args);
      args.leaves_long_runs = true;
      if (how.attends_rest)
        stream().kernel(kernels::mixed_attention(args),
                        kernels::grid_of(args, is_cuda(), device().processors()), args);
    }
    stream().synchronize();
    result.y = y.read();
    return result;
  }

  /// Every `every`-th row of a run agrees with doubles, for queries as they are rounded. Rows of
  /// kernels that did not run were not touched, nor those that are not real.
  static void expect_right(const Shape& shape, KvType type, const std::vector<Stretch>& step,
                           const Result& result, const Run& how, std::uint32_t every) {
    const std::size_t columns = shape.columns();
    const std::size_t stride = columns + 2 * shape.kv_heads * shape.head_size;
    const Tables tables = tables_of(shape, step);
    std::size_t row = 0;
    for (const Stretch& run : step)
      for (std::uint32_t at = run.first; at <= run.last; ++at, ++row) {
        SCOPED_TRACE(testing::Message()
                     << "head size " << shape.head_size << ", heads " << shape.heads << ", window "
                     << shape.window << ", slot " << run.slot << ", position " << at);
        if (!(run.is_long() ? how.attends_prompts : how.attends_rest)) {
          ASSERT_EQ(result.y[row * columns], kUntouched);
          continue;
        }
        if ((at - run.first) % every != 0 && at != run.last) continue;
        expect_row(shape, run.is_long() && !how.same_bits ? type : KvType::f32, tables, run.slot,
                   at, result, &result.q[row * stride], &result.y[row * columns]);
        if (HasFatalFailure()) return;
      }
    for (std::size_t i = row * columns; i < result.y.size(); ++i)
      ASSERT_EQ(result.y[i], kUntouched) << "a row that is not real";
  }
  static void expect_row(const Shape& shape, KvType rounds_to, const Tables& tables,
                         std::uint32_t slot, std::uint32_t at, const Result& result, const float* q,
                         const std::uint16_t* y) {
    const kernels::PagedKv kv = view(shape, tables);
    const float factor = scale(shape) * 1.4426950408889634f;
    for (std::uint32_t head = 0; head < shape.heads; ++head) {
      std::vector<double> query;
      for (std::uint32_t i = 0; i < shape.head_size; ++i)
        query.push_back(rounded(q[head * shape.head_size + i] * factor, rounds_to));
      const Seen seen =
          seen_by(query, std::log(2.0), shape.first(at), at, result.keys, result.values,
                  [&](std::uint32_t other) {
                    return kv.offset(slot, other, head / (shape.heads / shape.kv_heads));
                  });
      for (std::uint32_t i = 0; i < shape.head_size; ++i)
        ASSERT_NEAR(kernels::float_of_bfloat(y[head * shape.head_size + i]), seen.sum[i],
                    std::abs(seen.sum[i]) / 250 + seen.magnitude[i] / 250 + 1e-6)
            << "head " << head << ", element " << i;
    }
  }
  void expect_right(const Shape& shape, const std::vector<Stretch>& step, const Run& how,
                    std::uint32_t every = 1) {
    for (const KvType type : types())
      expect_right(shape, type, step, attend(shape, type, step, how), how, every);
  }
};
ATTACCA_ON_EACH_DEVICE(PromptAttention);

/// Long runs, runs that are one row too short, rows that are alone, and two neighbours.
const std::vector<Stretch> kMixed{{0, 40, 40},   {1, 0, 70},    {2, 5, 67},
                                  {3, 300, 300}, {4, 9, 72},    {5, 60, 122},
                                  {6, 17, 18},   {7, 100, 250}, {8, 33, 33}};

TEST_P(PromptAttention, small_groups_of_heads_of_both_sizes_agree_with_doubles) {
  for (const std::uint32_t size : {64u, 128u})
    for (const std::uint32_t group : {1u, 2u, 4u, 8u}) {
      expect_right({size, 2 * group, 2}, {{0, 0, 149}}, {}, 5);
    }
  expect_right({64, 6, 2}, {{0, 0, 149}}, {}, 5);
  expect_right({128, 16, 1}, {{0, 0, 80}}, {}, 5);
}

TEST_P(PromptAttention, small_steps_with_prompts_and_others_get_every_row_from_one_kernel) {
  for (const std::uint32_t size : {64u, 128u}) {
    expect_right({size, 4, 2}, kMixed, {}, 3);
    expect_right({size, 4, 2}, kMixed, {.attends_rest = false}, 16);
    expect_right({size, 4, 2}, kMixed, {.attends_prompts = false}, 16);
  }
}

TEST_P(PromptAttention, a_window_hides_what_lies_further_back) {
  for (const std::uint32_t window : {1u, 17u, 64u, 130u, 300u})
    expect_right({64, 2, 1, 32, window}, {{0, 400, 500}, {1, 0, 80}, {2, 1000, 1200}}, {}, 9);
}

TEST_P(PromptAttention, a_prompt_behind_a_cached_past_in_pages_of_every_size) {
  for (const std::uint32_t page_size : {16u, 32u, 64u}) {
    expect_right({128, 4, 1, page_size}, {{0, 517, 700}, {1, 1500, 1570}}, {}, 9);
    expect_right({64, 4, 1, page_size}, {{0, 1021, 1100}}, {}, 9);
  }
}

TEST_P(PromptAttention, long_prompts_on_few_and_many_blocks_and_launched_again) {
  if (!is_cuda()) GTEST_SKIP() << "the host's body is a slow reference";
  for (const std::uint32_t size : {64u, 128u})
    for (const unsigned processors : {1u, 3u, 132u}) {
      expect_right({size, 4, 1}, {{0, 0, 1299}, {1, 7, 450}}, {.processors = processors}, 97);
    }
  expect_right({128, 8, 2}, {{0, 0, 2047}}, {.launches = 5}, 211);
}

TEST_P(PromptAttention, a_row_has_the_same_bits_however_its_prompt_and_its_pages_are_cut) {
  for (const KvType type : types()) {
    Shape shape{128, 4, 2};
    const std::size_t columns = shape.columns();
    const auto whole = attend(shape, type, {{0, 0, 499}}, {}).y;
    const auto rows = [&](std::size_t first, std::size_t count) {
      return std::vector<std::uint16_t>(
          whole.begin() + static_cast<std::ptrdiff_t>(first * columns),
          whole.begin() + static_cast<std::ptrdiff_t>((first + count) * columns));
    };
    const auto part = [&](std::uint32_t first, std::uint32_t last) {
      auto y = attend(shape, type, {{0, first, last}}, {.processors = 7}).y;
      y.resize((last - first + 1) * columns);
      return y;
    };
    EXPECT_EQ(part(0, 99), rows(0, 100));
    EXPECT_EQ(part(133, 300), rows(133, 168));
    shape.page_size = 64;
    EXPECT_EQ(part(300, 499), rows(300, 200));
  }
}

TEST_P(PromptAttention, with_the_same_bits_rows_agree_with_doubles) {
  for (const std::uint32_t size : {64u, 128u}) {
    expect_right({size, 4, 2}, kMixed, {.same_bits = true}, 3);
    expect_right({size, 4, 2}, kMixed, {.attends_rest = false, .same_bits = true}, 16);
    expect_right({size, 4, 2}, kMixed, {.attends_prompts = false, .same_bits = true}, 16);
    expect_right({size, 2, 1, 32, 130}, {{0, 400, 500}, {1, 0, 80}}, {.same_bits = true}, 9);
  }
}

TEST_P(PromptAttention, with_the_same_bits_a_row_of_a_long_run_has_those_of_a_row_alone) {
  if (!is_cuda()) GTEST_SKIP() << "the host's body is a slow reference";
  for (const KvType type : types())
    for (const std::uint32_t size : {64u, 128u})
      for (const std::uint32_t window : {0u, 300u}) {
        const Shape shape{size, 8, 2, 16, window};
        const auto row = [&](const std::vector<std::uint16_t>& y, std::size_t index) {
          const auto first = y.begin() + static_cast<std::ptrdiff_t>(index * shape.columns());
          return std::vector<std::uint16_t>(first, first + shape.columns());
        };
        const auto whole = attend(shape, type, {{0, 0, 4699}}, {.same_bits = true}).y;
        const auto later =
            attend(shape, type, {{0, 2000, 2199}}, {.processors = 7, .same_bits = true}).y;
        EXPECT_EQ(row(later, 0), row(whole, 2000));
        EXPECT_EQ(row(later, 199), row(whole, 2199));
        for (const std::uint32_t at : {0u, 5u, 31u, 127u, 128u, 700u, 2047u, 2048u, 2303u, 4699u}) {
          const auto alone = attend(shape, type, {{0, at, at}, {1, 0, 63}}, {.same_bits = true}).y;
          EXPECT_EQ(row(alone, 0), row(whole, at))
              << "head size " << size << ", window " << window << ", position " << at;
        }
      }
}

TEST_P(PromptAttention, small_steps_without_long_runs_write_nothing) {
  for (const KvType type : types()) {
    const Shape shape{64, 2, 1};
    const std::vector<Stretch> step{{0, 0, 62}, {1, 3, 3}};
    expect_right(shape, type, step, attend(shape, type, step, {.attends_rest = false}),
                 {.attends_rest = false}, 1);
  }
}

/// For compute-sanitizer: a long run, a row that is alone and two neighbours.
class SmallKernelPromptAttention : public PromptAttention {};
ATTACCA_ON_EACH_DEVICE(SmallKernelPromptAttention);

TEST_P(SmallKernelPromptAttention, agrees_with_doubles_with_and_without_the_same_bits) {
  const std::vector<Stretch> step{{0, 100, 170}, {1, 40, 40}, {2, 5, 6}};
  for (const bool same_bits : {false, true}) {
    expect_right({64, 2, 1}, step, {.processors = 4, .same_bits = same_bits}, 9);
    expect_right({128, 4, 2, 32, 130}, step, {.processors = 4, .same_bits = same_bits}, 9);
  }
}

TEST(PromptRuns, a_row_is_in_a_long_run_if_its_slot_has_64_rows) {
  std::vector<std::uint32_t> slots;
  std::vector<bool> is_long;
  std::uint32_t slot = 0;
  for (const std::size_t rows : {1u, 63u, 64u, 2u, 65u, 1u, 130u, 62u, 64u}) {
    slots.insert(slots.end(), rows, slot++);
    is_long.insert(is_long.end(), rows, rows >= 64);
  }
  const auto count = static_cast<std::uint32_t>(slots.size());
  for (std::uint32_t row = 0; row < count; ++row)
    ASSERT_EQ(
        kernels::is_in_long_run(row, count, [&](std::uint32_t other) { return slots.at(other); }),
        is_long[row])
        << "row " << row;
}

TEST(PromptAttentionShapes, those_of_other_kernels_are_left_to_them) {
  MixedAttentionArgs args{};
  args.heads = 32;
  args.q_stride = 48 * 128;
  args.rows.capacity = 2048;
  args.kv.kv_heads = 8;
  args.kv.head_size = 128;
  args.kv.page_size = 16;
  args.kv.type = KvType::bf16;
  EXPECT_TRUE(kernels::takes_prompts(args));
  const auto takes = [&](auto change) {
    MixedAttentionArgs other = args;
    change(other);
    return kernels::takes_prompts(other);
  };
  EXPECT_FALSE(takes([](auto& a) { a.kv.type = KvType::fp8; }));
  EXPECT_FALSE(takes([](auto& a) { a.kv.head_size = 96; }));
  EXPECT_TRUE(takes([](auto& a) { a.kv.same_bits = true; }));
  EXPECT_FALSE(takes([](auto& a) { a.rows.capacity = 63; }));
  EXPECT_FALSE(takes([](auto& a) { a.rows.capacity = 8193; }));
  EXPECT_FALSE(takes([](auto& a) { a.kv.kv_heads = 1; }));
  std::uint16_t rest = 0;
  EXPECT_FALSE(takes([&](auto& a) { a.y_rest = &rest; }));
}

}  // namespace
}  // namespace attacca::test::prompt_attention_test
