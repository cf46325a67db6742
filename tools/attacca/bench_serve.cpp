// `attacca bench serve`: puts load on an OpenAI-compatible server and measures what its clients
// see. Here are the options; bench/serve/ has the rest.
#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "command.hpp"
#include "files.hpp"
#include "harness.hpp"
#include "hogs.hpp"
#include "input.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "serve/drive.hpp"
#include "serve/http_client.hpp"
#include "serve/report.hpp"
#include "serve/timeline.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

using namespace bench::serve;

constexpr std::uint64_t kRequests = 100;
constexpr unsigned kPromptTokens = 128;
constexpr unsigned kOutputTokens = 64;

struct ServeLoad {
  std::string url;
  std::string ca_file;
  bool is_insecure = false;
  std::string api_key;
  std::string api_key_file;
  std::string trace_file;
  std::string json_file;
  std::string svg_file;
  std::string arrival = "poisson";
  std::string endpoint = "chat";
  double timeout_seconds = 120;
  std::optional<unsigned> concurrency;
  std::optional<Lengths> prompt;
  std::optional<Lengths> output;
  Setup setup;
};

Lengths exactly(unsigned tokens) {
  return {Lengths::Kind::uniform, static_cast<double>(tokens), static_cast<double>(tokens)};
}

Value lengths(std::optional<Lengths>& place) {
  return {"N|A-B|normal:MEAN,SD", [&place](const std::string& text) {
            try {
              place = parse_lengths(text);
            } catch (const BadArgument& error) {
              throw UsageError(error.what());
            }
          }};
}

/// REQUIRES: both options were given.
[[noreturn]] void refuse_both(const std::string& one, const std::string& other) {
  throw UsageError(fmt::format("{} and {} contradict each other; leave one out", one, other));
}

void check_contradictions(const ServeLoad& asked, const Command& command) {
  for (const char* other : {"rate", "concurrency", "arrival", "prompt-tokens", "output-tokens"})
    if (command.is_given("trace") && command.is_given(other))
      refuse_both("--trace", fmt::format("--{}", other));
  if (command.is_given("rate") && command.is_given("concurrency"))
    refuse_both(fmt::format("--rate {:g}", *asked.setup.load.rate),
                fmt::format("--concurrency {}", *asked.concurrency));
  if (command.is_given("arrival") && !command.is_given("rate"))
    throw UsageError(fmt::format("--arrival {} goes with --rate; give one", asked.arrival));
  if (command.is_given("api-key") && command.is_given("api-key-file"))
    refuse_both("--api-key", "--api-key-file");
  const std::optional<unsigned> longest = asked.setup.load.prompt.longest();
  if (longest && asked.setup.shared_prefix > *longest && asked.trace_file.empty())
    throw UsageError(
        fmt::format("--shared-prefix {} is longer than --prompt-tokens {}; a prompt's tokens begin "
                    "with the shared ones, so make the prompts longer",
                    asked.setup.shared_prefix, asked.setup.load.prompt.text()));
}

/// The first line of the file that is neither empty nor a comment, as `attacca serve` reads it.
std::string key_in(const std::string& file) {
  const std::string text = read_text("--api-key-file", file);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && line.front() != '#') return line;
    begin = end + 1;
  }
  throw BadArgument(fmt::format("--api-key-file {}: there is no key in it", file));
}

std::string key_of(const ServeLoad& asked) {
  const std::string key = asked.api_key_file.empty() ? asked.api_key : key_in(asked.api_key_file);
  if (!std::all_of(key.begin(), key.end(),
                   [](char letter) { return letter > ' ' && letter <= '~'; }))
    throw BadArgument("the key has a blank or a character that is not ASCII; HTTP cannot send it");
  return key;
}

/// Fills in what follows from other options.
void complete(ServeLoad& asked, const Command& command) {
  LoadOptions& load = asked.setup.load;
  load.prompt = asked.prompt.value_or(exactly(kPromptTokens));
  load.output = asked.output.value_or(exactly(kOutputTokens));
  check_contradictions(asked, command);
  load.concurrency = asked.concurrency.value_or(load.concurrency);
  load.arrival = asked.arrival == "burst"      ? Arrival::burst
                 : asked.arrival == "constant" ? Arrival::constant
                                               : Arrival::poisson;
  if (!asked.trace_file.empty()) {
    const std::string text = read_text("--trace", asked.trace_file);
    try {
      load.trace = read_trace(text);
    } catch (const BadArgument& error) {
      throw Error(fmt::format("--trace {}: {}", asked.trace_file, error.what()));
    }
  }
  if (!load.requests && !load.seconds && load.trace.empty()) load.requests = kRequests;
  try {
    asked.setup.target.url = parse_url(asked.url);
  } catch (const BadArgument& error) {
    throw UsageError(error.what());
  }
  asked.setup.target.endpoint = asked.endpoint == "chat" ? Endpoint::chat : Endpoint::completions;
  const bench::Origin origin = bench::origin_of(Device::host());
  asked.setup.machine = origin.device;
  asked.setup.commit = origin.commit;
  asked.setup.date = origin.date;
}

std::vector<Record> run_load(Setup& setup, HttpClient& client) {
  Target& target = setup.target;
  if (target.model.empty()) target.model = ask_model(client, target.url);
  setup.words = measure_words(client, target, setup.load.seed);
  const Prompts prompts(setup.load.seed, setup.shared_prefix, setup.words.tokens);
  const bench::Hogs hogs(setup.hog);
  ProgressBar bar;
  return drive(
      client, setup.load,
      [&](const Planned& planned) {
        return completion_call(target, prompts.make(planned.index, planned.prompt_tokens),
                               planned.output_tokens);
      },
      [&](const Progress& progress) {
        constexpr std::uint64_t kAll = 1000;
        bar.show(fmt::format("{} ended, {} failed, {} running", progress.ended, progress.failed,
                             progress.running),
                 static_cast<std::uint64_t>(progress.share * kAll), kAll);
      });
}

