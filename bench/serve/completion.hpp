// completion.hpp: one streamed completion, from its request to what became of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/load.hpp"
#include "serve/sse.hpp"
#include "serve/transport.hpp"

namespace bench::serve {

/// As the server counts.
struct Usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of the prompt
};

/// What an event of a stream says. Several may be true of one event.
struct CompletionEvent {
  bool has_text = false;
  bool is_last = false;  // it has a finish_reason
  std::optional<Usage> usage = {};
  std::optional<std::string> error = {};
};

/// Nothing if `data` is no JSON object.
std::optional<CompletionEvent> parse_event(std::string_view data);

/// The message of an error reply in OpenAI's form, else the beginning of `body`, as printable
/// ASCII.
std::string error_message(std::string_view body);

/// Times are in seconds from the start of the run.
struct Record {
  Planned planned = {};
  double due = 0;  // latencies count from here
  double sent = 0;
  double end = 0;
  std::vector<double> texts = {};  // when each piece of text came
  std::optional<Usage> usage = {};
  std::string failure = {};  // a reason to count by, such as "HTTP 429"; empty: it is complete
  std::string detail = {};   // the server's words about the failure

  bool is_complete() const { return failure.empty(); }
  /// By the server's count if there is one, else the pieces of text.
  std::uint64_t output_tokens() const { return usage ? usage->output_tokens : texts.size(); }
};

/// Fills a record from a reply. REQUIRES: the record and the transport outlive it.
class CompletionReader final : public ReplySink {
 public:
  CompletionReader(const Transport& transport, Time start, Record& record,
                   std::function<void()> on_done);

  void on_status(int status) override { status_ = status; }
  void on_body(std::string_view bytes) override;
  void on_end(const std::string& problem) override;

 private:
  void on_event(std::string_view data);
  void fail(const std::string& reason, const std::string& detail = {});
  double now() const;

  const Transport& transport_;
  Time start_;
  Record& record_;
  std::function<void()> on_done_;
  SseParser events_;
  std::string error_body_;
  int status_ = 0;
  bool has_events_ = false;
  bool has_last_ = false;  // a finish_reason has come
  bool is_done_ = false;   // [DONE] has come
};

}  // namespace bench::serve
