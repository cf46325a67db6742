// api.cpp: the table of endpoints, and each of them.
#include "server/api.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <attacca/error.hpp>
#include <charconv>
#include <chrono>
#include <random>
#include <string_view>
#include <utility>

#include "core/in_quotes.hpp"
#include "server/openai_replies.hpp"
#include "server/openai_tools.hpp"
#include "server/page.hpp"

namespace attacca::server {

namespace {

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr std::size_t kStepsShown = 128;

constexpr std::string_view kOneModel = "/v1/models/";  // and its name

/// "org/name" for "org%2Fname": OpenAI's client escapes the names it puts into paths.
std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned letter = 0;
    const char* const end = text.data() + std::min(at + 3, text.size());
    if (text[at] == '%' && at + 2 < text.size() &&
        std::from_chars(text.data() + at + 1, end, letter, 16).ptr == end) {
      result += static_cast<char>(letter);
      at += 2;
    } else {
      result += text[at];
    }
  }
  return result;
}

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

void apply_limits(const RequestRules& rules, GenerationRequest& request) {
  for (llm::Request& prompt : request.prompts) {
    if (rules.most_tokens > 0) prompt.max_tokens = std::min(prompt.max_tokens, rules.most_tokens);
    if (rules.most_time.count() > 0 && !request.is_embedding)
      prompt.deadline = std::chrono::steady_clock::now() + rules.most_time;
  }
}

/// Rethrows the reason why a model could not be loaded. The request is not to blame.
[[noreturn]] void refuse_load(const std::exception_ptr& reason) {
  try {
    std::rethrow_exception(reason);
  } catch (const RequestError&) {
    throw;
  } catch (const std::exception& error) {
    throw RequestError(503, fmt::format("the model could not be loaded: {}", error.what()),
                       "model");
  }
}

}  // namespace

/// An endpoint answers a GET, or a body for a model: with a reply, or as a generation. One alone
/// unloads.
struct Api::Route {
  const char* path;
  bool needs_key;
  HttpReply (Api::*get)(const HttpRequest&) = nullptr;
  HttpReply (Api::*post)(const RequestBody&, const Models::InUse&) = nullptr;
  GenerationRequest (*read)(const RequestBody&, const RequestRules&, std::uint64_t) = nullptr;

  const char* method() const { return get ? "GET" : "POST"; }
};

const Api::Route* Api::find_route(const std::string& path) {
  static constexpr std::array kRoutes = {
      Route{"/v1/chat/completions", true, nullptr, nullptr, read_chat_request},
      Route{"/v1/completions", true, nullptr, nullptr, read_text_request},
      Route{"/v1/responses", true, nullptr, nullptr, read_response_request},
      Route{"/v1/embeddings", true, nullptr, nullptr, read_embedding_request},
      Route{"/v1/models", true, &Api::list_models},
      Route{"/v1/models/load", true, nullptr, &Api::load},
      Route{"/v1/models/unload", true},
      Route{"/tokenize", true, nullptr, &Api::tokenize},
      Route{"/detokenize", true, nullptr, &Api::detokenize},
      Route{"/health", false, &Api::health},
      Route{"/ready", false, &Api::ready},
      Route{"/version", false, &Api::version},
      Route{"/metrics", false, &Api::metrics},
      Route{"/steps", false, &Api::steps},
      Route{"/", false, &Api::page_at_root}};
  for (const Route& route : kRoutes)
    if (route.path == path) return &route;
  static constexpr Route kModelRoute = {"/v1/models/NAME", true, &Api::show_model};
  const bool names_model = path.starts_with(kOneModel) && path.size() > kOneModel.size();
  return names_model ? &kModelRoute : nullptr;
}

Api::Api(Models& models, const ApiOptions& options)
    : models_(models),
      cors_(options.cors),
      keys_(options.keys),
      started_(unix_seconds()),
      id_prefix_(fmt::format("{:08x}", random_number() & 0xffffffff)) {}

Api::~Api() { models_.stop(); }  // its thread posts to the worker

