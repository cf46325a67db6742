// `attacca serve`: answers OpenAI's clients over HTTP until it is told to stop. Here are its
// options; src/server/ has the rest.
#include <fmt/format.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "command.hpp"
#include "input.hpp"
#include "llm/engine_flags.hpp"
#include "llm/models.hpp"
#include "llm/run_trace.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "server/api.hpp"
#include "server/http_server.hpp"
#include "server/request_error.hpp"
#include "server/request_log.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

using server::Api;
using server::HttpServer;

struct ServeSettings {
  std::string model;
  std::string name;
  std::string keys_file;
  std::vector<std::string> origins;
  std::size_t most_waiting = 256;
  double drain_seconds = 30;
  std::string log_format = "text";
  bool is_strict = false;
  server::HttpOptions http;
  EngineFlags flags;
  TraceChoice trace;
};

/// "qwen3-0.6b" for "models/qwen3-0.6b.gguf" and for "models/qwen3-0.6b/".
std::string short_name(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  std::string name = path.substr(path.find_last_of('/') + 1);
  for (const char* ending : {".gguf", ".safetensors"})
    if (name.ends_with(ending)) name.resize(name.size() - std::string(ending).size());
  return name;
}

server::ApiOptions api_options(const ServeSettings& settings, const llm::Model& model) {
  server::ApiOptions options{.model_name = settings.name,
                             .model_aliases = {},
                             .keys = {},
                             .cors = {},
                             .most_waiting = settings.most_waiting,
                             .refuses_unknown = settings.is_strict};
  if (options.model_name.empty())
    options.model_name = short_name(settings.model.empty() ? "small" : settings.model);
  for (const std::string& alias : {settings.model, model.name()})
    if (!alias.empty()) options.model_aliases.push_back(alias);
  if (!settings.keys_file.empty()) {
    try {
      options.keys = server::ApiKeys(read_text("--api-key-file", settings.keys_file));
    } catch (const BadArgument& error) {
      throw BadArgument(fmt::format("--api-key-file {}: {}", settings.keys_file, error.what()));
    }
  }
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
std::string address_of(const std::string& host, std::uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}", is_ipv6 ? "[" + host + "]" : host, port);
}

void serve(ServeSettings& settings) {
  settings.http.drain =
      std::chrono::milliseconds(static_cast<std::int64_t>(settings.drain_seconds * 1000));
  llm::EngineOptions engine_settings = engine_options(settings.flags);
  RunTrace trace(settings.trace, engine_settings);
  const llm::Model model = open_model(settings.model);
  const server::ApiOptions options = api_options(settings, model);
  ProgressBar bar;
  llm::Engine engine(model, engine_settings,
                     [&](std::string_view what, std::uint64_t done, std::uint64_t all) {
                       bar.show(what, done, all);
                     });
  bar.clear();
  trace.start();
  const auto log = std::make_shared<server::RequestLog>(
      log_format_of(settings.log_format),
      [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  Api api(model, engine, options);
  HttpServer http(
      settings.http,
      [&](server::HttpRequest request, const server::ExchangePtr& exchange) {
        const server::ExchangePtr logged = log->wrap(exchange, request);
        api.handle(std::move(request), logged);
      },
      [](int status, const std::string& message) {
        return server::error_reply(server::RequestError(status, message));
      });
  api.count_connections_by([&] { return http.connections(); });
  write_out(fmt::format("attacca serves {} at {}\n", options.model_name,
                        address_of(settings.http.host, http.port())));
  http.run([&] {
    api.drain();
    fmt::print(stderr, "attacca: stopping; what runs may take another {} s\n",
               settings.drain_seconds);
  });
  engine.wait_until_idle();
  trace.finish();
}

}  // namespace

void add_serve(Program& program) {
  auto settings = std::make_shared<ServeSettings>();
  server::HttpOptions& http = settings->http;
  Command command = program.command("serve", "Serve a model over HTTP, as OpenAI's API does");
  command.footer(
      "Without MODEL it is the embedded one. SIGINT and SIGTERM end it, once what runs is done.\n"
      "docs/server.md lists the endpoints and the fields of requests.\n"
      "Examples:\n"
      "  attacca serve\n"
      "  attacca serve smollm2 --host 0.0.0.0 --port 8080 --api-key-file keys.txt --slots 32\n"
      "  curl http://127.0.0.1:8000/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\",\n"
      "       \"content\": \"Tell me a story.\"}], \"stream\": true}'");
  command.option("MODEL", text(settings->model), "a name of attacca pull --list, or a path");
  command.option("--host", text(http.host), "the address to listen on; 0.0.0.0 is every one")
      .shows_default(http.host);
  command.option("--port", whole_number(http.port, 0, 65535), "0: any that is free")
      .shows_default(fmt::to_string(http.port));
  command.option("--name", text(settings->name), "the model's name for clients [from MODEL]");
  command.option("--api-key-file", text(settings->keys_file),
                 "a file of keys, one a line; clients must send one of them");
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
  add_trace_options(command, settings->trace);
  command.flag("--strict", settings->is_strict, "refuse requests with unknown fields");
  add_engine_flags(command, settings->flags);
  command.action([settings] { serve(*settings); });
}

}  // namespace attacca::tool
