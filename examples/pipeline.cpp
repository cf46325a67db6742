// pipeline: two ranks, each with half of the work on every batch.
//
// Stage one puts a batch and a signal into stage two's memory and goes on with the next one. Stage
// two waits for the signal, not for stage one. Each of the two slots has a signal that says "full",
// at stage two, and one that says "empty", at stage one.
#include <algorithm>
#include <attacca/attacca.hpp>
#include <attacca/trace.hpp>
#include <chrono>
#include <mutex>
#include <string>

#include "example.hpp"

namespace attacca::examples {
namespace {

constexpr unsigned kCount = 512;  // numbers in a batch
constexpr unsigned kBatches = 40;
constexpr unsigned kSlots = 2;
constexpr unsigned kRounds = 400;

ATTACCA_HD std::uint32_t stage(std::uint32_t x, std::uint32_t factor) {
  for (unsigned round = 0; round < kRounds; ++round) x = x * factor + (x >> 15) + 1;
  return x;
}
constexpr std::uint32_t kFirst = 1664525, kSecond = 22695477;

/// to[i] = stage(from[i]); the first stage's input is the number of the batch, which it counts.
struct Stage {
  static constexpr const char* name = "stage";
  struct Args {
    const std::uint32_t* from;  // null: the number of the batch
    std::uint32_t* to;
    std::uint32_t* batch;
    std::uint32_t factor;
  };
  static Cost cost(const Args&) { return {.flops = 3.0 * kRounds * kCount, .bytes = 8.0 * kCount}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (const std::uint64_t i = t.index(); i < kCount)
      a.to[i] = stage(a.from ? a.from[i] : *a.batch + static_cast<std::uint32_t>(i), a.factor);
  }
};
const Kernel<Stage::Args> compute = make_kernel<Stage>();

/// What one rank has.
struct Half {
  Half(const Device& like, const Group& group)
      : device(rank_device(like, 1)),
        inbox(group.symmetric<std::uint32_t>(kSlots * kCount)),
        full(group.symmetric<std::uint64_t>(kSlots)),
        empty(group.symmetric<std::uint64_t>(kSlots)),
        out(device, kSlots * kCount, Visibility::shared),
        batch(device, std::vector<std::uint32_t>{0}, Visibility::shared) {
    std::fill(empty.span().begin(), empty.span().end(), 1);
    group.barrier().run();  // nobody signals before all have said so
  }
  std::span<std::uint32_t> in_slot(std::span<std::uint32_t> all, unsigned slot) const {
    return all.subspan(slot * kCount, kCount);
  }

  Device device;
  SymmetricBuffer<std::uint32_t> inbox;  // stage two's is used
  SymmetricBuffer<std::uint64_t> full;   // at stage two
  SymmetricBuffer<std::uint64_t> empty;  // at stage one
  Buffer<std::uint32_t> out;
  Buffer<std::uint32_t> batch;
};

/// A batch's way through one stage and one slot. `wait` and reset of a signal stand together.
Graph build(const Group& group, const Half& own, unsigned slot) {
  const bool is_first = group.rank() == 0;
  const int other = group.size() - 1 - group.rank();
  std::uint64_t* const awaited = (is_first ? own.empty : own.full).data() + slot;
  Graph graph(own.device, is_first ? "stage one" : "stage two");
  const auto wait =
      group.wait(awaited, 1, other).named(is_first ? "wait until empty" : "wait until full");
  const auto reset = graph.host("take it", [awaited] { *awaited = 0; }).after(wait.add_to(graph));
  const std::span<std::uint32_t> inbox = own.in_slot(own.inbox.span(), slot);
  const std::span<std::uint32_t> result = own.in_slot(own.out.span(), slot);
  const auto step = graph
                        .kernel(compute, Grid::covering(kCount),
                                {is_first ? nullptr : inbox.data(), result.data(), own.batch.data(),
                                 is_first ? kFirst : kSecond})
                        .after(reset);
  if (is_first)
    group.put_signal<std::uint32_t>(inbox, result, other, own.full.data() + slot, 1)
        .named("hand over")
        .add_to(graph)
        .after(step);
  else
    group
        .put_signal<std::uint32_t>(inbox.first(0), result.first(0), other, own.empty.data() + slot,
                                   1)
        .named("give back")
        .add_to(graph)
        .after(step);
  return graph;
}

/// Sends all batches through this rank's stage. Stage two looks at what comes out.
void pass_batches(const Group& group, const Half& own, std::vector<Exec>& slots,
                  const Stream& stream) {
  for (unsigned batch = 0; batch < kBatches; ++batch) {
    *own.batch.data() = batch;
    slots[batch % kSlots].launch(stream);
    stream.synchronize();
    if (group.rank() == 0) continue;
    const std::span<std::uint32_t> got = own.in_slot(own.out.span(), batch % kSlots);
    for (unsigned i = 0; i < kCount; i += 37)
      expect(got[i] == stage(stage(batch + i, kFirst), kSecond), "a batch went wrong");
  }
}
std::vector<Exec> graphs_of(const Group& group, const Half& own) {
  std::vector<Exec> slots;
  for (unsigned slot = 0; slot < kSlots; ++slot)
    slots.push_back(build(group, own, slot).instantiate());
  return slots;
}

void run(const Device& device, std::ostream& out) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> busy(2), all(2);
  run_loopback(2, [&](const Group& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const Half own(device, group);
    std::vector<Exec> slots = graphs_of(group, own);
    const Stream stream(own.device);
    const auto seconds = [](Clock::duration time) {
      return std::chrono::duration<double>(time).count();
    };
    group.barrier().run();
    const auto start = Clock::now();
    pass_batches(group, own, slots, stream);
    all[rank] = seconds(Clock::now() - start);
    const auto alone = Clock::now();
    for (unsigned batch = 0; batch < kBatches; ++batch) {
      stream.kernel(compute, Grid::covering(kCount),
                    {nullptr, own.out.data(), own.batch.data(), kFirst});
      stream.synchronize();
    }
    busy[rank] = seconds(Clock::now() - alone);
  });
  const auto milliseconds = [](double seconds) { return written("%.1f ms", 1e3 * seconds); };
  out << kBatches << " batches through two stages took " << milliseconds(std::max(all[0], all[1]))
      << "; alone stage one computes " << milliseconds(busy[0]) << ", and stage two "
      << milliseconds(busy[1]) << "\nEvery batch is what plain C++ makes of it.\n";
}

/// A trace of both ranks, each with its stage as a process.
void write(const Device& device, const std::string& path) {
  std::mutex mutex;
  Trace all;
  run_loopback(2, [&](const Group& group) {
    const Half own(device, group);
    std::vector<Exec> slots = graphs_of(group, own);
    const Tracer tracer(own.device);
    {
      const Stream stream(own.device);
      group.barrier().run();
      pass_batches(group, own, slots, stream);
    }
    Trace trace = tracer.trace();
    const std::lock_guard lock(mutex);
    for (TraceSlice& slice : trace.slices) slice.track += all.tracks.size();
    for (TraceTrack& track : trace.tracks) {
      track.process = (group.rank() == 0 ? "stage one, " : "stage two, ") + track.process;
      all.tracks.push_back(std::move(track));
    }
    all.slices.insert(all.slices.end(), trace.slices.begin(), trace.slices.end());
  });
  write_trace(all, path);
}

Graph graph(const Device& device) {
  const Group group = make_loopback(1).front();
  return build(group, Half(device, group), 0);
}

}  // namespace

const Example pipeline{"pipeline", "two ranks, each with half of the work on every batch", graph,
                       run, write};

}  // namespace attacca::examples
