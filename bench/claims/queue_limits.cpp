// queue_limits.cpp: measures what a counter and a queue allow without any work, for the benchmark
// `queue`.
#if ATTACCA_WITH_CUDA
#include "claims/queue_limits.hpp"

#include <attacca/occupancy.hpp>

#include <algorithm>

#include "claims/launch.hpp"
#include "claims/queue_kernels.hpp"

namespace bench::claims {

using attacca::Buffer;
using attacca::Grid;
using attacca::device::TicketCounter;

namespace {
constexpr unsigned kThreads = 256;
constexpr unsigned kBatch = 32;  // of the claim that the finding is about
}  // namespace

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

void measure_claims(Run& run, Gpu& gpu, std::uint32_t turns, double items_a_microsecond) {
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
                          kBatch, 1 / share, turns,
                          1 / (of(ClaimBy::warp, 1) / kTickets * items_a_microsecond)),
              share < 1 ? Verdict::partly : Verdict::held});
}

void measure_levels(Run& run, Gpu& gpu) {
  const std::uint64_t items = run.is_quick() ? 1u << 18 : 1u << 22;
  const Buffer<TicketCounter> counter(gpu.device, 1);
  const Buffer<std::uint32_t> out(gpu.device, items);
  const auto fits = attacca::occupancy(gpu.device, two_level, {{1}, {kThreads}});
  const Grid grid{{static_cast<unsigned>(fits.resident_blocks)}, {kThreads}};
  std::string gains;
  double most = 0;           // over one counter, both one at a time
  double most_adaptive = 0;  // over one counter, as many at a time as turn out well
  for (const std::uint32_t turns : {1u, 16u, 128u}) {
    const Buffer<std::uint32_t> lengths(gpu.device, std::vector<std::uint32_t>(items, turns));
    const Load load{lengths.data(), out.data(), items};
    const auto one_level = [&](unsigned batch) {
      return [&, batch] {
        gpu.stream.fill(counter.data(), 0, counter.bytes());
        ticket_workers.start(gpu.stream, {counter.data(), items}, load,
                             {.threads = kThreads, .batch = batch});
      };
    };
    const auto both_levels = [&] {
      gpu.stream.fill(counter.data(), 0, counter.bytes());
      gpu.stream.kernel(two_level, grid, {load, counter.data(), 1});
    };
    const auto timed = [&](const std::function<void()>& launch) {
      return [&gpu, &out, launch, turns, items] {
        gpu.stream.fill(out.data(), 0xdb, out.bytes());
        const double time = gpu.device_microseconds(launch);
        const auto values = out.read();
        for (const std::uint64_t at : {std::uint64_t{0}, items / 3, items - 1})
          if (values[at] != churned(0, turns))
            throw attacca::Error(fmt::format("two levels: item {} was not worked on", at));
        return time;
      };
    };
    const auto times = run.interleave(
        "two levels", 7, {timed(one_level(1)), timed(both_levels), timed(one_level(0))});
    const nlohmann::ordered_json params{{"turns", turns}, {"items", items}};
    run.add(compared("one at a time, one counter", params, times[0], times[0]));
    run.add(compared("one at a time, two levels", params, times[1], times[0]));
    run.add(compared("as they come, one counter", params, times[2], times[0]));
    const double gain = times[0].median / times[1].median;
    const double gain_adaptive = times[2].median / times[1].median;
    most = std::max(most, gain);
    most_adaptive = std::max(most_adaptive, gain_adaptive);
    gains += fmt::format(
        "{}items of {} turns: {:.2f} times as fast, and {:.2f} times as fast as one "
        "counter from which warps take as many at a time as turn out well",
        gains.empty() ? "" : "; ", turns, gain, gain_adaptive);
  }
  run.add(
      Finding{"Where warps take small items one at a time, a second level of tickets in shared "
              "memory pays.",
              "ours: what LocalTickets is for", gains,
              most >= 1.3 && most_adaptive >= 1.05 ? Verdict::held
              : most >= 1.3                        ? Verdict::partly
                                                   : Verdict::failed});
}

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

}  // namespace bench::claims
#endif
