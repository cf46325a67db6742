// l2.cpp: where L2 hints help and where they hurt. A stencil is swept forward into scratch memory
// and backward out of it, by the size of its working set. And data used repeatedly is read beside
// data used once, as in NVIDIA's guide, by the size of the former.
#include <fmt/core.h>

#include "harness.hpp"
#if ATTACCA_WITH_CUDA
#include <attacca/l2.hpp>

#include <algorithm>
#include <cmath>

#include "claims/l2.hpp"
#include "raw.hpp"
#endif

namespace bench {

namespace {

constexpr const char* kQuestion =
    "where does steering the L2 cache help a stencil swept forward and backward, and where does it "
    "hurt?";
constexpr const char* kWhyNot =
    "the caches of a processor cannot be set aside for a range of addresses";

#if ATTACCA_WITH_CUDA

using attacca::L2Guard;
using attacca::L2SetAside;
using attacca::L2Window;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr unsigned kRepeats = 10;
constexpr unsigned kHoldMicroseconds = 200;  // longer than the host needs to enqueue the repeats
constexpr int kSamples = 11;
constexpr double kNoticeable = 0.02;
constexpr const char* kGuide =
    "CUDA C++ Best Practices Guide, L2 Cache, "
    "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/";

/// The L2 settings. With nothing set aside there is no window either. Setting aside without a
/// window shows what the reserved part costs all other accesses.
struct Hints {
  const char* name;
  double set_aside = 0;  // share of L2
  bool is_interleaved = false;
  bool streams = false;
  bool discards = false;
  bool has_window = true;
};
constexpr Hints kSweepHints[] = {
    {"no hints"},
    {"persisting, 50% set aside", 0.5},
    {"persisting, 75% set aside", 0.75},
    {"interleaved, 75% set aside", 0.75, true},
    {"streaming", 0, false, true},
    {"discard", 0, false, false, true},
    {"interleaved, streaming and discard", 0.75, true, true, true},
    {"75% set aside, no window", 0.75, false, false, false, false},
};
constexpr Hints kReuseHints[] = {
    {"reuse, no hints"},
    {"reuse, persisting", 0.75},
    {"reuse, interleaved", 0.75, true},
    {"reuse, set aside, no window", 0.75, false, false, false, false},
};

/// Runs `work` with the hints; the window is on the data used repeatedly.
template <class F>
auto with_hints(Gpu& gpu, const Hints& hints, const void* base, std::size_t bytes, F&& work) {
  if (hints.set_aside == 0) return work();
  const L2SetAside set_aside = L2SetAside::of_fraction(gpu.device, hints.set_aside);
  if (!hints.has_window) return work();
  const std::size_t in_window = std::min(bytes, attacca::l2_cache(gpu.device).max_window);
  const L2Guard guard(gpu.stream,
                      hints.is_interleaved ? L2Window::interleaved(gpu.device, base, in_window)
                                           : L2Window::persisting(base, in_window),
                      L2Guard::AtEnd::reset);
  return work();
}

/// Device time of one round of the work that `enqueue` enqueues, with the caches as the round
/// before left them.
template <class F>
double microseconds_of_a_round(Gpu& gpu, F&& enqueue) {
  enqueue();
  check(l2::launch_hold(kHoldMicroseconds, gpu.native));
  return gpu.device_microseconds([&] {
    for (unsigned at = 0; at < kRepeats; ++at) enqueue();
  }) / kRepeats;
}

void expect_none_wrong(Gpu& gpu, const char* what) {
  gpu.synchronize();
  if (const unsigned wrong = gpu.cells.read().front(); wrong != 0)
    throw attacca::Error(fmt::format("{}: {} elements are wrong", what, wrong));
}

/// One size under all hints. Adds the rows; returns the medians in the order of the hints.
template <class Sample, std::size_t kCount>
std::vector<double> measure(Run& run, const std::string& what, const nlohmann::ordered_json& params,
                            const Hints (&hints)[kCount], Sample&& sample) {
  std::vector<std::function<double()>> variants;
  for (const Hints& each : hints) variants.push_back([&each, &sample] { return sample(each); });
  const auto times = run.interleave(what, kSamples, variants);
  std::vector<double> medians;
  for (std::size_t at = 0; at < kCount; ++at) {
    run.add(compared(hints[at].name, params, times[at], times[0]));
    medians.push_back(times[at].median);
  }
  return medians;
}

/// Per size, the medians in the order of the hints.
struct Curve {
  double mib;
  std::vector<double> medians;
  double ratio(std::size_t at) const { return medians[at] / medians[0]; }
};

std::vector<Curve> sweep(Run& run, Gpu& gpu) {
  const std::vector<unsigned> sizes =
      run.is_quick() ? std::vector<unsigned>{8, 32, 96}
                     : std::vector<unsigned>{4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192};
  const std::uint64_t most = sizes.back() * kMiB / sizeof(float);
  const attacca::Buffer<float> in(gpu.device, most);
  const attacca::Buffer<float> scratch(gpu.device, most);
  const attacca::Buffer<float> out(gpu.device, most);
  std::vector<Curve> curves;
  for (const unsigned mib : sizes) {
    const std::uint64_t count = mib * kMiB / sizeof(float);
    const auto sweeps_with = [&](const Hints& hints) {
      return l2::Sweeps{in.data(), scratch.data(), out.data(),
                        count,     hints.streams,  hints.discards};
    };
    const auto enqueue = [&](const l2::Sweeps& sweeps) {
      check(l2::launch_forward(sweeps, gpu.native));
      check(l2::launch_backward(sweeps, gpu.native));
    };
    // The right end of the array depends on where it ends.
    check(l2::launch_set_input(in.data(), count, gpu.native));
    for (const Hints& hints : kSweepHints) {
      gpu.stream.fill(scratch.data(), 0xff, count * sizeof(float));
      gpu.stream.fill(out.data(), 0xff, count * sizeof(float));
      with_hints(gpu, hints, scratch.data(), count * sizeof(float),
                 [&] { enqueue(sweeps_with(hints)); });
      check(l2::launch_count_wrong(sweeps_with(hints), gpu.cells.data(), gpu.native));
      expect_none_wrong(gpu, hints.name);
    }
    const auto sample = [&](const Hints& hints) {
      return with_hints(gpu, hints, scratch.data(), count * sizeof(float), [&] {
        return microseconds_of_a_round(gpu, [&] { enqueue(sweeps_with(hints)); });
      });
    };
    const unsigned working_set = 3 * mib;
    curves.push_back(
        {static_cast<double>(working_set),
         measure(run, fmt::format("sweeps over {} MiB", working_set),
                 {{"working set MiB", working_set}, {"scratch MiB", mib}}, kSweepHints, sample)});
  }
  return curves;
}

std::vector<Curve> reuse(Run& run, Gpu& gpu) {
  const std::vector<unsigned> sizes = run.is_quick()
                                          ? std::vector<unsigned>{16, 64}
                                          : std::vector<unsigned>{8, 16, 24, 32, 40, 48, 64, 96};
  const std::uint64_t cold_count = (run.is_quick() ? 128 : 512) * kMiB / sizeof(uint4);
  const attacca::Buffer<uint4> hot(gpu.device, sizes.back() * kMiB / sizeof(uint4));
  const attacca::Buffer<uint4> cold(gpu.device, cold_count);
  check(l2::launch_set_hot(hot.data(), hot.size(), gpu.native));
  std::vector<Curve> curves;
  for (const unsigned mib : sizes) {
    const l2::Reuse work{hot.data(), cold.data(), mib * kMiB / sizeof(uint4), cold_count};
    const auto enqueue = [&] { check(l2::launch_reuse(work, gpu.native)); };
    for (const Hints& hints : kReuseHints) {
      gpu.stream.fill(cold.data(), 0, cold.bytes());
      with_hints(gpu, hints, hot.data(), mib * kMiB, [&] { enqueue(), enqueue(); });
      check(l2::launch_count_wrong(work, 2, gpu.cells.data(), gpu.native));
      expect_none_wrong(gpu, hints.name);
    }
    const auto sample = [&](const Hints& hints) {
      return with_hints(gpu, hints, hot.data(), mib * kMiB,
                        [&] { return microseconds_of_a_round(gpu, enqueue); });
    };
    curves.push_back(
        {static_cast<double>(mib), measure(run, fmt::format("{} MiB used again", mib),
                                           {{"reused MiB", mib}}, kReuseHints, sample)});
  }
  return curves;
}

/// Where each hint was more than noise faster or slower than none.
void note_help_and_hurt(Run& run, const std::vector<Curve>& curves) {
  for (std::size_t at = 1; at < std::size(kSweepHints); ++at) {
    std::string helps;
    std::string hurts;
    for (const Curve& curve : curves) {
      const double ratio = curve.ratio(at);
      std::string& list = ratio < 1 ? helps : hurts;
      if (std::abs(ratio - 1) > kNoticeable)
        list += fmt::format("{}{:.0f} ({:.2f})", list.empty() ? "" : ", ", curve.mib, ratio);
    }
    const auto spelled = [](const std::string& list) {
      return list.empty() ? "no size" : list + " MiB";
    };
    run.note(fmt::format("{}: helps at {}; hurts at {}", kSweepHints[at].name, spelled(helps),
                         spelled(hurts)));
  }
}

/// The best and the worst of one hint's ratios over the sizes that `counts` accepts.
struct Range {
  double best = 1e9;
  double worst = 0;
  bool is_empty() const { return worst == 0; }
};
template <class F>
Range range_of(const std::vector<Curve>& curves, std::size_t hint, F&& counts) {
  Range range;
  for (const Curve& curve : curves)
    if (counts(curve)) {
      range.best = std::min(range.best, curve.ratio(hint));
      range.worst = std::max(range.worst, curve.ratio(hint));
    }
  return range;
}

void judge_reuse(Run& run, const std::vector<Curve>& curves, double set_aside_mib) {
  const auto fits = [&](const Curve& curve) { return curve.mib <= set_aside_mib; };
  const auto overflows = [&](const Curve& curve) { return curve.mib > set_aside_mib; };
  const Range fitting = range_of(curves, 1, fits);
  const Range thrashing = range_of(curves, 1, overflows);
  const Range tuned = range_of(curves, 2, overflows);
  if (fitting.is_empty() || thrashing.is_empty()) return;
  const double gain = 1 / fitting.best - 1;
  run.add(Finding{
      "Data that is used again and fits what is set aside runs as much as 50% faster when it "
      "persists.",
      kGuide,
      fmt::format("with {:.1f} MiB set aside at best {:+.0f}%, at worst {:+.0f}%", set_aside_mib,
                  gain * 100, (1 / fitting.worst - 1) * 100),
      gain >= 0.4   ? Verdict::held
      : gain >= 0.1 ? Verdict::partly
                    : Verdict::failed});
  const double loss = 1 - 1 / thrashing.worst;
  run.add(Finding{
      "Once it exceeds what is set aside, at a hit ratio of 1, thrashing costs about 10%.", kGuide,
      fmt::format("the worst size lost {:.0f}% of its speed, the best gained {:+.0f}%", loss * 100,
                  (1 / thrashing.best - 1) * 100),
      loss >= 0.05 && loss <= 0.15 ? Verdict::held
      : loss >= kNoticeable        ? Verdict::partly  // it costs, but another amount
                                   : Verdict::failed});
  run.add(Finding{
      "A hit ratio of what is set aside over the window's size avoids the thrashing.", kGuide,
      fmt::format(
          "above {:.1f} MiB the worst time is {:.2f} of that without hints, {:.2f} at a hit "
          "ratio of 1",
          set_aside_mib, tuned.worst, thrashing.worst),
      tuned.worst <= 1 + kNoticeable                ? Verdict::held
      : tuned.worst < thrashing.worst - kNoticeable ? Verdict::partly
                                                    : Verdict::failed});
}

void judge_sweeps(Run& run, const std::vector<Curve>& curves) {
  const auto any = [](const Curve&) { return true; };
  const auto verdict_of = [](const Range& range) {
    if (range.best > 1 - kNoticeable) return Verdict::failed;
    return range.worst <= 1 + kNoticeable ? Verdict::held : Verdict::partly;
  };
  const Range discard = range_of(curves, 5, any);
  run.add(Finding{
      "Discarding scratch memory once it is read spares writing it back.",
      "libcu++, https://nvidia.github.io/cccl/libcudacxx/extended_api/memory_access_properties/"
      "discard_memory.html",
      fmt::format("two sweeps take {:.2f} to {:.2f} of their time without hints", discard.best,
                  discard.worst),
      verdict_of(discard)});
  const Range persisting = range_of(curves, 2, any);
  run.add(Finding{
      "Set three quarters of L2 aside and let memory that is used again persist there: accesses "
      "have a higher bandwidth and a lower latency.",
      "CUDA Programming Guide, "
      "https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/l2-cache-control.html",
      fmt::format("two sweeps take {:.2f} to {:.2f} of their time without hints, depending on the "
                  "working set",
                  persisting.best, persisting.worst),
      verdict_of(persisting)});
}

void l2_cache(Run& run) {
  Gpu gpu(run.device);
  const attacca::L2Cache cache = attacca::l2_cache(gpu.device);
  if (cache.max_set_aside == 0) {
    run.note("this GPU lets nothing be set aside, as when it is shared out in instances");
    return;
  }
  double granted = 0;
  for (const double share : {0.5, 0.75}) {
    const L2SetAside set_aside = L2SetAside::of_fraction(gpu.device, share);
    granted = static_cast<double>(set_aside.granted()) / static_cast<double>(kMiB);
    run.note(fmt::format("{:.0f}% of {:.1f} MiB asked for, {:.1f} MiB set aside", share * 100,
                         static_cast<double>(cache.bytes) / static_cast<double>(kMiB), granted));
  }
  run.note(fmt::format("the window is on the scratch memory, at most {} MiB of it",
                       cache.max_window / kMiB));
  const auto sweeps = sweep(run, gpu);
  const auto reuses = reuse(run, gpu);
  note_help_and_hurt(run, sweeps);
  judge_reuse(run, reuses, granted);
  judge_sweeps(run, sweeps);
  std::vector<std::string> sweep_names;
  for (const Hints& hints : kSweepHints) sweep_names.emplace_back(hints.name);
  run.add(Plot{.title = "Two sweeps of a stencil, against the same without hints: below 1 helps",
               .x = "working set MiB",
               .x_label = "working set, MiB",
               .y_label = "time over that without hints",
               .rows = sweep_names,
               .value = Plot::Value::ratio});
  run.add(Plot{.title = "Data used again beside data used once",
               .x = "reused MiB",
               .x_label = "used again, MiB",
               .y_label = "time over that without hints",
               .value = Plot::Value::ratio});
}

const Registered registered{{"l2", kQuestion, Needs::cuda, l2_cache, kWhyNot}};
#else
const Registered registered{{"l2", kQuestion, Needs::cuda, kNoRun, kWhyNot}};
#endif

}  // namespace

}  // namespace bench
