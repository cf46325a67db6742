// quality.cpp: what rounding costs a model: the perplexity of text that the model wrote itself, at
// temperature 1, when weights, or keys and values, or both have fewer bits. With weights as stored
// it is also compared with the host, whose products are exact to 15 bits or more and which knows no
// fp8 weights; its keys and values are in f32.
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

/// One engine of a table: how its weights, keys and values are rounded, and the order of its sums.
struct Form {
  WeightFormat weights;
  KvType kv;
  bool same_bits = false;
};
constexpr Form kForms[] = {{WeightFormat::as_stored, KvType::f32},
                           {WeightFormat::as_stored, KvType::bf16},
                           {WeightFormat::as_stored, KvType::bf16, true},
                           {WeightFormat::as_stored, KvType::fp8},
                           {WeightFormat::fp8, KvType::f32},
                           {WeightFormat::fp8, KvType::bf16},
                           {WeightFormat::fp8, KvType::bf16, true},
                           {WeightFormat::fp8, KvType::fp8}};
/// The most that a perplexity may differ from that of the host, in per mille.
constexpr double kMostOff = 1;

double per_mille_over(double value, double base) { return 1000 * (value / base - 1); }

void measure(Run& run, const Model& model) {
  EngineOptions options;
  options.device = run.device;
  options.context = std::min(model.context(), kTokens);
  const auto texts = texts_of(model, options);
  run.note(fmt::format("{} texts of {} tokens that {} wrote with its weights as stored", kTexts,
                       texts[0].size(), model.name()));
  const auto perplexity_on = [&](const attacca::Device& device, const Form& form) {
    options.device = device;
    options.weights = form.weights;
    options.kv_type = form.kv;
    options.same_bits = form.same_bits;
    Engine engine(model, options);
    return perplexity(engine, texts);
  };
  const double exact =
      perplexity_on(attacca::Device::host(), {WeightFormat::as_stored, KvType::f32});
  std::optional<double> stored;
  for (const Form& form : kForms) {
    const nlohmann::ordered_json params = {{"model", model.name()},
                                           {"weights", weight_format_name(form.weights)},
                                           {"kv", kv_type_name(form.kv)},
                                           {"same bits", form.same_bits ? "on" : "off"}};
    const double value = perplexity_on(run.device, form);
    if (!stored) stored = value;
    run.add({.name = "perplexity", .params = params, .value = summarize({value}), .unit = ""});
    run.add({.name = "over weights as stored with f32 keys and values",
             .params = params,
             .value = summarize({per_mille_over(value, *stored)}),
             .unit = "‰"});
    if (form.weights != WeightFormat::as_stored) continue;
    Row off{.name = "off the same weights on the host",
            .params = params,
            .value = summarize({std::abs(per_mille_over(value, exact))}),
            .unit = "‰"};
    if (form.kv != KvType::fp8) off.limit = kMostOff;
    run.add(off);
  }
}

void run_quality(Run& run) {
  const std::string path = model_path_of(run);
  if (run.engine.model.empty() || path.empty()) measure(run, Model(""));
  if (!path.empty()) measure(run, Model(path));
}

const Registered registered{{.name = "quality",
                             .question = "what does a model lose when its numbers are rounded?",
                             .needs = Needs::cuda,
                             .run = run_quality,
                             .is_engine = true}};

}  // namespace

}  // namespace bench
