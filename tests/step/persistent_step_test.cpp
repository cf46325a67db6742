// Tests of a decode step as one persistent kernel: it has the bits of the chain of kernels it was
// made from, for every number of rows, and a chain that it cannot run says why.
#include "step/persistent_step.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "kernels/random_fill.hpp"
#include "model/architecture.hpp"
#include "model/shapes.hpp"
#include "step/step.hpp"
#include "step/streamed_step.hpp"
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::persistent_step_test {
namespace {

using kernels::KvType;
using kernels::Phase;
using kernels::PhaseKind;
using model::ModelConfig;
using step::Chain;
using testing::HasSubstr;

struct Sizes {
  const char* architecture;
  std::uint32_t hidden, heads, kv_heads, head_size, feed_forward, vocabulary;
};
constexpr Sizes kTiny{"llama", 64, 4, 2, 16, 160, 512};
/// With heads that the kernels pad to 128, and norms of queries and keys.
constexpr Sizes kTinyPadded[] = {{"llama", 96, 2, 1, 80, 160, 512},
                                 {"qwen3", 64, 2, 1, 96, 96, 512}};

ModelConfig config_of(const Sizes& sizes, std::uint32_t layers) {
  ModelConfig config = model::shape_called("llama-1b");
  config.architecture = model::find_architecture(sizes.architecture);
  config.name = "test";
  config.hidden = sizes.hidden;
  config.layers = layers;
  config.heads = sizes.heads;
  config.kv_heads = sizes.kv_heads;
  config.head_size = config.rotary_size = sizes.head_size;
  config.feed_forward = sizes.feed_forward;
  config.vocabulary = sizes.vocabulary;
  return config;
}

/// A decode batch on a model with random weights: the plan, the memory and its pages.
class World {
 public:
  static constexpr std::uint32_t kPageSize = 16;

  /// `contexts`: of each row. `capacity`: rows that the step may have.
  World(const Device& on, const ModelConfig& of_config, const std::vector<std::uint32_t>& contexts,
        std::uint32_t capacity, KvType kv_type, step::StepForm form = step::StepForm::kernels,
        bool same_bits = false)
      : device(on),
        config(of_config),
        weights(config, device, 1),
        stride(*std::max_element(contexts.begin(), contexts.end()) / kPageSize + 1),
        kv(device, config, {capacity * stride, kPageSize, kv_type}),
        shape{capacity, capacity, true} {
    std::vector<std::int32_t> tokens(capacity), positions(capacity), slots(capacity),
        gather(capacity), tables(capacity * stride);
    for (std::uint32_t row = 0; row < capacity; ++row) {
      tokens[row] = static_cast<std::int32_t>((row * 7919 + 5) % config.vocabulary);
      positions[row] =
          row < contexts.size() ? static_cast<std::int32_t>(contexts[row]) : std::int32_t{0};
      slots[row] = gather[row] = static_cast<std::int32_t>(row);
    }
    for (std::size_t at = 0; at < tables.size(); ++at)
      tables[at] = static_cast<std::int32_t>(tables.size() - 1 - at);
    const auto count = static_cast<std::uint32_t>(contexts.size());
    counts.emplace(device, std::vector<std::uint32_t>{count, count});
    const auto keep = [&](const std::vector<std::int32_t>& values) {
      return plan.emplace_back(device, values).data();
    };
    memory.emplace(device, config, weights, kv,
                   step::StepSizes{.largest = shape,
                                   .slots = capacity,
                                   .table_stride = stride,
                                   .same_bits = same_bits,
                                   .form = form},
                   step::StepInput{.tokens = keep(tokens),
                                   .positions = keep(positions),
                                   .slots = keep(slots),
                                   .token_count = counts->data(),
                                   .gather = keep(gather),
                                   .row_count = counts->data() + 1,
                                   .tables = keep(tables)});
  }

  /// The kernels from tokens to logits, streamed also on the host.
  Chain chain() const {
    Chain chain(device);
    emit_streamed(chain, *memory, shape);
    return chain;
  }

  void fill_pages() const {
    const kernels::TensorType type =
        kv.sizes().type == KvType::f32 ? kernels::TensorType::f32 : kernels::TensorType::bf16;
    const kernels::RandomFillArgs fill{
        kv.data(), type, kv.bytes() / kernels::kv_element_bytes(kv.sizes().type), 3, 1};
    const Stream stream(device);
    stream.kernel(kernels::random_fill(), grid_of(fill, device.is_cuda()), fill);
    stream.synchronize();
  }
  /// Logits, and keys and values.
  std::vector<std::uint32_t> bits() const {
    const Stream stream(device);
    const std::size_t logits = 4ull * shape.rows * config.vocabulary;
    const Buffer<std::uint32_t> seen(device, (logits + kv.bytes()) / 4, Visibility::shared);
    auto* to = const_cast<std::uint32_t*>(seen.data());
    stream.copy(to, reinterpret_cast<const std::uint32_t*>(memory->logits()), logits);
    stream.copy(to + logits / 4, static_cast<const std::uint32_t*>(kv.data()), kv.bytes());
    stream.synchronize();
    std::vector<std::uint32_t> all(seen.data(), seen.data() + (logits + kv.bytes()) / 4);
    // Rows that are not real keep what they had.
    const std::uint32_t count = counts->read().front();
    std::fill(all.begin() + static_cast<std::ptrdiff_t>(1ull * count * config.vocabulary),
              all.begin() + static_cast<std::ptrdiff_t>(logits / 4), 0u);
    return all;
  }
  std::vector<std::uint32_t> bits_after(const Chain& chain) const {
    fill_pages();
    Graph graph(device, "step");
    chain.append_to(graph);
    Exec exec = graph.instantiate();
    const Stream stream(device);
    exec.launch(stream);
    stream.synchronize();
    return bits();
  }

  Device device;
  ModelConfig config;
  model::Weights weights;
  std::uint32_t stride;
  step::KvPool kv;
  step::StepShape shape;
  std::vector<Buffer<std::int32_t>> plan;
  std::optional<Buffer<std::uint32_t>> counts;
  std::optional<step::StepMemory> memory;
};

class SmallPersistentStep : public OnEachDevice {
 protected:
  KvType kv_type() const { return is_cuda() ? KvType::bf16 : KvType::f32; }

  /// Runs both forms, the persistent one several times: each launch leaves the counter as it was.
  void expect_same_bits(World& world) {
    ASSERT_TRUE(step::can_stream(world.weights));
    const Chain chain = world.chain();
    ASSERT_TRUE(!is_cuda() || why_not_persistent(chain).empty()) << why_not_persistent(chain);
    const step::PersistentSteps steps(device());
    Chain joined = chain;
    steps.join(joined);
    ASSERT_EQ(joined.size(), 1u);
    const std::vector<std::uint32_t> expected = world.bits_after(chain);
    ASSERT_TRUE(std::any_of(expected.begin(), expected.begin() + world.config.vocabulary,
                            [](std::uint32_t bits) { return bits != 0; }));
    for (int launch = 0; launch < 3; ++launch) {
      const std::vector<std::uint32_t> bits = world.bits_after(joined);
      ASSERT_EQ(bits.size(), expected.size());
      const auto differing = static_cast<std::ptrdiff_t>(
          std::mismatch(bits.begin(), bits.end(), expected.begin()).first - bits.begin());
      ASSERT_EQ(differing, static_cast<std::ptrdiff_t>(bits.size()))
          << "launch " << launch << ": row " << differing / world.config.vocabulary << ", output "
          << differing % world.config.vocabulary << " of " << world.config.vocabulary
          << ", or beyond the logits";
    }
  }
};
ATTACCA_ON_EACH_DEVICE(SmallPersistentStep);

TEST_P(SmallPersistentStep, has_the_bits_of_its_kernels) {
  World world(device(), config_of(kTiny, 2), {0, 17, 5}, 4, kv_type());
  expect_same_bits(world);
}

TEST_P(SmallPersistentStep, has_the_bits_of_its_kernels_for_heads_of_80_and_96) {
  for (const Sizes& sizes : kTinyPadded) {
    SCOPED_TRACE(sizes.head_size);
    World world(device(), config_of(sizes, 1), {70, 0}, 2, kv_type());
    expect_same_bits(world);
  }
}

/// For compute-sanitizer. Every row is real, since `bits` copies all logits.
class SmallKernelPersistentStep : public SmallPersistentStep {};
ATTACCA_ON_EACH_DEVICE(SmallKernelPersistentStep);

TEST_P(SmallKernelPersistentStep, has_the_bits_of_its_kernels) {
  World tiny(device(), config_of(kTiny, 1), {0, 17, 5}, 3, kv_type());
  expect_same_bits(tiny);
  World padded(device(), config_of(kTinyPadded[1], 1), {70}, 1, kv_type());
  expect_same_bits(padded);
}

TEST_P(SmallPersistentStep, has_the_same_cost_and_one_phase_for_each_kernel) {
  const World world(device(), config_of(kTiny, 2), {3}, 1, kv_type());
  const Chain chain = world.chain();
  const std::vector<Phase> phases = phases_of(chain, step::persistent_range(chain));
  ASSERT_EQ(phases.size(), chain.size());
  const PhaseKind kLayer[] = {PhaseKind::product, PhaseKind::attention, PhaseKind::product,
                              PhaseKind::product, PhaseKind::product};
  EXPECT_EQ(phases.front().kind, PhaseKind::embed);
  for (std::size_t at = 1; at + 1 < phases.size(); ++at)
    EXPECT_EQ(phases[at].kind, kLayer[(at - 1) % 5]);
  EXPECT_EQ(phases.back().is_for_logits, 1u);
  Chain joined = chain;
  const step::PersistentSteps steps(device());
  steps.join(joined);
  EXPECT_DOUBLE_EQ(joined.cost().flops, chain.cost().flops);
  EXPECT_DOUBLE_EQ(joined.cost().bytes, chain.cost().bytes);
}

TEST_P(SmallPersistentStep, is_refused_with_a_reason) {
  const World many(device(), config_of(kTiny, 1), {3}, 17, kv_type());
  EXPECT_THAT(why_not_persistent(many.chain()), HasSubstr("17 rows, and one kernel has 16"));
  const World floats(device(), config_of(kTiny, 1), {3}, 1, KvType::f32);
  EXPECT_THAT(why_not_persistent(floats.chain()), HasSubstr("not in bf16"));
  EXPECT_THAT(why_not_persistent(Chain(device())), HasSubstr("not streamed"));
  const World same(device(), config_of(kTiny, 1), {3}, 1, KvType::bf16, step::StepForm::kernels,
                   true);
  EXPECT_THAT(why_not_persistent(same.chain()), HasSubstr("same bits"));
}

TEST_P(SmallPersistentStep, is_what_a_step_becomes_where_memory_asks_for_it) {
  World world(device(), config_of(kTiny, 1), {3}, 1, kv_type(), step::StepForm::persistent);
  EXPECT_EQ(world.memory->persistent() != nullptr, is_cuda()) << "the host has no such kernel";
  const Chain chain = emit_logits(*world.memory, world.shape);
  if (is_cuda())
    EXPECT_EQ(chain.size(), 1u);
  else
    EXPECT_GT(chain.size(), 1u);
}

/// The sizes of the shapes that were measured: 135M, 1B and 8B.
TEST_P(SmallPersistentStep, is_chosen_only_where_it_was_measured_faster) {
  constexpr double kSmall = 0.27e9, kMiddle = 2.5e9, kLarge = 15e9;
  for (const std::uint32_t rows : {4u, 8u, 16u})
    EXPECT_TRUE(step::is_faster_persistent(rows, kMiddle, 512)) << rows << " rows";
  for (const std::uint32_t rows : {4u, 8u, 16u})
    EXPECT_FALSE(step::is_faster_persistent(rows, kMiddle, 513)) << rows << " rows";
  for (const double bytes : {0.0, kSmall, kMiddle, kLarge})
    EXPECT_FALSE(step::is_faster_persistent(1, bytes, 512)) << bytes << " bytes";
  for (const double bytes : {kSmall, kLarge})
    EXPECT_FALSE(step::is_faster_persistent(8, bytes, 512)) << bytes << " bytes";
  const World tiny(device(), config_of(kTiny, 1), {3}, 8, kv_type(), step::StepForm::automatic);
  EXPECT_GT(emit_logits(*tiny.memory, tiny.shape).size(), 1u);
  EXPECT_THAT(why_not_persistent(*tiny.memory, tiny.shape),
              HasSubstr(is_cuda() ? "not measured faster" : "the host has no such kernel"));
}

TEST_P(SmallPersistentStep, computes_nothing_where_there_are_no_rows) {
  World world(device(), config_of(kTiny, 1), {3, 4}, 2, kv_type());
  world.counts->write(std::vector<std::uint32_t>{2, 0});  // nobody wants logits
  const Chain chain = world.chain();
  const step::PersistentSteps steps(device());
  Chain joined = chain;
  steps.join(joined);
  const std::size_t logits = 1ull * world.shape.rows * world.config.vocabulary;
  const auto pages_after = [&](const Chain& of) {
    std::vector<std::uint32_t> bits = world.bits_after(of);
    bits.erase(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(logits));
    return bits;
  };
  EXPECT_TRUE(pages_after(joined) == pages_after(chain));
  world.counts->write(std::vector<std::uint32_t>{0, 0});
  EXPECT_TRUE(pages_after(joined) == pages_after(chain));
}

/// Every number of rows, contexts with one and several splits, heads of 64 to 128 elements,
/// products of one and several chunks, blocks without tiles.
class PersistentStep : public SmallPersistentStep {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!is_cuda()) GTEST_SKIP() << "the host's body is the reference";
  }
};
ATTACCA_ON_EACH_DEVICE(PersistentStep);

