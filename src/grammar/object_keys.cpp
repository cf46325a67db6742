// object_keys.cpp: follows the strings and brackets of a JSON text, byte by byte.
#include "grammar/object_keys.hpp"

#include <algorithm>

namespace attacca::grammar {

bool ObjectKeys::push(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return push(byte); });
}

bool ObjectKeys::push(char byte) {
  if (place_ == Place::in_key || place_ == Place::in_string) {
    if (!is_escaped_ && byte == '"') {
      if (place_ == Place::in_key) {
        ++ended_;
        std::shared_ptr<const Key>& keys = levels_.back().keys;
        for (const Key* key = keys.get(); key; key = key->before.get())
          if (key->spelling == key_) return false;
        keys = std::make_shared<const Key>(Key{keys, key_});
      }
      place_ = Place::between;
      return true;
    }
    is_escaped_ = !is_escaped_ && byte == '\\';
    if (place_ == Place::in_key) key_ += byte;
    return true;
  }
  switch (byte) {
    case '{':
    case '[':
      levels_.push_back({.is_object = byte == '{'});
      place_ = byte == '{' ? Place::before_key : Place::between;
      break;
    case '}':
    case ']':
      if (!levels_.empty()) levels_.pop_back();
      place_ = Place::between;
      break;
    case ',':
      place_ = !levels_.empty() && levels_.back().is_object ? Place::before_key : Place::between;
      break;
    case '"':
      place_ = place_ == Place::before_key ? Place::in_key : Place::in_string;
      key_.clear();
      break;
    default:
      break;
  }
  return true;
}

bool ObjectKeys::for_each_repeat(const TokenTrie& trie, const Mask& mask,
                                 const std::function<void(std::int32_t)>& found) const {
  if (place_ == Place::in_key) {
    for (const Key* key = levels_.back().keys.get(); key; key = key->before.get()) {
      if (!key->spelling.starts_with(key_)) continue;
      const std::uint32_t top = trie.find(0, key->spelling.substr(key_.size()) + '"');
      if (top == 0) continue;
      for (std::uint32_t node = top; node < trie.nodes()[top].end; ++node)
        for (const std::int32_t token : trie.tokens(node))
          if (is_allowed(mask, token)) found(token);
    }
  }
  bool ends_some = is_in_key();
  for (const std::int32_t token : trie.quoted()) {
    if (!is_allowed(mask, token)) continue;
    ObjectKeys copy = *this;
    if (!copy.push(trie.bytes(token))) found(token);
    ends_some |= copy.ended_ > ended_;
  }
  return ends_some;
}

}  // namespace attacca::grammar
