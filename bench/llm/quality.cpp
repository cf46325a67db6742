// quality.cpp: what rounding costs a model: the perplexity of text that the model wrote itself, at
// temperature 1, when weights, or keys and values, or both have fewer bits. With weights as stored
// it is also compared with the host, whose products are exact to 15 bits or more and which knows no
// fp8 weights; its keys and values are in f32. And what our kernels add to that: weights of every
// type are compared with the same weights dequantized to float32, which the host multiplies.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>

#include "llm/bench_folder.hpp"
#include "llm/engine_runs.hpp"
#include "llm/rounded_file.hpp"
#include "model/dequantized.hpp"
#include "model/embedded.hpp"
#include "model/random_model.hpp"
#include "model/shapes.hpp"

namespace bench {

namespace {

using namespace attacca::llm;
using attacca::kernels::TensorType;
using attacca::model::Checkpoint;

constexpr unsigned kTexts = 8;
constexpr unsigned kRandomTexts = 32;  // of random weights, whose text is harder to foretell
constexpr std::size_t kTokens = 256;   // most tokens of a text

std::vector<std::vector<std::int32_t>> texts_of(const Model& model, const EngineOptions& options,
                                                unsigned count) {
  Engine engine(model, options);
  std::vector<Request> requests(count);
  for (unsigned i = 0; i < count; ++i) {
    requests[i].tokens = random_tokens(model, 1, i);
    requests[i].max_tokens = engine.options().context - 1;
    requests[i].ignores_end = true;
    requests[i].sampling.temperature = 1;
    requests[i].sampling.seed = i;
  }
  std::vector<std::vector<std::int32_t>> texts;
  for (unsigned i = 0; i < count; ++i) {
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
/// The host has no fp8 weights, and keeps keys and values in f32.
bool can_run(const Form& form, const attacca::Device& device) {
  return device.is_cuda() || (form.weights == WeightFormat::as_stored && form.kv == KvType::f32);
}
/// The most that a perplexity may differ from that of the host, in per mille.
constexpr double kMostOff = 1;

double per_mille_over(double value, double base) { return 1000 * (value / base - 1); }

/// A model and the texts that it wrote.
class Texts {
 public:
  Texts(Run& run, const Model& model, unsigned count = kTexts) {
    options_.device = run.device;
    options_.context = std::min(model.context(), kTokens);
    texts_ = texts_of(model, options_, run.is_quick() ? 2 : count);
  }
  void note(Run& run, const std::string& author) const {
    run.note(fmt::format("{} texts of {} tokens, written by {}", texts_.size(), texts_[0].size(),
                         author));
  }
  double perplexity(const Model& model, const attacca::Device& device, const Form& form) const {
    EngineOptions options = options_;
    options.device = device;
    options.weights = form.weights;
    options.kv_type = form.kv;
    options.same_bits = form.same_bits;
    Engine engine(model, options);
    return bench::perplexity(engine, texts_);
  }

 private:
  EngineOptions options_;
  std::vector<std::vector<std::int32_t>> texts_;
};

nlohmann::ordered_json params_of(const Model& model, const std::string& weights, const Form& form) {
  return {{"model", model.name()},
          {"weights", weights},
          {"kv", kv_type_name(form.kv)},
          {"same bits", form.same_bits ? "on" : "off"}};
}

void measure_forms(Run& run, const Model& model, const Texts& texts) {
  const double exact =
      texts.perplexity(model, attacca::Device::host(), {WeightFormat::as_stored, KvType::f32});
  std::optional<double> stored;
  for (const Form& form : kForms) {
    if (!can_run(form, run.device)) continue;
    const auto params = params_of(model, weight_format_name(form.weights), form);
    const double value = texts.perplexity(model, run.device, form);
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

/// Compares the weights of a file, or fp8 made of them, with the same weights in float32 on the
/// host. `name`: what the weights are called.
void measure_rounding(Run& run, const std::filesystem::path& file, const std::string& name,
                      WeightFormat weights, const Texts& texts) {
  const BenchFolder folder;
  const std::filesystem::path floats = folder.path() / "floats.gguf";
  using Format = attacca::model::WeightFormat;
  attacca::model::write_dequantized(Checkpoint::open(file),
                                    weights == WeightFormat::fp8 ? Format::fp8 : Format::as_stored,
                                    floats);
  const double exact = texts.perplexity(Model(floats.string()), attacca::Device::host(),
                                        {WeightFormat::as_stored, KvType::f32});
  const Model model(file.string());
  for (const KvType kv : {KvType::f32, KvType::bf16}) {
    const Form form{weights, kv};
    if (!can_run(form, run.device)) continue;
    const double value = texts.perplexity(model, run.device, form);
    run.add({.name = "off the same weights in float32",
             .params = params_of(model, name, form),
             .value = summarize({std::abs(per_mille_over(value, exact))}),
             .unit = "‰",
             .limit = kMostOff});
  }
}

constexpr TensorType kRounded[] = {TensorType::bf16, TensorType::f16, TensorType::q8_0,
                                   TensorType::q4_0, TensorType::q4_1};
constexpr TensorType kOfBlocks[] = {TensorType::q4_k, TensorType::q5_k, TensorType::q6_k};

constexpr double kMostElements = 1.5e9;  // 6 GB of float32, in memory and in a file

/// The types that a model can be rounded to, and fp8.
void measure_types(Run& run, const Model& model, const Checkpoint& checkpoint, const Texts& texts) {
  if (!checkpoint.gguf())
    return run.note(model.name() + " is no GGUF file, so it is not compared in other types");
  if (const double elements = attacca::model::parameters_per_token(checkpoint.config());
      elements > kMostElements)
    return run.note(fmt::format(
        "{} has {:.1f} billion weights, and files in float32 are made for up to {:.1f} billion, so "
        "it is not compared in other types",
        model.name(), elements / 1e9, kMostElements / 1e9));
  for (const TensorType type : kRounded) {
    const BenchFolder folder;
    const std::filesystem::path file = folder.path() / "rounded.gguf";
    try {
      write_rounded(checkpoint, type, file);
    } catch (const attacca::BadArgument& error) {
      run.note(fmt::format("{} is not compared: {}", type_name(type), error.what()));
      continue;
    }
    measure_rounding(run, file, type_name(type), WeightFormat::as_stored, texts);
    if (type == TensorType::bf16 && can_run({WeightFormat::fp8, KvType::f32}, run.device))
      measure_rounding(run, file, "fp8", WeightFormat::fp8, texts);
  }
}

/// K-quants have 256 elements in a block, of which the rows of both models are no multiple. So they
/// are measured with random weights.
void measure_random(Run& run) {
  attacca::model::ModelConfig config = attacca::model::shape_called("llama-1b");
  config.name = "small model";
  config.hidden = 512;
  config.layers = 4;
  config.heads = 8;
  config.kv_heads = 2;
  config.feed_forward = 1024;
  config.context = kTokens;
  const Checkpoint embedded = attacca::model::open_embedded();
  config.vocabulary = embedded.config().vocabulary;
  for (const TensorType type : kOfBlocks) {
    const BenchFolder folder;
    const std::filesystem::path file = folder.path() / "random.gguf";
    attacca::model::write_random_model({.config = config, .weights = type}, *embedded.gguf(), file);
    const Texts texts(run, Model(file.string()), kRandomTexts);
    texts.note(run, fmt::format("a small model with random weights in {}", type_name(type)));
    measure_rounding(run, file, type_name(type), WeightFormat::as_stored, texts);
  }
}

void measure(Run& run, const std::string& path) {
  const Model model(path);
  const Texts texts(run, model);
  texts.note(run, model.name() + " with its weights as stored");
  measure_forms(run, model, texts);
  measure_types(run, model, path.empty() ? attacca::model::open_embedded() : Checkpoint::open(path),
                texts);
}

void run_quality(Run& run) {
  const std::string path = model_path_of(run);
  if (run.engine.model.empty() || path.empty()) measure(run, "");
  if (!path.empty()) measure(run, path);
  measure_random(run);
}

const Registered registered{{.name = "quality",
                             .question = "what does a model lose when its numbers are rounded?",
                             .needs = Needs::either,
                             .run = run_quality,
                             .is_engine = true}};

}  // namespace

}  // namespace bench
