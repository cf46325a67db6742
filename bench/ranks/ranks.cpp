// ranks.cpp: exchanges between ranks against the same by hand: loopback's all-reduce against a
// plain add and copy, MPI's against the library's own call, work stealing against a perfect split,
// and how much of the hand-offs of a pipeline its slower stage does not see.
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>
#include <attacca/mpi.hpp>
#include <attacca/ranks.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "harness.hpp"

namespace bench {

namespace {

using attacca::Group;
using attacca::run_loopback;

constexpr int kRanks = 2;
constexpr double kGate = 1.3;          // times the same by hand
constexpr double kStealingGate = 1.1;  // times a perfect split
constexpr double kHiddenGate = 85;     // % of the hand-off
constexpr std::size_t kBatchBytes = 1 << 20;
// Below this an all-reduce of threads is mostly the time until they see each other.
constexpr std::size_t kGatedBytes = 1 << 20;

/// Ranks as threads, each on a core of its own: a scheduler with more to do may leave both on one,
/// where nothing that they do overlaps.
void on_cores(const std::function<void(const Group&)>& body) {
  run_loopback(kRanks, [&](const Group& group) {
    cpu_set_t allowed, own;
    CPU_ZERO(&own);
    ::sched_getaffinity(0, sizeof allowed, &allowed);
    for (int core = 0, found = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &allowed) && found++ == group.rank()) CPU_SET(core, &own);
    ::sched_setaffinity(0, sizeof own, &own);  // fails where there are too few cores
    body(group);
  });
}

/// Microseconds of one all-reduce of threads, as rank 0 sees it.
double loopback_all_reduce(std::vector<std::vector<float>>& values, int times) {
  double time = 0;
  on_cores([&](const Group& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const attacca::Exchange sum = group.all_reduce(std::span(values[rank]));
    sum.run();
    const double taken = microseconds([&] {
      for (int at = 0; at < times; ++at) sum.run();
    });
    if (rank == 0) time = taken / times;
  });
  return time;
}

double add_and_copy(std::vector<std::vector<float>>& values, int times) {
  float* const a = values[0].data();
  float* const b = values[1].data();
  const std::size_t count = values[0].size();
  return microseconds([&] {
           for (int turn = 0; turn < times; ++turn) {
             for (std::size_t at = 0; at < count; ++at) a[at] += b[at];
             std::memcpy(b, a, count * sizeof(float));
           }
         }) /
         times;
}

void measure_loopback(Run& run) {
  for (const std::size_t bytes :
       {std::size_t{4} << 10, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20}) {
    std::vector<std::vector<float>> values(kRanks, std::vector<float>(bytes / sizeof(float)));
    const int times = static_cast<int>(std::clamp<std::size_t>((8u << 20) / bytes, 1, 200));
    const auto medians = run.interleave(fmt::format("loopback, {} KiB", bytes >> 10), 21,
                                        {[&] { return loopback_all_reduce(values, times); },
                                         [&] { return add_and_copy(values, times); }});
    Row row = compared("all-reduce of 2 threads against a plain add and copy", {{"bytes", bytes}},
                       medians[0], medians[1]);
    if (bytes >= kGatedBytes) row.limit = medians[1].median * kGate;
    run.add(std::move(row));
  }
}

/// The program of mpi_all_reduce.cpp writes a line for each size.
void measure_mpi(Run& run) {
#if defined(ATTACCA_MPIRUN)
  const std::string command =
      fmt::format("{} {} --oversubscribe -n {} {} {} 2>/dev/null", ATTACCA_MPIRUN,
                  ::geteuid() == 0 ? "--allow-run-as-root" : "", kRanks, ATTACCA_MPI_ALL_REDUCE,
                  run.is_quick() ? 3 : 21);
  run.show_progress("MPI", 0, 1);
  const auto output = output_of(command);
  if (!output || output->empty()) return run.note("MPI was not measured; this failed: " + command);
  std::istringstream lines(*output);
  std::size_t bytes = 0;
  Summary ours, theirs;
  while (lines >> bytes >> ours.p10 >> ours.median >> ours.p90 >> theirs.p10 >> theirs.median >>
         theirs.p90) {
    Row row = compared("all-reduce of 2 processes against MPI_Allreduce", {{"bytes", bytes}}, ours,
                       theirs);
    row.limit = theirs.median * kGate;
    run.add(std::move(row));
  }
  run.note(
      "MPI exchanges are host calls: a graph with one makes a call of the host at each launch");
#else
  run.note("MPI was not measured: " + attacca::describe_mpi());
#endif
}

constexpr std::uint64_t kItems = 128;

/// A static split of these items takes twice as long as a perfect one.
unsigned rounds_of(std::uint64_t item) { return item < kItems / 2 ? 60000 : 0; }

volatile std::uint64_t sink;
void work(unsigned rounds) {
  std::uint64_t x = rounds + 1;
  for (unsigned round = 0; round < rounds; ++round) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  sink = x;
}

/// Microseconds from the first rank's start until all items are done. A rank may leave the barrier
/// late, so one rank's own time would be too short. `next` gives a rank its next item.
template <class Next>
double until_all_done(Next next) {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> starts(kRanks), ends(kRanks);
  on_cores([&](const Group& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const auto counter = group.symmetric<std::uint64_t>(1);
    group.barrier().run();
    starts[rank] = Clock::now();
    for (std::uint64_t turn = 0;; ++turn) {
      const std::uint64_t item = next(group, counter.data(), turn);
      if (item >= kItems) break;
      work(rounds_of(item));
    }
    ends[rank] = Clock::now();
  });
  const auto taken =
      *std::max_element(ends.begin(), ends.end()) - *std::min_element(starts.begin(), starts.end());
  return std::chrono::duration<double, std::micro>(taken).count();
}

void measure_stealing(Run& run) {
  const auto steal = [](const Group& group, std::uint64_t* counter, std::uint64_t) {
    std::uint64_t item = 0;
    group.fetch_add(counter, 1, 0, &item).run();
    return item;
  };
  const auto perfect = [](const Group& group, std::uint64_t*, std::uint64_t turn) {
    return turn * kRanks + static_cast<std::uint64_t>(group.rank());
  };
  const auto split = [](const Group& group, std::uint64_t*, std::uint64_t turn) {
    constexpr std::uint64_t kEach = kItems / kRanks;
    return turn < kEach ? static_cast<std::uint64_t>(group.rank()) * kEach + turn : kItems;
  };
  const auto times = run.interleave(
      "work stealing", 31,
      {[&] { return until_all_done(steal); }, [&] { return until_all_done(perfect); },
       [&] { return until_all_done(split); }});
  Row row =
      compared("work stealing against a perfect split", {{"items", kItems}}, times[0], times[1]);
  row.limit = times[1].median * kStealingGate;
  run.add(std::move(row));
  run.add(
      compared("static split against a perfect split", {{"items", kItems}}, times[2], times[1]));
}

/// Two stages with two slots between them. Stage one puts a batch and a signal into stage two's
/// memory and goes on.
class Pipeline {
 public:
  explicit Pipeline(const Group& group)
      : group_(group),
        inbox_(group.symmetric<float>(2 * kFloats)),
        full_(group.symmetric<std::uint64_t>(2)),
        empty_(group.symmetric<std::uint64_t>(2)),
        own_(kFloats, 1.0f) {}

