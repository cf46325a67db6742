// launch.cpp: three dependent kernels, A → B → C, launched one by one into a stream and as one
// graph: the host's time, the gaps between the kernels, and the time of a pass.
#include "claims/launch.hpp"

#include <attacca/exec.hpp>
#include <attacca/graph.hpp>

#if ATTACCA_WITH_CUDA
#include "raw.hpp"
#endif

namespace bench {

namespace {

using namespace claims;
using attacca::EdgeKind;

constexpr unsigned kPasses = 100;  // as in the book: 300 launches against 100
constexpr double kClaimedShare = 0.25;
constexpr double kNoGapMicroseconds = 0.1;

/// A way to run A, B and C once.
struct Way {
  std::string name;
  unsigned calls;  // of the host
  std::function<void(const StepArgs& first)> launch;
  std::function<void(const StepArgs& first)> prepare = [](const StepArgs&) {};
};
StepArgs at_place(StepArgs args, unsigned place) {
  args.place = place;
  return args;
}

Way one_by_one(const attacca::Stream& stream) {
  return {"stream launches", kPlaces, [&](const StepArgs& first) {
            for (unsigned place = 0; place < kPlaces; ++place)
              stream.kernel(step, kOneWarp, at_place(first, place));
          }};
}

Way as_graph(const attacca::Device& device, const attacca::Stream& stream, EdgeKind edges) {
  const bool is_programmatic = edges == EdgeKind::programmatic;
  auto exec = std::make_shared<std::optional<attacca::Exec>>();
  return {is_programmatic ? "graph, programmatic edges" : "graph", 1,
          [&stream, exec](const StepArgs&) { (*exec)->launch(stream); },
          [device, exec, is_programmatic](const StepArgs& first) {
            attacca::Graph graph(device, "a-b-c");
            const auto a = graph.kernel(step, kOneWarp, at_place(first, 0));
            const auto b = graph.kernel(step, kOneWarp, at_place(first, 1));
            const auto c = graph.kernel(step, kOneWarp, at_place(first, 2));
            is_programmatic ? b.after_programmatic(a) : b.after(a);
            is_programmatic ? c.after_programmatic(b) : c.after(b);
            exec->emplace(graph.instantiate());
          }};
}

#if ATTACCA_WITH_CUDA
/// Each kernel may start while the one before it still runs (programmatic dependent launch).
Way one_by_one_early(cudaStream_t stream) {
  return {"stream launches, programmatic", kPlaces, [stream](const StepArgs& first) {
            cudaLaunchAttribute early{};
            early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
            early.val.programmaticStreamSerializationAllowed = 1;
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(kOneWarp.blocks.x);
            config.blockDim = dim3(kOneWarp.threads.x);
            config.stream = stream;
            config.attrs = &early;
            config.numAttrs = 1;
            for (unsigned place = 0; place < kPlaces; ++place) {
              StepArgs args = at_place(first, place);
              void* pointers[] = {&args};
              check(cudaLaunchKernelExC(&config, step.info().cuda, pointers));
            }
          }};
}
#endif

/// Microseconds of one pass.
struct Samples {
  std::vector<double> pass, host, gap, busy;
};
struct Measured {
  Summary pass, host, gap, busy;
};

double sample(const attacca::Stream& stream, attacca::Buffer<Trace>& trace, const Way& way,
              const StepArgs& first, unsigned number, Samples& samples) {
  trace.write(std::vector<Trace>(1));
  double host = 0;
  const double whole = microseconds([&] {
    host = microseconds([&] {
      for (unsigned pass = 0; pass < kPasses; ++pass) way.launch(first);
    });
    stream.synchronize();
  });
  const Trace seen = trace.read().front();
  if (seen.steps != kPasses * kPlaces || seen.number != number)
    throw attacca::Error(fmt::format("{}: {} kernels ran instead of {}, or out of order", way.name,
                                     seen.steps, kPasses * kPlaces));
  const auto per_pass = [](auto ns) { return static_cast<double>(ns) / 1000 / kPasses; };
  samples.pass.push_back(whole / kPasses);
  samples.host.push_back(host / kPasses);
  samples.gap.push_back(per_pass(seen.gap_ns[1] + seen.gap_ns[2]) / (kPlaces - 1));
  samples.busy.push_back(per_pass(seen.busy_ns));
  return samples.pass.back();
}

std::vector<Measured> measure(Run& run, const attacca::Stream& stream, const std::vector<Way>& ways,
                              double kernel_us, double turns_per_us) {
  attacca::Buffer<Trace> trace(run.device, std::vector<Trace>(1));
  const StepArgs first{trace.data(), static_cast<unsigned>(kernel_us * turns_per_us), 0};
  const unsigned number = turned(Trace{}.number, first.turns * kPasses * kPlaces);
  std::vector<Samples> samples(ways.size());
  std::vector<std::function<double()>> variants;
  for (std::size_t at = 0; at < ways.size(); ++at) {
    ways[at].prepare(first);
    variants.push_back(
        [&, at] { return sample(stream, trace, ways[at], first, number, samples[at]); });
  }
  run.interleave(fmt::format("kernels of {} µs", kernel_us), 31, variants);

  std::vector<Measured> measured;
  for (const Samples& of : samples)
    measured.push_back({summarize_rounds(of.pass), summarize_rounds(of.host),
                        summarize_rounds(of.gap), summarize_rounds(of.busy)});
  return measured;
}

void add_rows(Run& run, const std::vector<Way>& ways, double kernel_us,
              const std::vector<Measured>& measured) {
  const auto add = [&](const char* what, Summary Measured::*value, bool has_floor) {
    for (std::size_t at = 0; at < ways.size(); ++at) {
      Row row{fmt::format("{}, {}", what, ways[at].name),
              {{"kernel_us", static_cast<unsigned>(kernel_us)}, {"host_calls", ways[at].calls}},
              measured[at].*value};
      if (at) row.baseline = (measured[0].*value).median;
      if (has_floor) row.floor = measured[at].busy.median;
      run.add(std::move(row));
    }
  };
  add("pass", &Measured::pass, true);
  add("gap", &Measured::gap, false);
  add("host", &Measured::host, false);
}

/// REQUIRES: ways 0, 1 and 2 are stream launches, graph, and graph with programmatic edges.
void judge(Run& run, const std::vector<double>& lengths,
           const std::vector<std::vector<Measured>>& measured) {
  std::vector<double> saved, saved_early, stream_gap, graph_gap, early_gap;
  std::size_t faster = 0, gapless = 0;
  for (const auto& of : measured) {
    const double share = 1 - of[1].pass.median / of[0].pass.median;
    faster += share >= kClaimedShare;
    gapless += of[1].gap.median <= kNoGapMicroseconds;
    saved.push_back(100 * share);
    saved_early.push_back(100 * (1 - of[2].pass.median / of[0].pass.median));
    stream_gap.push_back(of[0].gap.median);
    graph_gap.push_back(of[1].gap.median);
    early_gap.push_back(of[2].gap.median);
  }
  run.add(
      {"Three dependent kernels replayed as one graph instead of launched one by one make a "
       "pass 25 % shorter.",
       kBook,
       fmt::format("With kernels of {} µs, {} % shorter; with programmatic edges {} %. The host "
                   "makes one call a pass instead of three and spends {:.1f} µs on it instead "
                   "of {:.1f}.",
                   in_words(lengths, 0), in_words(saved, 0), in_words(saved_early, 0),
                   measured[0][1].host.median, measured[0][0].host.median),
       verdict_of(faster, measured.size())});
  run.add(
      {"Kernels of a graph run back to back, with 0 µs between them; those launched one by one "
       "have gaps of about 3 µs.",
       kBook,
       fmt::format("With kernels of {} µs, gaps of {} µs in a graph and {} µs with "
                   "programmatic edges; launched one by one {} µs.",
                   in_words(lengths, 0), in_words(graph_gap, 2), in_words(early_gap, 2),
                   in_words(stream_gap, 2)),
       verdict_of(gapless, measured.size())});
}

void compare(Run& run, const attacca::Stream& stream, const std::vector<Way>& ways) {
  const std::vector<double> lengths =
      run.is_quick() ? std::vector<double>{2, 8} : std::vector<double>{1, 2, 4, 8, 16};
  const double turns_per_us = turns_per_microsecond(run.device, stream);
  std::vector<std::vector<Measured>> measured;
  for (const double kernel_us : lengths) {
    measured.push_back(measure(run, stream, ways, kernel_us, turns_per_us));
    add_rows(run, ways, kernel_us, measured.back());
  }
  if (run.device.is_cuda())
    judge(run, lengths, measured);
  else
    note_host(run);
  note_clock(run, stream);
  run.note(
      "A gap is from the last reading of the clock in one kernel to the first in the next, or "
      "behind its wait where the edge is programmatic: storing results and ending is in it. The "
      "floor of a pass is what its kernels are busy; kernel_us is their arithmetic alone.");
  Plot passes{.title = "A pass of three dependent kernels",
              .x = "kernel_us",
              .x_label = "arithmetic of a kernel, µs",
              .y_label = "µs a pass",
              .is_log_y = true};
  Plot gaps{.title = "Between two of them",
            .x = "kernel_us",
            .x_label = "arithmetic of a kernel, µs",
            .y_label = "gap, µs"};
  for (const Way& way : ways) {
    passes.rows.push_back("pass, " + way.name);
    gaps.rows.push_back("gap, " + way.name);
  }
  run.add(std::move(passes));
  run.add(std::move(gaps));
}

void launch(Run& run) {
#if ATTACCA_WITH_CUDA
  if (run.device.is_cuda()) {
    const Gpu gpu(run.device);
    compare(
        run, gpu.stream,
        {one_by_one(gpu.stream), as_graph(run.device, gpu.stream, EdgeKind::full),
         as_graph(run.device, gpu.stream, EdgeKind::programmatic), one_by_one_early(gpu.native)});
    return;
  }
#endif
  const attacca::Stream stream(run.device);
  compare(run, stream, {one_by_one(stream), as_graph(run.device, stream, EdgeKind::full)});
}

const Registered registered{
    {"launch",
     "what do three dependent kernels gain from being launched as one graph "
     "instead of one by one?",
     Needs::either, launch}};

}  // namespace

}  // namespace bench
