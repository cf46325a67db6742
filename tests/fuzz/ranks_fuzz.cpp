// ranks_fuzz.cpp: feeds any bytes to the inbox of a rank, as a stream that comes in pieces, and to
// the list of machines. They become messages or are refused.
#include <attacca/error.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "comm/process/wire.hpp"
#include "comm/tcp/inbox.hpp"
#include "comm/tcp/launch.hpp"

namespace {

void feed_inbox(const std::uint8_t* data, std::size_t size) {
  using attacca::comm::Inbox;
  Inbox inbox;
  std::byte place[32];
  Inbox::Slot slots[2] = {{0, place, 16, false}, {1, place + 16, 16, false}};
  for (Inbox::Slot& slot : slots) inbox.post(slot);
  while (size > 0) {
    const auto room = inbox.room();
    if (room.empty()) std::abort();
    const std::size_t count = std::min({room.size(), size, std::size_t{1} + data[0] % 16});
    std::memcpy(room.data(), data, count);
    inbox.take(count);
    data += count;
    size -= count;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    feed_inbox(data, size);
  } catch (const attacca::comm::WireError&) {
  }
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (attacca::comm::first_host(text).empty()) std::abort();
  } catch (const attacca::BadArgument&) {
  }
  return 0;
}
