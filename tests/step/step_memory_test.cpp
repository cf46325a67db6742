// Tests of a step's memory: kernels' buffers fit into the arena, and sizes are known beforehand.
#include "step/step_memory.hpp"

#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include "kernels/linear/sm90_tiled_linear.hpp"
#include "model/embedded.hpp"
#include "model/shapes.hpp"
#include "step/step.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using step::KvPool;
using step::Region;
using step::StepMemory;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

class SmallStepMemory : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(SmallStepMemory);

TEST_P(SmallStepMemory, refuses_what_does_not_fit_a_region_and_says_both_sizes) {
  Arena arena(device(), 1024);
  const Region region("qkv", arena, 100);
  EXPECT_EQ(region.as<float>(25), region.data());
  EXPECT_EQ(region.as<std::uint16_t>(25, 25), region.as<std::uint16_t>(50) + 25);
  EXPECT_NO_THROW(region.rows(kernels::RowFormat::f32, 5, 5));
  const auto expect_refused = [](auto use) {
    try {
      use();
      ADD_FAILURE() << "more than fits was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("104 bytes"), HasSubstr("'qkv', which has 100")));
    }
  };
  expect_refused([&] { region.as<float>(26); });
  expect_refused([&] { region.as<std::uint16_t>(25, 27); });
  expect_refused([&] { region.rows(kernels::RowFormat::f32, 2, 13); });
}

TEST_P(SmallStepMemory, takes_the_bytes_that_were_foretold) {
  const model::Checkpoint checkpoint = model::open_embedded();
  const model::ModelConfig& config = checkpoint.config();
  const model::Weights weights(checkpoint, device());
  const step::KvSizes kv_sizes{.pages = 4, .page_size = 16};
  const KvPool kv(device(), config, kv_sizes);
  EXPECT_EQ(kv.bytes(), 4 * KvPool::page_bytes(config, kv_sizes));
  const step::StepSizes sizes{.largest = {24, 6}, .slots = 6, .table_stride = 4};
  const StepMemory memory(device(), config, weights, kv, sizes, {});
  const std::size_t maps = StepMemory::bytes_for(device(), config, kv_sizes, sizes, true) -
                           memory.arena_bytes() - memory.sampled().bytes() - memory.scratch_bytes();
  if (is_cuda())
    EXPECT_LT(maps, std::size_t{64} << 20);
  else
    EXPECT_EQ(maps, 0u);
  EXPECT_LE(memory.tiled_bytes(), maps);
}

TEST_P(SmallStepMemory, keeps_rotated_rows_behind_queries_where_no_square_of_the_residual_reaches) {
  const model::Checkpoint checkpoint = model::open_embedded();
  const model::ModelConfig& config = checkpoint.config();
  const model::Weights weights(checkpoint, device());
  const KvPool kv(device(), config, {.pages = 4, .page_size = 16});
  const step::StepShape largest{24, 6}, smaller{17, 6};
  const StepMemory memory(device(), config, weights, kv,
                          {.largest = largest, .slots = 6, .table_stride = 4}, {});
  ASSERT_TRUE(memory.has_room_to_rotate());
  for (const step::StepShape& shape : {largest, smaller}) {
    const kernels::RotatedRows to = memory.rotated_rows(shape);
    const std::size_t queries = std::size_t{shape.tokens} * config.heads * config.head_size;
    const std::size_t columns = (config.heads + 2 * config.kv_heads) * config.head_size;
    const void* angles = to.angles;
    EXPECT_GE(angles, memory.qkv(shape) + queries);
    EXPECT_GE(angles, memory.residual_after_attention(shape, false).squares +
                          shape.tokens * config.hidden / kernels::Residual::kPart);
    EXPECT_GE(static_cast<const void*>(to.cells), to.angles + shape.tokens * config.head_size / 2);
    EXPECT_EQ(to.is_in_long_run, to.cells + shape.tokens);
    EXPECT_LE(static_cast<const void*>(to.is_in_long_run + shape.tokens),
              memory.qkv(shape) + shape.tokens * columns);
  }
}

/// The names of the kernels of a step, in its order.
std::vector<std::string> kernels_of(const step::Chain& chain) {
  std::vector<std::string> names;
  for (const step::Link& link : chain.links()) names.emplace_back(link.kernel->name);
  return names;
}

TEST_P(SmallStepMemory, has_steps_of_many_rows_rotate_in_a_product_where_products_are_tiled) {
  if (!is_cuda() || !kernels::has_tiled_linear(device()))
    GTEST_SKIP() << "this device has no tiled products";
  model::ModelConfig config = model::shape_called("smollm2-135m");  // heads of 64
  config.layers = 1;
  const model::Weights weights(config, device(), 1);
  const KvPool kv(device(), config, {.pages = 4, .page_size = 16, .type = kernels::KvType::bf16});
  const step::StepShape shape{64, 1};
  const auto kernels = [&](bool same_bits) {
    const StepMemory memory(
        device(), config, weights, kv,
        {.largest = shape, .slots = 1, .table_stride = 4, .same_bits = same_bits}, {});
    return kernels_of(step::emit_logits(memory, shape));
  };
  const std::vector<std::string> fast = kernels(false), same = kernels(true);
  EXPECT_THAT(fast, AllOf(IsSupersetOf({"rope_rows", "rotating_tiled_linear"}),
                          Not(Contains("rope_store"))));
  EXPECT_THAT(same, AllOf(Contains("rope_store"), Not(Contains("rope_rows")),
                          Not(Contains("rotating_tiled_linear"))));
}

TEST_P(SmallStepMemory, gives_each_layer_its_own_keys_and_values) {
  const model::Checkpoint checkpoint = model::open_embedded();
  const model::ModelConfig& config = checkpoint.config();
  const KvPool kv(device(), config, {.pages = 4, .page_size = 16});
  const auto* first = static_cast<const std::byte*>(kv.data());
  const std::size_t half_layer = kv.bytes() / 2 / config.layers;
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    EXPECT_EQ(kv.layer(layer).keys, first + layer * half_layer);
    EXPECT_EQ(kv.layer(layer).values, first + kv.bytes() / 2 + layer * half_layer);
  }
}

}  // namespace
}  // namespace attacca::test
