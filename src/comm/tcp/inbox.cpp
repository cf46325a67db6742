// inbox.cpp: finds the slot of each message, or keeps the message until there is one.
#include "comm/tcp/inbox.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>

#include "comm/process/wire.hpp"

namespace attacca::comm {

namespace {

constexpr std::size_t kChunk = 64 * 1024;

void check_fits(const Inbox::Slot& slot, std::size_t bytes) {
  if (bytes > slot.bytes)
    throw WireError(
        fmt::format("a message of {} bytes came where at most {} fit", bytes, slot.bytes));
}

void copy_to(Inbox::Slot& slot, const std::vector<std::byte>& message) {
  check_fits(slot, message.size());
  if (!message.empty()) std::memcpy(slot.data, message.data(), message.size());
  slot.is_done = true;
}

}  // namespace

void Inbox::post(Slot& slot) {
  const auto found = std::find_if(earlier_.begin(), earlier_.end(),
                                  [&](const Message& at) { return at.first == slot.tag; });
  if (found == earlier_.end()) return posted_.push_back(&slot);
  copy_to(slot, found->second);
  earlier_.erase(found);
}

std::span<std::byte> Inbox::room() {
  if (!is_in_message_)
    return {reinterpret_cast<std::byte*>(&header_) + filled_, sizeof header_ - filled_};
  const std::size_t left = header_.bytes - filled_;
  if (slot_) return {slot_->data + filled_, left};
  // It grows with what comes, whatever the header says.
  early_.resize(filled_ + std::min(left, kChunk));
  return {early_.data() + filled_, early_.size() - filled_};
}

void Inbox::take(std::size_t bytes) {
  filled_ += bytes;
  if (!is_in_message_ && filled_ == sizeof header_) begin();
  if (is_in_message_ && filled_ == header_.bytes) finish();
}

void Inbox::begin() {
  if (header_.magic != FrameHeader::kMagic || header_.bytes > FrameHeader::kMost)
    throw WireError("bytes came that are no message of attacca");
  is_in_message_ = true;
  filled_ = 0;
  const auto found = std::find_if(posted_.begin(), posted_.end(),
                                  [&](const Slot* slot) { return slot->tag == header_.tag; });
  if (found == posted_.end()) return;
  check_fits(**found, header_.bytes);
  slot_ = *found;
  posted_.erase(found);
}

void Inbox::finish() {
  is_in_message_ = false;
  filled_ = 0;
  if (slot_) {
    std::exchange(slot_, nullptr)->is_done = true;
    return;
  }
  early_.resize(header_.bytes);
  // A slot may have been posted since the message began.
  const auto found = std::find_if(posted_.begin(), posted_.end(),
                                  [&](const Slot* slot) { return slot->tag == header_.tag; });
  if (found != posted_.end()) {
    copy_to(**found, early_);
    posted_.erase(found);
  } else {
    earlier_.emplace_back(header_.tag, std::move(early_));
  }
  early_ = {};
}

}  // namespace attacca::comm
