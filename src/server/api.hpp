// api.hpp: the endpoints of the server: which paths there are, who may use them, and what they
// answer. docs/server.md describes them.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/api_keys.hpp"
#include "server/cors.hpp"
#include "server/generation.hpp"
#include "server/http.hpp"
#include "server/models.hpp"
#include "server/openai_requests.hpp"
#include "server/request_error.hpp"
#include "server/worker.hpp"

namespace attacca::server {

struct ApiOptions {
  ApiKeys keys = {};
  Cors cors = {};
};

/// `handle` runs on the server's thread and only looks at the path, the key and the room. Bodies
/// are parsed and prompts tokenized on a thread of its own. REQUIRES: the models outlive it.
class Api {
 public:
  explicit Api(Models& models, const ApiOptions& options = {});
  ~Api();
  Api(const Api&) = delete;

  void handle(HttpRequest request, ExchangePtr exchange);
  /// Refuses generation from now on. Any thread may call it.
  void drain() { models_.drain(); }
  /// From now on these keys count. REQUIRES: the server's thread calls it.
  void change_keys(ApiKeys keys) { keys_ = std::move(keys); }
  /// For /metrics. REQUIRES: called before the first request.
  void count_connections_by(std::function<std::size_t()> connections) {
    connections_ = std::move(connections);
  }

 private:
  struct Route;
  static const Route* find_route(const std::string& path);
  /// Runs `work` and sends the errors it throws.
  void guard(const std::string& path, const ExchangePtr& exchange,
             const std::function<void()>& work);
  void reply(const std::string& path, const ExchangePtr& exchange, HttpReply reply);
  void check_room() const;

  // Endpoints with the method GET, on the server's thread.
  HttpReply list_models(const HttpRequest& request);
  HttpReply show_model(const HttpRequest& request);
  HttpReply health(const HttpRequest& request);
  HttpReply ready(const HttpRequest& request);
  HttpReply version(const HttpRequest& request);
  HttpReply metrics(const HttpRequest& request);
  HttpReply steps(const HttpRequest& request);
  HttpReply page_at_root(const HttpRequest& request);
  // Those with POST, on the worker's. The body names the model.
  void answer_body(const Route& route, const std::string& text, const ExchangePtr& exchange);
  void answer_with(const Route& route, const RequestBody& body, const Models::InUse& model,
                   const ExchangePtr& exchange);
  HttpReply tokenize(const RequestBody& body, const Models::InUse& model);
  HttpReply detokenize(const RequestBody& body, const Models::InUse& model);
  HttpReply load(const RequestBody& body, const Models::InUse& model);
  void generate(const Route& route, const RequestBody& body, const Models::InUse& model,
                const ExchangePtr& exchange);
  void unload(const Route& route, const RequestBody& body, const ExchangePtr& exchange);

  Models& models_;
  const Cors cors_;
  ApiKeys keys_;
  const std::int64_t started_;  // seconds since 1970
  std::shared_ptr<HttpMetrics> http_ = std::make_shared<HttpMetrics>();
  std::function<std::size_t()> connections_ = [] { return std::size_t{0}; };
  std::uint64_t replies_ = 0;  // the worker's: numbers the ids
  std::string id_prefix_;
  Worker worker_{"attacca-bodies"};  // last: it uses all of the above
};

}  // namespace attacca::server
