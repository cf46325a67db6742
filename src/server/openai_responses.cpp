// openai_responses.cpp: the shapes of OpenAI's responses. A response has one item, a message, which
// has one part, its text.
#include "server/openai_responses.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace attacca::server {

namespace {

using Json = nlohmann::ordered_json;

std::string item_id(const ReplyHead& head) { return "msg_" + head.id; }

Json part_of(const std::string& text) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

Json item_of(const ReplyHead& head, const char* status, Json content) {
  return {{"id", item_id(head)},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

bool is_whole(const llm::Reply& reply) { return reply.finish == llm::Finish::stop; }

const char* status_of(const llm::Reply& reply) {
  return is_whole(reply) ? "completed" : "incomplete";
}

/// 0.7 and not 0.699999988.
double as_written(float value) { return std::stod(fmt::to_string(value)); }

Json response_of(const ReplyHead& head, const char* status, Json output) {
  return {{"id", head.id},
          {"object", "response"},
          {"created_at", head.created},
          {"status", status},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", head.instructions ? Json(*head.instructions) : Json()},
          {"max_output_tokens", head.max_tokens},
          {"metadata", Json::parse(head.metadata)},
          {"model", head.model},
          {"output", std::move(output)},
          {"parallel_tool_calls", false},
          {"temperature", as_written(head.sampling.temperature)},
          {"tool_choice", "none"},
          {"tools", Json::array()},
          {"top_p", as_written(head.sampling.top_p)},
          {"usage", nullptr}};
}

Json whole_response(const ReplyHead& head, const llm::Reply& reply, const Usage& usage) {
  const Json item = item_of(head, status_of(reply), Json::array({part_of(reply.text)}));
  Json response = response_of(head, status_of(reply), Json::array({item}));
  if (!is_whole(reply)) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response["usage"] = {{"input_tokens", usage.prompt_tokens},
                       {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                       {"output_tokens", usage.completion_tokens},
                       {"output_tokens_details", {{"reasoning_tokens", 0}}},
                       {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
  return response;
}

/// event: NAME, and data with the name and the number.
std::string event_of(const char* name, std::size_t number, const Json& fields) {
  Json data = {{"type", name}, {"sequence_number", number}};
  data.update(fields);
  return std::string("event: ") + name + "\ndata: " + json_text(data) + "\n\n";
}

/// Where in the response an event's text is.
Json place_of(const ReplyHead& head, Json fields) {
  Json place = {{"item_id", item_id(head)}, {"output_index", 0}, {"content_index", 0}};
  place.update(fields);
  return place;
}

}  // namespace

std::string response_reply(const ReplyHead& head, const llm::Reply& reply, const Usage& usage) {
  return json_text(whole_response(head, reply, usage));
}

std::string ResponseEvents::begin() const {
  const Json empty = {{"response", response_of(head_, "in_progress", Json::array())}};
  const Json item = item_of(head_, "in_progress", Json::array());
  return event_of("response.created", 0, empty) + event_of("response.in_progress", 1, empty) +
         event_of("response.output_item.added", 2, {{"output_index", 0}, {"item", item}}) +
         event_of("response.content_part.added", kOfBegin - 1,
                  place_of(head_, {{"part", part_of("")}}));
}

std::string ResponseEvents::delta(const std::string& text) {
  return event_of("response.output_text.delta", number_++,
                  place_of(head_, {{"delta", text}, {"logprobs", Json::array()}}));
}

std::string ResponseEvents::end(const llm::Reply& reply, const Usage& usage) {
  const Json part = part_of(reply.text);
  const Json item = item_of(head_, status_of(reply), Json::array({part}));
  std::string events =
      event_of("response.output_text.done", number_++,
               place_of(head_, {{"text", reply.text}, {"logprobs", Json::array()}}));
  events += event_of("response.content_part.done", number_++, place_of(head_, {{"part", part}}));
  events += event_of("response.output_item.done", number_++, {{"output_index", 0}, {"item", item}});
  return events + event_of(is_whole(reply) ? "response.completed" : "response.incomplete",
                           number_++, {{"response", whole_response(head_, reply, usage)}});
}

std::string ResponseEvents::failure(const RequestError& error) {
  return event_of("error", number_++,
                  {{"code", "server_error"}, {"message", error.what()}, {"param", nullptr}});
}

}  // namespace attacca::server
