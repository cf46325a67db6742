// queue.cpp: work that is unequal, shared out beforehand or taken from a counter: when does a queue
// pay, what does its hot word cost, and how fast does a WorkQueue pass items on?
#include <attacca/occupancy.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_map>

#include "claims/launch.hpp"
#include "claims/queue_kernels.hpp"
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include "raw.hpp"
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
constexpr const char* kOurs = "tickets, as they come";  // what the gates are about
constexpr double kMostOverIdeal = 1.05;
constexpr double kMostOverStatic = 1.02;

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
/// All alike but the first, which is as long as a worker's whole share.
Turns one_giant(std::size_t items, std::size_t workers) {
  Turns turns = even(items);
  turns.front() = static_cast<std::uint32_t>(kMeanTurns * items / workers);
  return turns;
}

double total_of(const Turns& turns) {
  double sum = 0;
  for (const std::uint32_t turn : turns) sum += turn;
  return sum;
}

/// Work on a device, ready to be shared out again and again.
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
  /// Throws where an item was left out.
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

struct Way {
  std::string name;
  unsigned batch;  // 0: none, or as it turns out
  std::function<void()> launch;
};

/// Every way to share `work` out on a device.
std::vector<Way> ways_of(const Device& device, attacca::StreamRef stream, const Shared& work,
                         const std::vector<unsigned>& batches) {
  const Load load = work.load();
  const Grid persistent = ticket_workers.grid(device, {.threads = kThreads});
  const unsigned lanes = device.is_cuda() ? 32 : 1;
  const Grid plain = Grid::covering(load.items * lanes, persistent.threads.x);
  std::vector<Way> ways{
      {"static, neighbours", 0,
       [=] {
         stream.kernel(static_parts, persistent, {load, false});
       }},
      {"static, strided", 0,
       [=] {
         stream.kernel(static_parts, persistent, {load, true});
       }},
      {"a warp each, plain grid", 0, [=] { stream.kernel(one_warp_each, plain, load); }}};
  const auto add_tickets = [&](const char* name, unsigned batch) {
    ways.push_back({name, batch, [=, &work] {
                      work.reset_counter(stream);
                      ticket_workers.start(stream, {work.counter(), load.items}, load,
                                           {.threads = kThreads, .batch = batch});
                    }});
  };
  for (const unsigned batch : batches) add_tickets("tickets", batch);
  add_tickets(kOurs, kAdaptive);
  if (device.is_cuda())
    ways.push_back({"two-level tickets", kBatch, [=, &work] {
                      work.reset_counter(stream);
                      stream.kernel(two_level, persistent, {load, work.counter(), kBatch});
                    }});
  return ways;
}

struct Timed {
  Way way;
  Summary time;
};

const Timed& find(const std::vector<Timed>& timed, const char* name) {
  return *std::find_if(timed.begin(), timed.end(),
                       [&](const Timed& one) { return one.way.name == name; });
}

/// What a perfectly shared load would take: a little for each item and the rest for its turns.
struct Ideal {
  double per_item = 0;  // µs
  double per_turn = 0;
  double of(const Turns& turns) const {
    return per_item * static_cast<double>(turns.size()) + per_turn * total_of(turns);
  }
};

/// From even work of two lengths.
template <class Time>
Ideal calibrate(Run& run, const Device& device, std::size_t items, attacca::StreamRef stream,
                Time time) {
  const Shared full(device, Turns(items, kMeanTurns));
  const Shared half(device, Turns(items, kMeanTurns / 2));
  const auto timed = [&](const Shared& work) {
    return [&work, stream, time] {
      return time([&] {
        work.reset_counter(stream);
        ticket_workers.start(stream, {work.counter(), work.load().items}, work.load(),
                             {.threads = kThreads, .batch = kBatch});
      });
    };
  };
  const auto times = run.interleave("calibration", 7, {timed(full), timed(half)});
  const double difference = std::max(0.0, times[0].median - times[1].median);
  const double turns = static_cast<double>(items) * kMeanTurns;
  Ideal ideal;
  ideal.per_turn = difference / (turns / 2);
  ideal.per_item =
      std::max(0.0, times[0].median - ideal.per_turn * turns) / static_cast<double>(items);
  return ideal;
}

struct Outcome {
  std::string work;
  double gain;                 // over the static partition in neighbours
  double gain_plain;           // over the plain grid
  double items_a_microsecond;  // with tickets
};

