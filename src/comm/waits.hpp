// waits.hpp: who waits for whom, and from that the rank that is missing.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace attacca::comm {

/// For messages.
inline double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// A rank's wait for others; ranks are numbered as in the whole program.
struct Wait {
  int rank = 0;
  std::vector<int> missing;
  std::string what;  // that they do: "come to all-reduce of 12 f32"
};

/// Not thread-safe.
class Waits {
 public:
  explicit Waits(std::size_t ranks) : is_gone_(ranks) {}

  /// REQUIRES: `wait` lives until `remove`.
  void add(const Wait& wait) { waits_.push_back(&wait); }
  void remove(const Wait& wait);
  void leave(int rank) { is_gone_[static_cast<std::size_t>(rank)] = true; }

  /// The message if the wait is for a rank that has left.
  std::optional<std::string> gone_for(const Wait& wait) const;
  /// The message if the wait took too long. A missing rank that itself waits is not to blame, so
  /// this follows the waits to a rank that does not, or round a circle.
  std::string overdue(const Wait& wait, std::chrono::nanoseconds deadline) const;

 private:
  const Wait* wait_of(int rank) const;

  std::vector<const Wait*> waits_;
  std::vector<bool> is_gone_;
};

}  // namespace attacca::comm
