// sse.hpp: server-sent events, as the HTML standard defines them, cut out of a stream of bytes that
// may be anything. Only their data matters here: names and ids of events are skipped.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace bench::serve {

class SseParser {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  explicit SseParser(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  /// Calls `on_data` with the data of each event that ends within these bytes. Returns false once a
  /// line or an event has more than `most_bytes`; from then on all bytes are ignored.
  bool feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data);

 private:
  void end_line(const std::function<void(std::string_view)>& on_data);

  std::size_t most_bytes_;
  std::string line_;  // not ended yet
  std::string data_;  // of the current event; each of its lines ends with \n
  bool is_after_cr_ = false;
  bool is_first_line_ = true;
  bool is_too_large_ = false;
};

}  // namespace bench::serve
