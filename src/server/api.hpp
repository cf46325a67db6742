// api.hpp: the endpoints of the server: which paths there are, who may use them, and what they
// answer. docs/server.md describes them.
#pragma once

#include <atomic>
#include <attacca/llm.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/api_keys.hpp"
#include "server/cors.hpp"
#include "server/generation.hpp"
#include "server/http.hpp"
#include "server/openai_requests.hpp"
#include "server/request_error.hpp"
#include "server/worker.hpp"

namespace attacca::server {

struct ApiOptions {
  std::string model_name;                  // in replies and in the list of models
  std::vector<std::string> model_aliases;  // other names that requests may give
  ApiKeys keys = {};
  Cors cors = {};
  std::size_t most_waiting = 256;
  bool refuses_unknown = false;
};

/// `handle` runs on the server's thread and only looks at the path, the key and the room. Bodies
/// are parsed and prompts tokenized on a thread of its own. REQUIRES: the engine outlives it.
class Api {
 public:
  Api(llm::Model model, llm::Engine& engine, const ApiOptions& options);

  void handle(HttpRequest request, ExchangePtr exchange);
  /// Refuses generation from now on. Any thread may call it.
  void drain() { books_->admission.close(); }
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

  // The endpoints. Those that return their reply do so on the server's thread if they are a GET,
  // else on the worker's.
  HttpReply models(const HttpRequest& request);
  HttpReply health(const HttpRequest& request);
  HttpReply ready(const HttpRequest& request);
  HttpReply version(const HttpRequest& request);
  HttpReply metrics(const HttpRequest& request);
  HttpReply steps(const HttpRequest& request);
  HttpReply page_at_root(const HttpRequest& request);
  HttpReply tokenize(const HttpRequest& request);
  HttpReply detokenize(const HttpRequest& request);
  void generate(const Route& route, const HttpRequest& request, const ExchangePtr& exchange);

  const llm::Model model_;
  llm::Engine& engine_;
  const ApiOptions options_;
  const std::int64_t started_;  // seconds since 1970
  RequestRules rules_;
  std::shared_ptr<Books> books_;
  std::function<std::size_t()> connections_ = [] { return std::size_t{0}; };
  std::atomic<bool> has_lost_device_ = false;
  std::uint64_t replies_ = 0;  // the worker's: numbers the ids
  std::string id_prefix_;
  Worker worker_;  // last: it uses all of the above
};

}  // namespace attacca::server
