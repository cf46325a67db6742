// object_keys.hpp: remembers the keys of the objects that a JSON text has open, so that no key is
// written twice. A grammar's automaton cannot do it for keys that the schema does not name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/state_table.hpp"

namespace attacca::grammar {

/// Follows a text that a grammar allows. Keys are compared by their spelling: a grammar gives each
/// key only one. Copies are cheap and share what they have in common.
class ObjectKeys {
 public:
  /// False if the bytes end a key that its object already has. Then this object is spent.
  bool push(std::string_view bytes);
  bool is_in_key() const { return place_ == Place::in_key; }

  /// Calls `found` with each token of `mask` that would end a key a second time. No other token of
  /// the mask leads there, and a key can always be made longer, so the rest of the mask stays
  /// exact. Returns whether some token of the mask ends a key at all.
  bool for_each_repeat(const TokenTrie& trie, const Mask& mask,
                       const std::function<void(std::int32_t)>& found) const;

 private:
  struct Key {
    std::shared_ptr<const Key> before;
    std::string spelling;  // without the quotes
  };
  struct Level {
    bool is_object = false;
    std::shared_ptr<const Key> keys = {};
  };
  enum class Place { between, before_key, in_key, in_string };

  bool push(char byte);

  std::vector<Level> levels_;
  Place place_ = Place::between;
  bool is_escaped_ = false;
  std::string key_;        // what is written of it
  std::size_t ended_ = 0;  // keys
};

}  // namespace attacca::grammar
