// Tests of an engine's limits, and of the estimate of a GPU's weights, which it makes before it
// allocates anything.
#include <gmock/gmock.h>
#include <attacca/llm.hpp>

#include <algorithm>
#include <functional>

#include "engine/batches.hpp"
#include "engine/quantized.hpp"
#include "engine/sizing.hpp"
#include "model/checkpoint.hpp"
#include "model/packed_model.hpp"
#include "model/small_model.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using engine::gpu_weights;
using engine_tests::fixture;
using llm::WeightFormat;
using model::Checkpoint;

class Sizing : public test::OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(Sizing);

TEST_P(Sizing, counts_the_weights_that_a_gpu_gets) {
  if (!is_cuda()) GTEST_SKIP() << "the host maps them";
  const test::TemporaryFolder folder;
  const std::string quantized = folder.path() / "qwen2.gguf";
  engine_tests::write_quantized("qwen2", kernels::TensorType::q4_1, quantized);
  std::vector<std::string> paths = {quantized};
  for (const std::string& name : engine_tests::kModels) paths.push_back(fixture(name));
  for (const std::string& path : paths)
    for (const WeightFormat format : {WeightFormat::as_stored, WeightFormat::fp8}) {
      SCOPED_TRACE(path + " " + llm::weight_format_name(format));
      llm::EngineOptions options;
      options.device = device();
      options.weights = format;
      options.graphs = llm::GraphMode::off;
      const llm::Engine engine(llm::Model(path), options);
      EXPECT_EQ(gpu_weights(Checkpoint::open(path), format).bytes, engine.memory().weights_copied);
    }
}

/// Bytes of a llama's vectors: norms and RoPE frequencies, in floats.
std::size_t vector_bytes(const model::ModelConfig& c) {
  return ((2 * c.layers + 1) * c.hidden + c.rotary_size / 2) * sizeof(float);
}
std::size_t embedding_elements(const model::ModelConfig& c) {
  return std::size_t{c.vocabulary} * c.hidden;
}
/// Rows of all linear layers but the head.
std::size_t rows_of(const model::ModelConfig& c) {
  return c.layers *
         std::size_t{(c.heads + 2 * c.kv_heads) * c.head_size + 2 * c.hidden + 2 * c.feed_forward};
}
std::size_t elements_of(const model::ModelConfig& c) {
  return c.layers * std::size_t{2 * (c.heads + c.kv_heads) * c.head_size + 3 * c.feed_forward} *
         c.hidden;
}

TEST_P(Sizing, the_pool_has_room_for_prefixes_beyond_what_slots_use) {
  llm::EngineOptions options;
  options.device = device();
  options.context = 128;
  const Checkpoint checkpoint = Checkpoint::open(fixture("llama"));
  const auto limits = engine::size_engine(checkpoint, options);
  EXPECT_EQ(limits.pages, (is_cuda() ? 16 : 2) * limits.slots * limits.table_stride());
}

TEST_P(Sizing, a_step_in_which_a_sequence_decodes_is_bounded_between_slots_and_the_largest_step) {
  const Checkpoint checkpoint = Checkpoint::open(fixture("llama"));
  const auto bound = [&](unsigned given, unsigned slots, unsigned step_tokens) {
    llm::EngineOptions options;
    options.device = device();
    options.context = 64;
    options.slots = slots;
    options.step_tokens = step_tokens;
    options.decode_step_tokens = given;
    const schedule::Limits limits = engine::size_engine(checkpoint, options);
    EXPECT_EQ(options.decode_step_tokens, limits.decode_step_tokens);
    EXPECT_THAT(options.mixed_sizes,
                testing::Contains(std::min(limits.decode_step_tokens, limits.most_mixed())));
    return limits.decode_step_tokens;
  };
  EXPECT_EQ(bound(0, 8, 0), is_cuda() ? 2048u : 128u) << "the default";
  EXPECT_EQ(bound(0, 200, 0), is_cuda() ? 2048u : 200u);
  EXPECT_EQ(bound(0, 8, 100), 100u);
  EXPECT_EQ(bound(77, 8, 256), 77u);
  EXPECT_EQ(bound(3, 8, 256), 8u);
  EXPECT_EQ(bound(1000, 8, 256), 256u);
}

TEST_P(Sizing, options_that_contradict_each_other_are_refused_before_there_is_a_model) {
  const auto refused = [&](auto change, const std::string& words) {
    llm::EngineOptions options;
    options.device = device();
    EXPECT_NO_THROW(llm::check(options));
    change(options);
    EXPECT_THAT([&] { llm::check(options); },
                testing::ThrowsMessage<BadArgument>(testing::HasSubstr(words)));
  };
  using llm::EngineOptions;
  refused([](EngineOptions& o) { o.slots = 1025; }, "slots is 1025");
  refused([](EngineOptions& o) { o.decode_sizes = {9}; }, "decode_sizes has 9");
  refused([](EngineOptions& o) { o.mixed_sizes = {8, 4}; }, "mixed_sizes has 4 after 8");
  refused(
      [](EngineOptions& o) {
        o.scheduler = llm::Scheduler::resident;
        o.overlap = false;
      },
      "overlap is off");
  refused(
      [](EngineOptions& o) {
        o.scheduler = llm::Scheduler::resident;
        o.graphs = llm::GraphMode::piecewise;
      },
      "needs a graph for every step");
  refused(
      [](EngineOptions& o) {
        o.scheduler = llm::Scheduler::host;
        o.resident_loop = llm::ResidentLoop::while_node;
      },
      "resident_loop is while-node");
}

