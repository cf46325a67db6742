// progress.cpp: see progress.hpp.
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace attacca::tool {

namespace {
constexpr int kColumns = 30;
constexpr std::chrono::seconds kPatience(2);
}  // namespace

void ProgressBar::show(std::string_view what, std::uint64_t done, std::uint64_t all) {
  if (all == 0 || ::isatty(STDERR_FILENO) != 1) return;
  if (std::chrono::steady_clock::now() - start_ < kPatience) return;
  const int percent = static_cast<int>(100 * done / all);
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
