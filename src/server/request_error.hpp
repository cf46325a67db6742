// request_error.hpp: a request that is refused, with what OpenAI's clients read from a refusal.
#pragma once

#include <attacca/error.hpp>
#include <string>
#include <utility>

#include "server/http.hpp"

namespace attacca::server {

class RequestError : public Error {
 public:
  /// `param`: the field at fault, such as "messages[1].content". `code`: a word for programs, such
  /// as "model_not_found". Either may be empty.
  RequestError(int status, const std::string& message, std::string param = {},
               std::string code = {})
      : Error(message), status_(status), param_(std::move(param)), code_(std::move(code)) {}

  /// The same error, with a header that its reply needs.
  RequestError with_header(std::string name, std::string value) && {
    headers_.emplace_back(std::move(name), std::move(value));
    return std::move(*this);
  }

  int status() const { return status_; }
  const std::string& param() const { return param_; }
  const std::string& code() const { return code_; }
  const HttpHeaders& headers() const { return headers_; }

 private:
  int status_;
  std::string param_;
  std::string code_;
  HttpHeaders headers_;
};

/// {"error": {"message", "type", "param", "code"}}
std::string error_json(const RequestError& error);
HttpReply error_reply(const RequestError& error);

}  // namespace attacca::server