constexpr Sizes kShapes[] = {
    {"llama", 576, 9, 3, 64, 1536, 4096},      // as SmolLM2-135M
    {"llama", 2048, 32, 8, 64, 8192, 8192},    // as Llama-3.2-1B
    {"llama", 4096, 32, 8, 128, 14336, 4096},  // as Llama-3.1-8B
    {"qwen3", 1024, 16, 8, 128, 3072, 4096},   // with norms of queries and keys
    {"llama", 640, 8, 4, 80, 1792, 4096},      // heads that are padded to 128
    {"llama", 1152, 12, 4, 96, 3072, 4096},   {"qwen3", 672, 7, 1, 96, 2048, 4096},
};

TEST_P(PersistentStep, has_the_bits_of_its_kernels_for_every_number_of_rows) {
  const ModelConfig config = config_of(kShapes[0], 3);
  for (std::uint32_t rows = 1; rows <= 16; ++rows) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    std::vector<std::uint32_t> contexts;
    for (std::uint32_t row = 0; row < rows; ++row) contexts.push_back(row * 97 % 700);
    World world(device(), config, contexts, rows, KvType::bf16);
    expect_same_bits(world);
    if (HasFatalFailure()) return;
  }
}

TEST_P(PersistentStep, has_the_bits_of_its_kernels_for_each_shape_and_context) {
  for (const Sizes& sizes : kShapes)
    for (const std::uint32_t context : {0u, 1u, 63u, 512u, 3000u})
      for (const std::uint32_t capacity : {1u, 4u, 16u}) {
        SCOPED_TRACE(std::to_string(sizes.hidden) + " columns, context " + std::to_string(context) +
                     ", up to " + std::to_string(capacity) + " rows");
        const std::vector<std::uint32_t> contexts(capacity - capacity / 4, context);
        World world(device(), config_of(sizes, 2), contexts, capacity, KvType::bf16);
        expect_same_bits(world);
        if (HasFatalFailure()) return;
      }
}

