// generation.cpp: submits choices, turns their events into chunks, and sends the reply when the
// last one has ended.
#include "server/generation.hpp"

#include <algorithm>
#include <utility>

namespace attacca::server {

Generation::Generation(std::shared_ptr<Books> books, GenerationRequest request, ReplyHead head,
                       std::function<void(int status)> on_reply, ExchangePtr exchange)
    : books_(std::move(books)),
      request_(std::move(request)),
      head_(std::move(head)),
      on_reply_(std::move(on_reply)),
      exchange_(std::move(exchange)),
      choices_(request_.choices()),
      left_to_end_(choices_.size()) {
  for (Choice& choice : choices_) choice.tools = ToolCallReader(request_.tool_format);
  if (request_.is_response && request_.streams) events_.emplace(head_);
}

llm::Request Generation::request_of(std::size_t at) {
  llm::Request request = request_.choice(at);
  const auto self = shared_from_this();
  request.on_event = [self, at](const llm::RequestEvent& event) { self->take_event(at, event); };
  request.on_done = [self, at](const llm::Reply& reply) { self->take_end(at, reply); };
  return request;
}

bool Generation::submit(llm::Engine& engine, std::size_t at) {
  {
    const std::lock_guard lock(mutex_);
    if (is_cancelled_) return false;
  }
  // Without the mutex: it tokenizes, and the engine's callbacks must not wait for that.
  llm::Ticket ticket = engine.submit(request_of(at));
  const std::lock_guard lock(mutex_);
  if (is_cancelled_) ticket.cancel();
  if (!choices_[at].has_ended) choices_[at].ticket = std::move(ticket);
  return true;
}

void Generation::start(llm::Engine& engine) {
  for (std::size_t at = 0; at < choices_.size(); ++at) {
    try {
      if (submit(engine, at)) continue;
    } catch (...) {
      books_->admission.leave(choices_.size() - at);
      cancel();
      throw;
    }
    books_->admission.leave(choices_.size() - at);
    return;
  }
  const std::lock_guard lock(mutex_);
  is_started_ = true;
  if (is_cancelled_) return;
  if (request_.streams)
    exchange_->begin({.body = first_chunks() + early_chunks_,
                      .content_type = "text/event-stream; charset=utf-8",
                      .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
  if (left_to_end_ == 0) finish();
}

std::string Generation::first_chunks() const {
  if (events_) return events_->begin();
  std::string chunks;
  for (std::size_t at = 0; at < choices_.size(); ++at) chunks += first_chunk(head_, at);
  return chunks;
}

void Generation::cancel() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_cancelled_, true)) return;
  for (Choice& choice : choices_)
    if (choice.ticket) choice.ticket->cancel();
}

void Generation::take_event(std::size_t at, const llm::RequestEvent& event) {
  const std::lock_guard lock(mutex_);
  Choice& choice = choices_[at];
  if (event.token >= 0) {
    if (choice.last_seconds < 0)
      books_->metrics.add_first_token(event.seconds);
    else
      books_->metrics.add_token_gap(event.seconds - choice.last_seconds);
    choice.last_seconds = event.seconds;
  }
  if (event.logprob && !request_.is_chat) add_offset(choice, event);
  if (!request_.streams || is_cancelled_) return;
  if (events_) {
    if (!event.text.empty()) stream(events_->delta(event.text));
    return;
  }
  const ToolPiece piece = choice.tools.push(event.text);
  if (event.logprob)
    stream(text_chunk(head_, at, piece.content, event.logprob,
                      choice.offsets.empty() ? 0 : choice.offsets.back()));
  else if (!piece.content.empty())
    stream(frame_of(at).chunk(piece.content));
  if (!piece.calls.empty()) stream(call_chunk(head_, at, piece.calls));
}

void Generation::add_offset(Choice& choice, const llm::RequestEvent& event) const {
  choice.characters += length_of(event.text);
  choice.offsets.push_back(choice.next_offset);
  choice.next_offset = choice.characters;
  if (request_.prompts.front().stop.empty()) return;
  // Text that may begin a stop text is held back, and the next token is behind it.
  const std::string text = head_.token_text(event.token);
  if (text.find(kReplacement) == std::string::npos)
    choice.next_offset = std::max(choice.characters, choice.offsets.back() + length_of(text));
}

const TextFrame& Generation::frame_of(std::size_t at) {
  std::optional<TextFrame>& frame = choices_[at].frame;
  if (!frame) frame.emplace(head_, at);
  return *frame;
}

void Generation::take_end(std::size_t at, const llm::Reply& reply) {
  books_->admission.leave(1);
  books_->metrics.add_end(reply);
  const std::lock_guard lock(mutex_);
  choices_[at].reply = reply;
  choices_[at].has_ended = true;
  choices_[at].ticket.reset();
  --left_to_end_;
  if (reply.finish == llm::Finish::failed && failure_.empty())
    failure_ = reply.error.empty() ? "the engine failed" : reply.error;
  if (request_.streams && !events_ && !is_cancelled_ && reply.finish != llm::Finish::failed) {
    ToolCallReader& tools = choices_[at].tools;
    const ToolPiece rest = tools.finish();
    if (!rest.content.empty()) stream(frame_of(at).chunk(rest.content));
    if (!rest.calls.empty()) stream(call_chunk(head_, at, rest.calls));
    stream(end_chunk(head_, at, reply.finish, tools.calls() > 0));
  }
  if (left_to_end_ == 0 && (is_started_ || is_cancelled_)) finish();
}

void Generation::stream(std::string chunks) {
  if (is_started_)
    exchange_->write(std::move(chunks));
  else
    early_chunks_ += chunks;
}

void Generation::finish() {
  std::vector<llm::Reply> replies;
  for (Choice& choice : choices_) replies.push_back(std::move(choice.reply));
  const Usage usage = usage_of(replies, request_.choices_per_prompt);
  exchange_->note({usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens});
  if (is_cancelled_) return;
  on_reply_(failure_.empty() || request_.streams ? 200 : 500);
  if (request_.streams)
    finish_stream(replies, usage);
  else if (failure_.empty())
    exchange_->send({.body = whole(replies, usage)});
  else
    exchange_->send(error_reply(RequestError(500, failure_)));
}

std::string Generation::whole(const std::vector<llm::Reply>& replies, const Usage& usage) const {
  if (request_.is_embedding) return embeddings_reply(head_, replies, usage, request_.is_base64);
  if (request_.is_response) return response_reply(head_, replies.front(), usage);
  std::vector<std::vector<std::size_t>> offsets;
  for (const Choice& choice : choices_) offsets.push_back(choice.offsets);
  return whole_reply(head_, replies, usage, offsets);
}

void Generation::finish_stream(const std::vector<llm::Reply>& replies, const Usage& usage) {
  const RequestError error(500, failure_);
  if (events_) {
    exchange_->write(failure_.empty() ? events_->end(replies.front(), usage)
                                      : events_->failure(error));
  } else {
    if (!failure_.empty()) exchange_->write(error_chunk(error));
    if (request_.includes_usage) exchange_->write(usage_chunk(head_, usage));
    exchange_->write(kLastChunk);
  }
  exchange_->end();
}

}  // namespace attacca::server
