// admission.hpp: counts the sequences that the server has given to the engine, and refuses more
// than it may. The engine itself lets any number wait.
#pragma once

#include <atomic>
#include <cstddef>

namespace attacca::server {

/// Thread-safe.
class Admission {
 public:
  /// Room for what runs at once and what may wait.
  Admission(std::size_t slots, std::size_t most_waiting) : room_(slots + most_waiting) {}

  std::size_t room() const { return room_; }
  std::size_t inside() const { return inside_; }
  bool is_full() const { return inside_ >= room_; }

  /// False, and nothing changes, if there is no room for all of them.
  bool enter(std::size_t sequences) {
    std::size_t before = inside_;
    do {
      if (sequences > room_ || before > room_ - sequences) return false;
    } while (!inside_.compare_exchange_weak(before, before + sequences));
    return true;
  }
  void leave(std::size_t sequences) { inside_ -= sequences; }

  // From the first signal on nothing new is admitted.
  void close() { is_open_ = false; }
  bool is_open() const { return is_open_; }

 private:
  const std::size_t room_;
  std::atomic<std::size_t> inside_ = 0;
  std::atomic<bool> is_open_ = true;
};

}  // namespace attacca::server