  using Clock = std::chrono::steady_clock;
  struct Interval {
    Clock::time_point start, end;
  };

  /// By batch: when stage one handed it over, or when stage two waited for it.
  std::vector<Interval> run() {
    group_.barrier().run();
    std::vector<Interval> intervals;
    const auto time = [&](const attacca::Exchange& exchange) {
      const Clock::time_point start = Clock::now();
      exchange.run();
      intervals.push_back({start, Clock::now()});
    };
    for (int batch = 0; batch < kBatches; ++batch) {
      const auto slot = static_cast<std::size_t>(batch % 2);
      const std::uint64_t turn = past_ + static_cast<std::uint64_t>(batch) / 2 + 1;
      std::uint64_t* const full = full_.data() + slot;
      std::uint64_t* const empty = empty_.data() + slot;
      const std::span<float> to = inbox_.span().subspan(slot * kFloats, kFloats);
      if (group_.rank() == 0) {
        work(kRounds[0]);
        group_.wait(empty, turn - 1, 1).run();
        time(group_.put_signal<float>(to, own_, 1, full, turn));
      } else {
        time(group_.wait(full, turn, 0));
        work(kRounds[1]);
        group_.put_signal<float>(to.first(0), {}, 0, empty, turn).run();
      }
    }
    past_ += kBatches / 2;
    return intervals;
  }

 private:
  static constexpr int kBatches = 40;
  static constexpr std::size_t kFloats = kBatchBytes / sizeof(float);
  static constexpr unsigned kRounds[2] = {90000, 160000};  // stage two is the slower one

  const Group& group_;
  attacca::SymmetricBuffer<float> inbox_;                 // stage two's is used
  attacca::SymmetricBuffer<std::uint64_t> full_, empty_;  // at stage two, at stage one
  std::vector<float> own_;
  std::uint64_t past_ = 0;  // turns of earlier runs
};

/// Percent of the time of the hand-offs in which stage two computed. The first batch meets an idle
/// stage two and is left out; time that stage two waits before a hand-off begins is stage one's.
double hidden_part() {
  std::vector<Pipeline::Interval> by_rank[kRanks];
  on_cores([&](const Group& group) {
    Pipeline pipeline(group);
    pipeline.run();
    by_rank[group.rank()] = pipeline.run();
  });
  std::chrono::duration<double> handing_over{}, waiting{};
  for (std::size_t batch = 1; batch < by_rank[0].size(); ++batch) {
    const Pipeline::Interval put = by_rank[0][batch], wait = by_rank[1][batch];
    handing_over += put.end - put.start;
    waiting += std::max(wait.end - std::max(wait.start, put.start), {});
  }
  return 100 * (1 - std::min(waiting / handing_over, 1.0));
}

void measure_pipeline(Run& run) {
  const auto hidden = run.interleave("pipeline", 21, {hidden_part});
  run.add(Row{.name = "hand-off hidden behind compute, two stages",
              .params = {{"bytes a batch", kBatchBytes}},
              .value = hidden[0],
              .unit = "%",
              .limit = kHiddenGate,
              .is_rate = true});
}

/// Ranks that wait yield, so figures taken beside other programs say more about those.
void note_load(Run& run) {
  double load = 0;
  const unsigned cores = std::thread::hardware_concurrency();
  if (::getloadavg(&load, 1) == 1 && load > 0.5 * cores)
    run.note(fmt::format(
        "others used the machine: its load was {:.1f} on {} cores{}", load, cores,
        ::sched_getscheduler(0) == SCHED_FIFO ? ", and ranks came first (SCHED_FIFO)" : ""));
}

void ranks(Run& run) {
  note_load(run);
  measure_loopback(run);
  measure_mpi(run);
  measure_stealing(run);
  measure_pipeline(run);
  run.add(Plot{.title = "All-reduce of two ranks, times the same by hand",
               .x = "bytes",
               .x_label = "bytes",
               .y_label = "times",
               .value = Plot::Value::ratio});
}

const Registered registered{{"ranks",
                             "what do deadlines, checks and sums in the order of ranks cost?",
                             Needs::host, ranks, "ranks exchange host memory"}};

}  // namespace

}  // namespace bench
