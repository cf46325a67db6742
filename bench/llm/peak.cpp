// peak.cpp: measures the multiply-add rate of peak.hpp, compiled for every instruction set that
// Highway knows here.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/llm/peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Adds `rounds` products to each of twelve independent vectors. Returns the number of scalar
/// multiply-adds; `out` keeps the results.
double multiply_add(unsigned rounds, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 1e-3f);
  const auto term = hn::Set(d, 1e-4f);
  auto a = hn::Set(d, 1.0f), b = a, c = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a,
       m = a;
  for (unsigned round = 0; round < rounds; ++round) {
    a = hn::MulAdd(factor, term, a);
    b = hn::MulAdd(factor, term, b);
    c = hn::MulAdd(factor, term, c);
    e = hn::MulAdd(factor, term, e);
    f = hn::MulAdd(factor, term, f);
    g = hn::MulAdd(factor, term, g);
    h = hn::MulAdd(factor, term, h);
    i = hn::MulAdd(factor, term, i);
    j = hn::MulAdd(factor, term, j);
    k = hn::MulAdd(factor, term, k);
    l = hn::MulAdd(factor, term, l);
    m = hn::MulAdd(factor, term, m);
  }
  const auto sum =
      hn::Add(hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), hn::Add(hn::Add(f, g), hn::Add(h, i))),
              hn::Add(hn::Add(j, k), hn::Add(l, m)));
  *out = hn::GetLane(hn::SumOfLanes(d, sum));
  return 12.0 * rounds * static_cast<double>(hn::Lanes(d));
}

}  // namespace bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "llm/peak.hpp"

namespace bench {

HWY_EXPORT(multiply_add);

double multiply_add_rate(unsigned threads) {
  using Clock = std::chrono::steady_clock;
  constexpr unsigned kRounds = 2'000'000;
  constexpr int kTries = 5;
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  double best = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::atomic<double> done{0};
    std::atomic<float> kept{0};
    const Clock::time_point start = Clock::now();
    {
      std::vector<std::jthread> workers;
      for (unsigned worker = 0; worker < threads; ++worker)
        workers.emplace_back([&] {
          float result = 0;
          done.fetch_add(HWY_DYNAMIC_DISPATCH(multiply_add)(kRounds, &result));
          kept.store(result, std::memory_order_relaxed);
        });
    }
    best = std::max(best, done / std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace bench
#endif