TEST_P(PersistentStep, a_block_that_waits_in_vain_for_a_phase_gives_up_and_says_so) {
  World world(device(), config_of(kTiny, 2), {0, 17, 5}, 4, KvType::bf16);
  const Chain chain = world.chain();
  const step::PersistentSteps steps(device());
  Chain joined = chain;
  steps.join(joined);
  const std::vector<std::uint32_t> expected = world.bits_after(chain);
  std::vector<Phase> phases = phases_of(chain, step::persistent_range(chain));
  // One more than there are blocks with work. In the last phase, since blocks without work in
  // others wait for it from the start, and would give up first.
  ++phases.back().arrivals_before;
  const Buffer<Phase> never_there(device(), phases);
  const step::Link& link = joined.links().front();
  auto args = *static_cast<const kernels::PersistentStepArgs*>(link.arguments.data());
  args.phases = never_there.data();
  args.patience_nanoseconds = 500'000'000;
  Graph graph(device());
  graph.kernel(Kernel<kernels::PersistentStepArgs>(*link.kernel), link.grid, args);
  EXPECT_THAT([&] { run(graph); },
              testing::ThrowsMessage<WaitOverdue>(testing::AllOf(
                  HasSubstr("'persistent_step'"),
                  HasSubstr("waited 0.5 s for all blocks to finish a step's earlier phases"),
                  HasSubstr("it wanted " + std::to_string(phases.size() - 1) + " and saw"))));
  EXPECT_TRUE(world.bits_after(joined) == expected) << "the counter is zeroed all the same";
}

