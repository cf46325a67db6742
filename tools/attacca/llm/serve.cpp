// `attacca serve`: answers OpenAI's clients over HTTP until it is told to stop. Here are its
// options; src/server/ has the rest.
#include <fmt/format.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "files.hpp"
#include "input.hpp"
#include "llm/engine_flags.hpp"
#include "llm/models.hpp"
#include "llm/plan_live.hpp"
#include "llm/rank_team.hpp"
#include "llm/run_trace.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "server/api.hpp"
#include "server/http_server.hpp"
#include "server/request_log.hpp"
#include "usage.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

using server::Api;
using server::HttpServer;

struct ServeSettings {
  std::string model;
  std::string name;
  std::vector<std::string> named_models;  // MODEL or NAME=MODEL
  double unload_seconds = 0;
  double memory_gib = 0;
  std::string keys_file;
  std::vector<std::string> origins;
  std::size_t most_waiting = 256;
  std::size_t most_tokens = 0;
  double most_seconds = 0;
  double drain_seconds = 30;
  std::string log_format = "text";
  bool is_strict = false;
  server::HttpOptions http;
  bool plans_live = false;
  std::uint64_t plan_window = 2000;
  EngineFlags flags;
  TraceChoice trace;
};

std::chrono::milliseconds in_milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// "qwen3-0.6b" for "models/qwen3-0.6b.gguf" and for "models/qwen3-0.6b/".
std::string short_name(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  std::string name = path.substr(path.find_last_of('/') + 1);
  for (const char* ending : {".gguf", ".safetensors"})
    if (name.ends_with(ending)) name.resize(name.size() - std::string(ending).size());
  return name;
}

/// A model as requests name it, and as `open_model` does.
struct NamedModel {
  std::string name;
  std::string model;
};

/// MODEL, if it is given or nothing else is, and those of --model.
std::vector<NamedModel> models_of(const ServeSettings& settings) {
  std::vector<NamedModel> models;
  if (!settings.model.empty() || settings.named_models.empty())
    models.push_back({settings.name, settings.model});
  else if (!settings.name.empty())
    throw UsageError(fmt::format("--name {} names MODEL, and there is none; name others by --model",
                                 settings.name));
  if (!models.empty() && models.front().name.empty())
    models.front().name = short_name(settings.model.empty() ? "small" : settings.model);
  for (const std::string& text : settings.named_models) {
    const std::size_t sign = text.find('=');
    if (text.empty() || sign == 0 || sign + 1 == text.size())
      throw UsageError(
          fmt::format("--model '{}' is neither MODEL nor NAME=MODEL, such as story=small", text));
    if (sign == std::string::npos)
      models.push_back({short_name(text), text});
    else
      models.push_back({text.substr(0, sign), text.substr(sign + 1)});
    for (std::size_t at = 0; at + 1 < models.size(); ++at)
      if (models[at].name == models.back().name)
        throw UsageError(
            fmt::format("two models are called '{}'; give each a name of its own: "
                        "--model NAME=MODEL",
                        models.back().name));
  }
  return models;
}

/// What `server::ModelSource` needs to watch an engine and give it other sizes.
struct Watch {
  std::uint64_t window;
  std::function<void(const std::string& line)> log;
};