void run(ServeLoad& asked, const Command& command) {
  complete(asked, command);
  for (const std::string& file : {asked.json_file, asked.svg_file})
    if (!file.empty()) require_writable(file);
  allow_many_files();
  Setup& setup = asked.setup;
  HttpClient client(setup.target.url, {.api_key = key_of(asked),
                                       .silence = std::chrono::milliseconds(
                                           static_cast<std::int64_t>(asked.timeout_seconds * 1000)),
                                       .ca_file = asked.ca_file,
                                       .is_insecure = asked.is_insecure});
  const std::vector<Record> records = run_load(setup, client);
  const Figures figures = figures_of(records, setup.goals);
  write_out(table_of(setup, figures));
  if (!asked.json_file.empty())
    write_file(asked.json_file, json_of(setup, figures, records).dump(2) + '\n');
  if (!asked.svg_file.empty())
    write_file(
        asked.svg_file,
        timeline_svg(
            records,
            fmt::format("serve: {}, model {}", setup.target.url.text(), setup.target.model),
            fmt::format("{}, commit {}, {}", load_in_words(setup), setup.commit, setup.date)));
  if (figures.complete == 0) throw ExitStatus{1};
}

void add_load_options(Command& command, ServeLoad& asked) {
  constexpr std::uint64_t kMost = 100'000'000;
  LoadOptions& load = asked.setup.load;
  const auto add = [&](const char* name, const Value& value, const char* help) {
    return command.option(name, value, help).group("The load");
  };
  add("--rate", positive_number(load.rate), "requests a second, whether or not others have ended");
  add("--arrival", one_of({"poisson", "constant", "burst"}, asked.arrival),
      "with --rate: at random, at equal distances, or all of a second at its beginning")
      .shows_default(asked.arrival);
  add("--concurrency", whole_number(asked.concurrency, 1, 1'000'000),
      "requests at once; each is followed by the next")
      .shows_default(fmt::to_string(load.concurrency));
  add("--trace", text(asked.trace_file),
      "a file of lines such as {\"at\": 0.5, \"prompt_tokens\": 128, \"output_tokens\": 16}");
  add("--requests", whole_number(load.requests, 1, kMost),
      "requests in all [100, or as many as --seconds or --trace has]");
  add("--seconds", positive_number(load.seconds, 1e7), "no request begins later");
  add("--prompt-tokens", lengths(asked.prompt), "tokens of a prompt")
      .shows_default(fmt::to_string(kPromptTokens));
  add("--output-tokens", lengths(asked.output), "max_tokens of a request")
      .shows_default(fmt::to_string(kOutputTokens));
  add("--shared-prefix", whole_number(asked.setup.shared_prefix, 0, Lengths::kMost),
      "tokens that all prompts begin with");
  command
      .flag("--ignore-eos", asked.setup.target.ignores_eos,
            "send ignore_eos: outputs are as long as asked for")
      .group("The load");
  add("--seed", whole_number(load.seed), "the same seed gives the same prompts and arrivals")
      .shows_default(fmt::to_string(load.seed));
  add("--hog", whole_number(asked.setup.hog, 0, 4096), "cores of this machine to burn meanwhile");
}

}  // namespace

void add_bench_serve(Command& bench) {
  Command command = bench.command("serve", "Put load on an OpenAI-compatible server");
  command.footer(
      "TTFT is the time to the first token, TPOT the time per output token after it, ITL the time\n"
      "between two pieces of text, E2E the time to the end. Goodput counts the requests that meet\n"
      "the targets. docs/server.md explains the figures.\n"
      "Examples:\n"
      "  attacca bench serve --url http://127.0.0.1:8000\n"
      "  attacca bench serve --url http://127.0.0.1:8000 --rate 4 --seconds 60 --svg timeline.svg\n"
      "  attacca bench serve --url http://127.0.0.1:8000 --concurrency 64 --prompt-tokens "
      "256-1024\n"
      "       --output-tokens normal:128,32 --target-ttft 500 --target-tpot 30 --json load.json");
  const auto asked = std::make_shared<ServeLoad>();
  command
      .option("--url", text(asked->url),
              "http://HOST:PORT, or https://, or with a path: http://HOST/api/v1")
      .required();
  command.option("--model", text(asked->setup.target.model), "the model [the first in /v1/models]");
  command.option("--endpoint", one_of({"chat", "completions"}, asked->endpoint), "which to call")
      .shows_default(asked->endpoint);
  command.option("--api-key", text(asked->api_key), "a key to send; other users can see it in ps");
  command.option("--api-key-file", text(asked->api_key_file),
                 "a file with a key in its first line");
  command.option("--ca-file", text(asked->ca_file),
                 "https: certificates in PEM to trust [the system's]");
  command.flag("--insecure", asked->is_insecure, "https: trust every certificate");
  command
      .option("--timeout", real_number(asked->timeout_seconds, 0.1, 1e6),
              "seconds without a byte after which a request has failed")
      .shows_default(fmt::format("{:g}", asked->timeout_seconds));
  command.option("--target-ttft", positive_number(asked->setup.goals.ttft),
                 "milliseconds to the first token that a good request takes at most");
  command.option("--target-tpot", positive_number(asked->setup.goals.tpot),
                 "milliseconds per output token that a good request takes at most");
  command.option("--json", file_name(asked->json_file), "write figures and requests to a file");
  command.option("--svg", file_name(asked->svg_file), "draw the requests in time into a file");
  add_load_options(command, *asked);
  command.action([asked, command] { run(*asked, command); });
}

}  // namespace attacca::tool
