// progress.hpp: a bar on standard error for what takes long. Shows nothing before two seconds have
// passed and nothing at all where standard error is not a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace attacca::tool {

class ProgressBar {
 public:
  ~ProgressBar() { clear(); }
  /// `done` of `all` units of `what`.
  void show(std::string_view what, std::uint64_t done, std::uint64_t all);
  /// Takes the bar off the screen.
  void clear();

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int percent_shown_ = -1;
};

}  // namespace attacca::tool
