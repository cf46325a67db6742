// step_clock.hpp: where the time of the engine's loop goes. The device is busy while a step is in
// flight, else idle. Host work is overlapped while a step is in flight and the host does not wait.
#pragma once

#include <algorithm>
#include <chrono>

namespace attacca::driver {

inline double seconds_between(std::chrono::steady_clock::time_point from,
                              std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

class StepClock {
 public:
  using Clock = std::chrono::steady_clock;

  /// Time counts while one of these lives, or a step is in flight.
  class Running {
   public:
    explicit Running(StepClock& clock) : clock_(clock) {
      if (clock_.in_flight_ == 0) clock_.since_ = Clock::now();
    }
    ~Running() { clock_.count(); }
    Running(const Running&) = delete;

   private:
    StepClock& clock_;
  };

  /// A step is in flight from now on; returns when that was.
  Clock::time_point launched() {
    const Clock::time_point now = count();
    ++in_flight_;
    return now;
  }
  /// From now on the host waits for the oldest step in flight.
  void waiting() {
    count();
    is_waiting_ = true;
  }
  /// That step has ended. Returns its seconds since `began` or since the end of the step before it,
  /// which may have run until then.
  double done(Clock::time_point began) {
    const Clock::time_point now = count();
    is_waiting_ = false;
    --in_flight_;
    const double seconds = seconds_between(std::max(began, last_done_), now);
    last_done_ = now;
    return seconds;
  }
  /// A failure ended all steps in flight.
  void drained() {
    count();
    is_waiting_ = false;
    in_flight_ = 0;
  }

  /// When the host learned that the last step had ended.
  Clock::time_point last_done() const { return last_done_; }
  double seconds_busy() const { return busy_; }
  double seconds_idle() const { return idle_; }
  double seconds_overlapped() const { return overlapped_; }  // part of seconds_busy

 private:
  Clock::time_point count() {
    const Clock::time_point now = Clock::now();
    const double seconds = seconds_between(since_, now);
    since_ = now;
    (in_flight_ > 0 ? busy_ : idle_) += seconds;
    if (in_flight_ > 0 && !is_waiting_) overlapped_ += seconds;
    return now;
  }

  Clock::time_point since_;
  Clock::time_point last_done_;
  unsigned in_flight_ = 0;
  bool is_waiting_ = false;
  double busy_ = 0;
  double idle_ = 0;
  double overlapped_ = 0;
};

}  // namespace attacca::driver
