// constraint.hpp: holds one request's answer to a grammar, token by token.
#pragma once

#include <memory>
#include <optional>

#include "grammar/object_keys.hpp"
#include "grammar/state_table.hpp"

namespace attacca::grammar {

/// One per request, used by one thread at a time. Requests share the table. A copy is a request
/// that has written the same text.
class Constraint {
 public:
  explicit Constraint(std::shared_ptr<StateTable> table);

  struct Allowed {
    std::shared_ptr<const Mask> mask;
    /// The state whose mask it is in every request, so a copy on a GPU may be kept under the
    /// number. Nothing if keys that this request has written make the mask its own.
    std::optional<State> state;
    /// No token of the mask ends a key that the schema does not name, so every request in the state
    /// has the mask.
    bool ends_no_key = true;
  };
  Allowed allowed() const;

  /// Takes the next token of the answer. False, and nothing changes, if it is not allowed.
  [[nodiscard]] bool advance(std::int32_t token);
  /// Whether the answer so far is whole.
  bool can_end() const { return !has_ended_ && table_->can_end(state_); }
  /// Whether an end token was taken.
  bool has_ended() const { return has_ended_; }
  /// Whether tokens of plain characters change nothing. Within a key they do.
  bool loops_on_plain() const {
    return !has_ended_ && !keys_.is_in_key() && table_->loops_on_plain(state_);
  }
  State state() const { return state_; }

 private:
  std::shared_ptr<StateTable> table_;
  State state_;
  bool has_ended_ = false;
  ObjectKeys keys_;  // followed if the grammar has free keys
};

}  // namespace attacca::grammar
