// library_thread.cpp: hands calls to a thread and waits for them with a deadline.
#include "comm/library_thread.hpp"

#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "comm/waits.hpp"
#include "graph/access.hpp"
#include "graph/executor.hpp"

namespace attacca::comm {

using namespace std::chrono_literals;

/// What the thread and its owner share; either may go first.
struct LibraryThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> work;
  bool is_busy = false;  // until `work` has run and is gone
  bool is_ending = false;
  std::exception_ptr error;  // what `work` threw

  void serve(const Device& device) {
    for (std::unique_lock lock(mutex);; changed.notify_all()) {
      changed.wait(lock, [&] { return is_ending || work; });
      if (!work) return;
      std::function<void()> taken = std::exchange(work, nullptr);
      lock.unlock();
      std::exception_ptr thrown;
      try {
        graph::impl_of(device).run_here(taken);
      } catch (...) {
        thrown = std::current_exception();
      }
      taken = nullptr;
      lock.lock();
      error = thrown;
      is_busy = false;
    }
  }
};

LibraryThread::LibraryThread(std::shared_ptr<GroupImpl> control, const Device& device)
    : control_(std::move(control)),
      state_(std::make_shared<State>()),
      thread_([state = state_, device] { state->serve(device); }) {}

LibraryThread::~LibraryThread() {
  std::unique_lock lock(state_->mutex);
  state_->is_ending = true;
  if (std::exchange(state_->work, nullptr)) state_->is_busy = false;  // it has not begun
  state_->changed.notify_all();
  const bool is_left_behind = state_->is_busy;
  lock.unlock();
  if (is_left_behind)
    thread_.detach();
  else
    thread_.join();
}

void LibraryThread::run(const std::string& what, std::function<void()> work) {
  if (ends_in_time(std::move(work))) return;
  control_->fail(fmt::format("{} did not end on rank {} within {:.3g} s", what,
                             control_->world_rank(control_->rank()),
                             seconds_of(control_->deadline())));
}

bool LibraryThread::ends_in_time(std::function<void()> work) {
  control_->check();  // so no call was left behind
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(state_->mutex);
  state_->work = std::move(work);
  state_->is_busy = true;
  state_->changed.notify_all();
  while (!state_->changed.wait_for(lock, 10ms, [&] { return !state_->is_busy; })) {
    lock.unlock();
    control_->poll();
    control_->check();
    if (std::chrono::steady_clock::now() - start >= control_->deadline()) return false;
    lock.lock();
  }
  if (state_->error) std::rethrow_exception(std::exchange(state_->error, nullptr));
  return true;
}

}  // namespace attacca::comm
