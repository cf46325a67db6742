// interrupt.cpp: keeps the number of the first signal until somebody asks.
#include "interrupt.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace attacca::tool {

namespace {

std::atomic<int> first_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a handler may not wait");

void keep(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

/// What nohup and scripts ignore stays ignored. Returns what was set before.
struct sigaction keep_first(int signal) {
  struct sigaction keeping = {};
  keeping.sa_handler = keep;
  keeping.sa_flags = SA_RESETHAND;  // and no SA_RESTART
  sigemptyset(&keeping.sa_mask);
  struct sigaction before = {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(signal, &keeping, nullptr);
  return before;
}

}  // namespace

CatchInterrupts::CatchInterrupts() {
  first_signal = 0;
  before_int_ = keep_first(SIGINT);
  before_term_ = keep_first(SIGTERM);
}

CatchInterrupts::~CatchInterrupts() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

void CatchInterrupts::check() const {
  if (const int signal = first_signal; signal != 0) throw Interrupted{signal};
}

void end_by(const Interrupted& interrupted) {
  std::fflush(stdout);
  std::signal(interrupted.signal, SIG_DFL);
  std::raise(interrupted.signal);
  std::abort();  // the signal is blocked
}

}  // namespace attacca::tool
