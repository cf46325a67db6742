// real_threads.hpp: helpers for the tests of lock-free structures with std::threads.
#pragma once

#include <barrier>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace attacca::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr std::size_t kSlowdown = 10;
#else
inline constexpr std::size_t kSlowdown = 1;
#endif

/// Runs run(0) … run(count - 1), each in a thread, all starting together.
template <class Run>
void run_threads(unsigned count, const Run& run) {
  std::barrier start(static_cast<std::ptrdiff_t>(count));
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < count; ++index)
    threads.emplace_back([&, index] {
      start.arrive_and_wait();
      run(index);
    });
  for (std::thread& thread : threads) thread.join();
}

/// Ends loops that wait for another thread, in case it never comes. It is long, because a busy
/// machine may be slow.
class Deadline {
 public:
  explicit Deadline(std::chrono::seconds in = std::chrono::seconds(120))
      : end_(std::chrono::steady_clock::now() + in) {}
  bool is_over() const { return std::chrono::steady_clock::now() > end_; }

 private:
  std::chrono::steady_clock::time_point end_;
};

}  // namespace attacca::test
