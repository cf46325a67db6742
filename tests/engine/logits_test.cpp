// Tests of a step's graph against Hugging Face transformers: small random models of each
// architecture, logits at every position of a prompt. make_models.py makes the fixtures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "engine/fixtures.hpp"
#include "model/checkpoint.hpp"
#include "model/packed_model.hpp"
#include "step/step.hpp"
#include "step/streamed_step.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using engine_tests::Expected;
using engine_tests::fixture;
using model::Checkpoint;

/// How a sequence is computed.
struct Form {
  bool is_streamed = false;
  bool same_bits = true;
  std::uint32_t step = 0;  // the most tokens of a step; 0: all of them
  kernels::KvType kv = kernels::KvType::f32;
};

/// One sequence on a device. It has as many pages as it needs, in a shuffled order.
class OneSequence {
 public:
  OneSequence(const Device& device, const Checkpoint& checkpoint, std::uint32_t tokens,
              std::uint32_t page_size, const Form& form = {})
      : device_(device),
        config_(checkpoint.config()),
        weights_(checkpoint, device),
        shape_{form.step != 0 ? form.step : tokens, form.step != 0 ? form.step : tokens},
        pages_((tokens + page_size - 1) / page_size),
        table_(device, reversed(pages_)),
        ids_(device, tokens),
        positions_(device, tokens),
        slots_(device, std::vector<std::int32_t>(tokens, 0)),
        gather_(device, tokens),
        counts_(device, 2),
        kv_(device, config_, {.pages = pages_, .page_size = page_size, .type = form.kv}),
        memory_(device, config_, weights_, kv_,
                {.largest = shape_,
                 .table_stride = pages_,
                 .same_bits = form.same_bits,
                 .is_plain = !form.is_streamed},
                {.tokens = ids_.data(),
                 .positions = positions_.data(),
                 .slots = slots_.data(),
                 .token_count = counts_.data(),
                 .gather = gather_.data(),
                 .row_count = counts_.data() + 1,
                 .tables = table_.data()}) {}

  bool can_stream() const { return step::can_stream(weights_); }

  /// The logits of all positions of `tokens`, which start at position `first`.
  std::vector<float> logits(std::span<const std::int32_t> tokens, std::int32_t first) {
    return run(tokens, first, shape_);
  }
  /// The logits of one token in a step for tokens that are generated.
  std::vector<float> decode(std::int32_t token, std::int32_t position) {
    return run({&token, 1}, position, {1, 1, true});
  }

 private:
  std::vector<float> run(std::span<const std::int32_t> tokens, std::int32_t first,
                         const step::StepShape& shape) {
    std::vector<std::int32_t> positions, gather;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      positions.push_back(first + static_cast<std::int32_t>(i));
      gather.push_back(static_cast<std::int32_t>(i));
    }
    const auto count = static_cast<std::uint32_t>(tokens.size());
    ids_.write(tokens);
    positions_.write(positions);
    gather_.write(gather);
    counts_.write(std::vector<std::uint32_t>{count, count});
    Graph graph(device_);
    step::emit_logits(memory_, shape).append_to(graph);
    Stream stream(device_);
    graph.instantiate().launch(stream);
    stream.synchronize();
    std::vector<float> result(tokens.size() * config_.vocabulary);
    attacca::detail::copy_now(device_, result.data(), memory_.logits(),
                              result.size() * sizeof(float));
    return result;
  }
  static std::vector<std::int32_t> reversed(std::uint32_t pages) {
    std::vector<std::int32_t> table;
    for (std::uint32_t i = pages; i-- > 0;) table.push_back(static_cast<std::int32_t>(i));
    return table;
  }

  Device device_;
  const model::ModelConfig& config_;
  model::Weights weights_;
  step::StepShape shape_;
  std::uint32_t pages_;
  Buffer<std::int32_t> table_, ids_, positions_, slots_, gather_;
  Buffer<std::uint32_t> counts_;
  step::KvPool kv_;
  step::StepMemory memory_;
};

/// The largest difference at the probed entries, relative to the row's norm over its size.
double worst_error(const Expected& expected, const std::vector<float>& logits,
                   std::size_t vocabulary) {
  double worst = 0;
  for (std::size_t row = 0; row < expected.logits.size(); ++row) {
    const double scale = expected.norms[row] / std::sqrt(static_cast<double>(vocabulary));
    for (std::size_t i = 0; i < expected.probes.size(); ++i) {
      const double got = logits[row * vocabulary + expected.probes[i]];
      worst = std::max(worst, std::abs(got - expected.logits[row][i]) / scale);
    }
  }
  return worst;
}

