// progress.hpp: a bar on standard error for long tasks. It shows nothing for the first two
// seconds. Where standard error is not a terminal, it is a line every five seconds instead.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace attacca::tool {

class ProgressBar {
 public:
  ~ProgressBar() { clear(); }
  /// Shows that `done` of `all` units of the task `what` are done.
  void show(std::string_view what, std::uint64_t done, std::uint64_t all);
  /// Takes the bar off the screen.
  void clear();

 private:
  static constexpr std::chrono::seconds kPatience{2};
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kPatience;
  int percent_shown_ = -1;
};

}  // namespace attacca::tool
