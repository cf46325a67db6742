// queue.cpp: items of unequal length, partitioned statically or taken from a counter: when does a
// queue pay, what does its hot word cost, and how fast does a WorkQueue pass items on?
//
// If a static partition takes x times the ideal, no queue can be more than x times as fast. Some
// loads that are called skewed have a small x:
// - Long items in random order: a part's sum varies with the longest item, and so does the end of a
//   queue that serves in order, which may begin that item last. For shuffled Zipf lengths both
//   grow with the cap, and their ratio stays near 1.3 whatever it is.
// - Many warps on an SM: the last warp has the SM to itself and runs several times as fast, so
//   twice the work of a warp is not twice the time. So a giant item is also given to large blocks,
//   of which an SM holds only two.
// So a load counts as skewed if x is at least 1.3 * 1.05. Both gates then apply: 1.3 times as fast
// as the static partition, and within 5 % of the ideal. Only the second applies to other loads, and
// a note under the table says so with their x.
#include <attacca/occupancy.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_map>

#include "claims/launch.hpp"
#include "claims/queue_kernels.hpp"
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include "claims/queue_limits.hpp"
#endif

namespace bench {

namespace {

using namespace claims;
using attacca::Buffer;
using attacca::Device;
using attacca::Grid;
using attacca::Stream;
using attacca::device::TicketCounter;

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kMeanTurns = 128;
constexpr unsigned kBatch = 32;  // of calibration and claims
constexpr unsigned kAdaptive = 0;
constexpr double kLeastGain = 1.3;
constexpr const char* kOurs = "tickets, as they come";  // the way that the gates are about
constexpr double kMostOverIdeal = 1.05;
constexpr double kMostOverStatic = 1.02;
constexpr unsigned kLargeBlock = 1024;
constexpr std::uint32_t kLongItem = 8 * kMeanTurns;  // for large blocks

using Turns = std::vector<std::uint32_t>;

Turns even(std::size_t items) { return Turns(items, kMeanTurns); }
/// The first sixteenth of the items is sixteen times as long as the others.
Turns block_skewed(std::size_t items) {
  Turns turns(items, kMeanTurns / 2);
  std::fill(turns.begin(), turns.begin() + static_cast<std::ptrdiff_t>(items / 16), 8 * kMeanTurns);
  return turns;
}
/// The item of rank r has a length like 1/r, up to a cap; longest first.
Turns zipf(std::size_t items) {
  Turns turns(items);
  for (std::size_t rank = 0; rank < items; ++rank)
    turns[rank] =
        std::clamp<std::uint32_t>(static_cast<std::uint32_t>(8.0 * static_cast<double>(items) /
                                                             static_cast<double>(rank + 1)),
                                  kMeanTurns / 8, 64 * kMeanTurns);
  return turns;
}
Turns shuffled(Turns turns) {
  std::shuffle(turns.begin(), turns.end(), std::mt19937(1));
  return turns;
}
/// All equal except the first, which is `share` of a worker's total work.
Turns with_giant(Turns turns, std::size_t workers, double share) {
  turns.front() = static_cast<std::uint32_t>(
      share * static_cast<double>(turns.front() * (turns.size() / workers)));
  return turns;
}

double total_of(const Turns& turns) {
  double sum = 0;
  for (const std::uint32_t turn : turns) sum += turn;
  return sum;
}

/// Work on a device that can be done repeatedly, in each way.
class Shared {
 public:
  Shared(const Device& device, const Turns& turns)
      : expected_(expected_of(turns)),
        turns_(device, turns),
        out_(device, turns.size()),
        counter_(device, 1) {}

  Load load() const { return {turns_.data(), out_.data(), turns_.size()}; }
  TicketCounter* counter() const { return counter_.data(); }
  void reset_counter(attacca::StreamRef stream) const {
    stream.fill(counter_.data(), 0, counter_.bytes());
  }
  void poison(attacca::StreamRef stream) const { stream.fill(out_.data(), 0xdb, out_.bytes()); }
  /// Throws if an item was left out.
  void verify(const std::string& how) const {
    const Turns seen = out_.read();
    const auto wrong = std::mismatch(seen.begin(), seen.end(), expected_.begin()).first;
    if (wrong != seen.end())
      throw attacca::Error(fmt::format("{}: item {} was not worked on", how, wrong - seen.begin()));
  }

