// `attacca run`: a model answers: streamed to the terminal, in a conversation, or for a program.
#include <fmt/format.h>
#include <unistd.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "command.hpp"
#include "llm/input.hpp"
#include "llm/models.hpp"
#include "llm/run_stats.hpp"
#include "output.hpp"
#include "progress.hpp"

namespace attacca::tool {

namespace {

using namespace llm;
using nlohmann::ordered_json;

// Where neither the caller nor the model's makers say otherwise.
constexpr float kTemperature = 0.7f;
constexpr float kTopP = 0.95f;

struct Settings {
  std::vector<std::string> words;  // [MODEL] [PROMPT]
  std::string model;
  std::string prompt;
  std::string prompts_file;
  std::string system;
  bool is_plain = false;
  bool is_json = false;
  bool has_stats = false;
  std::size_t max_tokens = 256;
  std::vector<std::string> stop;
  bool ignores_end = false;
  unsigned logprobs = 0;
  Sampling sampling;
  EngineFlags flags;
  // Options that override what the model's makers advise, where they were given.
  CLI::Option* logprobs_option = nullptr;
  CLI::Option* temperature_option = nullptr;
  CLI::Option* top_k_option = nullptr;
  CLI::Option* top_p_option = nullptr;
  CLI::Option* min_p_option = nullptr;
  CLI::Option* repetition_option = nullptr;
  CLI::Option* seed_option = nullptr;
};

std::atomic<bool> is_interrupted{false};

/// While it lives, Ctrl-C ends the answer rather than the program.
class CatchInterrupt {
 public:
  CatchInterrupt() {
    is_interrupted = false;
    before_ = std::signal(SIGINT, [](int) { is_interrupted = true; });
  }
  ~CatchInterrupt() { std::signal(SIGINT, before_); }

 private:
  void (*before_)(int);
};

Sampling sampling_of(const Settings& settings, const Model& model) {
  Sampling result = settings.sampling;
  const Sampling advised = model.advised_sampling();
  const bool is_advised = advised.temperature > 0;
  if (!settings.temperature_option->count())
    result.temperature = is_advised ? advised.temperature : kTemperature;
  if (!settings.top_p_option->count()) result.top_p = is_advised ? advised.top_p : kTopP;
  if (!settings.top_k_option->count()) result.top_k = advised.top_k;
  if (!settings.min_p_option->count()) result.min_p = advised.min_p;
  if (!settings.repetition_option->count()) result.repetition_penalty = advised.repetition_penalty;
  if (!settings.seed_option->count()) result.seed = std::random_device{}();
  return result;
}

class Runner {
 public:
  Runner(const Settings& settings, const Model& model, Engine& engine)
      : settings_(settings),
        model_(model),
        engine_(engine),
        sampling_(sampling_of(settings, model)),
        is_chat_(model.has_chat_template() && !settings.is_plain) {}

  bool is_chat() const { return is_chat_; }

  Request request_for(const std::string& prompt) const {
    Request request;
    request.max_tokens = settings_.max_tokens;
    request.sampling = sampling_;
    request.stop = settings_.stop;
    request.ignores_end = settings_.ignores_end;
    if (settings_.logprobs_option->count()) request.logprobs = settings_.logprobs;
    if (is_chat_) {
      if (!settings_.system.empty()) request.messages.push_back({"system", settings_.system});
      request.messages.push_back({"user", prompt});
    } else {
      request.prompt = prompt;
    }
    return request;
  }

  /// One prompt, streamed.
  void answer(const std::string& prompt) {
    Request request = request_for(prompt);
    if (!settings_.is_json) {
      if (!is_chat_) write_out(prompt);
      request.on_text = [](std::string_view text) { return write_out(text); };
    }
    const Reply reply = engine_.generate(request);
    if (settings_.is_json)
      fmt::print("{}\n", json_text(to_json(reply)));
    else
      write_out("\n");
    if (settings_.has_stats) print_stats({reply});
  }

  /// Many prompts, batched; answers in the order of the prompts.
  void answer_all(const std::vector<std::string>& prompts) {
    std::vector<Request> requests;
    ProgressBar bar;
    std::size_t done = 0;
    for (const std::string& prompt : prompts) requests.push_back(request_for(prompt));
    for (Request& request : requests) {
      request.on_text = [&, counted = false](std::string_view) mutable {
        if (!counted) bar.show("answering", ++done, prompts.size());
        counted = true;
        return true;
      };
    }
    const std::vector<Reply> replies = engine_.generate(requests);
    bar.clear();
    for (std::size_t i = 0; i < replies.size(); ++i) {
      if (settings_.is_json) {
        ordered_json line = to_json(replies[i]);
        line["prompt"] = prompts[i];
        fmt::print("{}\n", json_text(line));
      } else {
        fmt::print("[{}] {}\n{}\n\n", i + 1, prompts[i], replies[i].text);
      }
    }
    if (settings_.has_stats) print_stats(replies);
  }

  /// A conversation on the terminal.
  void converse() {
    fmt::print("{}; {}.\nCtrl-C stops an answer, /reset forgets, /quit or Ctrl-D leaves.\n",
               model_.name(), describe(engine_.memory()));
    std::vector<Message> messages;
    const auto reset = [&] {
      messages.clear();
      if (!settings_.system.empty()) messages.push_back({"system", settings_.system});
    };
    reset();
    for (std::string line; read_line(line);) {
      if (line.empty()) continue;
      if (line == "/quit") return;
      if (line == "/reset") {
        reset();
        continue;
      }
      messages.push_back({"user", line});
      Request request = request_for({});
      request.messages = messages;
      const CatchInterrupt catching;
      request.on_text = [](std::string_view text) {
        return write_out(text) && !is_interrupted.load();
      };
      try {
        const Reply reply = engine_.generate(request);
        write_out("\n");
        messages.push_back({"assistant", reply.text});
        if (settings_.has_stats) print_stats({reply});
      } catch (const BadArgument& error) {  // the conversation has become too long
        fmt::print(stderr, "attacca: {}\n", error.what());
        messages.pop_back();
      }
    }
    fmt::print("\n");
  }