/// The size of the differences at the probed entries over the size of the logits there.
double mean_error(const Expected& expected, const std::vector<float>& logits,
                  std::size_t vocabulary) {
  double difference = 0;
  double size = 0;
  for (std::size_t row = 0; row < expected.logits.size(); ++row)
    for (std::size_t i = 0; i < expected.probes.size(); ++i) {
      const double right = expected.logits[row][i];
      difference += std::pow(logits[row * vocabulary + expected.probes[i]] - right, 2);
      size += right * right;
    }
  return std::sqrt(difference / size);
}

class Logits : public test::OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(Logits);

TEST_P(Logits, of_each_architecture_and_shape_are_those_of_transformers) {
  for (const std::string& name : engine_tests::all_models()) {
    SCOPED_TRACE(name);
    const Checkpoint checkpoint = Checkpoint::open(fixture(name));
    const Expected expected = engine_tests::expected(name);
    const auto size = static_cast<std::uint32_t>(expected.prompt.size());
    OneSequence sequence(device(), checkpoint, size, 16);
    const std::vector<float> logits = sequence.logits(expected.prompt, 0);
    EXPECT_LT(worst_error(expected, logits, checkpoint.config().vocabulary), 1e-4);
  }
}

/// A prompt's logits, computed in steps of a given number of tokens; the last `decoded` tokens one
/// at a time, as if they were generated.
std::vector<float> logits_of(OneSequence& sequence, std::span<const std::int32_t> prompt,
                             std::size_t chunk, std::size_t decoded = 0) {
  std::vector<float> joined;
  const auto add = [&](const std::vector<float>& part) {
    joined.insert(joined.end(), part.begin(), part.end());
  };
  const std::size_t read = prompt.size() - decoded;
  for (std::size_t at = 0; at < read; at += chunk)
    add(sequence.logits(prompt.subspan(at, std::min(chunk, read - at)),
                        static_cast<std::int32_t>(at)));
  for (std::size_t at = read; at < prompt.size(); ++at)
    add(sequence.decode(prompt[at], static_cast<std::int32_t>(at)));
  return joined;
}

TEST_P(Logits, of_bf16_steps_are_close_to_those_of_transformers_and_the_same_for_every_cut) {
  if (!is_cuda()) GTEST_SKIP() << "the host has no steps in bf16";
  std::size_t streamed = 0;
  for (const std::string& name : engine_tests::kModels) {
    SCOPED_TRACE(name);
    const Checkpoint checkpoint = Checkpoint::open(fixture(name));
    const Expected expected = engine_tests::expected(name);
    const auto size = static_cast<std::uint32_t>(expected.prompt.size());
    for (const bool same_bits : {true, false}) {
      SCOPED_TRACE(same_bits);
      OneSequence sequence(device(), checkpoint, size, 16, {true, same_bits});
      if (!sequence.can_stream()) continue;
      ++streamed;
      const std::vector<float> logits = sequence.logits(expected.prompt, 0);
      EXPECT_LT(mean_error(expected, logits, checkpoint.config().vocabulary), 2e-2);
      OneSequence pieces(device(), checkpoint, size, 32, {true, same_bits});
      EXPECT_TRUE(logits_of(pieces, expected.prompt, 7) == logits);
      if (!same_bits) continue;
      OneSequence small(device(), checkpoint, size, 16, {true, true, 7});
      EXPECT_TRUE(logits_of(small, expected.prompt, 7) == logits) << "in steps for few tokens";
    }
  }
  EXPECT_GE(streamed, 4u);
}

TEST_P(Logits, of_each_shape_with_keys_in_f32_and_bf16_are_close_to_those_of_transformers) {
  if (!is_cuda()) GTEST_SKIP() << "the host keeps keys and values in f32";
  std::size_t streamed = 0;
  for (const std::string& name : engine_tests::kShapes)
    for (const kernels::KvType kv : {kernels::KvType::f32, kernels::KvType::bf16})
      for (const bool same_bits : {true, false}) {
        SCOPED_TRACE(testing::Message() << name << (kv == kernels::KvType::bf16 ? " bf16" : " f32")
                                        << ", same bits " << same_bits);
        const Checkpoint checkpoint = Checkpoint::open(fixture(name));
        const Expected expected = engine_tests::expected(name);
        const auto size = static_cast<std::uint32_t>(expected.prompt.size());
        const Form form{.is_streamed = true, .same_bits = same_bits, .kv = kv};
        OneSequence whole(device(), checkpoint, size, 16, form),
            cut(device(), checkpoint, size, 32, form);
        streamed += whole.can_stream();
        const std::vector<float> logits = whole.logits(expected.prompt, 0);
        const std::vector<float> pieces = logits_of(cut, expected.prompt, 33, 20);
        // Rows, or keys and values, or both are rounded to bf16, to within 1/256.
        for (const auto& got : {logits, pieces})
          EXPECT_LT(mean_error(expected, got, checkpoint.config().vocabulary), 2e-2);
        EXPECT_TRUE(!same_bits || pieces == logits);
      }
  EXPECT_EQ(streamed, 20u) << "five models; 32 does not divide the columns of the others";
}