 private:
  static Turns expected_of(const Turns& turns) {
    std::unordered_map<std::uint32_t, std::uint32_t> results;
    Turns expected;
    expected.reserve(turns.size());
    for (const std::uint32_t turn : turns) {
      const auto [entry, is_new] = results.try_emplace(turn, 0);
      if (is_new) entry->second = churned(0, turn);
      expected.push_back(entry->second);
    }
    return expected;
  }

  Turns expected_;
  Buffer<std::uint32_t> turns_;
  Buffer<std::uint32_t> out_;
  Buffer<TicketCounter> counter_;
};

/// What works on an item: a warp or a large block; on the host a thread.
struct Teams {
  attacca::Kernel<Load> one_each;
  attacca::Kernel<StaticArgs> parts;
  attacca::TicketWorkers<Load> tickets;
  attacca::WorkerOptions options;
  Grid grid;          // of persistent workers
  unsigned threads;   // that work on one item
  std::string plain;  // name of a grid with one team for each item
  std::size_t count() const { return grid.blocks.count() * grid.threads.x / threads; }

  void start_tickets(attacca::StreamRef stream, const Shared& work, unsigned batch) const {
    attacca::WorkerOptions with = options;
    with.batch = batch;
    work.reset_counter(stream);
    tickets.start(stream, {work.counter(), work.load().items}, work.load(), with);
  }
};
Teams warps_of(const Device& device) {
  const attacca::WorkerOptions options{.threads = kThreads};
  return {one_warp_each,
          static_parts,
          ticket_workers,
          options,
          ticket_workers.grid(device, options),
          device.is_cuda() ? 32u : 1u,
          "a warp each, plain grid"};
}

struct Way {
  std::string name;
  unsigned batch;  // 0: none, or as it turns out
  std::function<void()> launch;
};

/// All ways to distribute `work` on a device.
std::vector<Way> ways_of(const Device& device, attacca::StreamRef stream, const Teams& teams,
                         const Shared& work, const std::vector<unsigned>& batches) {
  const Load load = work.load();
  const Grid plain = Grid::covering(load.items * teams.threads, teams.grid.threads.x);
  std::vector<Way> ways{{"static, neighbours", 0,
                         [=] {
                           stream.kernel(teams.parts, teams.grid, {load, false});
                         }},
                        {"static, strided", 0,
                         [=] {
                           stream.kernel(teams.parts, teams.grid, {load, true});
                         }},
                        {teams.plain, 0, [=] { stream.kernel(teams.one_each, plain, load); }}};
  const auto add_tickets = [&](const char* name, unsigned batch) {
    ways.push_back({name, batch, [=, &work] { teams.start_tickets(stream, work, batch); }});
  };
  for (const unsigned batch : batches) add_tickets("tickets", batch);
  add_tickets(kOurs, kAdaptive);
  if (device.is_cuda() && teams.threads == 32)
    ways.push_back({"two-level tickets", kBatch, [=, &work] {
                      work.reset_counter(stream);
                      stream.kernel(two_level, teams.grid, {load, work.counter(), kBatch});
                    }});
  return ways;
}

struct Timed {
  Way way;
  Summary time;
};

const Timed& find(const std::vector<Timed>& timed, std::string_view name) {
  return *std::find_if(timed.begin(), timed.end(),
                       [&](const Timed& one) { return one.way.name == name; });
}

/// The time of a perfectly balanced load: a little for each item and the rest for its turns.
struct Ideal {
  double per_item = 0;  // µs
  double per_turn = 0;
  double of(const Turns& turns) const {
    return per_item * static_cast<double>(turns.size()) + per_turn * total_of(turns);
  }
};

/// Fitted to even work, with all and with half of the turns, taken `batch` items at a time.
template <class Time>
Ideal calibrate(Run& run, const Device& device, const Teams& teams, const Turns& work,
                unsigned batch, attacca::StreamRef stream, Time time) {
  const std::size_t items = work.size();
  const Shared full(device, work);
  const Shared half(device, Turns(items, work.front() / 2));
  const auto timed = [&](const Shared& of) {
    return [&of, &teams, batch, stream, time] {
      return time([&] { teams.start_tickets(stream, of, batch); });
    };
  };
  const auto times = run.interleave("calibration", 7, {timed(full), timed(half)});
  const double difference = std::max(0.0, times[0].median - times[1].median);
  const double turns = total_of(work);
  Ideal ideal;
  ideal.per_turn = difference / (turns / 2);
  ideal.per_item =
      std::max(0.0, times[0].median - ideal.per_turn * turns) / static_cast<double>(items);
  return ideal;
}

struct Outcome {
  std::string work;
  bool is_even;
  double gain;                 // over the static partition in neighbours
  double gain_plain;           // over the plain grid
  double items_a_microsecond;  // with tickets
};

struct Work {
  std::string name;
  Turns turns;
  bool is_even = false;
};

template <class Time>
Outcome measure(Run& run, const Device& device, const Teams& teams, const Work& of,
                const std::vector<unsigned>& batches, attacca::StreamRef stream, Time time,
                const Ideal& ideal) {
  const auto& [name, turns, is_even] = of;
  Shared work(device, turns);
  std::vector<Timed> timed;
  std::vector<std::function<double()>> variants;
  for (const Way& way : ways_of(device, stream, teams, work, batches)) {
    work.poison(stream);
    way.launch();
    stream.synchronize();
    work.verify(way.name);
    timed.push_back({way, {}});
    variants.push_back([time, launch = way.launch] { return time(launch); });
  }
  const auto times = run.interleave(name, 7, variants);
  for (std::size_t at = 0; at < timed.size(); ++at) timed[at].time = times[at];

  const double fixed = find(timed, "static, neighbours").time.median;
  const double plain = find(timed, teams.plain).time.median;
  const Timed& ours = find(timed, kOurs);
  const double most_gain = fixed / ideal.of(turns);
  const bool is_skewed = most_gain >= kLeastGain * kMostOverIdeal;
  if (device.is_cuda() && !is_even && !is_skewed)
    run.note(
        fmt::format("{}: the static partition takes only {:.2f} times the ideal, so no queue can "
                    "be more than that much faster, and only the ideal is a gate",
                    name, most_gain));
  for (const Timed& one : timed) {
    nlohmann::ordered_json params{{"work", name}};
    if (one.way.batch) params["batch"] = one.way.batch;
    const bool is_tickets = one.way.name == "tickets";
    Row row{is_tickets ? "tickets, " + name : one.way.name, params, one.time};
    row.baseline = fixed;
    row.floor = ideal.of(turns);
    if (&one == &ours && device.is_cuda())
      row.limit = is_even     ? fixed * kMostOverStatic
                  : is_skewed ? std::min(fixed / kLeastGain, *row.floor * kMostOverIdeal)
                              : *row.floor * kMostOverIdeal;
    run.add(std::move(row));
  }
  return {name, is_even, fixed / ours.time.median, plain / ours.time.median,
          static_cast<double>(turns.size()) / ours.time.median};
}

template <class Time>
std::vector<Outcome> measure_all(Run& run, const Device& device, std::size_t items,
                                 std::vector<unsigned> batches, attacca::StreamRef stream,
                                 Time time) {
  const Teams teams = warps_of(device);
  if (run.is_quick()) batches = {kBatch};
  const Ideal ideal = calibrate(run, device, teams, even(items), kBatch, stream, time);
  std::vector<Outcome> outcomes;
  const std::vector<Work> works{{"even", even(items), true},
                                {"block-skewed", block_skewed(items)},
                                {"Zipf, sorted", zipf(items)},
                                {"Zipf, shuffled", shuffled(zipf(items))},
                                {"one giant", with_giant(even(items), teams.count(), 1)}};
  std::vector<std::string> curves;
  for (const Work& work : works) {
    outcomes.push_back(measure(run, device, teams, work, batches, stream, time, ideal));
    curves.push_back("tickets, " + work.name);
  }
  run.add(Plot{.title = "Work taken in tickets, against a static partition",
               .x = "batch",
               .x_label = "items claimed at a time",
               .y_label = "time over that of the static partition",
               .rows = curves,
               .value = Plot::Value::ratio});
  return outcomes;
}

void add_findings(Run& run, const std::vector<Outcome>& outcomes) {
  std::string gains;
  std::size_t held = 0;
  std::size_t skewed = 0;
  for (const Outcome& outcome : outcomes) {
    if (outcome.is_even) continue;
    ++skewed;
    gains += fmt::format("{}{}: {:.2f} times a static partition, {:.2f} times a plain grid",
                         gains.empty() ? "" : "; ", outcome.work, outcome.gain, outcome.gain_plain);
    held += outcome.gain_plain >= 1.1;
  }
  run.add(Finding{"Dynamic work queues make unevenly distributed work 10 to 30 % faster.", kBook,
                  gains + fmt::format("; even work: {:.3f} times", outcomes.front().gain),
                  verdict_of(held, skewed)});
}

#if ATTACCA_WITH_CUDA

/// The same with large blocks, each of which works on one item. If the giant begins first, it ends
/// with the rest. On top of a static part it nearly doubles that part's work. The giant then has
/// the whole SM for its second half, which takes half the time, so everything takes almost 1.5
/// times the ideal.
template <class Time>
std::vector<Outcome> measure_by_block(Run& run, const Device& device, std::size_t items,
                                      attacca::StreamRef stream, Time time) {
  const attacca::WorkerOptions options{.threads = kLargeBlock};
  const Teams teams{one_block_each,
                    static_block_parts,
                    ticket_blocks,
                    options,
                    ticket_blocks.grid(device, options),
                    kLargeBlock,
                    "a block each, plain grid"};
  const Turns alike(items, kLongItem);
  const Ideal ideal = calibrate(run, device, teams, alike, 1, stream, time);
  std::vector<Outcome> outcomes;
  for (const Work& work : {Work{"even, by block", alike, true},
                           Work{"one giant, by block", with_giant(alike, teams.count(), 0.9)}})
    outcomes.push_back(measure(run, device, teams, work, {}, stream, time, ideal));
  return outcomes;
}

void on_cuda(Run& run) {
  Gpu gpu(run.device);
  const auto time = [&gpu](const std::function<void()>& launch) {
    return gpu.device_microseconds(launch);
  };
  auto outcomes = measure_all(run, gpu.device, run.is_quick() ? 1u << 20 : 1u << 24,
                              {1, 8, 32, 128, 1024}, gpu.stream, time);
  const double items_a_microsecond = outcomes.front().items_a_microsecond;
  for (const Outcome& outcome :
       measure_by_block(run, gpu.device, run.is_quick() ? 1u << 14 : 1u << 16, gpu.stream, time))
    outcomes.push_back(outcome);
  add_findings(run, outcomes);
  measure_modulo(run, gpu);
  measure_claims(run, gpu, kMeanTurns, items_a_microsecond);
  measure_levels(run, gpu);
  measure_passing(run, gpu);
}
#endif

void on_host(Run& run) {
  const Stream stream(run.device);
  const auto time = [&stream](const std::function<void()>& launch) {
    return microseconds([&] {
      launch();
      stream.synchronize();
    });
  };
  const auto outcomes = measure_all(run, run.device, run.is_quick() ? 1u << 14 : 1u << 17,
                                    {1, 8, 32, 128}, stream, time);
  add_findings(run, outcomes);
  run.note("On the host a worker is a thread, and the plain grid is shared out by oneTBB.");
}

void queue(Run& run) {
#if ATTACCA_WITH_CUDA
  if (run.device.is_cuda()) return on_cuda(run);
#endif
  on_host(run);
}

const Registered registered{{"queue",
                             "when does taking work from a queue beat sharing it out beforehand, "
                             "and what does the queue itself allow?",
                             Needs::either, queue}};

}  // namespace

}  // namespace bench
