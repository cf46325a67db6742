// http_client.hpp: an HTTP/1.1 client for thousands of streams on one thread. Boost's headers
// compile slowly, so only http_client.cpp includes them.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "serve/transport.hpp"
#include "serve/url.hpp"

namespace bench::serve {

struct ClientOptions {
  std::string api_key;                // empty: none is sent
  std::chrono::milliseconds silence;  // a reply without a byte for so long is given up
  std::string ca_file = {};           // https: certificates to trust; empty: the system's
  bool is_insecure = false;           // https: trusts every certificate
};

/// Connections are kept and used again. A call on a kept connection that its server has closed in
/// the meantime goes out again on another one.
class HttpClient final : public Transport {
 public:
  /// Finds the host. Throws attacca::Error if there is none of that name, or if the certificates
  /// cannot be read.
  HttpClient(const Url& url, const ClientOptions& options);
  ~HttpClient() override;

  Time now() const override { return std::chrono::steady_clock::now(); }
  void at(Time time, std::function<void()> work) override;
  void send(HttpCall call, std::shared_ptr<ReplySink> sink) override;
  void run() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bench::serve