server::ModelSource source_of(const NamedModel& named, const llm::EngineOptions& options,
                              RankTeam& team, const std::optional<Watch>& watch,
                              bool shows_progress, const std::vector<std::string>& names) {
  // Opened once, so that what cannot be read is told now and not to the first request.
  std::vector<std::string> aliases;
  for (const std::string& alias : {named.model, open_model(named.model).name()})
    if (!alias.empty()) aliases.push_back(alias);
  // The steps of the loaded engine. `load` makes the feed, and `attend` takes it.
  const auto feed = std::make_shared<std::shared_ptr<StepFeed>>();
  server::ModelSource source{.name = named.name,
                             .aliases = aliases,
                             .load = [named, options, feed, &team, is_watched = watch.has_value(),
                                      shows_progress, names](const server::LoadTerms& terms) {
                               if (is_watched) *feed = std::make_shared<StepFeed>();
                               llm::EngineOptions with = options;
                               with.memory_limit = terms.memory_limit;
                               with.turns = terms.turns;
                               with.on_step = [mine = options.on_step, theirs = terms.on_step,
                                               steps = *feed](const llm::StepRecord& record) {
                                 for (const auto& call : {mine, theirs})
                                   if (call) call(record);
                                 if (steps) steps->add(record);
                               };
                               const llm::Model model = open_model(named.model);
                               team.start(model, with);
                               ProgressBar bar;
                               const auto show = [&](std::string_view what, std::uint64_t done,
                                                     std::uint64_t all) {
                                 if (shows_progress) bar.show(what, done, all);
                               };
                               try {
                                 return server::LoadedModel{model, llm::Engine(model, with, show)};
                               } catch (const llm::DoesNotFit& error) {
                                 throw llm::DoesNotFit(in_words_of_options(names, error.what()));
                               } catch (const BadArgument& error) {
                                 throw BadArgument(in_words_of_options(names, error.what()));
                               }
                             }};
  if (watch)
    source.attend = [feed, watch = *watch](llm::Engine& engine) {
      return std::make_shared<PlanLive>(engine, *feed, watch.window, watch.log);
    };
  return source;
}

/// Bytes that models may take together; 0, no limit, for one model alone.
std::size_t memory_of(const ServeSettings& settings, const llm::EngineOptions& engine,
                      std::size_t models) {
  if (settings.memory_gib > 0)
    return static_cast<std::size_t>(settings.memory_gib * (std::size_t{1} << 30));
  if (models == 1) return 0;
  return static_cast<std::size_t>(static_cast<double>(engine.device.bytes_free()) *
                                  engine.memory_fraction);
}

std::unique_ptr<server::Models> make_models(const ServeSettings& settings,
                                            const llm::EngineOptions& engine, RankTeam& team,
                                            server::ModelsOptions options) {
  const std::vector<NamedModel> named = models_of(settings);
  if (named.size() > 1 && !engine.step_log.empty())
    throw UsageError("--step-log is for one model; leave it out, or serve one model");
  check(settings.trace);
  if (named.size() > 1 && !settings.trace.file.empty())
    throw UsageError("--trace is for one model; leave it out, or serve one model");
  std::optional<Watch> watch;
  if (settings.plans_live) {
    if (engine.ranks)
      throw UsageError("--plan-live is for one rank; leave it out, or leave out --ranks");
    if (engine.graphs != llm::GraphMode::full)
      throw UsageError("--plan-live changes the graphs of whole steps; use --graphs full");
    watch = Watch{settings.plan_window, options.log};
  }
  std::vector<server::ModelSource> sources;
  const bool shows_progress = settings.log_format == "text";
  for (const NamedModel& one : named)
    sources.push_back(source_of(one, engine, team, watch, shows_progress, settings.flags.names));
  options.memory = memory_of(settings, engine, named.size());
  options.unload_after = in_milliseconds(settings.unload_seconds);
  options.slots = engine.slots;
  options.most_waiting = settings.most_waiting;
  options.most_tokens = settings.most_tokens;
  options.most_time = in_milliseconds(settings.most_seconds);
  options.refuses_unknown = settings.is_strict;
  auto models = std::make_unique<server::Models>(std::move(sources), std::move(options));
  if (settings.named_models.empty() || !settings.model.empty())
    models->load_now(named.front().name);
  return models;
}

server::ApiKeys read_keys(const ServeSettings& settings) {
  if (settings.keys_file.empty()) return {};
  const std::string keys = read_text("--api-key-file", settings.keys_file);
  try {
    return server::ApiKeys(keys);
  } catch (const BadArgument& error) {
    throw BadArgument(fmt::format("--api-key-file {}: {}", settings.keys_file, error.what()));
  }
}

server::ApiOptions api_options(const ServeSettings& settings) {
  server::ApiOptions options;
  options.keys = read_keys(settings);
  try {
    options.cors = server::Cors(settings.origins);
  } catch (const BadArgument& error) {
    throw UsageError(fmt::format("--cors: {}", error.what()));
  }
  return options;
}

server::LogFormat log_format_of(const std::string& name) {
  if (name == "none") return server::LogFormat::none;
  return name == "json" ? server::LogFormat::json : server::LogFormat::text;
}

