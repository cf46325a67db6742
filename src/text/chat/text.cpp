// text.cpp: appends to a Text and cuts parts out of it, with the ranges that came from the caller.
#include "text/chat/text.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace attacca::text::chat {
namespace {

void check_room(std::size_t have, std::size_t more) {
  if (more > Text::kMaxBytes - have)
    throw Problem(
        fmt::format("a text of more than {} MiB; a conversation this long does not fit a model",
                    Text::kMaxBytes >> 20));
}

}  // namespace

void Text::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!literal_.empty() && literal_.back().end == begin)
    literal_.back().end = end;
  else
    literal_.push_back({begin, end});
}

void Text::append(std::string_view bytes, Origin origin) {
  check_room(bytes_.size(), bytes.size());
  const std::size_t start = bytes_.size();
  bytes_.append(bytes);
  if (origin == Origin::caller) mark(start, bytes_.size());
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  check_room(bytes_.size(), end - begin);
  const std::size_t start = bytes_.size();
  bytes_.append(other.bytes_, begin, end - begin);
  auto range = std::lower_bound(other.literal_.begin(), other.literal_.end(), begin,
                                [](const TextRange& r, std::size_t at) { return r.end <= at; });
  for (; range != other.literal_.end() && range->begin < end; ++range)
    mark(start + std::max(range->begin, begin) - begin, start + std::min(range->end, end) - begin);
}

Text Text::part(std::size_t begin, std::size_t end) const {
  Text piece;
  piece.append(*this, begin, end);
  return piece;
}

}  // namespace attacca::text::chat
