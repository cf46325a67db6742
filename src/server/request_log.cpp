// request_log.cpp: the lines of the log, for people and as JSON.
#include "server/request_log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <ctime>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>

#include "core/counted.hpp"
#include "server/openai_replies.hpp"

namespace attacca::server {

struct RequestLog::Facts {
  std::string id, method, path;
  std::time_t at = std::time(nullptr);  // when it came
  int status = 0;                       // 0: it ended before there was one
  std::optional<TokenCounts> tokens = {};
  Sent sent = {.bytes = 0, .is_complete = false, .is_given_up = true};
  double seconds = 0;
};

namespace {

constexpr std::size_t kMostWaiting = 10'000;
constexpr std::size_t kMostIdLetters = 128;

using Clock = std::chrono::steady_clock;

bool is_id(const std::string& text) {
  return !text.empty() && text.size() <= kMostIdLetters &&
         std::all_of(text.begin(), text.end(), [](char letter) {
           return std::isalnum(static_cast<unsigned char>(letter)) || letter == '.' ||
                  letter == '_' || letter == '-';
         });
}

}  // namespace

/// What is known of a request. The handler adds to it, and the connection ends it. If the client
/// got less than all, the handler's last copy writes it, which knows the tokens then. Thread-safe.
class RequestLog::Line {
 public:
  Line(std::shared_ptr<RequestLog> log, std::string id, const HttpRequest& request)
      : log_(std::move(log)), facts_{std::move(id), request.method, request.path} {}
  Line(const Line&) = delete;
  ~Line() {
    if (is_written_) return;
    if (facts_.seconds == 0) facts_.seconds = seconds();
    log_->add(facts_);
  }

  const std::string& id() const { return facts_.id; }
  void set_status(int status) {
    const std::lock_guard lock(mutex_);
    facts_.status = status;
  }
  void set_tokens(const TokenCounts& tokens) {
    const std::lock_guard lock(mutex_);
    facts_.tokens = tokens;
  }
  void end(const Sent& sent) {
    const std::lock_guard lock(mutex_);
    facts_.sent = sent;
    facts_.seconds = seconds();
    is_written_ = sent.is_complete;
    if (is_written_) log_->add(facts_);
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

  const std::shared_ptr<RequestLog> log_;
  const Clock::time_point begun_ = Clock::now();
  std::mutex mutex_;
  Facts facts_;
  bool is_written_ = false;
};

class RequestLog::LoggedExchange final : public Exchange {
 public:
  LoggedExchange(ExchangePtr exchange, std::shared_ptr<Line> line)
      : exchange_(std::move(exchange)), line_(std::move(line)) {
    exchange_->on_sent([line = line_](const Sent& sent) { line->end(sent); });
  }

  void send(HttpReply reply) override { exchange_->send(with_id(std::move(reply))); }
  void begin(HttpReply head) override { exchange_->begin(with_id(std::move(head))); }
  void write(std::string piece) override { exchange_->write(std::move(piece)); }
  void end() override { exchange_->end(); }
  void on_leave(std::function<void()> work) override { exchange_->on_leave(std::move(work)); }
  void note(const TokenCounts& counts) override { line_->set_tokens(counts); }

 private:
  HttpReply with_id(HttpReply reply) {
    line_->set_status(reply.status);
    reply.headers.emplace_back("X-Request-Id", line_->id());
    return reply;
  }

  const ExchangePtr exchange_;
  const std::shared_ptr<Line> line_;
};

RequestLog::RequestLog(LogFormat format, std::function<void(const std::string&)> write)
    : format_(format),
      write_(std::move(write)),
      id_prefix_(fmt::format("req-{:08x}-", std::random_device()())) {}

RequestLog::~RequestLog() {
  const auto written = std::make_shared<std::promise<void>>();
  worker_.post([written] { written->set_value(); });
  written->get_future().wait_for(std::chrono::seconds(1));
}

std::string RequestLog::new_id() { return id_prefix_ + fmt::format("{:x}", ++requests_); }

ExchangePtr RequestLog::wrap(ExchangePtr exchange, const HttpRequest& request) {
  auto line = std::make_shared<Line>(shared_from_this(), is_id(request.id) ? request.id : new_id(),
                                     request);
  return std::make_shared<LoggedExchange>(std::move(exchange), std::move(line));
}

std::string RequestLog::text_of(const Facts& line) const {
  if (format_ == LogFormat::json) {
    nlohmann::ordered_json json = {
        {"time", fmt::format("{:%FT%TZ}", fmt::gmtime(line.at))},
        {"id", line.id},
        {"method", line.method},
        {"path", line.path},
        {"status", line.status},
        {"client_left", !line.sent.is_complete && !line.sent.is_given_up},
        {"given_up", !line.sent.is_complete && line.sent.is_given_up},
        {"seconds", line.seconds},
        {"bytes", line.sent.bytes}};
    if (line.tokens)
      json.update({{"prompt_tokens", line.tokens->prompt},
                   {"cached_tokens", line.tokens->cached},
                   {"generated_tokens", line.tokens->generated}});
    return json_text(json);
  }
  // The path is the client's, and a line break in it would begin a line of its own.
  std::string path = line.path;
  std::replace_if(
      path.begin(), path.end(),
      [](char letter) { return std::iscntrl(static_cast<unsigned char>(letter)) != 0; }, '?');
  std::string text = fmt::format(
      "{:%F %T} {} {} {} {} in {:.3f} s, {} bytes", fmt::gmtime(line.at), line.id,
      line.method.empty() ? "-" : line.method, path.empty() ? "-" : path,
      line.status == 0 ? "-" : fmt::to_string(line.status), line.seconds, line.sent.bytes);
  if (line.tokens)
    text += fmt::format(", {} of prompt, {} of them cached, {} generated",
                        counted(line.tokens->prompt, "token"), line.tokens->cached,
                        line.tokens->generated);
  if (line.sent.is_complete) return text;
  return text + (line.sent.is_given_up ? ", the server gave up" : ", the client left");
}

void RequestLog::add(const Facts& line) {
  if (format_ != LogFormat::none) post(text_of(line));
}

void RequestLog::say(const std::string& text) {
  if (format_ != LogFormat::none) post(line_of(text));
}

std::string RequestLog::line_of(const std::string& text) const {
  const std::time_t now = std::time(nullptr);
  if (format_ == LogFormat::text) return fmt::format("{:%F %T} {}", fmt::gmtime(now), text);
  return json_text({{"time", fmt::format("{:%FT%TZ}", fmt::gmtime(now))}, {"message", text}});
}

void RequestLog::post(std::string line) {
  if (waiting_ >= kMostWaiting) {
    ++dropped_;
    return;
  }
  ++waiting_;
  worker_.post([this, text = std::move(line)] {
    --waiting_;
    if (const std::uint64_t dropped = dropped_.exchange(0); dropped > 0)
      write_(line_of(fmt::format("{} lines of this log were dropped", dropped)));
    write_(text);
  });
}

}  // namespace attacca::server
