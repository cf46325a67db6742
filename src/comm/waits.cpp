// waits.cpp: finds the rank to blame for a wait that took too long.
#include "comm/waits.hpp"

#include <fmt/core.h>
#include <algorithm>

#include "comm/exchange.hpp"

namespace attacca::comm {

void Waits::remove(const Wait& wait) {
  waits_.erase(std::find(waits_.begin(), waits_.end(), &wait));
}

const Wait* Waits::wait_of(int rank) const {
  const auto found =
      std::find_if(waits_.begin(), waits_.end(), [&](const Wait* w) { return w->rank == rank; });
  return found == waits_.end() ? nullptr : *found;
}

std::optional<std::string> Waits::gone_for(const Wait& wait) const {
  std::vector<int> gone;
  for (const int rank : wait.missing)
    if (is_gone_[static_cast<std::size_t>(rank)]) gone.push_back(rank);
  if (gone.empty()) return std::nullopt;
  return fmt::format("{} left and did not {}", list_ranks(gone), wait.what);
}

std::string Waits::overdue(const Wait& wait, std::chrono::nanoseconds deadline) const {
  const double seconds = seconds_of(deadline);
  std::vector<const Wait*> path{&wait};
  for (;;) {
    const Wait& last = *path.back();
    std::vector<int> idle;  // they wait for nobody
    for (const int rank : last.missing)
      if (!wait_of(rank)) idle.push_back(rank);
    if (!idle.empty() || last.missing.empty())
      return fmt::format("{} did not {} within {:.3g} s", list_ranks(idle), last.what, seconds);
    const Wait* next = wait_of(last.missing.front());
    const auto seen = std::find_if(path.begin(), path.end(),
                                   [&](const Wait* w) { return w->rank == next->rank; });
    if (seen == path.end()) {
      path.push_back(next);
      continue;
    }
    std::string text = "ranks wait for each other:";
    for (auto at = seen; at != path.end(); ++at)
      text += fmt::format("{} rank {} waits for {} to {}", at == seen ? "" : ",", (*at)->rank,
                          list_ranks((*at)->missing), (*at)->what);
    return text + fmt::format("; nothing moved for {:.3g} s", seconds);
  }
}

}  // namespace attacca::comm
