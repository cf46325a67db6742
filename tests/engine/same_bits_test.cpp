// Tests that a request gets the same bits in every way to compute it: alone and in batches, however
// its prompt is cut, with prefixes from the cache, when pages run out, for every page size, graph
// mode, scheduler and form of a step, and each type of weights and of keys and values. Compared are
// the tokens, their log-probabilities and those of the most probable others, without tolerance.
#include <gmock/gmock.h>
#include <attacca/llm.hpp>

#include <algorithm>
#include <bit>
#include <ostream>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/fixtures.hpp"
#include "model/packed_model.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::same_bits_test {
namespace {

using namespace llm;
using engine_tests::stats_when_idle;
using kernels::TensorType;
using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;
using Bits = std::vector<std::uint32_t>;

constexpr std::uint32_t kVocabulary = 320;  // of tiled_sizes
constexpr unsigned kContext = 192, kStepTokens = 170;
constexpr unsigned kLongest = 154;  // a prompt and its continuation

/// What decides on the bits; no other option does.
struct Numbers {
  const char* weights;
  TensorType stored;
  WeightFormat format = WeightFormat::as_stored;
  KvType kv = KvType::automatic;
  std::uint32_t feed_forward = 192;
};
std::ostream& operator<<(std::ostream& out, const Numbers& n) {
  return out << n.weights << ", keys and values: " << kv_type_name(n.kv) << ", " << n.feed_forward
             << " columns";
}
constexpr Numbers kFloats[] = {
    {"BF16", TensorType::bf16}, {"F16", TensorType::f16}, {"F32", TensorType::f32}};
constexpr Numbers kQuantized[] = {
    {"Q8_0", TensorType::q8_0}, {"Q4_0", TensorType::q4_0}, {"Q4_1", TensorType::q4_1}};
constexpr Numbers kFp8{"fp8", TensorType::bf16, WeightFormat::fp8};
/// Tiles need 64n columns, so all of its products are streamed.
constexpr Numbers kUntiled{.weights = "BF16", .stored = TensorType::bf16, .feed_forward = 160};
constexpr KvType kKvTypes[] = {KvType::f32, KvType::bf16, KvType::f16, KvType::fp8};

/// One way to compute the requests. The default is the plainest: one by one, in whole prompts, and
/// kernel by kernel.
struct Way {
  const char* name = "alone";
  unsigned slots = 1;
  unsigned step_tokens = kStepTokens;
  unsigned chunk = 0;
  unsigned page_size = 16;
  bool shares_prefixes = false;
  unsigned times = 1;              // that all requests run; the last replies count
  bool is_short_of_pages = false;  // there are enough for the longest request alone
  GraphMode graphs = GraphMode::off;
  llm::Scheduler scheduler = llm::Scheduler::host;
  ResidentLoop loop = ResidentLoop::self_relaunch;
  bool overlap = true;
  bool has_one_size = false;  // of graphs of each kind, so most steps are padded
};
std::ostream& operator<<(std::ostream& out, const Way& w) {
  return out << w.name << ": " << w.slots << " slots, steps of " << w.step_tokens << ", chunks of "
             << w.chunk << ", pages of " << w.page_size << (w.is_short_of_pages ? ", few" : "")
             << (w.shares_prefixes ? ", prefixes shared" : "") << ", " << w.times
             << " times, graphs " << graph_mode_name(w.graphs)
             << (w.has_one_size ? " of one size" : "") << ", " << scheduler_name(w.scheduler) << " "
             << resident_loop_name(w.loop) << (w.overlap ? "" : ", no overlap");
}

/// Each differs from the plainest in one respect, or from a batch.
std::vector<Way> ways() {
  const Way batch{.slots = 6};
  const Way graphs{.slots = 6, .graphs = GraphMode::full};
  std::vector<Way> all;
  const auto add = [&](const char* name, Way way, auto change) {
    way.name = name;
    change(way);
    all.push_back(way);
  };
  add("together", batch, [](Way&) {});
  add("in turns", batch, [](Way& w) { w.slots = 3; });
  add("token by token", batch, [](Way& w) { w.chunk = 1; });
  add("odd chunks", batch, [](Way& w) { w.chunk = 7; });
  add("small steps", batch, [](Way& w) { w.step_tokens = 24; });
  add("middle steps", batch, [](Way& w) { w.step_tokens = 90; });
  add("pages of 32", batch, [](Way& w) { w.page_size = 32; });
  add("pages of 64", batch, [](Way& w) { w.page_size = 64; });
  add("prefixes", batch, [](Way& w) {
    w.shares_prefixes = true;
    w.times = 2;
  });
  add("few pages", batch, [](Way& w) { w.is_short_of_pages = true; });
  add("few shared pages", batch, [](Way& w) { w.is_short_of_pages = w.shares_prefixes = true; });
  add("no overlap", batch, [](Way& w) { w.overlap = false; });
  add("graphs", graphs, [](Way&) {});
  add("padded graphs", graphs, [](Way& w) { w.has_one_size = true; });
  add("pieces", graphs, [](Way& w) { w.graphs = GraphMode::piecewise; });
  add("graphs of decode steps", graphs, [](Way& w) { w.graphs = GraphMode::decode; });
  add("while node", graphs, [](Way& w) {
    w.scheduler = llm::Scheduler::resident;
    w.loop = ResidentLoop::while_node;
  });
  add("relaunch", graphs, [](Way& w) { w.scheduler = llm::Scheduler::resident; });
  return all;
}

Way random_way(std::mt19937& random) {
  const auto one_of = [&](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % sizeof...(values)];
  };
  Way way{.name = "at random",
          .slots = one_of(1u, 2u, 3u, 6u, 8u),
          .step_tokens = one_of(24u, 65u, 90u, kStepTokens),
          .chunk = one_of(0u, 0u, 3u, 16u, 64u, 100u),
          .page_size = one_of(16u, 32u, 64u),
          .shares_prefixes = one_of(false, true),
          .times = one_of(1u, 2u),
          .is_short_of_pages = one_of(false, true),
          .graphs = one_of(GraphMode::full, GraphMode::full, GraphMode::piecewise,
                           GraphMode::decode, GraphMode::off),
          .scheduler = one_of(llm::Scheduler::host, llm::Scheduler::resident),
          .loop = one_of(ResidentLoop::while_node, ResidentLoop::self_relaunch),
          .overlap = one_of(false, true),
          .has_one_size = one_of(false, true)};
  if (way.scheduler == llm::Scheduler::resident) {  // which needs these
    way.graphs = GraphMode::full;
    way.overlap = true;
  } else {
    way.loop = ResidentLoop::self_relaunch;
  }
  return way;
}

