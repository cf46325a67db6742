// overlap.cpp: a job that is copied in, computed and copied out, with or without overlap, over one
// to four streams and in few or many chunks. The cost of allocation is in overlap_allocation.cpp.
#include "claims/overlap.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/overlap.hpp>

#include <algorithm>
#include <deque>

#include "harness.hpp"
#if ATTACCA_WITH_CUDA
#include "raw.hpp"
#endif

namespace bench {

namespace overlap {

namespace {

using attacca::Buffer;
using attacca::Grid;
using attacca::Stream;
using attacca::StreamRef;
using attacca::Visibility;
using Word = std::uint32_t;
using Chunk = attacca::OverlapChunk<Word, Word>;

constexpr unsigned kMostStreams = 4;
constexpr std::size_t kChunks = 16;
constexpr unsigned kTrialTurns = 32;

/// The job: words in pinned memory, and turns per word that take as long as copying them in.
struct Job {
  explicit Job(Run& run)
      : device(run.device),
        in(device, run.device.is_cuda() ? std::size_t{16} << 20 : std::size_t{1} << 20,
           Visibility::shared),
        out(device, in.size(), Visibility::shared),
        device_in(device, in.size()),
        device_out(device, in.size()),
        stream(device),
        samples(run.is_quick() ? 5 : 21) {
    for (std::size_t at = 0; at < in.size(); ++at) in.data()[at] = static_cast<Word>(at + 1);
    const auto trials = run.interleave("calibration", samples,
                                       {[&] { return timed([&] { copy_in(); }); },
                                        [&] { return timed([&] { compute(kTrialTurns); }); }});
    turns = static_cast<unsigned>(
        std::clamp(kTrialTurns * trials[0].median / trials[1].median, 1.0, 1e5));
    const auto stages = run.interleave(
        "stages", samples,
        {[&] { return timed([&] { copy_in(); }); }, [&] { return timed([&] { compute(turns); }); },
         [&] { return timed([&] { copy_out(); }); }});
    for (const Summary& stage : stages) slowest_stage = std::max(slowest_stage, stage.median);
    kernel_alone = stages[1].median;
  }

  void copy_in() { stream.copy(device_in.data(), in.data(), in.bytes()); }
  void compute(unsigned with_turns) {
    stream.kernel(scramble, Grid::covering(in.size()),
                  {device_in.data(), device_out.data(), in.size(), with_turns});
  }
  void copy_out() { stream.copy(out.data(), device_out.data(), out.bytes()); }
  template <class F>
  double timed(F&& enqueue) {
    return microseconds([&] {
      enqueue();
      stream.synchronize();
    });
  }

  void run_serial() {
    copy_in();
    compute(turns);
    copy_out();
    stream.synchronize();
  }
  void run_overlapped(attacca::Overlap<Word, Word>& streams) {
    streams.run({in.data(), in.size()}, {out.data(), out.size()},
                [this](StreamRef on, const Chunk& chunk) {
                  on.kernel(scramble, Grid::covering(chunk.count),
                            {chunk.in, chunk.out, chunk.count, turns});
                });
  }

  /// Runs once into poisoned memory and checks the result.
  template <class F>
  void verify(const char* what, F&& work) {
    std::fill_n(out.data(), out.size(), Word{0});
    work();
    for (std::size_t at = 0; at < out.size(); at += 1009)
      if (const Word expected = scrambled(static_cast<Word>(at + 1), turns);
          out.data()[at] != expected)
        throw attacca::Error(
            fmt::format("{}: element {} is {} instead of {}", what, at, out.data()[at], expected));
  }

  attacca::Device device;
  Buffer<Word> in;
  Buffer<Word> out;
  Buffer<Word> device_in;
  Buffer<Word> device_out;
  Stream stream;
  int samples;
  unsigned turns = 1;
  double slowest_stage = 0;
  double kernel_alone = 0;
};

#if ATTACCA_WITH_CUDA
/// As tutorials write it: chunk after chunk, each on the next stream, with arrays for the whole.
void run_by_hand(Job& job, const std::deque<Stream>& streams) {
  const std::size_t chunk = job.in.size() / kChunks;
  for (std::size_t at = 0; at < kChunks; ++at) {
    const auto on = static_cast<cudaStream_t>(streams[at % streams.size()].native());
    const std::size_t first = at * chunk;
    check(cudaMemcpyAsync(job.device_in.data() + first, job.in.data() + first, chunk * sizeof(Word),
                          cudaMemcpyHostToDevice, on));
    ScrambleArgs args{job.device_in.data() + first, job.device_out.data() + first, chunk,
                      job.turns};
    void* pointers[] = {&args};
    const Grid grid = Grid::covering(chunk);
    check(cudaLaunchKernel(scramble.info().cuda, dim3(grid.blocks.x), dim3(grid.threads.x),
                           pointers, 0, on));
    check(cudaMemcpyAsync(job.out.data() + first, job.device_out.data() + first,
                          chunk * sizeof(Word), cudaMemcpyDeviceToHost, on));
  }
  for (const Stream& stream : streams)
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream.native())));
}
#endif

