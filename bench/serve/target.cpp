// target.cpp: asks a server about itself, and writes requests for it.
#include "serve/target.hpp"

#include <fmt/format.h>

#include <attacca/error.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "serve/completion.hpp"

namespace bench::serve {

using attacca::Error;
using nlohmann::json;

namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kFewWords = 64;
constexpr std::size_t kManyWords = 256;

struct Reply final : ReplySink {
  int status = 0;
  std::string body;
  std::string problem;

  void on_status(int number) override { status = number; }
  void on_body(std::string_view bytes) override {
    body += bytes.substr(0, kMostBytes - body.size());
  }
  void on_end(const std::string& what) override { problem = what; }
};

/// Throws where there is no reply at all.
Reply fetch(Transport& transport, const Url& url, const HttpCall& call) {
  const auto reply = std::make_shared<Reply>();
  transport.send(call, reply);
  transport.run();
  if (reply->status == 0 || (!reply->problem.empty() && reply->status == 200))
    throw Error(fmt::format("{}: {}; start a server there, or give the --url of another one",
                            url.text(), reply->problem));
  return *reply;
}

json prompt_fields(const Target& target, const std::string& prompt) {
  json fields{{"model", target.model}};
  if (target.endpoint == Endpoint::chat)
    fields["messages"] = json::array({{{"role", "user"}, {"content", prompt}}});
  else
    fields["prompt"] = prompt;
  return fields;
}

std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<std::size_t> count_tokens(Transport& transport, const Target& target,
                                        const std::string& prompt) {
  const Reply reply =
      fetch(transport, target.url,
            {"POST", target.url.root + "/tokenize", text_of(prompt_fields(target, prompt))});
  const json counted = json::parse(reply.body, nullptr, false);
  if (reply.status != 200 || !counted.is_object()) return {};
  const auto count = counted.find("count");
  if (count == counted.end() || !count->is_number_unsigned()) return {};
  return count->get<std::size_t>();
}

}  // namespace

std::string ask_model(Transport& transport, const Url& url) {
  const std::string path = url.api + "/models";
  const Reply reply = fetch(transport, url, {"GET", path});
  if (reply.status == 401 || reply.status == 403)
    throw Error(fmt::format("{}: the server wants a key (HTTP {}: {}); give --api-key-file",
                            url.text(), reply.status, error_message(reply.body)));
  if (reply.status != 200)
    throw Error(
        fmt::format("{}: GET {} has status {} ({}); is this the address of an "
                    "OpenAI-compatible server? --model NAME does not ask",
                    url.text(), path, reply.status, error_message(reply.body)));
  const json models = json::parse(reply.body, nullptr, false);
  if (models.is_object() && models.contains("data") && models["data"].is_array() &&
      !models["data"].empty()) {
    const json& first = models["data"].front();
    if (first.is_object() && first.contains("id") && first["id"].is_string())
      return first["id"].get<std::string>();
  }
  throw Error(fmt::format("{}: GET {} names no model ({}); give --model NAME", url.text(), path,
                          error_message(reply.body)));
}

Measured measure_words(Transport& transport, const Target& target, std::uint64_t seed) {
  const auto few = count_tokens(transport, target, random_words(seed, kFewWords));
  if (!few) return {};
  const auto many = count_tokens(transport, target, random_words(seed, kManyWords));
  if (!many) return {};
  return {TokensOfWords::through(kFewWords, *few, kManyWords, *many), true};
}

HttpCall completion_call(const Target& target, const std::string& prompt, unsigned output_tokens) {
  json fields = prompt_fields(target, prompt);
  fields["max_tokens"] = output_tokens;
  fields["stream"] = true;
  fields["stream_options"] = {{"include_usage", true}};
  if (target.ignores_eos) fields["ignore_eos"] = true;
  const char* path = target.endpoint == Endpoint::chat ? "/chat/completions" : "/completions";
  return {"POST", target.url.api + path, text_of(fields)};
}

}  // namespace bench::serve