Tokens text_of(std::size_t count) {
  Tokens text;
  for (std::size_t at = 0; at < count; ++at)
    text.push_back(static_cast<std::int32_t>((at * at * 37 + at * 11 + 5) % kVocabulary));
  return text;
}

/// Prompts that begin alike: the longest is a long run for attention, and more than a tile of rows.
/// Some are drawn.
std::vector<Request> requests() {
  constexpr std::pair<long, std::size_t> kLengths[] = {{140, 14}, {1, 22},  {17, 20},
                                                       {40, 9},   {70, 12}, {5, 16}};
  const Tokens text = text_of(140);
  std::vector<Request> all;
  for (const auto& [length, count] : kLengths) {
    Request request;
    request.tokens.assign(text.begin(), text.begin() + length);
    request.max_tokens = count;
    request.ignores_end = true;
    request.logprobs = 8;
    if (all.size() % 3 == 2)
      request.sampling = {.temperature = 1, .repetition_penalty = 1.2f, .seed = all.size()};
    all.push_back(request);
  }
  return all;
}

Bits bits_of(const std::vector<TokenLogprob>& logprobs) {
  Bits bits;
  const auto add = [&](std::int32_t token, float logprob) {
    bits.push_back(static_cast<std::uint32_t>(token));
    bits.push_back(std::bit_cast<std::uint32_t>(logprob));
  };
  for (const TokenLogprob& of : logprobs) {
    add(of.token, of.logprob);
    for (const auto& [token, logprob] : of.top) add(token, logprob);
  }
  return bits;
}

/// What an engine said: of each request, and of a text that it scored.
struct Answers {
  std::vector<Reply> replies;
  std::vector<TokenLogprob> scores;
  EngineStats stats;
};

