// constraint.cpp: combines the shared masks of states with the keys of one request.
#include "grammar/constraint.hpp"

namespace attacca::grammar {

Constraint::Constraint(std::shared_ptr<StateTable> table)
    : table_(std::move(table)), state_(table_->start()) {}

Constraint::Allowed Constraint::allowed() const {
  if (has_ended_) return {table_->mask(kDead), kDead};
  std::shared_ptr<const Mask> shared = table_->mask(state_);
  if (!table_->grammar().has_free_keys()) return {std::move(shared), state_};
  std::shared_ptr<Mask> own;
  const auto take_out = [&](std::int32_t token) {
    if (!own) own = std::make_shared<Mask>(*shared);
    const auto id = static_cast<std::uint32_t>(token);
    (*own)[id / 32] &= ~(1u << (id % 32));
  };
  const bool ends_no_key = !keys_.for_each_repeat(table_->trie(), *shared, take_out);
  if (own) return {std::move(own), std::nullopt, false};
  return {std::move(shared), state_, ends_no_key};
}

bool Constraint::advance(std::int32_t token) {
  if (has_ended_) return false;
  if (table_->trie().is_end(token)) return has_ended_ = can_end();
  const State next = table_->advance(state_, token);
  if (next == kDead) return false;
  if (table_->grammar().has_free_keys()) {
    ObjectKeys keys = keys_;
    if (!keys.push(table_->trie().bytes(token))) return false;
    keys_ = std::move(keys);
  }
  state_ = next;
  return true;
}

}  // namespace attacca::grammar
