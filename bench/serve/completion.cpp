// completion.cpp: reads the events of a stream. The bytes are the server's and may be anything.
#include "serve/completion.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace bench::serve {

namespace {

using nlohmann::json;

constexpr int kOk = 200;
constexpr std::size_t kMostErrorBytes = 4096;
constexpr std::size_t kMostDetail = 300;

/// A member of an object, or null where there is no such thing.
const json& member(const json& value, const char* key) {
  static const json kNothing;
  if (!value.is_object()) return kNothing;
  const auto found = value.find(key);
  return found == value.end() ? kNothing : *found;
}

bool is_text(const json& value) {
  return value.is_string() && !value.get_ref<const std::string&>().empty();
}

std::uint64_t count_in(const json& value, const char* key) {
  const json& count = member(value, key);
  return count.is_number_unsigned() ? count.get<std::uint64_t>() : 0;
}

std::string message_of(const json& error) {
  const json& message = member(error, "message");
  const json& said = message.is_string() ? message : error;
  return said.is_string() ? said.get<std::string>()
                          : error.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// A server's words, made safe for a terminal.
std::string printable(std::string_view text) {
  std::string result(text.substr(0, kMostDetail));
  for (char& letter : result)
    if (letter < ' ' || letter > '~') letter = ' ';
  return text.size() > kMostDetail ? result + "..." : result;
}

}  // namespace

std::optional<CompletionEvent> parse_event(std::string_view data) {
  const json event = json::parse(data, nullptr, false);
  if (!event.is_object()) return {};
  CompletionEvent said;
  const json& choices = member(event, "choices");
  if (choices.is_array())
    for (const json& choice : choices) {
      const json& delta = member(choice, "delta");
      for (const json* text : {&member(choice, "text"), &member(delta, "content"),
                               &member(delta, "reasoning_content"), &member(delta, "reasoning")})
        said.has_text |= is_text(*text);
      said.is_last |= member(choice, "finish_reason").is_string();
    }
  const json& usage = member(event, "usage");
  if (usage.is_object())
    said.usage = Usage{count_in(usage, "prompt_tokens"), count_in(usage, "completion_tokens"),
                       count_in(member(usage, "prompt_tokens_details"), "cached_tokens")};
  const json& error = member(event, "error");
  if (!error.is_null()) said.error = message_of(error);
  return said;
}

std::string error_message(std::string_view body) {
  const json reply = json::parse(body, nullptr, false);
  const json& error = member(reply, "error");
  return printable(error.is_null() ? std::string(body) : message_of(error));
}

CompletionReader::CompletionReader(const Transport& transport, Time start, Record& record,
                                   std::function<void()> on_done)
    : transport_(transport), start_(start), record_(record), on_done_(std::move(on_done)) {}

double CompletionReader::now() const {
  return std::chrono::duration<double>(transport_.now() - start_).count();
}

/// The first failure of a reply is the one that counts.
void CompletionReader::fail(const std::string& reason, const std::string& detail) {
  if (!record_.failure.empty()) return;
  record_.failure = reason;
  record_.detail = printable(detail);
}

void CompletionReader::on_body(std::string_view bytes) {
  if (status_ != kOk) {
    error_body_ += bytes.substr(0, kMostErrorBytes - error_body_.size());
    return;
  }
  if (!events_.feed(bytes, [this](std::string_view data) { on_event(data); }))
    fail("an event is too large");
}

void CompletionReader::on_event(std::string_view data) {
  has_events_ = true;
  if (is_done_) return;
  if (data == "[DONE]") {
    is_done_ = true;
    record_.end = now();
    return;
  }
  const std::optional<CompletionEvent> event = parse_event(data);
  if (!event) return fail("an event is no JSON", std::string(data));
  if (event->error) return fail("an error in the stream", *event->error);
  if (event->has_text) record_.texts.push_back(now());
  has_last_ |= event->is_last;
  if (event->usage) record_.usage = event->usage;
}

void CompletionReader::on_end(const std::string& problem) {
  if (!is_done_) record_.end = now();
  if (status_ == 0 || (status_ == kOk && !is_done_ && !problem.empty()))
    fail(problem.empty() ? "no reply" : problem);
  else if (status_ != kOk)
    fail(fmt::format("HTTP {}", status_), error_message(error_body_));
  else if (!has_events_)
    fail("the reply is no stream of events");
  else if (!is_done_ && !has_last_)
    fail("the stream ended without [DONE]");
  on_done_();
}

}  // namespace bench::serve