/// As a node of bodies that run again and again.
TEST_P(SmallPersistentStep, has_the_bits_of_its_kernels_in_a_switch_in_a_loop) {
  World world(device(), config_of(kTiny, 2), {9, 40}, 2, kv_type());
  const Chain chain = world.chain();
  const step::PersistentSteps steps(device());
  Chain joined = chain;
  steps.join(joined);
  const std::vector<std::uint32_t> expected = world.bits_after(chain);
  (void)world.bits_after(joined);
  const Buffer<unsigned> left = buffer<unsigned>({5});
  Graph graph(device());
  graph.while_("five times", [&](Graph& body, Condition again) {
    const Condition which = body.condition("which", 1);
    const auto choose =
        body.kernel(set_condition, Grid{}, {.condition = which, .value = 1}).named("choose");
    const auto choice = body.switch_("form", which,
                                     {[&](Graph& to) { chain.append_to(to); },
                                      [&](Graph& to) { joined.append_to(to); }})
                            .after(choose);
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(choice);
  });
  world.fill_pages();
  run(graph);
  EXPECT_TRUE(world.bits() == expected);
}

/// As the graph that the engine builds, many times: an order of events that goes wrong seldom.
TEST_P(PersistentStep, has_the_same_bits_a_thousand_times) {
  World world(device(), config_of(kShapes[0], 8), {300, 20, 511}, 4, KvType::bf16,
              step::StepForm::persistent);
  const Chain joined = emit_logits(*world.memory, world.shape);
  ASSERT_EQ(joined.size(), 1u);
  const std::vector<std::uint32_t> expected = world.bits_after(world.chain());
  EXPECT_TRUE(world.bits_after(joined) == expected);
  Graph graph(device(), "step");
  joined.append_to(graph);
  Exec exec = graph.instantiate();
  for (int launch = 0; launch < 1000; ++launch) exec.launch(stream());
  stream().synchronize();
  EXPECT_TRUE(world.bits_after(joined) == expected);
}

}  // namespace
}  // namespace attacca::test::persistent_step_test
