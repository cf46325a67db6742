// sse.cpp: collects lines, which end with \n, \r or both, and the data of events, which end with an
// empty line.
#include "serve/sse.hpp"

#include <algorithm>

namespace bench::serve {

bool SseParser::feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data) {
  while (!bytes.empty() && !is_too_large_) {
    if (is_after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);
    is_after_cr_ = false;
    const std::size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    line_ += bytes.substr(0, end);
    bytes.remove_prefix(end);
    is_too_large_ = line_.size() + data_.size() > most_bytes_;
    if (bytes.empty() || is_too_large_) break;
    is_after_cr_ = bytes.front() == '\r';
    bytes.remove_prefix(1);
    end_line(on_data);
  }
  return !is_too_large_;
}

void SseParser::end_line(const std::function<void(std::string_view)>& on_data) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view line = line_;
  if (is_first_line_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  is_first_line_ = false;
  if (line.empty() && !data_.empty()) {
    on_data(std::string_view(data_).substr(0, data_.size() - 1));
    data_.clear();
  }
  if (line == "data") data_ += '\n';
  if (line.starts_with("data:")) {
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    data_.append(line) += '\n';
  }
  line_.clear();
}

}  // namespace bench::serve
