// inbox.hpp: messages of one other rank, from the bytes of a stream. It knows no sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <span>
#include <utility>
#include <vector>

namespace attacca::comm {

/// Stands before each message. Ranks must have the same order of bytes.
struct FrameHeader {
  std::uint32_t magic = kMagic;
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;

  static constexpr std::uint32_t kMagic = 0x61636361;
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
};

/// Not thread-safe.
class Inbox {
 public:
  /// A message that someone waits for. It is done when one with its tag has come.
  struct Slot {
    int tag = 0;
    std::byte* data = nullptr;
    std::size_t bytes = 0;  // the most that may come
    bool is_done = false;
  };

  /// REQUIRES: the slot lives until it is done, or until nothing more comes.
  void post(Slot& slot);
  /// Where the next bytes belong; never empty.
  std::span<std::byte> room();
  /// So many bytes were written there. Throws WireError for bytes that are no message, and for a
  /// message that is too long for its slot.
  void take(std::size_t bytes);

 private:
  using Message = std::pair<int, std::vector<std::byte>>;

  void begin();
  void finish();

  FrameHeader header_;
  std::size_t filled_ = 0;        // of the header, then of the message
  bool is_in_message_ = false;    // else in the header
  Slot* slot_ = nullptr;          // the message's, if someone waits for it
  std::vector<std::byte> early_;  // else the message itself, so far
  std::list<Slot*> posted_;
  std::deque<Message> earlier_;  // that nobody has waited for
};

}  // namespace attacca::comm
