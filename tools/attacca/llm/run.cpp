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
#include "llm/input.hpp"
#include "llm/models.hpp"
#include "llm/run_stats.hpp"
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
  std::string first;
  std::string second;
  CLI::Option* model_option = nullptr;
  CLI::Option* first_option = nullptr;
  CLI::Option* second_option = nullptr;
};

/// The prompt among the words, if there is one. The model is taken out of them.
std::optional<std::string> sort_words(Settings& settings) {
  const bool has_model = settings.model_option->count() > 0;
  if (settings.first_option->count() == 0) return std::nullopt;
  if (settings.second_option->count() == 0) {
    if (has_model || !is_model_word(settings.first)) return settings.first;
    settings.model = settings.first;
    return std::nullopt;
  }
  if (has_model)
    throw CLI::ValidationError(fmt::format(
        "--model {} and two words; put a prompt of several words in quotes", settings.model));
  settings.model = settings.first;
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

/// None where it is to be a conversation.
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
    throw CLI::ValidationError("--logprobs are shown in JSON only; give --json too");
  if (prompt && !settings.prompts_file.empty())
    throw CLI::ValidationError(
        fmt::format("--prompts {} and a prompt; give one of them", settings.prompts_file));
  if (std::any_of(settings.stop.begin(), settings.stop.end(),
                  [](auto& text) { return text.empty(); }))
    throw CLI::ValidationError("--stop is empty, which ends nothing; give it some text");
  if (prompt && prompt->empty()) throw CLI::ValidationError("PROMPT is empty; give it some text");
}

void check_conversation(const Settings& settings, bool is_chat) {
  if (!is_chat)
    throw BadArgument("no prompt: this model does not chat; give it a text to go on from");
  if (settings.is_json || settings.samples > 1)
    throw CLI::ValidationError(
        fmt::format("{} is of no use in a conversation; give PROMPT, or --prompts with a file",
                    settings.is_json ? "--json" : "--samples"));
}

void run(Settings& settings) {
  const std::optional<std::string> prompt = sort_words(settings);
  check_prompt(settings, prompt);
  const EngineOptions options = engine_options(settings.flags);
  const Model model = open_model(settings.model);
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
  if (prompts.empty())
    runner.converse();
  else if (!runner.answer(prompts))
    throw CLI::RuntimeError(1);
}

void add_sampling_flags(CLI::App& command, SamplingFlags& sampling) {
  constexpr const char* kGroup = "Sampling";
  command
      .add_option(
          "-t,--temperature", sampling.temperature,
          fmt::format("0: the most probable token [what the model advises, or {}]", kTemperature))
      ->transform(real_number(0))
      ->group(kGroup);
  command.add_option("--top-k", sampling.top_k, "0: all")
      ->transform(whole_number(0, std::numeric_limits<int>::max()))
      ->group(kGroup);
  command.add_option("--top-p", sampling.top_p, fmt::format("[as advised, or {}]", kTopP))
      ->transform(positive_number(1))
      ->group(kGroup);
  command.add_option("--min-p", sampling.min_p, "of the best token's probability")
      ->transform(real_number(0, 1))
      ->group(kGroup);
  command.add_option("--repetition-penalty", sampling.repetition_penalty, "1: none")
      ->transform(positive_number())
      ->group(kGroup);
  command.add_option("--presence-penalty", sampling.presence_penalty, "0: none")
      ->transform(real_number(-100, 100))
      ->group(kGroup);
  command.add_option("--frequency-penalty", sampling.frequency_penalty, "0: none")
      ->transform(real_number(-100, 100))
      ->group(kGroup);
  command
      .add_option("-s,--seed", sampling.seed,
                  "the same seed gives the same text [random]; samples have it, and those after it")
      ->transform(whole_number())
      ->group(kGroup);
}

}  // namespace

void add_run(CLI::App& app) {
  constexpr std::uint64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
  auto settings = std::make_shared<Settings>();
  settings->app = &app;
  CLI::App& command =
      *app.add_subcommand("run", "let a model answer, or go on from a text (see run --help)");
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
  settings->first_option = command.add_option("MODEL", settings->first, "the model, see below");
  settings->second_option =
      command.add_option("PROMPT", settings->second, "what it answers, or goes on from");
  settings->model_option =
      command.add_option("-m,--model", settings->model, "the model; a word is then PROMPT");
  command.add_option("-n,--max-tokens", settings->max_tokens, "tokens to generate, at most")
      ->transform(whole_number(1, kMostTokens))
      ->capture_default_str();
  command.add_option("-f,--prompts", settings->prompts_file,
                     "a file of prompts, one a line, batched; - is standard input");
  command
      .add_option("--samples", settings->samples, "answers to each prompt, each with its own seed")
      ->transform(whole_number(1, kMostTokens))
      ->capture_default_str();
  command.add_option("--system", settings->system, "what a chat starts with");
  command.add_flag("--plain", settings->is_plain, "go on from the prompt instead of chatting");
  command.add_option("--stop", settings->stop, "end before this text; may be given again")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command.add_option("--stop-token", settings->stop_tokens, "end with this token; again for more")
      ->allow_extra_args(false)
      ->transform(whole_number(0, kMostTokens))
      ->type_name("ID");
  command.add_flag("--ignore-end", settings->ignores_end, "go on after the model's end token");
  command.add_flag("--json", settings->is_json, "one JSON object a reply");
  command.add_flag("--stats", settings->has_stats, "memory, times and rates on standard error");
  command.add_flag("-v,--verbose", settings->is_verbose,
                   "memory and graphs on standard error, before the answer");
  command
      .add_option("--logprobs", settings->logprobs,
                  "with --json: log-probabilities, and this many alternatives")
      ->transform(whole_number(0, 20));
  add_sampling_flags(command, settings->sampling);
  add_engine_flags(command, settings->flags);
  command.callback([settings] { run(*settings); });
}

}  // namespace attacca::tool
