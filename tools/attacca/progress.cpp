// progress.cpp: draws the bar on a terminal, and prints lines elsewhere.
#include "progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace attacca::tool {

namespace {
constexpr int kColumns = 30;
constexpr std::chrono::seconds kBetweenLines(5);
}  // namespace

void ProgressBar::show(std::string_view what, std::uint64_t done, std::uint64_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (all == 0 || now < next_) return;
  const int percent = static_cast<int>(100 * done / all);
  if (::isatty(STDERR_FILENO) != 1) {
    next_ = now + kBetweenLines;
    fmt::print(stderr, "{}: {} %\n", what, percent);
    return;
  }
  if (percent == percent_shown_) return;
  percent_shown_ = percent;
  const auto filled = static_cast<std::size_t>(kColumns * done / all);
  fmt::print(stderr, "\r{} [{}{}] {:3d} %\033[K", what, std::string(filled, '#'),
             std::string(kColumns - filled, ' '), percent);
  std::fflush(stderr);
}

void ProgressBar::clear() {
  if (percent_shown_ < 0) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  percent_shown_ = -1;
}

}  // namespace attacca::tool