void expect_same(const Answers& got, const Answers& right) {
  ASSERT_EQ(got.replies.size(), right.replies.size());
  for (std::size_t i = 0; i < right.replies.size(); ++i) {
    const Reply &ours = got.replies[i], &theirs = right.replies[i];
    ASSERT_EQ(theirs.logprobs.size(), theirs.tokens.size());
    EXPECT_EQ(ours.tokens, theirs.tokens) << "request " << i;
    EXPECT_EQ(bits_of(ours.logprobs), bits_of(theirs.logprobs)) << "request " << i;
  }
  EXPECT_EQ(bits_of(got.scores), bits_of(right.scores));
}

class SameBits : public OnEachDevice {
 protected:
  Model model_of(const Numbers& numbers) const {
    model::ModelConfig sizes = tiled_sizes();
    sizes.feed_forward = numbers.feed_forward;
    const std::string file =
        packed_model([&](const std::string&) { return numbers.stored; }, true, sizes);
    return Model(folder_.write(std::string(numbers.weights) + ".gguf", file));
  }
  EngineOptions options(const Numbers& numbers, const Way& way) const {
    EngineOptions options;
    options.same_bits = true;
    options.device = device();
    options.context = kContext;
    options.weights = numbers.format;
    options.kv_type = numbers.kv;
    options.slots = way.slots;
    options.step_tokens = way.step_tokens;
    options.prefill_chunk = way.chunk;
    options.page_size = way.page_size;
    options.shares_prefixes = way.shares_prefixes;
    if (way.is_short_of_pages) options.pages = (kLongest + way.page_size - 1) / way.page_size;
    options.graphs = way.graphs;
    options.scheduler = way.scheduler;
    options.resident_loop = way.loop;
    options.overlap = way.overlap;
    if (way.has_one_size) {
      options.decode_sizes = {way.slots};
      options.mixed_sizes = {way.step_tokens};
    }
    return options;
  }
  static Answers answers(const Model& model, const EngineOptions& options, unsigned times) {
    Engine engine(model, options);
    Answers answers;
    for (unsigned i = 0; i < times; ++i) answers.replies = engine.generate(requests());
    answers.scores = engine.score(text_of(90));
    answers.stats = stats_when_idle(engine);
    return answers;
  }
  Answers answers(const Model& model, const Numbers& numbers, const Way& way) const {
    return answers(model, options(numbers, way), way.times);
  }

  /// The host keeps keys and values in f32, and so does a GPU beside weights in F32.
  std::vector<Numbers> numbers_of_each_type() const {
    std::vector<Numbers> all(std::begin(kFloats), std::end(kFloats));
    all.insert(all.end(), std::begin(kQuantized), std::end(kQuantized));
    if (!is_cuda()) return all;
    all.push_back(kFp8);
    std::vector<Numbers> each;
    for (const Numbers& numbers : all)
      for (const KvType kv : kKvTypes) {
        if (numbers.stored == TensorType::f32 && kv != KvType::f32) continue;
        each.push_back(numbers);
        each.back().kv = kv;
      }
    return each;
  }

  void expect_same_in_each_way(const Numbers& numbers) const {
    SCOPED_TRACE(testing::Message() << numbers);
    const Model model = model_of(numbers);
    const Answers alone = answers(model, numbers, {});
    for (const Way& way : ways()) {
      SCOPED_TRACE(testing::Message() << way);
      const Answers got = answers(model, numbers, way);
      expect_same(got, alone);
      EXPECT_EQ(got.stats.tokens_from_cache > 0, way.shares_prefixes);
      EXPECT_EQ(got.stats.preemptions > 0, way.is_short_of_pages);
      EXPECT_EQ(got.stats.graph_hits > 0, way.graphs != GraphMode::off);
      if (HasFailure()) return;
    }
  }
  void expect_same_at_random(const Numbers& numbers) const {
    SCOPED_TRACE(testing::Message() << numbers);
    const Model model = model_of(numbers);
    const Answers alone = answers(model, numbers, {});
    std::mt19937 random(static_cast<unsigned>(numbers.stored) * 16 +
                        static_cast<unsigned>(numbers.kv));
    for (int i = 0; i < (is_cuda() ? 3 : 8); ++i) {
      const Way way = random_way(random);
      SCOPED_TRACE(testing::Message() << way);
      expect_same(answers(model, numbers, way), alone);
      if (HasFailure()) return;
    }
  }

 private:
  TemporaryFolder folder_;
};
ATTACCA_ON_EACH_DEVICE(SameBits);