/// IPv6 addresses stand in brackets.
std::string address_of(const server::HttpOptions& http, std::uint16_t port) {
  const bool is_ipv6 = http.host.find(':') != std::string::npos;
  return fmt::format("{}://{}:{}", http.tls_certificate.empty() ? "http" : "https",
                     is_ipv6 ? "[" + http.host + "]" : http.host, port);
}

void log_line(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

/// Reads keys and certificates again. What cannot be used leaves the old ones in use.
void reload(const ServeSettings& settings, Api& api, HttpServer& http, server::RequestLog& log) {
  const auto attempt = [&](const char* what, const std::function<void()>& work) {
    try {
      work();
      log.say(fmt::format("the {} are read again", what));
    } catch (const Error& error) {
      log.say(fmt::format("the old {} stay in use: {}", what, error.what()));
    }
  };
  if (!settings.keys_file.empty()) attempt("keys", [&] { api.change_keys(read_keys(settings)); });
  if (!settings.http.tls_certificate.empty())
    attempt("certificates", [&] { http.reload_certificates(); });
  if (settings.keys_file.empty() && settings.http.tls_certificate.empty())
    log.say("there are no keys and no certificates to read again");
}

/// Serves until it is told to stop. Engines have ended when it returns.
void serve_models(const ServeSettings& settings, const llm::EngineOptions& engine, RankTeam& team,
                  RunTrace& trace) {
  if (settings.http.tls_certificate.empty() != settings.http.tls_key.empty())
    throw UsageError("--tls-cert and --tls-key go together; give both");
  allow_many_files();
  const server::LogFormat format = log_format_of(settings.log_format);
  const server::ApiOptions options = api_options(settings);
  const auto log = std::make_shared<server::RequestLog>(format, log_line);
  // First, because to load a model takes long, and a port or a certificate may be refused.
  HttpServer http(settings.http);
  std::atomic<bool> has_lost_device = false;
  std::string loss;
  const auto models = make_models(settings, engine, team,
                                  {.log = [&](const std::string& line) { log->say(line); },
                                   .on_lost =
                                       [&](const std::string& why) {
                                         if (has_lost_device) return;
                                         loss = why;
                                         has_lost_device = true;
                                         http.stop();
                                       }});
  trace.start();
  Api api(*models, options);
  api.count_connections_by([&] { return http.connections(); });
  http.listen([&](server::HttpRequest request, const server::ExchangePtr& exchange) {
    const server::ExchangePtr logged = log->wrap(exchange, request);
    api.handle(std::move(request), logged);
  });
  std::string names;
  for (const server::ModelStatus& model : models->list())
    names += (names.empty() ? "" : ", ") + model.name;
  write_out(
      fmt::format("attacca serves {} at {}\n", names, address_of(settings.http, http.port())));
  http.run(
      [&] {
        api.drain();
        log->say(has_lost_device ? "the device is lost: " + loss + "; stopping"
                                 : fmt::format("stopping; what runs may take another {} s",
                                               settings.drain_seconds));
      },
      [&] { reload(settings, api, http, *log); });
  if (has_lost_device)
    throw DeviceError(
        fmt::format("an engine has lost its device ({}); start the server again", loss));
}

void serve(ServeSettings& settings) {
  // To read files again means nothing to other ranks, or before the server runs.
  std::signal(SIGHUP, SIG_IGN);
  settings.http.drain = in_milliseconds(settings.drain_seconds);
  llm::EngineOptions engine = engine_options(settings.flags);
  if (settings.flags.ranks > 0 && (!settings.named_models.empty() || settings.unload_seconds > 0))
    throw UsageError(
        "--ranks is for one model that stays loaded; leave --model and --unload-after out");
  RankTeam team(settings.flags, engine);
  if (team.is_follower()) {
    // A launcher sends signals to all processes; the first rank drains, and then ends the others.
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_IGN);
    team.start(open_model(settings.model), engine);
    return;
  }
  RunTrace trace(settings.trace, engine);
  serve_models(settings, engine, team, trace);
  trace.finish();
}

}  // namespace