TEST_P(Logits, of_packed_weights_are_close_to_the_hosts_for_few_and_many_rows) {
  if (!is_cuda()) GTEST_SKIP() << "the host is the reference";
  using kernels::TensorType;
  constexpr std::uint32_t kTokens = 200;
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(kTokens); ++i)
    prompt.push_back(i * 37 % 320);
  const auto mixed = [](const std::string& name) {
    return name.find("attn_v") != std::string::npos ? TensorType::q6_k : TensorType::q4_k;
  };
  std::vector<std::pair<std::string, std::string>> files{{"mixed", test::packed_model(mixed)}};
  for (const TensorType type :
       {TensorType::f16, TensorType::q8_0, TensorType::q4_0, TensorType::q4_1, TensorType::q4_k,
        TensorType::q5_k, TensorType::q6_k})
    files.emplace_back(type_name(type), test::packed_model(type));
  for (const auto& [name, file] : files) {
    SCOPED_TRACE(name);
    const Checkpoint checkpoint = Checkpoint::parse(test::bytes_of(file), name);
    OneSequence host(Device::host(), checkpoint, kTokens, 16);
    const std::vector<float> right = host.logits(prompt, 0);
    for (const bool same_bits : {true, false})
      for (const std::uint32_t step : {8u, 64u, 100u, kTokens}) {
        SCOPED_TRACE(testing::Message() << "steps of " << step << ", same bits " << same_bits);
        OneSequence sequence(device(), checkpoint, kTokens, 16, {true, same_bits, step});
        ASSERT_TRUE(sequence.can_stream());
        const std::vector<float> got = logits_of(sequence, prompt, step);
        double difference = 0, size = 0;
        for (std::size_t i = 0; i < right.size(); ++i) {
          difference += std::pow(got[i] - right[i], 2);
          size += std::pow(right[i], 2);
        }
        EXPECT_LT(std::sqrt(difference / size), 2e-2);
      }
  }
}

TEST_P(Logits, need_the_scratch_that_was_foretold) {
  for (const std::string& name : engine_tests::all_models()) {
    const Checkpoint checkpoint = Checkpoint::open(fixture(name));
    const model::ModelConfig& config = checkpoint.config();
    const model::Weights weights(checkpoint, device());
    step::KvSizes kv_sizes{.pages = 1, .page_size = 32};
    step::StepSizes sizes{.largest = {8, 8}, .slots = 5, .table_stride = 100};
    const auto scratch_bytes = [&] {
      const step::KvPool kv(device(), config, kv_sizes);
      const step::StepMemory memory(device(), config, weights, kv, sizes, {});
      EXPECT_EQ(memory.scratch_bytes(),
                step::StepMemory::scratch_bytes_for(device(), config, kv_sizes, sizes));
      return memory.scratch_bytes();
    };
    EXPECT_EQ(scratch_bytes() > 0, is_cuda());
    kv_sizes.type = kernels::KvType::bf16;
    for (const bool same_bits : {false, true}) {
      sizes.same_bits = same_bits;
      EXPECT_EQ(scratch_bytes() > 0, is_cuda());
    }
  }
}

TEST_P(Logits, are_the_same_bits_however_the_prompt_is_cut) {
  for (const std::string& name : engine_tests::all_models()) {
    SCOPED_TRACE(name);
    const Checkpoint checkpoint = Checkpoint::open(fixture(name));
    const std::vector<std::int32_t> prompt = engine_tests::expected(name).prompt;
    const auto size = static_cast<std::uint32_t>(prompt.size());
    OneSequence whole(device(), checkpoint, size, 16);
    const std::vector<float> expected = whole.logits(prompt, 0);
    for (const std::uint32_t page_size : {16u, 32u, 64u}) {
      OneSequence cut(device(), checkpoint, size, page_size);
      std::vector<float> logits;
      std::size_t first = 0;
      for (std::size_t chunk : {1, 7, 16, 1, 15, 66, 1, 200}) {
        chunk = std::min(chunk, prompt.size() - first);
        if (chunk == 0) break;
        const auto part =
            cut.logits(std::span(prompt).subspan(first, chunk), static_cast<std::int32_t>(first));
        logits.insert(logits.end(), part.begin(), part.end());
        first += chunk;
      }
      ASSERT_EQ(first, prompt.size());
      EXPECT_TRUE(logits == expected) << "page size " << page_size;
      OneSequence decoded(device(), checkpoint, size, page_size);
      EXPECT_TRUE(logits_of(decoded, prompt, 33, 8) == expected) << "page size " << page_size;
    }
  }
}

}  // namespace
}  // namespace attacca
