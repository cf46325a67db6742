// `attacca run`: a model answers: streamed to the terminal, in a conversation, or for a program.
// Here are its options; runner.hpp has the rest.
#include <fmt/format.h>
#include <unistd.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "llm/models.hpp"
#include "llm/rank_team.hpp"
#include "llm/run_stats.hpp"
#include "llm/run_trace.hpp"
#include "llm/runner.hpp"
#include "progress.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

using llm::Engine;
using llm::EngineOptions;
using llm::Model;

struct Settings : RunSettings {
  // [MODEL] [PROMPT]: the first of them, or the only one, may be either.
  std::optional<std::string> first;
  std::optional<std::string> second;
  // At most one of these.
  std::optional<std::string> json_schema;  // a text or a file
  std::optional<std::string> regex;
  bool wants_object = false;
};

/// The prompt among the words, if there is one. The model is taken out of them.
std::optional<std::string> sort_words(Settings& settings, bool has_model) {
  if (!settings.first) return std::nullopt;
  if (!settings.second) {
    if (has_model || !is_model_word(*settings.first)) return settings.first;
    settings.model = *settings.first;
    return std::nullopt;
  }
  if (has_model)
    throw UsageError(fmt::format(
        "--model {} and two words; put a prompt of several words in quotes", settings.model));
  settings.model = *settings.first;
  return settings.second;
}

/// One prompt a line; lines end with \n or \r\n, and those that hold nothing are passed over.
std::vector<Prompt> prompts_of(const std::string& path) {
  const std::string text = read_text("--prompts", path);
  std::vector<Prompt> prompts;
  std::size_t number = 1;
  for (std::size_t start = 0; start < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) prompts.push_back({std::move(line), number});
    start = end + 1;
  }
  if (prompts.empty()) throw BadArgument(fmt::format("--prompts {}: it holds no prompt", path));
  return prompts;
}

/// Empty for a conversation.
std::vector<Prompt> prompts_of(const Settings& settings, const std::optional<std::string>& prompt) {
  if (prompt) return {{*prompt}};
  if (!settings.prompts_file.empty()) return prompts_of(settings.prompts_file);
  if (::isatty(STDIN_FILENO) == 1) return {};
  std::string text = read_text("standard input", "-");
  if (text.empty())
    throw BadArgument("standard input holds no prompt; write one to it, or give PROMPT");
  return {{std::move(text)}};
}

void check_prompt(const Settings& settings, const std::optional<std::string>& prompt) {
  if (settings.logprobs && !settings.is_json)
    throw UsageError("--logprobs are shown in JSON only; give --json too");
  if (prompt && !settings.prompts_file.empty())
    throw UsageError(
        fmt::format("--prompts {} and a prompt; give one of them", settings.prompts_file));
  if (std::any_of(settings.stop.begin(), settings.stop.end(),
                  [](auto& text) { return text.empty(); }))
    throw UsageError("--stop is empty, which ends nothing; give it some text");
  if (prompt && prompt->empty()) throw UsageError("PROMPT is empty; give it some text");
}

llm::Grammar grammar_of(const Settings& settings) {
  const int given =
      settings.json_schema.has_value() + settings.regex.has_value() + settings.wants_object;
  if (given == 0) return {};
  if (given > 1) throw UsageError("give one of --json-schema, --json-object and --regex");
  if (settings.ignores_end)
    throw UsageError("--ignore-end goes on after the end that a schema or expression asks for");
  if (settings.wants_object) return {llm::GrammarKind::json_object};
  if (settings.regex) return {llm::GrammarKind::regex, *settings.regex};
  const std::string& schema = *settings.json_schema;
  if (schema.find_first_not_of(" \t\r\n") == std::string::npos)
    throw UsageError("--json-schema is empty; give it a schema, or a file that holds one");
  const bool is_text = schema.find_first_not_of(" \t\r\n") == schema.find('{');
  return {llm::GrammarKind::json_schema, is_text ? schema : read_text("--json-schema", schema)};
}

void check_conversation(const Settings& settings, bool is_chat) {
  if (settings.is_plain)
    throw BadArgument("no prompt, and --plain is no conversation; give it a text to go on from");
  if (!is_chat)
    throw BadArgument("no prompt: this model does not chat; give it a text to go on from");
  if (settings.is_json || settings.samples > 1)
    throw UsageError(
        fmt::format("{} is of no use in a conversation; give PROMPT, or --prompts with a file",
                    settings.is_json ? "--json" : "--samples"));
}

void run(Settings& settings, bool has_model) {
  const std::optional<std::string> prompt = sort_words(settings, has_model);
  check_prompt(settings, prompt);
  check(settings.trace);
  settings.grammar = grammar_of(settings);
  EngineOptions options = engine_options(settings.flags);
  RankTeam team(settings.flags, options);
  RunTrace trace(settings.trace, options);
  const Model model = open_model(settings.model);
  if (!team.start(model, options)) return;
  if (options.ranks && !settings.trace.file.empty())
    fmt::print(stderr, "--trace {}: it has rank 0 alone\n", settings.trace.file);
  const std::vector<Prompt> prompts = prompts_of(settings, prompt);
  ProgressBar bar;
  Engine engine(model, options, [&](std::string_view what, std::uint64_t done, std::uint64_t all) {
    bar.show(what, done, all);
  });
  bar.clear();
  Runner runner(settings, model, engine);
  if (prompts.empty()) check_conversation(settings, runner.is_chat());
  if (settings.has_stats || settings.is_verbose)
    fmt::print(stderr, "{}", start_report(model, engine));
  trace.start();
  bool has_answered = true;
  const auto finish = [&] {
    engine.wait_until_idle();
    trace.finish();
  };
  try {
    if (prompts.empty())
      runner.converse();
    else
      has_answered = runner.answer(prompts);
  } catch (const Interrupted&) {
    finish();
    throw;
  } catch (...) {  // such as ranks that the same signal has ended
    try {
      trace.finish();
    } catch (const Error&) {  // the first one is told
    }
    throw;
  }
  finish();
  if (!has_answered) throw ExitStatus{1};
}