void Api::handle(HttpRequest request, ExchangePtr exchange) {
  const Route* const route = find_route(request.path);
  const bool is_allowed_page = cors_.allows(request.origin);
  if (is_allowed_page) exchange = cors_.wrap(std::move(exchange), request.origin);
  guard(route ? route->path : "other", exchange, [&] {
    if (request.refusal.status != 0)
      throw RequestError(request.refusal.status, request.refusal.message);
    if (!route)
      throw RequestError(404, fmt::format("there is no {}; docs/server.md lists the paths",
                                          in_quotes(request.path)));
    if (request.method == "OPTIONS" && is_allowed_page)
      return reply(route->path, exchange, cors_.preflight());
    const std::string method = route->method();
    if (request.method != method && !(request.method == "HEAD" && method == "GET"))
      throw RequestError(
          405, fmt::format("{} is for {}, not {}", route->path, method, in_quotes(request.method)))
          .with_header("Allow", method == "GET" ? "GET, HEAD" : method);
    if (route->needs_key && !keys_.lets_in(request.authorization))
      throw RequestError(401,
                         "a key is missing or wrong; send the header Authorization: Bearer KEY", {},
                         "invalid_api_key");
    if (route->get) return reply(route->path, exchange, (this->*route->get)(request));
    if (route->read) check_room();
    worker_.post([this, route, exchange, text = std::move(request.body)] {
      guard(route->path, exchange, [&] { answer_body(*route, text, exchange); });
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
    refuse(503, error.what());
  } catch (const std::bad_alloc&) {
    refuse(503, "there is not enough memory for this request");
  } catch (const std::exception& error) {
    refuse(500, error.what());
  }
}

void Api::reply(const std::string& path, const ExchangePtr& exchange, HttpReply reply) {
  http_->count_reply(path, reply.status);
  exchange->send(std::move(reply));
}

/// Before the body is read, which may take long and be in vain.
void Api::check_room() const {
  if (models_.is_draining()) throw RequestError(503, "the server is about to stop");
  if (models_.are_all_full())
    throw RequestError(429, "as many sequences run and wait as this server takes; try again later");
}

void Api::answer_body(const Route& route, const std::string& text, const ExchangePtr& exchange) {
  const RequestBody body(text);
  if (!route.post && !route.read) return unload(route, body, exchange);
  if (const auto model = models_.take(body.model()))
    return answer_with(route, body, *model, exchange);
  models_.load(
      body.model(),
      [this, &route, body, exchange](const Models::InUsePtr& model) {
        worker_.post([this, &route, body, model, exchange] {
          guard(route.path, exchange, [&] { answer_with(route, body, *model, exchange); });
        });
      },
      [this, &route, exchange](const std::exception_ptr& reason) {
        guard(route.path, exchange, [&] { refuse_load(reason); });
      });
}

void Api::answer_with(const Route& route, const RequestBody& body, const Models::InUse& model,
                      const ExchangePtr& exchange) {
  if (route.post)
    reply(route.path, exchange, (this->*route.post)(body, model));
  else
    generate(route, body, model, exchange);
}

void Api::generate(const Route& route, const RequestBody& body, const Models::InUse& model,
                   const ExchangePtr& exchange) {
  Admission& admission = model.books()->admission;
  if (!admission.is_open()) throw RequestError(503, "the server is about to stop");
  GenerationRequest parsed = route.read(body, model.rules(), random_number());
  apply_limits(model.rules(), parsed);
  const std::size_t choices = parsed.choices();
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
                 .model = model.name(),
                 .has_usage = parsed.includes_usage,
                 .tool_format = parsed.tool_format,
                 .sampling = parsed.prompts.front().sampling,
                 .max_tokens = parsed.prompts.front().max_tokens,
                 .instructions = parsed.instructions,
                 .metadata = parsed.metadata,
                 .token_text =
                     [files = model.model()](std::int32_t token) {
                       return files.detokenize({&token, 1});
                     },
                 .token_bytes = [files = model.model()](
                                    std::int32_t token) { return files.token_bytes(token); }};
  const auto count = [http = http_, path = route.path](int status) {
    http->count_reply(path, status);
  };
  const auto generation = std::make_shared<Generation>(model.books(), std::move(parsed),
                                                       std::move(head), count, exchange);
  exchange->on_leave([weak = std::weak_ptr(generation)] {
    if (const auto there = weak.lock()) there->cancel();
  });
  if (!admission.enter(choices))
    throw RequestError(
        429, fmt::format("there is no room for {} more sequences; try again later", choices));
  try {
    generation->start(model.engine());
  } catch (const llm::BadGrammar& error) {
    throw grammar_refusal(generation->request(), error.what());
  } catch (const BadArgument& error) {
    throw RequestError(400, error.what(), generation->request().prompt_field);
  }
}

void Api::unload(const Route& route, const RequestBody& body, const ExchangePtr& exchange) {
  models_.unload(
      body.model(),
      [this, &route, exchange] {
        guard(route.path, exchange, [&] { reply(route.path, exchange, list_models({})); });
      },
      [this, &route, exchange](const std::exception_ptr& reason) {
        guard(route.path, exchange, [&] { std::rethrow_exception(reason); });
      });
}

HttpReply Api::load(const RequestBody&, const Models::InUse&) { return list_models({}); }

HttpReply Api::list_models(const HttpRequest&) {
  return {.body = models_json(models_.list(), started_)};
}

HttpReply Api::show_model(const HttpRequest& request) {
  const std::string name = unescaped(request.path.substr(kOneModel.size()));
  return {.body = model_json(models_.status(name), started_)};
}

HttpReply Api::health(const HttpRequest&) {
  if (models_.has_lost_device()) throw RequestError(503, "the engine has lost its device");
  return {.body = status_json("ok")};
}

HttpReply Api::ready(const HttpRequest& request) {
  if (models_.is_draining()) throw RequestError(503, "the server is about to stop");
  return health(request);
}

HttpReply Api::version(const HttpRequest&) { return {.body = version_json()}; }

HttpReply Api::metrics(const HttpRequest&) {
  MetricsPage page;
  models_.add_metrics(page);
  http_->add_to(page, connections_());
  return {.body = page.text(), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

HttpReply Api::steps(const HttpRequest&) {
  return {.body = steps_json(models_.steps(kStepsShown))};
}

HttpReply Api::page_at_root(const HttpRequest&) {
  return {.body = std::string(page()),
          .content_type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                       "connect-src 'self'"}}};
}

HttpReply Api::tokenize(const RequestBody& body, const Models::InUse& model) {
  const TokenizeRequest parsed = read_tokenize_request(body, model.rules());
  const auto tokens = parsed.messages.empty() ? model.model().tokenize(parsed.text)
                                              : model.model().chat(parsed.messages, parsed.tools);
  return {.body = tokens_json(tokens, model.rules().longest_sequence)};
}

HttpReply Api::detokenize(const RequestBody& body, const Models::InUse& model) {
  return {.body =
              text_json(model.model().detokenize(read_detokenize_request(body, model.rules())))};
}

}  // namespace attacca::server
