// multiply_add.cpp: chains of multiply-adds that do not depend on each other, compiled for the
// widest vectors that this processor has.
#include "instruments/multiply_add.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace attacca::instruments {

namespace {

// Chains enough to hide the latency of all units, and no more than there are registers.
#if defined(__aarch64__)
constexpr unsigned kChains = 24;
#else
constexpr unsigned kChains = 12;
#endif
constexpr unsigned kLanes = 16;  // of one round of a chain

/// `Vector` is as wide as a register, so that all chains stay in registers. A round of narrow
/// vectors is several rounds of the loop.
template <class Vector>
[[gnu::always_inline]] inline float run_chains(unsigned rounds) {
  constexpr unsigned kWidth = sizeof(Vector) / sizeof(float);
  const Vector factor = Vector{} + 1e-3f, term = Vector{} + 1e-4f;
  Vector sums[kChains];
#pragma GCC unroll 24
  for (unsigned chain = 0; chain < kChains; ++chain) sums[chain] = Vector{} + 1.0f;
  for (unsigned round = 0; round < rounds * (kLanes / kWidth); ++round) {
#pragma GCC unroll 24
    for (unsigned chain = 0; chain < kChains; ++chain) sums[chain] = sums[chain] * factor + term;
  }
  Vector all{};
#pragma GCC unroll 24
  for (unsigned chain = 0; chain < kChains; ++chain) all += sums[chain];
  float total = 0;
  for (unsigned lane = 0; lane < kWidth; ++lane) total += all[lane];
  return total;
}

using Vector4 [[gnu::vector_size(16)]] = float;

#if defined(__x86_64__)
using Vector8 [[gnu::vector_size(32)]] = float;
using Vector16 [[gnu::vector_size(64)]] = float;

[[gnu::target("avx2,fma")]] float run_avx2(unsigned rounds) { return run_chains<Vector8>(rounds); }
[[gnu::target("avx512f")]] float run_avx512(unsigned rounds) {
  return run_chains<Vector16>(rounds);
}
#endif

}  // namespace

double multiply_adds(unsigned rounds) { return 1.0 * kChains * kLanes * rounds; }

float multiply_add(unsigned rounds) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return run_avx512(rounds);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return run_avx2(rounds);
#endif
  return run_chains<Vector4>(rounds);
}

double multiply_add_rate(unsigned threads) {
  using Clock = std::chrono::steady_clock;
  constexpr unsigned kRounds = 500'000;
  constexpr int kTries = 5;
  constexpr std::chrono::milliseconds kPatience{300};
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  double best = 0;
  const Clock::time_point first = Clock::now();
  for (int attempt = 0; attempt < kTries && (attempt == 0 || Clock::now() - first < kPatience);
       ++attempt) {
    std::atomic<float> kept{0};
    const Clock::time_point start = Clock::now();
    {
      std::vector<std::jthread> workers;
      for (unsigned worker = 0; worker < threads; ++worker)
        workers.emplace_back([&] { kept.store(multiply_add(kRounds), std::memory_order_relaxed); });
    }
    const std::chrono::duration<double> took = Clock::now() - start;
    best = std::max(best, multiply_adds(kRounds) * threads / took.count());
  }
  return best;
}

}  // namespace attacca::instruments
