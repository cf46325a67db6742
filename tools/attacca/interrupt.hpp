// interrupt.hpp: Ctrl-C and SIGTERM, for a command that must remove or write something first.
#pragma once

#include <csignal>

namespace attacca::tool {

/// Thrown by a command that has cleaned up after a signal. The program then ends by that signal, so
/// that its shell knows.
struct Interrupted {
  int signal;
};

/// While it lives, the first SIGINT or SIGTERM does not end the program. A second one of the same
/// kind ends it at once. REQUIRES: one lives at a time.
class CatchInterrupts {
 public:
  CatchInterrupts();
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;
  ~CatchInterrupts();

  /// Throws Interrupted if there was one. Thread-safe.
  void check() const;
  /// Waits until standard input has something, or has ended. Throws Interrupted likewise.
  void wait_for_input() const;

 private:
  struct sigaction before_int_;
  struct sigaction before_term_;
};

/// Ends the program by that signal.
[[noreturn]] void end_by(const Interrupted& interrupted);

}  // namespace attacca::tool
