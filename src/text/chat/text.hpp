// text.hpp: a string that knows which of its bytes came from the caller. Every string in a template
// is a Text, so text from a message stays marked as such to the end. Python's operations on it are
// in strings.hpp.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/text_range.hpp"

namespace attacca::text::chat {

/// An error of a template while it runs. ChatTemplate adds the place.
class Problem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Who wrote a value: the template's author, or the caller that sends messages.
enum class Origin : bool { author, caller };

inline Origin either(Origin a, Origin b) {
  return a == Origin::caller || b == Origin::caller ? Origin::caller : Origin::author;
}

class Text {
 public:
  static constexpr std::size_t kMaxBytes = 16 << 20;

  Text() = default;
  explicit Text(std::string_view bytes, Origin origin = Origin::author) { append(bytes, origin); }

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  /// Ranges that came from the caller: sorted, not empty, with a gap between any two.
  const std::vector<TextRange>& literal() const { return literal_; }
  /// The caller, if any byte is the caller's.
  Origin origin() const { return literal_.empty() ? Origin::author : Origin::caller; }

  /// These throw a Problem if the text would grow past kMaxBytes.
  void append(std::string_view bytes, Origin origin);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, std::size_t begin, std::size_t end);

  Text part(std::size_t begin, std::size_t end) const;

  /// Calls visit(bytes, origin) for each stretch of one origin, in order.
  template <class Visit>
  void for_each_run(const Visit& visit) const {
    const std::string_view all = bytes_;
    std::size_t at = 0;
    for (const TextRange& range : literal_) {
      if (at < range.begin) visit(all.substr(at, range.begin - at), Origin::author);
      visit(all.substr(range.begin, range.end - range.begin), Origin::caller);
      at = range.end;
    }
    if (at < all.size()) visit(all.substr(at), Origin::author);
  }

 private:
  void mark(std::size_t begin, std::size_t end);

  std::string bytes_;
  std::vector<TextRange> literal_;
};

}  // namespace attacca::text::chat
