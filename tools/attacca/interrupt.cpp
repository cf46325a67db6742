// interrupt.cpp: keeps the number of the first signal until somebody asks, and wakes who waits.
#include "interrupt.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <attacca/error.hpp>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace attacca::tool {

namespace {

std::atomic<int> first_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a handler may not wait");
// A signal writes into this pipe: any thread may get it, also just before another one waits.
int pipe_to_read = -1;
int pipe_to_write = -1;

void keep(int signal) {
  const int error = errno;
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  [[maybe_unused]] const auto written = ::write(pipe_to_write, "", 1);
  errno = error;
}

/// What nohup and scripts ignore stays ignored. Returns what was set before.
struct sigaction keep_first(int signal) {
  struct sigaction keeping = {};
  keeping.sa_handler = keep;
  keeping.sa_flags = SA_RESETHAND | SA_RESTART;
  sigemptyset(&keeping.sa_mask);
  struct sigaction before = {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(signal, &keeping, nullptr);
  return before;
}

}  // namespace

CatchInterrupts::CatchInterrupts() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(std::string("a pipe for signals cannot be made: ") + std::strerror(errno) +
                "; close some files");
  pipe_to_read = ends[0];
  pipe_to_write = ends[1];
  first_signal = 0;
  before_int_ = keep_first(SIGINT);
  before_term_ = keep_first(SIGTERM);
}

CatchInterrupts::~CatchInterrupts() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
  ::close(pipe_to_read);
  ::close(pipe_to_write);
}

void CatchInterrupts::check() const {
  if (const int signal = first_signal; signal != 0) throw Interrupted{signal};
}

void CatchInterrupts::wait_for_input() const {
  pollfd ends[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                   {.fd = pipe_to_read, .events = POLLIN, .revents = 0}};
  while (::poll(ends, 2, -1) < 0 && errno == EINTR) {
  }
  check();
}

void end_by(const Interrupted& interrupted) {
  std::fflush(stdout);
  std::signal(interrupted.signal, SIG_DFL);
  std::raise(interrupted.signal);
  std::_Exit(128 + interrupted.signal);  // the signal is blocked
}

}  // namespace attacca::tool
