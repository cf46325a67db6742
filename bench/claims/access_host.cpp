// access_host.cpp: the host's part of `access`: steps through memory against cache lines, and loads
// off their alignment, on one core.
#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>

#include "harness.hpp"

namespace bench {

namespace {

constexpr unsigned kLineBytes = 64;

/// Multiplies every `step`-th word by three, as in the claim.
void walk(std::vector<unsigned>& words, unsigned step) {
  for (std::size_t at = 0; at < words.size(); at += step) words[at] *= 3;
  asm volatile("" ::"r"(words.data()) : "memory");  // keeps two walks from becoming one
}

void measure_steps(Run& run) {
  constexpr unsigned kSteps[] = {1, 2, 4, 8, 16, 32, 64, 128};
  std::vector<unsigned> words(std::size_t{1} << (run.is_quick() ? 24 : 26), 1);
  unsigned walks = 0;
  std::vector<std::function<double()>> samples;
  for (const unsigned step : kSteps)
    samples.emplace_back([&, step] {
      ++walks;
      return microseconds([&] { walk(words, step); }) / 1000;
    });
  const auto times = run.interleave("steps", 11, samples);
  unsigned expected = 1;  // the first word is on every walk
  for (unsigned at = 0; at < walks; ++at) expected *= 3;
  if (words.front() != expected)
    throw attacca::Error(fmt::format("{} walks left {} instead of {} in the first word", walks,
                                     words.front(), expected));
  std::map<unsigned, double> by_step;
  for (std::size_t at = 0; at < std::size(kSteps); ++at) {
    by_step[kSteps[at]] = times[at].median;
    const std::size_t words_a_line = kLineBytes / sizeof(unsigned);
    const std::size_t lines = words.size() / std::max<std::size_t>(kSteps[at], words_a_line);
    run.add(Row{.name = "walk in steps",
                .params = {{"step", kSteps[at]}, {"lines", lines}},
                .value = times[at],
                .unit = "ms",
                .baseline = times.front().median});
  }
  run.add(Plot{.title = "Walking through memory in steps",
               .x = "step",
               .x_label = "words from one access to the next",
               .y_label = "ms",
               .is_log_y = true});
  const double flat = by_step[16] / by_step[1];
  const double halved = by_step[32] / by_step[16];
  const bool is_flat = flat > 0.85 && flat < 1.15;
  const bool is_halved = halved > 0.4 && halved < 0.6;
  run.add(Finding{
      "While the step is between 1 and 16 words the time hardly changes, and from 16 on it halves "
      "with every doubling.",
      "Gallery of Processor Cache Effects, "
      "http://igoro.com/archive/gallery-of-processor-cache-effects/",
      fmt::format("step 16 took {:.2f} of the time of step 1, step 32 {:.2f} of that of step 16",
                  flat, halved),
      is_flat && is_halved   ? Verdict::held
      : is_flat || is_halved ? Verdict::partly
                             : Verdict::failed});
}

/// Adds up `count` words of 8 bytes that start at any byte.
std::uint64_t add_up(const unsigned char* from, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < count; ++at) {
    std::uint64_t word;
    std::memcpy(&word, from + at * sizeof word, sizeof word);
    sum += word;
  }
  return sum;
}

/// The worst slowdown of a load off its alignment in a working set of `bytes` bytes.
double measure_alignment(Run& run, const std::string& where, std::size_t bytes, unsigned repeats) {
  constexpr unsigned kOffsets[] = {0, 1, 4, 7};
  // Equal bytes, so that the sum is the same from any offset.
  std::vector<unsigned char> memory(bytes + 2 * kLineBytes, 1);
  unsigned char* start = memory.data();
  start += (kLineBytes - reinterpret_cast<std::uintptr_t>(start) % kLineBytes) % kLineBytes;
  const std::size_t count = bytes / sizeof(std::uint64_t);
  const std::uint64_t expected = 0x0101010101010101u * static_cast<std::uint64_t>(count);
  std::vector<std::function<double()>> samples;
  for (const unsigned offset : kOffsets)
    samples.emplace_back([=] {
      std::uint64_t sum = 0;
      const double us = microseconds([&] {
        for (unsigned repeat = 0; repeat < repeats; ++repeat) {
          sum += add_up(start + offset, count);
          asm volatile("" : "+r"(sum)::"memory");  // keeps the sums from becoming one product
        }
      });
      if (sum != expected * repeats)
        throw attacca::Error(fmt::format("loads {} bytes off added up to {}", offset, sum));
      return 1e-3 * static_cast<double>(bytes) * repeats / us;
    });
  const auto rates = run.interleave("alignment, " + where, 21, samples);
  double worst = 1;
  for (std::size_t at = 0; at < std::size(kOffsets); ++at) {
    worst = std::max(worst, rates.front().median / rates[at].median);
    run.add(Row{.name = "8-byte loads, " + where,
                .params = {{"offset", kOffsets[at]}},
                .value = rates[at],
                .unit = "GB/s",
                .baseline = rates.front().median,
                .is_rate = true});
  }
  return worst;
}

}  // namespace

void access_on_host(Run& run) {
  measure_steps(run);
  const double in_cache = measure_alignment(run, "in cache", 16 << 10, 2000);
  const double in_memory =
      measure_alignment(run, "in memory", std::size_t{run.is_quick() ? 32u : 256u} << 20, 1);
  const double worst = std::max(in_cache, in_memory);
  run.add(Finding{
      "There is no evidence that unaligned data is several times slower: at most about 10 %.",
      "Data alignment for speed: myth or reality?, "
      "https://lemire.me/blog/2012/05/31/data-alignment-for-speed-myth-or-reality/",
      fmt::format("the worst offset took {:.2f} times as long in cache, {:.2f} times in memory",
                  in_cache, in_memory),
      worst <= 1.1 ? Verdict::held
      : worst <= 2 ? Verdict::partly
                   : Verdict::failed});
  run.note(
      "One core. The baseline of a step is a walk over every word, that of an offset the "
      "aligned loads.");
}

}  // namespace bench
