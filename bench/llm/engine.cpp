// engine.cpp: what a program sees that opens a model and sends it requests: time to load, time to
// the first token, tokens per second, and the host's work. The same steps without an engine, as the
// benchmarks `prefill` and `decode` measure them, are the comparison.
#include <fmt/core.h>

#include <algorithm>
#include <attacca/error.hpp>
#include <cmath>
#include <optional>

#include "engine/sizing.hpp"
#include "llm/engine_runs.hpp"
#include "llm/random_file.hpp"
#include "llm/synthetic_runs.hpp"
#include "model/embedded.hpp"

namespace bench {

namespace {

using namespace attacca::llm;
using nlohmann::ordered_json;

constexpr float kTemperature = 0.7f;
constexpr float kTopP = 0.95f;
constexpr double kSeconds = 4;  // of rounds, unless they are the fewest

/// Tokens of each request.
struct Lengths {
  unsigned prompt = 512;
  unsigned output = 128;
};

/// A model, and how many requests at once.
struct Case {
  std::string shape;
  std::string weights;
  std::vector<unsigned> slots;
};

std::vector<unsigned> slots_of(const Run& run, std::vector<unsigned> otherwise) {
  return run.engine.slots.empty() ? std::move(otherwise) : run.engine.slots;
}

/// The requested shapes and types, or those that docs/performance.md shows.
std::vector<Case> cases_of(const Run& run) {
  const EngineChoices& asked = run.engine;
  std::vector<Case> cases;
  if (!asked.shapes.empty() || !asked.weights.empty()) {
    const std::vector<std::string> shapes =
        asked.shapes.empty() ? std::vector<std::string>{"llama-1b"} : asked.shapes;
    const std::vector<std::string> weights =
        asked.weights.empty() ? std::vector<std::string>{"bf16"} : asked.weights;
    for (const std::string& shape : shapes)
      for (const std::string& type : weights) cases.push_back({shape, type, slots_of(run, {1, 8})});
    return cases;
  }
  cases.push_back({"llama-1b", "bf16", slots_of(run, {1, 8, 64, 256})});
  if (run.is_quick()) return cases;
  for (const char* type : {"q8_0", "q4_1", "q4_k", "q6_k"})
    cases.push_back({"llama-1b", type, slots_of(run, {8, 64})});
  for (const char* shape : {"smollm2-135m", "qwen3-8b"})
    cases.push_back({shape, "bf16", slots_of(run, {8, 64})});
  return cases;
}

/// What an engine did with `slots` requests at once, in each of a few rounds.
struct Served {
  unsigned slots;
  double load_us = 0;
  Summary first_token_us = {};
  Summary tokens_per_second = {};
  Summary host_us = {};  // of the host's work, per step
  Summary idle_us = {};  // of that work while no step ran
};

/// Microseconds of steps without an engine.
struct Alone {
  double prompt;  // one
  double all;     // the prompts of all slots, one by one, and the steps that write their outputs
};

class EngineRun {
 public:
  EngineRun(Run& run, Lengths lengths)
      : run_(run), lengths_(lengths), clock_(device_clock(run.device)) {}

  /// `params` describe the model in rows; `path` is empty for the embedded model.
  void run_model(const ordered_json& params, const std::string& path,
                 const std::vector<unsigned>& slots) {
    std::vector<Served> served;
    attacca::kernels::KvType kv_type{};
    for (const unsigned count : slots) served.push_back(serve(params, path, count, kv_type));
    const std::vector<Alone> alone = steps_alone(params, path, slots, kv_type);
    for (std::size_t at = 0; at < served.size(); ++at) add_rows(params, served[at], alone[at]);
  }

 private:
  std::string label(const ordered_json& params, unsigned slots) const {
    std::string text;
    for (const auto& [key, value] : params.items()) text += value.get<std::string>() + ", ";
    return text + fmt::format("{} at once", slots);
  }

