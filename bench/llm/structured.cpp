// structured.cpp: what a grammar adds to a step. The same requests run without a grammar, and with
// one whose masks the device has already: greedy replies that were given before take the same way
// through the automaton.
#include <fmt/core.h>

#include <algorithm>
#include <attacca/error.hpp>

#include "llm/engine_runs.hpp"
#include "llm/random_file.hpp"

namespace bench {

namespace {

using namespace attacca::llm;

constexpr double kMostMicroseconds = 50;  // that a step may take longer
constexpr const char* kWords = "([a-z]{1,12} )*!";

struct Lengths {
  unsigned prompt;
  unsigned output;
};

/// Requests of a way of their own each. The text ends with a letter that the model is kept from.
std::vector<Request> requests_of(const Model& model, unsigned count, const Lengths& lengths,
                                 bool has_grammar) {
  std::vector<Request> requests(count);
  for (unsigned at = 0; at < count; ++at) {
    Request& request = requests[at];
    request.tokens = random_tokens(model, lengths.prompt, at + 1);
    request.max_tokens = lengths.output;
    for (const std::int32_t token : model.tokenize("!"))
      request.sampling.bias.emplace_back(token, -1000.0f);
    if (has_grammar)
      request.grammar = {GrammarKind::regex, kWords};
    else
      request.ignores_end = true;
  }
  return requests;
}

/// Microseconds from token to token, where all requests decode together.
double step_of(Engine& engine, const std::vector<Request>& requests) {
  std::vector<double> each;
  for (const Reply& reply : engine.generate(requests)) {
    if (reply.tokens.size() < 2)
      throw attacca::Error(fmt::format("a reply of {} tokens ended as '{}' {}", reply.tokens.size(),
                                       finish_name(reply.finish), reply.error));
    each.push_back((reply.seconds - reply.seconds_to_first_token) * 1e6 /
                   static_cast<double>(reply.tokens.size() - 1));
  }
  return summarize(std::move(each)).median;
}

void run_scheduler(Run& run, const Model& model, const char* name, EngineOptions options,
                   const Lengths& lengths) {
  Engine engine(model, options);
  const auto free = requests_of(model, options.slots, lengths, false);
  const auto bound = requests_of(model, options.slots, lengths, true);
  const nlohmann::ordered_json params{{"scheduler", name}, {"slots", options.slots}};
  const double first = step_of(engine, bound);
  engine.wait_until_idle();
  const EngineStats learned = engine.stats();
  const auto times = run.interleave(
      fmt::format("{} scheduler", name), run.is_quick() ? 3 : 9,
      {[&] { return step_of(engine, bound); }, [&] { return step_of(engine, free); }});
  engine.wait_until_idle();
  const EngineStats now = engine.stats();
  Row row = compared("step with a grammar", params, times[0], times[1]);
  if (options.device.is_cuda()) row.limit = times[1].median + kMostMicroseconds;
  run.add(row);
  run.add(
      Row{.name = "token for the first time", .params = params, .value = {first, first, first}});
  run.note(
      fmt::format("{}: {} masks were found on the device and {} awaited, after {} the first time",
                  name, now.masks_followed - learned.masks_followed,
                  now.masks_awaited - learned.masks_awaited, learned.masks_awaited));
}

void run_structured(Run& run) {
  const bool is_cuda = run.device.is_cuda();
  const Lengths lengths{16, run.is_quick() ? 24u : 128u};
  const std::string shape = run.engine.shapes.empty() ? "llama-1b" : run.engine.shapes.front();
  const bool is_random = is_cuda || !run.engine.shapes.empty();
  std::optional<RandomFile> file;
  if (is_random) file.emplace(run, shape, "bf16");
  const Model model(is_random ? file->path().string() : model_path_of(run));
  run.note(fmt::format(
      "{}, a vocabulary of {}, prompts of {} tokens, {} of output, greedy; grammar: "
      "words of 1 to 12 letters; the gate on a GPU is {} µs more a step",
      model.name(), model.vocabulary(), lengths.prompt, lengths.output, kMostMicroseconds));
  const std::vector<unsigned> slots =
      run.engine.slots.empty() ? std::vector<unsigned>{is_cuda ? 64u : 4u} : run.engine.slots;
  for (const unsigned count : slots)
    for (const Scheduler scheduler : {Scheduler::host, Scheduler::resident}) {
      EngineOptions options;
      options.device = run.device;
      options.slots = count;
      options.scheduler = scheduler;
      options.context = 512;
      run_scheduler(run, model, scheduler == Scheduler::host ? "host" : "resident", options,
                    lengths);
    }
}

const Registered registered{{.name = "structured",
                             .question = "what does a grammar add to a step?",
                             .needs = Needs::either,
                             .run = run_structured,
                             .is_engine = true}};

}  // namespace

}  // namespace bench
