// sampling.cpp: the time that each way to sample adds to greedy sampling: the sampler alone, over
// one row and over many, with the vocabulary of Llama 3.
#include <fmt/core.h>
#include <attacca/attacca.hpp>

#include <numeric>
#include <optional>
#include <random>

#include "harness.hpp"
#include "kernels/sample/sample.hpp"
#include "llm/device_clock.hpp"

namespace bench {

namespace {

using namespace attacca;
using kernels::SamplingParams;

constexpr std::uint32_t kVocabulary = 128'256;
constexpr int kSamples = 51;
constexpr int kHostSamples = 5;
constexpr unsigned kLaunches = 10;  // in a sample

struct Way {
  const char* name;
  SamplingParams params;
};

constexpr std::uint32_t kBiases = 300;

void penalize(SamplingParams& p) {
  p.repetition_penalty = 1.1f;
  p.presence_penalty = 0.2f;
  p.frequency_penalty = 0.1f;
  p.biases = kBiases;
  p.mask = 0;
}

std::vector<Way> ways() {
  const auto with = [](auto change) {
    SamplingParams params;
    params.last_position = 1 << 30;
    params.seed = 7;
    change(params);
    return params;
  };
  return {
      {"greedy", with([](SamplingParams&) {})},
      {"temperature 0.7", with([](SamplingParams& p) { p.temperature = 0.7f; })},
      {"temperature 0.7, top-p 0.95", with([](SamplingParams& p) {
         p.temperature = 0.7f;
         p.top_p = 0.95f;
       })},
      {"temperature 0.7, top-k 40", with([](SamplingParams& p) {
         p.temperature = 0.7f;
         p.top_k = 40;
       })},
      {"temperature 0.7, min-p 0.05", with([](SamplingParams& p) {
         p.temperature = 0.7f;
         p.min_p = 0.05f;
       })},
      {"greedy, 20 log-probabilities", with([](SamplingParams& p) { p.top_logprobs = 20; })},
      {"temperature 0.7, top-k 1000, top-p 0.95", with([](SamplingParams& p) {
         p.temperature = 0.7f;
         p.top_k = 1000;
         p.top_p = 0.95f;
       })},
      {"penalties, 300 biases, mask, top-p 0.95", with([](SamplingParams& p) {
         p.temperature = 0.7f;
         p.top_p = 0.95f;
         penalize(p);
       })},
      {"all of them", with([](SamplingParams& p) {
         p.temperature = 0.7f;
         p.top_k = 40;
         p.top_p = 0.95f;
         p.min_p = 0.001f;
         p.top_logprobs = 20;
         penalize(p);
       })},
  };
}

/// Logits spread like those of models, or nearly all equal.
std::vector<float> logits_of(std::uint32_t rows, float spread) {
  std::mt19937 random(rows);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(std::size_t{rows} * kVocabulary);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

class Batch {
 public:
  Batch(const Device& device, std::uint32_t rows, float spread)
      : device_(device),
        rows_(rows),
        count_(device, std::vector<std::uint32_t>{rows}),
        fresh_(device, logits_of(rows, spread)),
        logits_(device, fresh_.size()),
        slots_(device, numbers(rows)),
        positions_(device, numbers(rows)),
        marks_(device, marks_of(rows)),
        biases_(device, biases_of(rows)),
        allowed_(device, std::vector<std::uint32_t>(
                             std::size_t{rows} * kernels::mask_words(kVocabulary), 0xfffffffeu)),
        stop_(device, std::size_t{rows} * SamplingParams::kMaxStopTokens),
        params_(device, rows),
        out_(device, rows),
        exec_(graph().instantiate()) {}

  void use(const SamplingParams& params) {
    params_.write(std::vector<SamplingParams>(rows_, params));
  }
  void launch(StreamRef stream) { exec_.launch(stream); }

 private:
  static std::vector<std::int32_t> numbers(std::uint32_t count) {
    std::vector<std::int32_t> values(count);
    std::iota(values.begin(), values.end(), 0);
    return values;
  }
  static std::int32_t biased_token(std::uint32_t at) { return static_cast<std::int32_t>(at * 401); }
  static std::vector<kernels::TokenBias> biases_of(std::uint32_t rows) {
    std::vector<kernels::TokenBias> biases(std::size_t{rows} * SamplingParams::kMaxBiases);
    for (std::size_t at = 0; at < biases.size(); ++at)
      biases[at] = {biased_token(static_cast<std::uint32_t>(at % SamplingParams::kMaxBiases)),
                    0.5f};
    return biases;
  }
  /// A prompt of a thousand tokens.
  static std::vector<std::uint16_t> marks_of(std::uint32_t rows) {
    std::vector<std::uint16_t> marks(std::size_t{rows} * kVocabulary);
    std::mt19937 random(rows);
    for (std::size_t row = 0; row < rows; ++row)
      for (int at = 0; at < 1000; ++at)
        marks[row * kVocabulary + random() % kVocabulary] |= kernels::TokenMark::kInPrompt;
    return marks;
  }
  Graph graph() {
    const kernels::SampleArgs args{.logits = logits_.data(),
                                   .vocabulary = kVocabulary,
                                   .rows = {count_.data(), rows_},
                                   .slots = slots_.data(),
                                   .positions = positions_.data(),
                                   .forced = nullptr,
                                   .params = params_.data(),
                                   .tokens = {.stop = stop_.data(),
                                              .bias = biases_.data(),
                                              .masks = allowed_.data(),
                                              .marks = marks_.data()},
                                   .out = out_.data()};
    Graph graph(device_, "sample");
    const Node copied = graph.copy(logits_.data(), fresh_.data(), fresh_.size() * sizeof(float));
    graph.kernel(kernels::sample(args), kernels::grid_of(args, device_.is_cuda()), args)
        .after(copied);
    return graph;
  }

  Device device_;
  std::uint32_t rows_;
  Buffer<std::uint32_t> count_;
  Buffer<float> fresh_;  // sampling may change those that it reads
  Buffer<float> logits_;
  Buffer<std::int32_t> slots_;
  Buffer<std::int32_t> positions_;
  Buffer<std::uint16_t> marks_;
  Buffer<kernels::TokenBias> biases_;
  Buffer<std::uint32_t> allowed_;
  Buffer<std::int32_t> stop_;
  Buffer<SamplingParams> params_;
  Buffer<kernels::Sampled> out_;
  Exec exec_;
};

void sampling(Run& run) {
  constexpr double kMostMore[] = {40, 100};  // µs over greedy, for one row and for many
  const DeviceClock clock = device_clock(run.device);
  const int samples = run.device.is_cuda() ? kSamples : kHostSamples;
  for (const double spread : {3.0, 0.1})
    for (const std::uint32_t rows : {1u, 64u}) {
      Batch batch(run.device, rows, static_cast<float>(spread));
      std::optional<double> greedy;  // the first way
      for (const Way& way : ways()) {
        batch.use(way.params);
        const auto launch = [&](StreamRef stream) { batch.launch(stream); };
        const Summary time = run.interleave(fmt::format("{}, {} rows", way.name, rows), samples,
                                            {[&] { return clock(launch, kLaunches); }})
                                 .front();
        Row row{way.name, {{"rows", rows}, {"sigma", spread}}, time};
        if (greedy) {
          row.baseline = greedy;
          if (run.device.is_cuda()) row.limit = *greedy + kMostMore[rows == 1 ? 0 : 1];
        } else {
          greedy = time.median;
        }
        run.add(std::move(row));
      }
    }
  run.note(
      fmt::format("All times include a copy of the logits to where the sampler reads them, which "
                  "stands for the head. The baseline is greedy sampling of the same rows; the gate "
                  "allows {} µs more for one row and {} µs more for many.",
                  kMostMore[0], kMostMore[1]));
}

const Registered registered{{.name = "sampling",
                             .question = "what does each way to sample add to a greedy step?",
                             .needs = Needs::either,
                             .run = sampling,
                             .is_engine = true}};

}  // namespace

}  // namespace bench