  /// An engine for `slots` sequences, which gets as many requests at once.
  Served serve(const ordered_json& params, const std::string& path, unsigned slots,
               attacca::kernels::KvType& kv_type) {
    std::optional<Model> model;
    std::optional<Engine> engine;
    EngineOptions options;
    options.device = run_.device;
    options.slots = slots;
    Served served{.slots = slots};
    const std::string what = label(params, slots);
    const Progress progress = [&](std::string_view task, std::uint64_t done, std::uint64_t all) {
      if (all > 0) run_.show_progress(fmt::format("{}, {}", what, task), 100 * done / all, 100);
    };
    served.load_us = microseconds([&] {
      model.emplace(path, progress);
      engine.emplace(*model, options, progress);
    });
    if (model->context() < lengths_.prompt + lengths_.output)
      throw attacca::BadArgument(fmt::format("{} has a context of {} tokens, and {} are asked for",
                                             model->name(), model->context(),
                                             lengths_.prompt + lengths_.output));
    kv_type = attacca::engine::kernel_type(engine->options().kv_type);
    served.first_token_us =
        run_.interleave(what, 5, {[&] {
                          Request request = this->request(*model);
                          request.max_tokens = 1;
                          return engine->generate(request).seconds_to_first_token * 1e6;
                        }})[0];
    measure_rounds(*model, *engine, what, served);
    return served;
  }

  void measure_rounds(const Model& model, Engine& engine, const std::string& what, Served& served) {
    std::vector<double> rates, host, idle;
    std::size_t rounds = 1;
    for (std::size_t round = 0; round <= rounds; ++round) {
      std::vector<Request> requests(served.slots);
      for (Request& each : requests) each = request(model);
      const EngineStats before = engine.stats();
      std::vector<Reply> replies;
      const double us = microseconds([&] { replies = engine.generate(requests); });
      for (const Reply& reply : replies)
        if (reply.tokens.size() != lengths_.output)
          throw attacca::Error(fmt::format("{}: a reply of {} tokens ended as '{}' {}", what,
                                           reply.tokens.size(), finish_name(reply.finish),
                                           reply.error));
      engine.wait_until_idle();
      const EngineStats after = engine.stats();
      if (round == 0) {  // the first round loads what is used for the first time
        rounds = static_cast<std::size_t>(
            std::clamp(kSeconds * 1e6 / us, run_.is_quick() ? 1.0 : 2.0, 5.0));
        continue;
      }
      run_.show_progress(what, round, rounds);
      const auto steps = static_cast<double>(after.steps - before.steps);
      const double outside = after.seconds_idle - before.seconds_idle;
      const double hidden = after.seconds_overlapped - before.seconds_overlapped;
      rates.push_back(1e6 * served.slots * lengths_.output / us);
      host.push_back((outside + hidden) / steps * 1e6);
      idle.push_back(outside / steps * 1e6);
    }
    served.tokens_per_second = summarize(std::move(rates));
    served.host_us = summarize(std::move(host));
    served.idle_us = summarize(std::move(idle));
  }

  /// A prompt with no cached prefix, and a seed of its own.
  Request request(const Model& model) {
    Request request;
    request.tokens = random_tokens(model, lengths_.prompt, ++requests_);
    request.max_tokens = lengths_.output;
    request.sampling.temperature = kTemperature;
    request.sampling.top_p = kTopP;
    request.sampling.seed = requests_;
    request.ignores_end = true;
    return request;
  }

