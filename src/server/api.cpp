// api.cpp: the table of endpoints, and each of them.
#include "server/api.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <attacca/error.hpp>
#include <chrono>
#include <random>
#include <utility>

#include "core/in_quotes.hpp"
#include "server/openai_replies.hpp"
#include "server/page.hpp"

namespace attacca::server {

namespace {

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr std::size_t kStepsShown = 128;

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

/// An endpoint either returns its reply or is a generation.
struct Api::Route {
  const char* path;
  const char* method;
  bool needs_key;
  HttpReply (Api::*answer)(const HttpRequest&) = nullptr;
  GenerationRequest (*read)(const RequestBody&, const RequestRules&, std::uint64_t) = nullptr;
};

const Api::Route* Api::find_route(const std::string& path) {
  static constexpr std::array kRoutes = {
      Route{"/v1/chat/completions", "POST", true, nullptr, read_chat_request},
      Route{"/v1/completions", "POST", true, nullptr, read_text_request},
      Route{"/v1/responses", "POST", true, nullptr, read_response_request},
      Route{"/v1/embeddings", "POST", true, nullptr, read_embedding_request},
      Route{"/v1/models", "GET", true, &Api::models},
      Route{"/tokenize", "POST", true, &Api::tokenize},
      Route{"/detokenize", "POST", true, &Api::detokenize},
      Route{"/health", "GET", false, &Api::health},
      Route{"/ready", "GET", false, &Api::ready},
      Route{"/version", "GET", false, &Api::version},
      Route{"/metrics", "GET", false, &Api::metrics},
      Route{"/steps", "GET", false, &Api::steps},
      Route{"/", "GET", false, &Api::page_at_root}};
  for (const Route& route : kRoutes)
    if (route.path == path) return &route;
  return nullptr;
}

Api::Api(llm::Model model, llm::Engine& engine, const ApiOptions& options)
    : model_(std::move(model)),
      engine_(engine),
      options_(options),
      started_(unix_seconds()),
      rules_{.model_names = {options.model_name},
             .vocabulary = model_.vocabulary(),
             .longest_sequence = engine.longest_sequence(),
             .sampling = default_sampling(model_.advised_sampling()),
             .tool_format = model_.tool_format(),
             .refuses_unknown = options.refuses_unknown},
      books_(std::make_shared<Books>(engine.options().slots, options.most_waiting,
                                     options.model_name)),
      id_prefix_(fmt::format("{:08x}", random_number() & 0xffffffff)) {
  rules_.model_names.insert(rules_.model_names.end(), options.model_aliases.begin(),
                            options.model_aliases.end());
}

void Api::handle(HttpRequest request, ExchangePtr exchange) {
  const Route* const route = find_route(request.path);
  const bool is_allowed_page = options_.cors.allows(request.origin);
  if (is_allowed_page) exchange = options_.cors.wrap(std::move(exchange), request.origin);
  guard(route ? route->path : "other", exchange, [&] {
    if (!route)
      throw RequestError(404, fmt::format("there is no {}; docs/server.md lists the paths",
                                          in_quotes(request.path)));
    if (request.method == "OPTIONS" && is_allowed_page)
      return reply(route->path, exchange, options_.cors.preflight());
    const std::string method = route->method;
    if (request.method != method && !(request.method == "HEAD" && method == "GET"))
      throw RequestError(
          405, fmt::format("{} is for {}, not {}", route->path, method, in_quotes(request.method)));
    if (route->needs_key && !options_.keys.lets_in(request.authorization))
      throw RequestError(401,
                         "a key is missing or wrong; send the header Authorization: Bearer KEY", {},
                         "invalid_api_key");
    if (method == "GET") return reply(route->path, exchange, (this->*route->answer)(request));
    if (!route->answer) check_room();
    worker_.post([this, route, exchange, body = std::move(request)] {
      guard(route->path, exchange, [&] {
        if (route->answer)
          reply(route->path, exchange, (this->*route->answer)(body));
        else
          generate(*route, body, exchange);
      });
    });
  });
}

void Api::guard(const std::string& path, const ExchangePtr& exchange,
                const std::function<void()>& work) {
  const auto refuse = [&](int status, const std::string& message) {
    reply(path, exchange, error_reply(RequestError(status, message)));
  };
  try {
    work();
  } catch (const RequestError& error) {
    reply(path, exchange, error_reply(error));
  } catch (const BadArgument& error) {  // the engine, the tokenizer or the chat template
    refuse(400, error.what());
  } catch (const DeviceError& error) {
    has_lost_device_ = true;
    refuse(503, error.what());
  } catch (const std::bad_alloc&) {
    refuse(503, "there is not enough memory for this request");
  } catch (const std::exception& error) {
    refuse(500, error.what());
  }
}

void Api::reply(const std::string& path, const ExchangePtr& exchange, HttpReply reply) {
  books_->metrics.count_reply(path, reply.status);
  exchange->send(std::move(reply));
}

void Api::check_room() const {
  if (!books_->admission.is_open()) throw RequestError(503, "the server is about to stop");
  if (books_->admission.is_full())
    throw RequestError(429, fmt::format("{} sequences run or wait, as many as this server takes; "
                                        "try again later",
                                        books_->admission.room()));
}

void Api::generate(const Route& route, const HttpRequest& request, const ExchangePtr& exchange) {
  check_room();
  GenerationRequest parsed = route.read(RequestBody(request.body), rules_, random_number());
  const std::size_t choices = parsed.choices();
  const std::string grammar_field = parsed.grammar_field;
  Admission& admission = books_->admission;
  if (choices > admission.room())
    throw RequestError(400,
                       fmt::format("{} choices at once are more than the {} sequences that "
                                   "this server lets run and wait",
                                   choices, admission.room()),
                       "n");
  ReplyHead head{.is_chat = parsed.is_chat,
                 .id = fmt::format("{}-{}{:x}",
                                   parsed.is_chat       ? "chatcmpl"
                                   : parsed.is_response ? "resp"
                                                        : "cmpl",
                                   id_prefix_, ++replies_),
                 .created = unix_seconds(),
                 .model = options_.model_name,
                 .has_usage = parsed.includes_usage,
                 .tool_format = parsed.tool_format,
                 .token_text = [model = model_](std::int32_t token) {
                   return model.detokenize({&token, 1});
                 }};
  const auto generation = std::make_shared<Generation>(books_, std::move(parsed), std::move(head),
                                                       route.path, exchange);
  exchange->on_leave([weak = std::weak_ptr(generation)] {
    if (const auto there = weak.lock()) there->cancel();
  });
  if (!admission.enter(choices))
    throw RequestError(
        429, fmt::format("there is no room for {} more sequences; try again later", choices));
  try {
    generation->start(engine_);
  } catch (const llm::BadGrammar& error) {
    throw RequestError(400, error.what(), grammar_field);
  }
}

HttpReply Api::models(const HttpRequest&) {
  return {.body = models_json(options_.model_name, started_, rules_.longest_sequence)};
}

HttpReply Api::health(const HttpRequest&) {
  if (has_lost_device_) throw RequestError(503, "the engine has lost its device");
  return {.body = status_json("ok")};
}

HttpReply Api::ready(const HttpRequest& request) {
  if (!books_->admission.is_open()) throw RequestError(503, "the server is about to stop");
  return health(request);
}

HttpReply Api::version(const HttpRequest&) { return {.body = version_json()}; }

HttpReply Api::metrics(const HttpRequest&) {
  return {.body = books_->metrics.text({.stats = engine_.stats(),
                                        .pages = engine_.memory().pages,
                                        .connections = connections_(),
                                        .admitted = books_->admission.inside()}),
          .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

HttpReply Api::steps(const HttpRequest&) {
  std::vector<llm::StepRecord> records = engine_.records();
  const std::size_t first = records.size() - std::min(records.size(), kStepsShown);
  std::string body = R"({"steps":[)";
  for (std::size_t at = first; at < records.size(); ++at)
    body += (at > first ? "," : "") + llm::to_json(records[at]);
  return {.body = body + "]}"};
}

HttpReply Api::page_at_root(const HttpRequest&) {
  return {.body = std::string(page()),
          .content_type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                       "connect-src 'self'"}}};
}

HttpReply Api::tokenize(const HttpRequest& request) {
  const TokenizeRequest parsed = read_tokenize_request(RequestBody(request.body), rules_);
  const auto tokens = parsed.messages.empty() ? model_.tokenize(parsed.text)
                                              : model_.chat(parsed.messages, parsed.tools);
  return {.body = tokens_json(tokens, rules_.longest_sequence)};
}

HttpReply Api::detokenize(const HttpRequest& request) {
  return {.body = text_json(
              model_.detokenize(read_detokenize_request(RequestBody(request.body), rules_)))};
}

}  // namespace attacca::server
