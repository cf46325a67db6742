// http_text.hpp: the bytes of HTTP replies: heads and chunks.
#pragma once

#include <string>
#include <string_view>

#include "server/http.hpp"

namespace attacca::server {

/// How the client that a reply goes to wants it.
struct ReplyForm {
  bool is_http11 = true;  // an older client gets no chunks: the end of the connection ends a stream
  bool keeps_alive = true;
  bool is_head = false;  // HEAD: no body
};

/// "Not Found" for 404.
std::string_view reason_of(int status);

/// A whole reply.
std::string reply_text(const HttpReply& reply, const ReplyForm& form);

/// The head of a stream, a piece of it and its end. An empty piece is no bytes.
std::string stream_head(const HttpReply& head, const ReplyForm& form);
std::string stream_piece(std::string_view piece, const ReplyForm& form);
std::string stream_end(const ReplyForm& form);

}  // namespace attacca::server