template <class Time>
Outcome measure(Run& run, const Device& device, const std::string& name, const Turns& turns,
                const std::vector<unsigned>& batches, attacca::StreamRef stream, Time time,
                const Ideal& ideal) {
  Shared work(device, turns);
  std::vector<Timed> timed;
  std::vector<std::function<double()>> variants;
  for (const Way& way : ways_of(device, stream, work, batches)) {
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
  const double plain = find(timed, "a warp each, plain grid").time.median;
  const Timed& ours = find(timed, kOurs);
  const bool is_even = name == "even";
  for (const Timed& one : timed) {
    nlohmann::ordered_json params{{"work", name}};
    if (one.way.batch) params["batch"] = one.way.batch;
    const bool is_tickets = one.way.name == "tickets";
    Row row{is_tickets ? "tickets, " + name : one.way.name, params, one.time};
    row.baseline = fixed;
    row.floor = ideal.of(turns);
    if (&one == &ours && device.is_cuda())
      row.limit = is_even ? fixed * kMostOverStatic
                          : std::min(fixed / kLeastGain, *row.floor * kMostOverIdeal);
    run.add(std::move(row));
  }
  return {name, fixed / ours.time.median, plain / ours.time.median,
          static_cast<double>(turns.size()) / ours.time.median};
}

template <class Time>
std::vector<Outcome> measure_all(Run& run, const Device& device, std::size_t items,
                                 std::vector<unsigned> batches, attacca::StreamRef stream,
                                 Time time) {
  const Grid persistent = ticket_workers.grid(device, {.threads = kThreads});
  const std::size_t lanes = device.is_cuda() ? 32 : 1;
  const std::size_t workers =
      persistent.blocks.count() * std::max<std::size_t>(1, persistent.threads.x / lanes);
  if (run.is_quick()) batches = {kBatch};
  const Ideal ideal = calibrate(run, device, items, stream, time);
  std::vector<Outcome> outcomes;
  const std::vector<std::pair<std::string, Turns>> works{{"even", even(items)},
                                                         {"block-skewed", block_skewed(items)},
                                                         {"Zipf, sorted", zipf(items)},
                                                         {"Zipf, shuffled", shuffled(zipf(items))},
                                                         {"one giant", one_giant(items, workers)}};
  for (const auto& [name, turns] : works)
    outcomes.push_back(measure(run, device, name, turns, batches, stream, time, ideal));
  std::vector<std::string> curves;
  for (const auto& [name, turns] : works) curves.push_back("tickets, " + name);
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
  for (const Outcome& outcome : outcomes) {
    if (outcome.work == "even") continue;
    gains += fmt::format("{}{}: {:.2f} times a static partition, {:.2f} times a plain grid",
                         gains.empty() ? "" : "; ", outcome.work, outcome.gain, outcome.gain_plain);
    held += outcome.gain_plain >= 1.1;
  }
  run.add(Finding{"Dynamic work queues make unevenly distributed work 10 to 30 % faster.", kBook,
                  gains + fmt::format("; even work: {:.3f} times", outcomes.front().gain),
                  verdict_of(held, outcomes.size() - 1)});
}

#if ATTACCA_WITH_CUDA

/// The example of the tutorials.
void measure_modulo(Run& run, Gpu& gpu) {
  const std::uint64_t count = run.is_quick() ? 1u << 20 : 1u << 24;
  const Buffer<std::uint32_t> out(gpu.device, count);
  const Buffer<TicketCounter> counter(gpu.device, 1);
  const ModuloArgs args{out.data(), count, counter.data()};
  const auto fits = attacca::occupancy(gpu.device, modulo_queue, {{1}, {kThreads}});
  const Grid persistent{{static_cast<unsigned>(fits.resident_blocks)}, {kThreads}};
  const auto queue = [&] {
    gpu.stream.fill(counter.data(), 0, counter.bytes());
    gpu.stream.kernel(modulo_queue, persistent, args);
  };
  const auto times =
      run.interleave("i % 256", 11,
                     {[&] {
                        return gpu.device_microseconds([&] {
                          gpu.stream.kernel(modulo_plain, Grid::covering(count, kThreads), args);
                        });
                      },
                      [&] { return gpu.device_microseconds(queue); }});
  const auto values = out.read();
  for (const std::uint64_t at : {std::uint64_t{0}, count / 3, count - 1})
    if (values[at] != churned(0, static_cast<std::uint32_t>(at % 256)))
      throw attacca::Error(fmt::format("i % 256: number {} is wrong", at));
  const nlohmann::ordered_json params{{"work", "i % 256 per thread"}};
  run.add(Row{"plain kernel", params, times[0]});
  run.add(compared("warp-batched queue", params, times[1], times[0]));
  const double gain = times[0].median / times[1].median;
  run.add(Finding{
      "A warp-batched atomic queue makes the kernel whose thread i works i % 256 turns twice as "
      "fast.",
      kBook, fmt::format("{:.2f} times as fast as the plain kernel", gain),
      gain >= 1.8   ? Verdict::held
      : gain >= 1.1 ? Verdict::partly
                    : Verdict::failed});
}

/// Claims and no work: what the hot word allows.
void measure_claims(Run& run, Gpu& gpu, double items_a_microsecond) {
  constexpr std::uint64_t kTickets = 1u << 24;
  const Buffer<TicketCounter> counter(gpu.device, 1);
  const Buffer<unsigned long long> claimed(gpu.device, 1);
  struct Kind {
    const char* name;
    ClaimBy by;
    unsigned batch;
  };
  std::vector<Kind> kinds{{"claim by thread", ClaimBy::thread, 1},
                          {"claim by lanes", ClaimBy::lanes, 1}};
  for (unsigned batch = 1; batch <= 1024; batch *= 4) {
    kinds.push_back({"claim by warp", ClaimBy::warp, batch});
    kinds.push_back({"claim by block", ClaimBy::block, batch});
    kinds.push_back({"claim by warp, two-level", ClaimBy::local, batch});
    if (run.is_quick()) break;
  }
  kinds.push_back({"claim by warp", ClaimBy::warp, kBatch});
  const auto fits = attacca::occupancy(gpu.device, claim_only, {{1}, {kThreads}});
  const Grid grid{{static_cast<unsigned>(fits.resident_blocks)}, {kThreads}};
  std::vector<std::function<double()>> variants;
  for (const Kind& kind : kinds)
    variants.push_back([&, kind] {
      gpu.stream.fill(counter.data(), 0, counter.bytes());
      gpu.stream.fill(claimed.data(), 0, claimed.bytes());
      const double time = gpu.device_microseconds([&] {
        gpu.stream.kernel(claim_only, grid,
                          {counter.data(), kTickets, claimed.data(), kind.batch, kind.by});
      });
      if (claimed.read().front() != kTickets)
        throw attacca::Error(fmt::format("{}: {} of {} tickets were claimed", kind.name,
                                         claimed.read().front(), kTickets));
      return time;
    });
  const auto times = run.interleave("claims", 7, variants);
  for (std::size_t at = 0; at < kinds.size(); ++at)
    run.add(compared(kinds[at].name, {{"batch", kinds[at].batch}, {"tickets", kTickets}}, times[at],
                     times[0]));
  run.add(Plot{.title = "Claiming 16.7 million tickets and doing nothing",
               .x = "batch",
               .x_label = "tickets claimed at a time",
               .y_label = "µs",
               .is_log_y = true,
               .rows = {"claim by warp", "claim by block", "claim by warp, two-level"}});
  const auto of = [&](ClaimBy by, unsigned batch) {
    for (std::size_t at = 0; at < kinds.size(); ++at)
      if (kinds[at].by == by && kinds[at].batch == batch) return times[at].median;
    throw attacca::Error("no such claim");
  };
  run.note(
      fmt::format("One hot word gave {:.2f} G claims a second. nvcc joins the claims of a warp's "
                  "threads by itself where each asks for as many, so \"by thread\" is no "
                  "slower than \"by lanes\".",
                  kTickets / of(ClaimBy::warp, 1) / 1000));
  const double share = of(ClaimBy::warp, kBatch) / kTickets * items_a_microsecond;
  run.add(
      Finding{"One hot counter limits a queue.", "repeated in tutorials; no single source found",
              fmt::format("At {} tickets a claim the counter could give out {:.1f} times as many "
                          "as items of {} turns use up, and {:.1f} times at one a claim.",
                          kBatch, 1 / share, kMeanTurns,
                          1 / (of(ClaimBy::warp, 1) / kTickets * items_a_microsecond)),
              share < 1 ? Verdict::partly : Verdict::held});
}

/// Items through a WorkQueue.
void measure_passing(Run& run, Gpu& gpu) {
  const auto fits = attacca::occupancy(gpu.device, pass_through, {{1}, {kThreads}});
  const Grid grid{{static_cast<unsigned>(fits.resident_blocks)}, {kThreads}};
  attacca::device::WorkQueue<std::uint32_t> queue(gpu.device, {.capacity = 1u << 19});
  const Buffer<unsigned long long> counts(gpu.device, 2);
  for (const unsigned lanes : {32u, 1u}) {
    const unsigned rounds = lanes == 32 ? (run.is_quick() ? 4u : 32u) : 16u;
    const std::uint64_t threads = grid.blocks.count() * kThreads / 32 * lanes;
    const auto times = run.interleave(
        "WorkQueue", 9, {[&] {
          gpu.stream.fill(counts.data(), 0, counts.bytes());
          const double time = gpu.device_microseconds([&] {
            gpu.stream.kernel(pass_through, grid,
                              {queue.ref(), counts.data(), counts.data() + 1, rounds, lanes});
          });
          const auto seen = counts.read();
          const std::uint64_t expected = threads * rounds;
          if (seen[0] != expected || seen[1] != threads * rounds * (rounds - 1) / 2)
            throw attacca::Error(
                fmt::format("WorkQueue: {} of {} items came through{}", seen[0], expected,
                            queue.reports().empty() ? std::string()
                                                    : ": " + queue.reports().front().message()));
          return static_cast<double>(expected) / time / 1000;
        }});
    Row row{"WorkQueue, pushed and popped", {{"batch", lanes}}, times[0], "G items/s"};
    row.is_rate = true;
    if (lanes == 32) row.limit = 1.0;
    run.add(std::move(row));
  }
}

void on_cuda(Run& run) {
  Gpu gpu(run.device);
  const auto time = [&gpu](const std::function<void()>& launch) {
    return gpu.device_microseconds(launch);
  };
  const auto outcomes = measure_all(run, gpu.device, run.is_quick() ? 1u << 20 : 1u << 24,
                                    {1, 8, 32, 128, 1024}, gpu.stream, time);
  add_findings(run, outcomes);
  measure_modulo(run, gpu);
  measure_claims(run, gpu, outcomes.front().items_a_microsecond);
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
