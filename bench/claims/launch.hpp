// launch.hpp: what the launch experiments share on the host: how long their kernels' arithmetic
// takes, and how measurements become a verdict.
#pragma once

#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/memory.hpp>

#include <string>
#include <vector>

#include "claims/launch_kernels.hpp"
#include "harness.hpp"

namespace bench::claims {

/// A source that has most of these claims.
inline const std::string kBook =
    "C. Fregly, AI Systems Performance Engineering (O'Reilly, 2025), chapter 12, as noted in "
    "github.com/rajk97/AI_perf_engg, chap12.md";

/// A claim that held in `held` of `all` cases.
inline Verdict verdict_of(std::size_t held, std::size_t all) {
  return held == all ? Verdict::held : held == 0 ? Verdict::failed : Verdict::partly;
}

/// The summary of a variant's additional measurements, without the warm-up round of interleave.
inline Summary summarize_rounds(std::vector<double> values) {
  values.erase(values.begin());
  return summarize(std::move(values));
}

/// Formats measurements case by case: "1.00, 2.00 and 3.00".
inline std::string in_words(const std::vector<double>& values, int digits = 1) {
  std::string text;
  for (std::size_t at = 0; at < values.size(); ++at)
    text += fmt::format("{}{:.{}f}",
                        at == 0                   ? ""
                        : at + 1 == values.size() ? " and "
                                                  : ", ",
                        values[at], digits);
  return text;
}

/// Turns of `turned` that take a kernel on this device a microsecond.
inline double turns_per_microsecond(const attacca::Device& device, attacca::StreamRef stream) {
  constexpr unsigned kTurns = 200'000;
  attacca::Buffer<Trace> trace(device, std::vector<Trace>(1));
  for (int at = 0; at < 5; ++at) {
    trace.write(std::vector<Trace>(1));
    stream.kernel(step, kOneWarp, {trace.data(), kTurns, 0});
    stream.synchronize();
  }
  const Trace seen = trace.read().front();
  if (seen.number != turned(1, kTurns) || seen.busy_ns <= 0)
    throw attacca::Error("a kernel's arithmetic came out wrong");
  return kTurns / (static_cast<double>(seen.busy_ns) / 1000);
}

/// Notes the resolution of the clock that kernels read.
inline void note_clock(Run& run, attacca::StreamRef stream) {
  const attacca::Buffer<std::int64_t> ns(run.device, 1);
  stream.kernel(tick, kOneWarp, {ns.data()});
  stream.synchronize();
  run.note(
      fmt::format("Kernels take the time themselves{}. Its ticks are {} ns apart, so only averages "
                  "over many kernels tell shorter times.",
                  run.device.is_cuda() ? ", from %globaltimer" : "", ns.read().front()));
}

/// The claims are about GPUs.
inline void note_host(Run& run) {
  run.note("What is claimed is claimed of GPUs; on the host the same code is timed, not judged.");
}

}  // namespace bench::claims