 private:
  static bool read_line(std::string& line) {
    write_out("> ");
    return static_cast<bool>(std::getline(std::cin, line));
  }

  ordered_json to_json(const Reply& reply) const {
    ordered_json json = reply_json(model_, reply);
    json["seed"] = sampling_.seed;
    return json;
  }
  void print_stats(const std::vector<Reply>& replies) const {
    const std::string text = run_stats(engine_, replies, settings_.flags.threads);
    fmt::print(stderr, "{}seed      {}\n", text, sampling_.seed);
  }

  const Settings& settings_;
  const Model& model_;
  Engine& engine_;
  Sampling sampling_;
  bool is_chat_;
};

/// One prompt a line.
std::vector<std::string> prompts_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw BadArgument(fmt::format("--prompts {}: cannot read it", path));
  std::vector<std::string> prompts;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) prompts.push_back(line);
  if (prompts.empty()) throw BadArgument(fmt::format("--prompts {}: it holds no prompt", path));
  return prompts;
}

/// [MODEL] [PROMPT]: a single word may be either.
void sort_words(Settings& settings) {
  std::vector<std::string>& words = settings.words;
  if (words.size() > 2)
    throw BadArgument(
        fmt::format("'{}': expected [MODEL] [PROMPT]; quote a prompt of several words", words[2]));
  if (words.size() == 2 || (words.size() == 1 && is_model_name(words[0]))) {
    settings.model = words[0];
    words.erase(words.begin());
  }
  if (!words.empty()) settings.prompt = words[0];
}

void run(Settings& settings) {
  sort_words(settings);
  const Model model = open_model(settings.model);
  ProgressBar bar;
  Engine engine(model, engine_options(settings.flags),
                [&](std::string_view what, std::uint64_t done, std::uint64_t all) {
                  bar.show(what, done, all);
                });
  bar.clear();
  if (settings.has_stats)
    fmt::print(stderr, "memory    {}\n{}", describe(engine.memory()), graph_report(engine));
  Runner runner(settings, model, engine);
  if (!settings.prompts_file.empty()) {
    runner.answer_all(prompts_of(settings.prompts_file));
  } else if (!settings.prompt.empty()) {
    runner.answer(settings.prompt);
  } else if (::isatty(STDIN_FILENO) == 1 && runner.is_chat()) {
    runner.converse();
  } else {
    if (::isatty(STDIN_FILENO) == 1)
      throw BadArgument("no prompt: this model does not chat; give it a text to go on from");
    runner.answer(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  }
}

}  // namespace

void add_run(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App& command =
      *app.add_subcommand("run", "let a model answer, or go on from a text (see run --help)");
  command.footer(
      "Without MODEL it is the embedded one. Without PROMPT it is a conversation on a terminal,\n"
      "and the prompt is standard input elsewhere.\n"
      "Examples:\n"
      "  attacca run \"Tell me a story about a fox.\"\n"
      "  attacca run smollm2 \"Why is the sky blue?\" -n 80 --stats\n"
      "  attacca run --plain \"Once upon a time\" --temperature 0 -n 60");
  command.add_option("words", settings->words, "[MODEL] [PROMPT]");
  command.add_option("-n,--max-tokens", settings->max_tokens, "tokens to generate, at most")
      ->capture_default_str();
  command.add_option("-f,--prompts", settings->prompts_file,
                     "a file of prompts, one a line, batched");
  command.add_option("--system", settings->system, "what a chat starts with");
  command.add_flag("--plain", settings->is_plain, "go on from the prompt instead of chatting");
  command.add_option("--stop", settings->stop, "end before this text; may be given again");
  command.add_flag("--ignore-end", settings->ignores_end, "go on after the model's end token");
  command.add_flag("--json", settings->is_json, "one JSON object a reply");
  command.add_flag("--stats", settings->has_stats, "memory, times and rates on standard error");
  settings->logprobs_option =
      command.add_option("--logprobs", settings->logprobs,
                         "with --json: log-probabilities, and this many alternatives");

  const std::string group = "Sampling";
  Sampling& sampling = settings->sampling;
  settings->temperature_option =
      command
          .add_option("-t,--temperature", sampling.temperature,
                      fmt::format("0: the most probable token [what the model advises, or {}]",
                                  kTemperature))
          ->group(group);
  settings->top_k_option = command.add_option("--top-k", sampling.top_k, "0: all")->group(group);
  settings->top_p_option =
      command.add_option("--top-p", sampling.top_p, fmt::format("[as advised, or {}]", kTopP))
          ->group(group);
  settings->min_p_option =
      command.add_option("--min-p", sampling.min_p, "of the best token's probability")
          ->group(group);
  settings->repetition_option =
      command.add_option("--repetition-penalty", sampling.repetition_penalty, "1: none")
          ->group(group);
  command.add_option("--presence-penalty", sampling.presence_penalty, "0: none")->group(group);
  command.add_option("--frequency-penalty", sampling.frequency_penalty, "0: none")->group(group);
  settings->seed_option =
      command.add_option("-s,--seed", sampling.seed, "the same seed gives the same text [random]")
          ->group(group);
  add_engine_flags(command, settings->flags);
  command.callback([settings] { run(*settings); });
}

}  // namespace attacca::tool
