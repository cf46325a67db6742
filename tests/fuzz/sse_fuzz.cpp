// sse_fuzz.cpp: the body of a streamed completion, as a server may send it to `attacca bench
// serve`. Bytes in one piece and byte by byte must give the same record.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "bench/serve/completion.hpp"

namespace {

using namespace bench::serve;

/// Has a clock that stands still, and sends nothing.
class NoTransport final : public Transport {
 public:
  Time now() const override { return {}; }
  void at(Time, std::function<void()>) override {}
  void send(HttpCall, std::shared_ptr<ReplySink>) override {}
  void run() override {}
};

Record read(std::string_view bytes, std::size_t piece, int status) {
  const NoTransport transport;
  Record record;
  bool is_done = false;
  CompletionReader reader(transport, {}, record, [&] { is_done = true; });
  reader.on_status(status);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
    reader.on_body(bytes.substr(0, piece));
  reader.on_end("");
  if (!is_done) std::abort();
  return record;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const int status : {200, 500}) {
    const Record whole = read(bytes, size + 1, status);
    const Record cut = read(bytes, 1, status);
    if (whole.failure != cut.failure || whole.detail != cut.detail || whole.texts != cut.texts ||
        whole.output_tokens() != cut.output_tokens())
      std::abort();
  }
  return 0;
}