/// On the host one type of each kind is tried in each way, since sanitizers are slow there. The
/// others are left to the ways at random.
TEST_P(SameBits, come_in_each_way_to_compute_with_weights_that_are_floats) {
  for (const Numbers& numbers : kFloats)
    if (is_cuda() || numbers.stored == TensorType::bf16) expect_same_in_each_way(numbers);
  if (is_cuda()) expect_same_in_each_way(kUntiled);
  if (is_cuda()) expect_same_in_each_way(kFp8);
}

TEST_P(SameBits, come_in_each_way_to_compute_with_quantized_weights) {
  for (const Numbers& numbers : kQuantized)
    if (is_cuda() || numbers.stored == TensorType::q4_0) expect_same_in_each_way(numbers);
}

TEST_P(SameBits, come_in_each_way_with_keys_and_values_of_each_type) {
  if (!is_cuda()) GTEST_SKIP() << "the host keeps keys and values in f32";
  for (const KvType kv : {KvType::f32, KvType::f16, KvType::fp8})
    expect_same_in_each_way({.weights = "BF16", .stored = TensorType::bf16, .kv = kv});
}

TEST_P(SameBits, come_in_ways_at_random_with_weights_that_are_floats) {
  for (const Numbers& numbers : numbers_of_each_type())
    if (!kernels::is_quantized(numbers.stored)) expect_same_at_random(numbers);
}

TEST_P(SameBits, come_in_ways_at_random_with_quantized_weights) {
  for (const Numbers& numbers : numbers_of_each_type())
    if (kernels::is_quantized(numbers.stored)) expect_same_at_random(numbers);
}

TEST_P(SameBits, of_a_reply_are_those_of_its_text_read_as_a_prompt) {
  for (const Numbers& numbers : numbers_of_each_type()) {
    SCOPED_TRACE(testing::Message() << numbers);
    Engine engine(model_of(numbers), options(numbers, {}));
    for (const Request& request : requests()) {
      const Reply reply = engine.generate(request);
      Tokens text = request.tokens;
      text.insert(text.end(), reply.tokens.begin(), reply.tokens.end());
      const std::vector<TokenLogprob> scores = engine.score(text);
      for (std::size_t at = 0; at < reply.tokens.size(); ++at)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(scores[request.tokens.size() - 1 + at].logprob),
                  std::bit_cast<std::uint32_t>(reply.logprobs[at].logprob))
            << "behind " << request.tokens.size() << " tokens, token " << at;
    }
  }
}

/// Without same_bits, since with it decode steps have one form. Requests run alone, so that both
/// forms compute the same batches.
TEST_P(SameBits, come_in_both_forms_of_a_decode_step) {
  for (const Numbers& numbers : {kFloats[0], Numbers{"BF16", TensorType::bf16, {}, KvType::f32}}) {
    if (numbers.kv == KvType::f32 && !is_cuda()) continue;
    SCOPED_TRACE(testing::Message() << numbers);
    const Model model = model_of(numbers);
    EngineOptions with = options(numbers, {.graphs = GraphMode::full});
    with.same_bits = false;
    const Answers right = answers(model, with, 1);
    with.step_form = StepForm::persistent;
    EXPECT_THAT(Engine(model, with).explain_steps(),
                HasSubstr(!is_cuda()                        ? "the host has no such kernel"
                          : numbers.kv == KvType::automatic ? "one persistent kernel"
                                                            : "not in bf16"));
    expect_same(answers(model, with, 1), right);
    with.scheduler = llm::Scheduler::resident;
    for (const ResidentLoop loop : {ResidentLoop::while_node, ResidentLoop::self_relaunch}) {
      with.resident_loop = loop;
      expect_same(answers(model, with, 1), right);
    }
  }
}

TEST_P(SameBits, differ_where_weights_or_keys_and_values_are_other_numbers) {
  std::vector<Bits> all;
  for (const Numbers& numbers : numbers_of_each_type())
    all.push_back(bits_of(answers(model_of(numbers), numbers, {}).scores));
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]) << i << ", " << j;
}

TEST_P(SameBits, are_compared_on_the_fast_kernels_of_a_hopper) {
  if (!is_cuda() || device().compute_capability() != 90) GTEST_SKIP() << "no Hopper";
  for (const Product& product : Engine(model_of(kFloats[0]), options(kFloats[0], {})).products()) {
    EXPECT_THAT(product.kernel, HasSubstr("tiled_linear for many rows"));
    EXPECT_EQ(product.reason, "");
  }
}

}  // namespace
}  // namespace attacca::test::same_bits_test