void add_serve(Program& program) {
  auto settings = std::make_shared<ServeSettings>();
  server::HttpOptions& http = settings->http;
  Command command = program.command("serve", "Serve a model over HTTP, as OpenAI's API does");
  command.footer(
      "Without MODEL it is the embedded one. MODEL is loaded at the start, those of --model when\n"
      "they are first asked for. SIGINT and SIGTERM end it, once what runs is done.\n"
      "docs/server.md lists the endpoints and the fields of requests.\n"
      "Examples:\n"
      "  attacca serve\n"
      "  attacca serve --model story=small --model chat=smollm2 --unload-after 600\n"
      "  attacca serve smollm2 --host 0.0.0.0 --port 8080 --api-key-file keys.txt --slots 32\n"
      "  curl http://127.0.0.1:8000/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\",\n"
      "       \"content\": \"Tell me a story.\"}], \"stream\": true}'");
  command.option("MODEL", file_name(settings->model), "a name of attacca pull --list, or a path");
  command.option("--host", text(http.host), "the address to listen on; 0.0.0.0 is every one")
      .shows_default(http.host);
  command.option("--port", whole_number(http.port, 0, 65535), "0: any that is free")
      .shows_default(fmt::to_string(http.port));
  command.option("--name", file_name(settings->name), "the model's name for clients [from MODEL]");
  command.option("--model", text(settings->named_models),
                 "MODEL or NAME=MODEL: another model, loaded on demand; again for more");
  command
      .option("--unload-after", real_number(settings->unload_seconds, 0, 1e9),
              "seconds without a request after which a model is unloaded; 0: never")
      .shows_default("0");
  command.option(
      "--memory-limit", positive_number(settings->memory_gib),
      "GiB that models may take together [--memory-fraction of what is free, for several]");
  command.option("--api-key-file", file_name(settings->keys_file),
                 "a file of keys, one a line; clients must send one of them");
  command.option("--tls-cert", file_name(http.tls_certificate),
                 "a certificate in PEM, and those that lead to a root: serves HTTPS");
  command.option("--tls-key", file_name(http.tls_key), "its key");
  command.option("--cors", text(settings->origins),
                 "lets web pages of this origin read replies; * is every one; again for more");
  command
      .option("--max-body", whole_number(http.most_body_bytes, 1, std::uint64_t{1} << 32),
              "bytes of a request's body, at most")
      .shows_default(fmt::to_string(http.most_body_bytes));
  command
      .option("--max-waiting", whole_number(settings->most_waiting, 0, 1'000'000),
              "sequences that may wait for a slot; further requests get status 429")
      .shows_default(fmt::to_string(settings->most_waiting));
  command
      .option("--max-tokens", whole_number(settings->most_tokens, 0, 1'000'000'000),
              "tokens of a reply, at most; 0: as many as --context leaves to its prompt")
      .shows_default("0");
  command
      .option("--max-seconds", real_number(settings->most_seconds, 0, 1e9),
              "seconds from a request to the end of its reply, which is cut then; 0: any")
      .shows_default("0");
  command
      .option("--max-connections", whole_number(http.most_connections, 1, 1'000'000),
              "open connections, at most; further ones wait")
      .shows_default(fmt::to_string(http.most_connections));
  command
      .option("--drain-seconds", real_number(settings->drain_seconds, 0, 86400),
              "how long running requests may take after a signal")
      .shows_default(fmt::to_string(settings->drain_seconds));
  command
      .option("--log-format", one_of({"text", "json", "none"}, settings->log_format),
              "how requests are logged on standard error")
      .shows_default(settings->log_format);
  command.flag("--plan-live", settings->plans_live,
               "watch the steps, and capture other sizes in the background when that pays");
  command
      .option("--plan-window", whole_number(settings->plan_window, 10, 1'000'000),
              "steps that a plan of --plan-live is made from")
      .shows_default(fmt::to_string(settings->plan_window));
  add_trace_options(command, settings->trace);
  command.flag("--strict", settings->is_strict, "refuse requests with unknown fields");
  add_rank_flags(command, settings->flags);
  add_engine_flags(command, settings->flags);
  command.action([settings] { serve(*settings); });
}

}  // namespace attacca::tool