/// Medians of the serial run, then of 1 to 4 streams.
std::vector<double> by_streams(Run& run, Job& job) {
  std::deque<attacca::Overlap<Word, Word>> overlaps;
  std::vector<std::function<double()>> variants{
      [&] { return microseconds([&] { job.run_serial(); }); }};
  job.verify("serial", [&] { job.run_serial(); });
  for (unsigned streams = 1; streams <= kMostStreams; ++streams) {
    auto& made = overlaps.emplace_back(
        job.device, attacca::OverlapPlan{.chunk = job.in.size() / kChunks, .streams = streams});
    job.verify("overlap", [&] { job.run_overlapped(made); });
    variants.push_back([&] { return microseconds([&] { job.run_overlapped(made); }); });
  }
#if ATTACCA_WITH_CUDA
  std::deque<std::deque<Stream>> raw_streams;
  for (unsigned streams = 1; streams <= kMostStreams && job.device.is_cuda(); ++streams) {
    auto& made = raw_streams.emplace_back();
    for (unsigned at = 0; at < streams; ++at) made.emplace_back(job.device);
    job.verify("by hand", [&] { run_by_hand(job, made); });
    variants.push_back([&] { return microseconds([&] { run_by_hand(job, made); }); });
  }
#endif
  const auto times = run.interleave("streams", job.samples, variants);
  std::vector<double> medians;
  const auto add = [&](const char* name, unsigned streams, std::size_t chunks,
                       const Summary& time) {
    Row row = compared(name, {{"streams", streams}, {"chunks", chunks}}, time, times[0]);
    row.floor = job.slowest_stage;
    run.add(std::move(row));
  };
  add("serial", 1, 1, times[0]);
  for (unsigned at = 1; at < times.size(); ++at)
    add(at <= kMostStreams ? "overlap" : "by hand", (at - 1) % kMostStreams + 1, kChunks,
        times[at]);
  for (unsigned at = 0; at <= kMostStreams; ++at) medians.push_back(times[at].median);
  return medians;
}

void by_chunks(Run& run, Job& job, double serial) {
  const std::vector<std::size_t> counts = run.is_quick()
                                              ? std::vector<std::size_t>{4, 64}
                                              : std::vector<std::size_t>{2, 4, 8, 16, 32, 64, 128};
  std::deque<attacca::Overlap<Word, Word>> overlaps;
  std::vector<std::function<double()>> variants;
  for (const std::size_t chunks : counts) {
    auto& made = overlaps.emplace_back(
        job.device, attacca::OverlapPlan{.chunk = job.in.size() / chunks, .streams = 3});
    job.verify("overlap", [&] { job.run_overlapped(made); });
    variants.push_back([&] { return microseconds([&] { job.run_overlapped(made); }); });
  }
  const auto times = run.interleave("chunks", job.samples, variants);
  for (std::size_t at = 0; at < counts.size(); ++at) {
    Row row{"overlap by chunks", {{"streams", 3}, {"chunks", counts[at]}}, times[at]};
    row.baseline = serial;
    row.floor = job.slowest_stage;
    run.add(std::move(row));
  }
}

void judge(Run& run, const Job& job, const std::vector<double>& times) {
  const double serial = times[0];
  const double best = *std::min_element(times.begin() + 1, times.end());
  const double left = (best - job.kernel_alone) / (serial - job.kernel_alone);
  run.add(Finding{
      "Overlapping copies with computation reduces or eliminates their overhead.",
      "CUDA Programming Guide, https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/"
      "asynchronous-execution.html",
      fmt::format(
          "{:.0f} µs one after another, {:.0f} µs at best, the kernel alone {:.0f} µs: {:.0f}% "
          "of the copies' time is left",
          serial, best, job.kernel_alone, left * 100),
      left <= 0.3           ? Verdict::held
      : best < 0.9 * serial ? Verdict::partly
                            : Verdict::failed});
  const double over_two = times[2] / best;
  const double over_three = times[3] / best;
  run.add(Finding{"Two or three streams are enough; more of them gain nothing.",
                  "repeated in tutorials; no single source found",
                  fmt::format("1 to 4 streams take {:.0f}, {:.0f}, {:.0f} and {:.0f} µs", times[1],
                              times[2], times[3], times[4]),
                  over_two < 1.05     ? Verdict::held
                  : over_three < 1.05 ? Verdict::partly
                                      : Verdict::failed});
}

}  // namespace

void measure_pipeline(Run& run) {
  Job job(run);
  run.note(
      fmt::format("{} MiB in and out, turns per word ({}) such that the kernel takes as long as "
                  "copying in; the floor is the slowest stage alone",
                  job.in.bytes() >> 20, job.turns));
  const std::vector<double> times = by_streams(run, job);
  by_chunks(run, job, times[0]);
  judge(run, job, times);
  run.add(Plot{.title = "Copies and kernels at once, against one after another",
               .x = "streams",
               .x_label = "compute streams",
               .y_label = "time over that of serial",
               .is_log_x = false,
               .rows = {"overlap", "by hand"},
               .value = Plot::Value::ratio});
  run.add(Plot{.title = "The same over three streams, in more and smaller chunks",
               .x = "chunks",
               .x_label = "chunks",
               .y_label = "time over that of serial",
               .rows = {"overlap by chunks"},
               .value = Plot::Value::ratio});
}

}  // namespace overlap

namespace {

void run_overlap(Run& run) {
  overlap::measure_pipeline(run);
  overlap::measure_allocation(run);
}

const Registered registered{
    {"overlap", "what do copies at the same time as kernels save, and allocation in stream order?",
     Needs::either, run_overlap}};

}  // namespace

}  // namespace bench