TEST_P(Sizing, the_loop_runs_on_a_gpu_where_it_can) {
  using llm::Scheduler;
  const Checkpoint checkpoint = Checkpoint::open(fixture("llama"));
  const auto chosen = [&](const std::function<void(llm::EngineOptions&)>& change) {
    llm::EngineOptions options;
    options.device = device();
    options.context = 64;
    change(options);
    engine::size_engine(checkpoint, options);
    return options.scheduler;
  };
  EXPECT_EQ(chosen([](auto&) {}), is_cuda() ? Scheduler::resident : Scheduler::host);
  EXPECT_EQ(chosen([](auto& with) { with.scheduler = Scheduler::resident; }), Scheduler::resident);
  EXPECT_EQ(chosen([](auto& with) { with.scheduler = Scheduler::host; }), Scheduler::host);
  EXPECT_EQ(chosen([](auto& with) { with.overlap = false; }), Scheduler::host);
  EXPECT_EQ(chosen([](auto& with) { with.graphs = llm::GraphMode::piecewise; }), Scheduler::host);
  EXPECT_EQ(chosen([](auto& with) { with.graphs = llm::GraphMode::off; }), Scheduler::host);
  EXPECT_EQ(chosen([](auto& with) { with.mixed_sizes = {16}; }), Scheduler::host);
}

TEST(GpuWeights, in_fp8_take_a_byte_each_and_a_scale_a_row_and_the_embedding_what_it_did) {
  const Checkpoint untied = Checkpoint::open(fixture("llama"));  // f32
  const model::ModelConfig& c = untied.config();
  EXPECT_EQ(gpu_weights(untied, WeightFormat::as_stored).bytes,
            (elements_of(c) + 2 * embedding_elements(c)) * 4 + vector_bytes(c));
  EXPECT_EQ(gpu_weights(untied, WeightFormat::fp8).bytes,
            elements_of(c) + embedding_elements(c) + (rows_of(c) + c.vocabulary) * 4 +
                embedding_elements(c) * 4 + vector_bytes(c));
  EXPECT_FALSE(gpu_weights(untied, WeightFormat::as_stored).are_streamed);
  EXPECT_TRUE(gpu_weights(untied, WeightFormat::fp8).are_streamed);

  const Checkpoint tied = Checkpoint::open(fixture("llama3-rope"));  // bf16
  const model::ModelConfig& t = tied.config();
  EXPECT_EQ(gpu_weights(tied, WeightFormat::as_stored).bytes,
            (elements_of(t) + embedding_elements(t)) * 2 + vector_bytes(t));
  EXPECT_EQ(gpu_weights(tied, WeightFormat::fp8).bytes,
            elements_of(t) + embedding_elements(t) + (rows_of(t) + t.vocabulary) * 4 +
                embedding_elements(t) * 2 + vector_bytes(t));
}

TEST(GpuWeights, that_are_quantized_are_known_to_be) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "qwen2.gguf";
  engine_tests::write_quantized("qwen2", kernels::TensorType::q8_0, path);
  const Checkpoint checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(gpu_weights(checkpoint, WeightFormat::as_stored).are_quantized);
  EXPECT_TRUE(gpu_weights(checkpoint, WeightFormat::as_stored).are_streamed);
  EXPECT_TRUE(gpu_weights(checkpoint, WeightFormat::as_stored).are_expanded);
  EXPECT_FALSE(gpu_weights(checkpoint, WeightFormat::fp8).are_quantized);
  EXPECT_FALSE(gpu_weights(checkpoint, WeightFormat::fp8).are_expanded);
  EXPECT_FALSE(
      gpu_weights(Checkpoint::open(fixture("llama3-rope")), WeightFormat::as_stored).are_expanded)
      << "it is in bf16";
}

TEST_P(Sizing, of_k_quants_counts_the_types_in_which_a_gpu_holds_them) {
  if (!is_cuda()) GTEST_SKIP() << "the host uses them as they are";
  for (const bool has_head : {true, false}) {
    const test::TemporaryFolder folder;
    const std::string path =
        folder.write("packed.gguf", test::packed_model(kernels::TensorType::q6_k, has_head));
    const Checkpoint checkpoint = Checkpoint::open(path);
    const model::Weights weights(checkpoint, device());
    EXPECT_EQ(gpu_weights(checkpoint, WeightFormat::as_stored).bytes, weights.bytes_copied());
    EXPECT_TRUE(gpu_weights(checkpoint, WeightFormat::as_stored).are_streamed);
  }
}

}  // namespace
}  // namespace attacca
