// http_text.cpp: writes status lines, headers and chunks. Beast could do so too, but only its
// parser is worth the time it takes to compile.
#include "server/http_text.hpp"

#include <fmt/format.h>

#include <charconv>

namespace attacca::server {

namespace {

std::string head_text(const HttpReply& reply, const ReplyForm& form, std::string_view length) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}", reply.status,
                                 reason_of(reply.status), reply.content_type, length);
  for (const auto& [name, value] : reply.headers) text += fmt::format("{}: {}\r\n", name, value);
  text += form.keeps_alive ? "" : "Connection: close\r\n";
  return text + "\r\n";
}

}  // namespace

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Unknown";
  }
}

std::string reply_text(const HttpReply& reply, const ReplyForm& form) {
  std::string text =
      head_text(reply, form, fmt::format("Content-Length: {}\r\n", reply.body.size()));
  if (!form.is_head) text += reply.body;
  return text;
}

std::string stream_head(const HttpReply& head, const ReplyForm& form) {
  return head_text(head, form, form.is_http11 ? "Transfer-Encoding: chunked\r\n" : "") +
         stream_piece(head.body, form);
}

std::string stream_piece(std::string_view piece, const ReplyForm& form) {
  if (piece.empty() || form.is_head) return {};  // an empty chunk would end the stream
  if (!form.is_http11) return std::string(piece);
  // Every token comes here, so nothing is parsed.
  char size[16];
  char* const end = std::to_chars(size, size + sizeof(size), piece.size(), 16).ptr;
  std::string chunk;
  chunk.reserve(sizeof(size) + piece.size() + 4);
  chunk.append(size, static_cast<std::size_t>(end - size))
      .append("\r\n")
      .append(piece)
      .append("\r\n");
  return chunk;
}

std::string stream_end(const ReplyForm& form) {
  return form.is_http11 && !form.is_head ? "0\r\n\r\n" : "";
}

}  // namespace attacca::server