  std::vector<Alone> steps_alone(const ordered_json& params, const std::string& path,
                                 const std::vector<unsigned>& slots,
                                 attacca::kernels::KvType kv_type) {
    const attacca::model::Checkpoint checkpoint =
        path.empty() ? attacca::model::open_embedded() : attacca::model::Checkpoint::open(path);
    const unsigned context = lengths_.prompt + lengths_.output / 2;
    const SyntheticBatch prompt{{.context = 0, .tokens = lengths_.prompt}};
    const auto decoding = [&](unsigned count) { return SyntheticBatch(count, {context}); };
    const unsigned most = *std::max_element(slots.begin(), slots.end());
    const SyntheticModel model(checkpoint, run_.device,
                               std::max(pages_of(prompt), pages_of(decoding(most))), kv_type);
    const auto time = [&](const SyntheticBatch& batch, const std::string& what) {
      const SyntheticStep step(model, batch);
      return time_steps(run_, clock_, variants_of({&step}, {GraphMode::full}), what)[0].median;
    };
    const double prefill = time(prompt, label(params, 1) + ", its prompt alone");
    std::vector<Alone> times;
    for (const unsigned count : slots)
      times.push_back(
          {prefill, count * prefill +
                        (lengths_.output - 1) *
                            time(decoding(count), label(params, count) + ", its steps alone")});
    return times;
  }

  void add_rows(const ordered_json& params, const Served& served, const Alone& alone) {
    const auto row_of = [&](const char* name, const Summary& value, const char* unit) -> Row {
      Row row{.name = name, .params = params, .value = value, .unit = unit};
      row.params["slots"] = served.slots;
      return row;
    };
    Row rate = row_of("output", served.tokens_per_second, "tokens/s");
    rate.is_rate = true;
    rate.baseline = 1e6 * served.slots * lengths_.output / alone.all;
    rate.limit = rate.baseline;
    run_.add(rate);
    run_.add(row_of("load", scaled({served.load_us, served.load_us, served.load_us}, 1e-3), "ms"));
    Row first = row_of("first token", scaled(served.first_token_us, 1e-3), "ms");
    first.baseline = alone.prompt * 1e-3;
    run_.add(first);
    run_.add(row_of("host work a step", served.host_us, "µs"));
    run_.add(row_of("host work a step, nothing running", served.idle_us, "µs"));
  }

  Run& run_;
  Lengths lengths_;
  DeviceClock clock_;
  unsigned requests_ = 0;
};

void run_engine(Run& run) {
  const Lengths lengths = run.is_quick() ? Lengths{64, 16} : Lengths{};
  run.note(fmt::format(
      "requests of {} tokens of prompt and {} of output, sampled at temperature {} and top-p {}, "
      "all submitted at once; every other option of the engine is the default",
      lengths.prompt, lengths.output, kTemperature, kTopP));
  run.note(
      "compared with the prompts one by one and the decode steps of all, in graphs and without an "
      "engine, as the benchmarks prefill and decode measure them; the gate is to be no slower. The "
      "first token, of one request alone, is compared with one prompt");
  EngineRun engine(run, lengths);
  const bool has_choice = !(run.engine.shapes.empty() && run.engine.weights.empty());
  if (!is_synthetic(run) && (run.engine.weights.empty() || !run.engine.model.empty())) {
    const std::string path = model_path_of(run);
    run.note(fmt::format("model: {}", Model(path).name()));
    return engine.run_model(ordered_json::object(), path, slots_of(run, {1, 8}));
  }
  run.note("load: a file of random weights, just written, to the engine with all its graphs");
  for (const Case& each : cases_of(run)) {
    std::optional<RandomFile> file;
    try {
      file.emplace(run, each.shape, each.weights);
    } catch (const attacca::Error& error) {  // such as a disk that is too small for the largest
      if (has_choice) throw;
      run.note(fmt::format("{} in {} left out: {}", each.shape, each.weights, error.what()));
      continue;
    }
    engine.run_model({{"shape", each.shape}, {"weights", each.weights}}, file->path().string(),
                     each.slots);
  }
}

const Registered registered{{.name = "engine",
                             .question = "what does the path cost that people take?",
                             .needs = Needs::either,
                             .run = run_engine,
                             .is_engine = true}};

}  // namespace

}  // namespace bench
