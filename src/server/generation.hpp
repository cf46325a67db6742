// generation.hpp: one completion or embedding request on its way: the engine's tickets of its
// choices, and the reply that grows from their events.
#pragma once

#include <attacca/llm.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/admission.hpp"
#include "server/http.hpp"
#include "server/metrics.hpp"
#include "server/openai_replies.hpp"
#include "server/openai_requests.hpp"
#include "server/openai_responses.hpp"
#include "server/tool_calls.hpp"

namespace attacca::server {

/// What generations of one model share. They own it together, because the engine may end the last
/// of them when everything else has gone.
struct Books {
  Books(std::size_t slots, std::size_t most_waiting, const std::string& model)
      : admission(slots, most_waiting), metrics(model) {}

  Admission admission;
  Metrics metrics;
};

/// The engine's callbacks own it, so it lives until its last choice has ended. The engine calls
/// back on one thread; `start` and `cancel` come from others.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  /// REQUIRES: `admission` was entered for all choices. Each leaves when it has ended.
  Generation(std::shared_ptr<Books> books, GenerationRequest request, ReplyHead head,
             std::function<void(int status)> on_reply, ExchangePtr exchange);

  /// Submits all choices. Throws what Engine::submit throws; nothing has been sent then.
  void start(llm::Engine& engine);
  /// The client has left.
  void cancel();
  const GenerationRequest& request() const { return request_; }

 private:
  struct Choice {
    std::optional<llm::Ticket> ticket = {};  // until its end: a ticket owns the callbacks
    bool has_ended = false;
    llm::Reply reply = {};
    ToolCallReader tools = ToolCallReader(llm::ToolFormat::none);
    std::optional<TextFrame> frame = {};    // of a stream
    std::size_t characters = 0;             // of its text so far
    std::size_t next_offset = 0;            // where its next token begins,
    std::vector<std::size_t> offsets = {};  // and where those before it do, if the reply tells that
    double last_seconds = -1;               // of its last token; -1: none yet
  };

  llm::Request request_of(std::size_t at);
  /// False if the client left before.
  bool submit(llm::Engine& engine, std::size_t at);
  void take_event(std::size_t at, const llm::RequestEvent& event);
  void take_end(std::size_t at, const llm::Reply& reply);
  // With the mutex held.
  void add_offset(Choice& choice, const llm::RequestEvent& event) const;
  std::string first_chunks() const;
  std::string whole(const std::vector<llm::Reply>& replies, const Usage& usage) const;
  void finish_stream(const std::vector<llm::Reply>& replies, const Usage& usage);
  void stream(std::string chunks);
  const TextFrame& frame_of(std::size_t at);
  void finish();

  const std::shared_ptr<Books> books_;
  const GenerationRequest request_;
  const ReplyHead head_;
  const std::function<void(int status)> on_reply_;
  const ExchangePtr exchange_;

  std::mutex mutex_;
  std::optional<ResponseEvents> events_;  // of a streamed response
  std::vector<Choice> choices_;
  std::size_t left_to_end_;
  // All choices are submitted, so the status of the reply is certain. Chunks from before are kept.
  bool is_started_ = false;
  std::string early_chunks_;
  bool is_cancelled_ = false;
  std::string failure_;  // of the first choice that failed
};

}  // namespace attacca::server