void add_sampling_flags(Command& command, SamplingFlags& sampling) {
  const auto add = [&](const char* names, const Value& value, const std::string& help) {
    command.option(names, value, help).group("Sampling");
  };
  add("-t,--temperature", real_number(sampling.temperature, 0),
      fmt::format("0: the most probable token [the model's advice, or {}]", kTemperature));
  add("--top-k", whole_number(sampling.top_k, 0, std::numeric_limits<int>::max()), "0: all");
  add("--top-p", positive_number(sampling.top_p, 1),
      fmt::format("[the model's advice, or {}]", kTopP));
  add("--min-p", real_number(sampling.min_p, 0, 1),
      "drop tokens below this share of the best one's probability");
  add("--repetition-penalty", real_number(sampling.repetition_penalty, 0.01, 100), "1: none");
  add("--presence-penalty", real_number(sampling.presence_penalty, -100, 100), "0: none");
  add("--frequency-penalty", real_number(sampling.frequency_penalty, -100, 100), "0: none");
  add("-s,--seed", whole_number(sampling.seed),
      "the same seed gives the same text [random]; each further sample adds 1");
}

}  // namespace

void add_run(Program& program) {
  constexpr std::uint64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
  constexpr std::uint64_t kMostSamples = 100'000;  // all are submitted at once
  auto settings = std::make_shared<Settings>();
  Command command = program.command("run", "Let a model answer, or go on from a text");
  command.footer(
      "Two words are MODEL and PROMPT. One word alone is MODEL if it is spelled like one: a name "
      "of\n"
      "attacca pull --list, small for the embedded model, or a word without blanks that has a / "
      "or\n"
      "ends in .gguf or .safetensors. Otherwise it is PROMPT; with --model it always is. A prompt\n"
      "that begins with - goes behind a --.\n"
      "Without MODEL it is the embedded one. Without PROMPT it is a conversation on a terminal,\n"
      "and the prompt is standard input elsewhere.\n"
      "Examples:\n"
      "  attacca run \"Tell me a story about a fox.\"\n"
      "  attacca run smollm2 \"Why is the sky blue?\" -n 80 --stats\n"
      "  attacca run -m ./model.gguf \"[INST] Why? [/INST]\" --samples 3\n"
      "  attacca run --plain \"Once upon a time\" --temperature 0 -n 60");
  const auto shown = [](std::size_t number) { return fmt::to_string(number); };
  command.option("MODEL", text(settings->first), "the model, see below");
  command.option("PROMPT", text(settings->second), "the text to answer, or to go on from");
  const Option model =
      command.option("-m,--model", file_name(settings->model), "the model; a word is then PROMPT");
  command
      .option("-n,--max-tokens", whole_number(settings->max_tokens, 1, kMostTokens),
              "tokens to generate, at most")
      .shows_default(shown(settings->max_tokens));
  command.option("-f,--prompts", file_name(settings->prompts_file),
                 "a file of prompts, one a line, batched; - is standard input");
  command
      .option("--samples", whole_number(settings->samples, 1, kMostSamples),
              "answers to each prompt, each with its own seed")
      .shows_default(shown(settings->samples));
  command.option("--system", text(settings->system), "the system message a chat starts with");
  command.flag("--plain", settings->is_plain, "go on from the prompt instead of chatting");
  command.option("--stop", text(settings->stop), "end before this text; may be given again");
  command.option("--stop-token", whole_number(settings->stop_tokens, 0, kMostTokens),
                 "end with this token; again for more");
  command.flag("--ignore-end", settings->ignores_end, "go on after the model's end token");
  command.option("--json-schema", text(settings->json_schema),
                 "answer with JSON for this schema: its text, or a file");
  command.flag("--json-object", settings->wants_object, "answer with any JSON object");
  command.option("--regex", text(settings->regex),
                 "answer with a text that this expression describes");
  command.flag("--json", settings->is_json, "one JSON object a reply");
  command.flag("--stats", settings->has_stats, "memory, times and rates on standard error");
  command.flag("-v,--verbose", settings->is_verbose,
               "memory and graphs on standard error, before the answer");
  add_trace_options(command, settings->trace);
  command.option("--logprobs", whole_number(settings->logprobs, 0, 20),
                 "with --json: log-probabilities, and this many alternatives");
  add_rank_flags(command, settings->flags);
  add_sampling_flags(command, settings->sampling);
  add_engine_flags(command, settings->flags);
  command.action([settings, model] { run(*settings, model.is_given()); });
}

}  // namespace attacca::tool
