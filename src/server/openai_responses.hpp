// openai_responses.hpp: replies of /v1/responses, whole and as a stream of named events. The body
// of such a request is read in openai_requests.hpp.
#pragma once

#include <attacca/llm.hpp>
#include <cstddef>
#include <string>

#include "server/openai_replies.hpp"

namespace attacca::server {

std::string response_reply(const ReplyHead& head, const llm::Reply& reply, const Usage& usage);

/// The events of one reply. Each has a number; `begin` has the first ones, whenever it is called.
class ResponseEvents {
 public:
  explicit ResponseEvents(const ReplyHead& head) : head_(head) {}

  std::string begin() const;
  std::string delta(const std::string& text);
  std::string end(const llm::Reply& reply, const Usage& usage);
  std::string failure(const RequestError& error);

 private:
  static constexpr std::size_t kOfBegin = 4;  // events

  const ReplyHead& head_;
  std::size_t number_ = kOfBegin;
};

}  // namespace attacca::server
