// runner.cpp: sends prompts to the engine and prints the answers as they come.
#include "llm/runner.hpp"

#include <fmt/core.h>
#include <unistd.h>
#include <attacca/error.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <optional>
#include <random>

#include "command_line.hpp"
#include "llm/run_stats.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "usage.hpp"

namespace attacca::tool {

using namespace llm;

namespace {

std::atomic<bool> is_interrupted{false};

/// While it lives, Ctrl-C ends the answer rather than the program.
class CatchInterrupt {
 public:
  CatchInterrupt() {
    is_interrupted = false;
    struct sigaction catching = {};
    catching.sa_handler = [](int) { is_interrupted = true; };
    catching.sa_flags = SA_RESTART;
    sigemptyset(&catching.sa_mask);
    sigaction(SIGINT, &catching, &before_);
  }
  ~CatchInterrupt() { sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_;
};

Sampling sampling_of(const SamplingFlags& flags, const Model& model) {
  const Sampling advised = model.advised_sampling();
  const bool is_advised = advised.temperature > 0;
  Sampling result;
  result.temperature = flags.temperature.value_or(is_advised ? advised.temperature : kTemperature);
  result.top_p = flags.top_p.value_or(is_advised ? advised.top_p : kTopP);
  result.top_k = flags.top_k.value_or(advised.top_k);
  result.min_p = flags.min_p.value_or(advised.min_p);
  result.repetition_penalty = flags.repetition_penalty.value_or(advised.repetition_penalty);
  result.presence_penalty = flags.presence_penalty;
  result.frequency_penalty = flags.frequency_penalty;
  result.seed = flags.seed ? *flags.seed : std::random_device{}();
  return result;
}

}  // namespace

Runner::Runner(const RunSettings& settings, const Model& model, Engine& engine)
    : settings_(settings),
      model_(model),
      engine_(engine),
      sampling_(sampling_of(settings.sampling, model)),
      is_chat_(model.has_chat_template() && !settings.is_plain) {
  if (!settings.system.empty() && !is_chat_)
    throw UsageError(fmt::format(
        "--system is of no use {}; put its text before the prompt",
        settings.is_plain ? "with --plain" : "for this model, which has no chat template"));
  if (settings.samples > 1 && sampling_.temperature == 0)
    throw UsageError(
        fmt::format("--samples {} would be the same text again; give a --temperature above 0",
                    settings.samples));
  for (const std::int32_t token : settings.stop_tokens)
    if (static_cast<std::size_t>(token) >= model.vocabulary())
      throw BadArgument(fmt::format("--stop-token: {} is not a token; the model has 0 to {}", token,
                                    model.vocabulary() - 1));
}

Request Runner::request_for(const std::string& prompt) const {
  Request request;
  request.max_tokens = settings_.max_tokens;
  request.sampling = sampling_;
  request.stop = settings_.stop;
  request.stop_tokens = settings_.stop_tokens;
  request.ignores_end = settings_.ignores_end;
  request.grammar = settings_.grammar;
  request.logprobs = settings_.logprobs;
  request.on_event = [this](const RequestEvent&) { interrupts_.check(); };
  if (is_chat_) {
    if (!settings_.system.empty()) request.messages.push_back({"system", settings_.system});
    request.messages.push_back({"user", prompt});
  } else {
    request.prompt = prompt;
  }
  return request;
}

bool Runner::answer(const std::vector<Prompt>& prompts) {
  std::vector<Request> requests;
  for (const Prompt& prompt : prompts)
    for (std::size_t sample = 0; sample < settings_.samples; ++sample) {
      requests.push_back(request_for(prompt.text));
      requests.back().sampling.seed += sample;
    }
  const bool is_streamed = requests.size() == 1 && !settings_.is_json;
  ProgressBar bar;
  bool is_answered = true;
  const auto tell = [&](std::size_t at, const Reply& reply) {
    const Prompt& prompt = prompts[at / settings_.samples];
    bar.clear();
    if (!is_streamed)
      print(prompt, requests[at], reply);
    else if (!(is_chat_ && reply.finish == Finish::failed))
      write_out("\n");
    if (reply.finish != Finish::failed) return;
    is_answered = false;
    say_failure(prompt.line == 0
                    ? std::string()
                    : fmt::format("--prompts {}: line {}: ", settings_.prompts_file, prompt.line),
                reply);
  };
  // Answers end in any order and are told in theirs, as soon as those before them are.
  std::vector<std::optional<Reply>> ended(requests.size());
  std::size_t told = 0;
  for (std::size_t at = 0; at < requests.size(); ++at) {
    if (is_streamed) requests[at].on_text = [](std::string_view text) { return write_out(text); };
    requests[at].on_done = [&, at](const Reply& reply) {
      ended[at] = reply;
      for (; told < ended.size() && ended[told]; ++told) tell(told, *ended[told]);
      if (told < ended.size()) bar.show("answering", told, ended.size());
    };
  }
  if (is_streamed && !is_chat_) write_out(prompts[0].text);
  const std::vector<Reply> replies = engine_.generate(requests);
  bar.clear();
  if (settings_.has_stats) print_stats(replies);
  return is_answered;
}

void Runner::print(const Prompt& prompt, const Request& request, const Reply& reply) const {
  if (settings_.is_json) {
    Json line = reply_json(model_, reply);
    line.add("seed", request.sampling.seed);
    if (prompt.line > 0) {
      line.add("line", prompt.line);
      line.add("prompt", prompt.text);
    }
    write_out(line.text() + "\n");
  } else if (reply.finish != Finish::failed) {
    const std::string number = prompt.line > 0 ? fmt::format("[{}] ", prompt.line) : std::string();
    const std::string seed =
        settings_.samples > 1 ? fmt::format("[seed {}] ", request.sampling.seed) : std::string();
    write_out(fmt::format("{}{}{}\n{}\n\n", number, seed, prompt.text, reply.text));
  }
}

void Runner::say_failure(const std::string& place, const Reply& reply) const {
  fmt::print(stderr, "attacca: {}{}\n", place,
             in_words_of_options(settings_.flags.names, reply.error));
}

bool Runner::read_line(std::string& line) {
  if (!write_out("> ")) return false;
  std::size_t end;
  while ((end = typed_.find('\n')) == std::string::npos) {
    interrupts_.wait_for_input();
    std::array<char, 4096> piece;
    const ::ssize_t bytes = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) {  // what was typed last has no end of line
      line = std::exchange(typed_, {});
      return !line.empty();
    }
    typed_.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  line = typed_.substr(0, end);
  typed_.erase(0, end + 1);
  return true;
}

void Runner::converse() {
  write_out(fmt::format("{}. Ctrl-C stops an answer, /reset forgets, /quit or Ctrl-D leaves.\n",
                        model_.name()));
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
    const Reply reply = engine_.generate(std::vector{request})[0];
    if (reply.finish == Finish::failed) {  // the conversation may have become too long
      say_failure({}, reply);
      messages.pop_back();
      if (!messages.empty())
        fmt::print(stderr, "attacca: the conversation is part of the prompt; /reset forgets it\n");
      continue;
    }
    write_out("\n");
    if (reply.finish == Finish::length)
      fmt::print(stderr, "attacca: the answer ends here, at the most tokens it may have\n");
    messages.push_back({"assistant", reply.text});
    if (settings_.has_stats) print_stats({reply});
  }
  write_out("\n");
}

void Runner::print_stats(const std::vector<Reply>& replies) const {
  fmt::print(stderr, "{}seed      {}\n", run_stats(engine_, replies, settings_.flags.threads),
             sampling_.seed);
}

}  // namespace attacca::tool
