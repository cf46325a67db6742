// quality.cpp: what fp8 costs a model: the perplexity of text that the model wrote itself, at
// temperature 1, when weights, or keys and values, or both are rounded. The logarithm of a ratio of
// perplexities is the loss in nats per token.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "llm/engine_runs.hpp"

namespace bench {

namespace {

using namespace attacca::llm;

constexpr unsigned kTexts = 8;
constexpr std::size_t kTokens = 256;  // most tokens of a text

std::vector<std::vector<std::int32_t>> texts_of(const Model& model, const EngineOptions& options) {
  Engine engine(model, options);
  std::vector<Request> requests(kTexts);
  for (unsigned i = 0; i < kTexts; ++i) {
    requests[i].tokens = random_tokens(model, 1, i);
    requests[i].max_tokens = engine.options().context - 1;
    requests[i].ignores_end = true;
    requests[i].sampling.temperature = 1;
    requests[i].sampling.seed = i;
  }
  std::vector<std::vector<std::int32_t>> texts;
  for (unsigned i = 0; i < kTexts; ++i) {
    texts.push_back(requests[i].tokens);
    const Reply reply = engine.generate(requests[i]);
    texts.back().insert(texts.back().end(), reply.tokens.begin(), reply.tokens.end());
  }
  return texts;
}

double perplexity(Engine& engine, const std::vector<std::vector<std::int32_t>>& texts) {
  double sum = 0;
  double count = 0;
  for (const auto& text : texts)
    for (const TokenLogprob& token : engine.score(text)) {
      sum -= token.logprob;
      count += 1;
    }
  return std::exp(sum / count);
}

void run_quality(Run& run) {
  const Model model = model_of(run);
  EngineOptions options;
  options.device = run.device;
  options.context = std::min(model.context(), kTokens);
  const auto texts = texts_of(model, options);
  run.note(fmt::format("{} texts of {} tokens that {} wrote with its weights as stored", kTexts,
                       texts[0].size(), model.name()));
  std::optional<double> exact;
  for (const WeightFormat weights : {WeightFormat::as_stored, WeightFormat::fp8})
    for (const KvType kv : {KvType::f32, KvType::bf16, KvType::fp8}) {
      options.weights = weights;
      options.kv_type = kv;
      Engine engine(model, options);
      const double value = perplexity(engine, texts);
      if (!exact) exact = value;
      Row row{.name = "perplexity",
              .params = {{"weights", weight_format_name(weights)}, {"kv", kv_type_name(kv)}},
              .value = summarize({value}),
              .unit = ""};
      row.baseline = *exact;
      run.add(row);
    }
}

const Registered registered{{.name = "quality",
                             .question = "what do fp8 weights, and fp8 keys and values, cost?",
                             .needs = Needs::cuda,
                             .run = run_quality,
                             .is_engine = true}};

}  // namespace

}  // namespace bench
