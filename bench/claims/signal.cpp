// signal.cpp: the cost of signalling another thread: by scope, by way of waiting, by number of
// flags and by number of waiters.
#include "signal.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/memory.hpp>

#include <map>
#include <thread>

#include "harness.hpp"
#if ATTACCA_WITH_CUDA
#include "raw.hpp"
#endif

namespace bench {

namespace {

using namespace std::chrono_literals;
using attacca::device::Patience;
using attacca::device::Scope;
using attacca::device::WaitLog;
using signals::Line;
using signals::PingPong;
using signals::Route;
using signals::Way;

const char* name_of(Way way) {
  switch (way) {
    case Way::bare:
      return "by hand, no deadline";
    case Way::signal:
      return "Signal";
    case Way::fenced:
      return "relaxed polls and a fence at the end";
    case Way::closing_load:
      return "acquiring load at the end";
    case Way::seq_cst:
      return "seq_cst";
    case Way::wait_notify:
      return "wait/notify";
  }
  return "";
}

/// Throws if one side did not see all rounds, and says who waited for what.
void expect_rounds(const WaitLog& log, std::uint32_t seen, std::uint32_t wanted) {
  if (seen == wanted) return;
  std::string text = fmt::format("{} of {} rounds went right", seen, wanted);
  for (const auto& report : log.reports()) text += "; " + report.message();
  throw attacca::Error(text);
}

/// Microseconds of a round trip between two threads of the host.
template <Way kWay>
double threads_round_trip(WaitLog& log, std::uint32_t rounds) {
  std::vector<Line> lines(PingPong::kLines);
  const PingPong args{lines.data(), rounds, 0, true, log.patience(10s, "a thread", "the other")};
  const auto play = [&](unsigned side) {
    signals::play_side<Scope::system, kWay>(args, side, lines[PingPong::there].word,
                                            lines[PingPong::back].word);
  };
  const double time = microseconds([&] {
    std::thread other(play, 1);
    play(0);
    other.join();
  });
  for (const auto at : {PingPong::done_0, PingPong::done_1})
    expect_rounds(log, lines[at].word, rounds);
  return time / rounds;
}

void measure_threads(Run& run) {
  WaitLog log(run.device);
  const std::uint32_t rounds = run.is_quick() ? 2'000 : 10'000;
  const Way ways[] = {Way::wait_notify, Way::signal, Way::fenced};
  const auto times =
      run.interleave("round trips of two threads", 15,
                     {[&] { return threads_round_trip<Way::wait_notify>(log, rounds); },
                      [&] { return threads_round_trip<Way::signal>(log, rounds); },
                      [&] { return threads_round_trip<Way::fenced>(log, rounds); }});
  for (std::size_t at = 0; at < times.size(); ++at) {
    Row row{"round trip", {{"between", "two threads"}, {"way", name_of(ways[at])}}, times[at]};
    if (at > 0) row.baseline = times[0].median;
    run.add(std::move(row));
  }
  const double ratio = times[1].median / times[0].median;
  run.add(Finding{"Waiting and notifying is more efficient than polling.",
                  "[atomics.wait] in the C++ draft, https://eel.is/c++draft/atomics.wait",
                  fmt::format("a round trip of two threads takes {:.2f} µs with std::atomic's wait "
                              "and notify, {:.2f} µs with polls that yield",
                              times[0].median, times[1].median),
                  ratio > 1.1   ? Verdict::held
                  : ratio > 0.9 ? Verdict::partly
                                : Verdict::failed});
}

#if ATTACCA_WITH_CUDA

// Flags alone between two blocks and between host and device; measured on an H200.
constexpr double kGpuMicroseconds = 1.03;
constexpr double kSystemMicroseconds = 1.46;
constexpr double kHostMicroseconds = 3.06;

const char* name_of(Route route) {
  switch (route) {
    case Route::block_shared:
      return "warps, shared memory";
    case Route::block_memory:
      return "warps, global memory";
    case Route::cluster_shared:
      return "blocks of a cluster, shared memory";
    case Route::cluster_memory:
      return "blocks of a cluster, global memory";
    case Route::gpu:
      return "blocks, gpu scope";
    case Route::system:
      return "blocks, system scope";
    case Route::host_device:
      return "host and device";
  }
  return "";
}

struct Variant {
  Route route;
  Way way;
  bool has_data = false;
  friend auto operator<=>(const Variant&, const Variant&) = default;
};

/// The GPU, and lines that are zeroed before each launch.
struct Bench {
  explicit Bench(Run& of)
      : run(of),
        gpu(of.device),
        log(of.device),
        lines(of.device, 32),
        pinned(of.device, 32, attacca::Visibility::shared) {}
  Patience patience(const char* who, const char* what) { return log.patience(2s, who, what); }
  void clear() { check(cudaMemsetAsync(lines.data(), 0, lines.bytes(), gpu.native)); }

  Run& run;
  Gpu gpu;
  WaitLog log;
  attacca::Buffer<Line> lines;
  attacca::Buffer<Line> pinned;
  std::map<Variant, Summary> round_trips{};
};

/// The host is side 0, and its clock starts with the second round: the kernel runs by then.
template <Way kWay>
double host_round_trip(Bench& bench, std::uint32_t rounds) {
  Line* lines = bench.pinned.data();
  for (std::size_t at = 0; at < bench.pinned.size(); ++at) lines[at].word = 0;
  PingPong args{lines, rounds + 1, 1, false, bench.patience("the device", "the host")};
  check(signals::launch(Route::host_device, kWay, args, bench.gpu.native));
  args.patience = bench.patience("the host", "the device");
  const auto round_trip = [&](std::uint32_t round) {
    signals::announce<Scope::system, kWay>(lines[PingPong::there].word, round);
    return signals::await<Scope::system, kWay>(lines[PingPong::back].word, round, args.patience);
  };
  std::uint32_t done = round_trip(1);
  const double time = microseconds([&] {
    while (done != 0 && done <= rounds && round_trip(done + 1)) ++done;
  });
  bench.gpu.synchronize();
  expect_rounds(bench.log, done, rounds + 1);
  expect_rounds(bench.log, lines[PingPong::done_1].word, rounds + 1);
  return time / rounds;
}

double device_round_trip(Bench& bench, const Variant& of, std::uint32_t rounds) {
  bench.clear();
  const PingPong args{bench.lines.data(), rounds, 0, of.has_data,
                      bench.patience("a side", "the other side")};
  const double time = bench.gpu.device_microseconds(
      [&] { check(signals::launch(of.route, of.way, args, bench.gpu.native)); });
  const auto lines = bench.lines.read();
  for (const auto at : {PingPong::done_0, PingPong::done_1})
    expect_rounds(bench.log, lines[at].word, rounds);
  return time / rounds;
}

double round_trip(Bench& bench, const Variant& of) {
  const bool is_near = of.route < Route::cluster_memory;
  const std::uint32_t rounds = is_near ? 10'000 : 1'000;
  if (of.route != Route::host_device) return device_round_trip(bench, of, rounds);
  return of.way == Way::bare     ? host_round_trip<Way::bare>(bench, rounds)
         : of.way == Way::fenced ? host_round_trip<Way::fenced>(bench, rounds)
                                 : host_round_trip<Way::signal>(bench, rounds);
}

/// Rows of one route; the first way is the baseline of the others.
void measure_route(Bench& bench, Route route, const std::vector<Way>& ways, bool has_data,
                   std::optional<double> floor = {}) {
  std::vector<std::function<double()>> variants;
  for (const Way way : ways)
    variants.push_back(
        [&bench, of = Variant{route, way, has_data}] { return round_trip(bench, of); });
  const auto times = bench.run.interleave(name_of(route), 15, variants);
  for (std::size_t at = 0; at < ways.size(); ++at) {
    Row row{"round trip",
            {{"between", name_of(route)},
             {"way", name_of(ways[at])},
             {"data", has_data ? "one word" : "none"}},
            times[at]};
    if (at > 0) row.baseline = times[0].median;
    row.floor = floor;
    bench.run.add(std::move(row));
    bench.round_trips[{route, ways[at], has_data}] = times[at];
  }
}

/// Device time of raising `count` flags, µs.
double publish_time(Bench& bench, Scope scope, std::uint32_t count, bool is_one_fence) {
  constexpr std::uint32_t kRounds = 1'000;
  bench.clear();
  const double time = bench.gpu.device_microseconds([&] {
    check(signals::launch(scope, {bench.lines.data(), kRounds, count, is_one_fence},
                          bench.gpu.native));
  });
  const auto lines = bench.lines.read();
  for (std::uint32_t at = 0; at <= count; ++at) expect_rounds(bench.log, lines[at].word, kRounds);
  return time / kRounds;
}

void measure_publish(Bench& bench) {
  for (const Scope scope : {Scope::gpu, Scope::system}) {
    const std::string name = scope == Scope::gpu ? "gpu scope" : "system scope";
    for (const std::uint32_t count : {1, 2, 4, 8, 16}) {
      if (bench.run.is_quick() && count != 16) continue;
      const auto times =
          bench.run.interleave("flags", 15,
                               {[&] { return publish_time(bench, scope, count, true); },
                                [&] { return publish_time(bench, scope, count, false); }});
      const nlohmann::ordered_json params{{"flags", count}};
      bench.run.add(compared("one fence, " + name, params, times[0], times[1]));
      bench.run.add(Row{"a release each, " + name, params, times[1]});
      if (scope != Scope::gpu || count != 16) continue;
      bench.run.add(Finding{
          "One fence before several relaxed stores is cheaper than releasing each of them.",
          "repeated in tutorials; no single source found",
          fmt::format(
              "raising 16 flags at gpu scope takes {:.2f} µs with one fence, {:.2f} µs with "
              "a release each",
              times[0].median, times[1].median),
          times[1].median > 1.1 * times[0].median ? Verdict::held : Verdict::failed});
    }
  }
  bench.run.add(Plot{"Raising several flags behind one word of data", "flags", "flags", "µs"});
}

double broadcast_time(Bench& bench, Way way, std::uint32_t waiters) {
  constexpr std::uint32_t kRounds = 500;
  bench.clear();
  const signals::Broadcast args{bench.lines.data(), kRounds, waiters,
                                bench.patience("a block", "the flag")};
  const double time =
      bench.gpu.device_microseconds([&] { check(signals::launch(way, args, bench.gpu.native)); });
  expect_rounds(bench.log, bench.lines.read()[signals::Broadcast::done].word, kRounds);
  return time / kRounds;
}

void measure_broadcast(Bench& bench) {
  int processors = 0;
  int device = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  std::vector<Summary> last;
  for (const int waiters : {1, 4, 16, 64, processors}) {
    if (bench.run.is_quick() && waiters != processors) continue;
    const auto count = static_cast<std::uint32_t>(waiters);
    last = bench.run.interleave("waiters", 15,
                                {[&] { return broadcast_time(bench, Way::bare, count); },
                                 [&] { return broadcast_time(bench, Way::signal, count); },
                                 [&] { return broadcast_time(bench, Way::fenced, count); }});
    const nlohmann::ordered_json params{{"waiters", waiters}};
    bench.run.add(Row{"to all and back, by hand", params, last[0]});
    bench.run.add(compared("to all and back, Signal", params, last[1], last[0]));
    bench.run.add(compared("to all and back, relaxed polls and a fence", params, last[2], last[0]));
  }
  bench.run.add(Plot{"One flag and many waiting blocks: until the last has answered", "waiters",
                     "waiting blocks", "µs"});
  const double ratio = last[0].median / last[1].median;
  bench.run.add(Finding{
      "Threads that poll a flag at full rate compete with the write they wait for, so polls should "
      "back off.",
      "a comment in https://github.com/choiceoh/stkernel/pull/100, there for flags that another "
      "machine writes",
      fmt::format("a flag for {} blocks and all their answers take {:.2f} µs with polls at full "
                  "rate, {:.2f} µs with Signal's back-off, {:.2f} µs with relaxed polls as well",
                  processors, last[0].median, last[1].median, last[2].median),
      ratio > 1.05   ? Verdict::held
      : ratio > 0.95 ? Verdict::partly
                     : Verdict::failed});
}

void add_findings(Bench& bench) {
  const auto time = [&](Route route, Way way = Way::signal, bool has_data = false) {
    return bench.round_trips.at({route, way, has_data}).median;
  };
  const double near = time(Route::block_shared);
  const double cluster = time(Route::cluster_shared);
  const double gpu = time(Route::gpu);
  const double system = time(Route::system);
  const double host = time(Route::host_device);
  bench.run.add(Finding{
      "The cost to synchronize threads grows as they are further apart: low within a block, high "
      "across the system.",
      "libcu++, memory model: https://nvidia.github.io/cccl/libcudacxx/extended_api/"
      "memory_model.html",
      fmt::format("a round trip takes {:.3f} µs between warps, {:.3f} between blocks of a cluster, "
                  "{:.2f} between blocks, {:.2f} between blocks at system scope, {:.2f} between "
                  "host and device",
                  near, cluster, gpu, system, host),
      near < cluster && cluster < gpu && gpu < system && system < host ? Verdict::held
                                                                       : Verdict::partly});

  const double strong = time(Route::system, Way::seq_cst);
  bench.run.add(Finding{
      "Acquire and release at device scope are much cheaper than the sequentially consistent "
      "system "
      "scope that is cuda::atomic's default.",
      "repeated in tutorials; the defaults: https://nvidia.github.io/cccl/libcudacxx/extended_api/"
      "synchronization_primitives/atomic.html",
      fmt::format("a round trip takes {:.2f} µs with the one, {:.2f} µs with the other", gpu,
                  strong),
      strong > 1.5 * gpu   ? Verdict::held
      : strong > 1.1 * gpu ? Verdict::partly
                           : Verdict::failed});

  const double notified = time(Route::gpu, Way::wait_notify);
  bench.run.add(Finding{
      "Waiting and notifying is more efficient than polling.",
      "[atomics.wait] in the C++ draft, https://eel.is/c++draft/atomics.wait",
      fmt::format("between two blocks a round trip takes {:.2f} µs with libcu++'s wait and notify, "
                  "whose notify does nothing on the device, and {:.2f} µs with Signal's polls",
                  notified, gpu),
      notified < 0.9 * gpu   ? Verdict::held
      : notified < 1.1 * gpu ? Verdict::partly
                             : Verdict::failed});

  const double acquiring = time(Route::gpu, Way::signal, true);
  const double fence = time(Route::gpu, Way::fenced, true);
  const double load = time(Route::gpu, Way::closing_load, true);
  const bool is_acquiring_dearer = acquiring > 1.05 * load;
  const bool is_fence_dearer = fence > 1.2 * load;
  bench.run.add(Finding{
      "Acquiring at every poll costs more than polling relaxed and acquiring once, and closing "
      "with "
      "a fence costs far more than closing with an acquiring load.",
      "TVM, tirx wait_until: https://tvm.apache.org/tirx/reference/python/generated/"
      "tvm_tirx.backend.cuda.op.wait_until.html",
      fmt::format(
          "a round trip with a word of data takes {:.2f} µs acquiring at every poll, {:.2f} "
          "µs with a fence at the end, {:.2f} µs with an acquiring load at the end",
          acquiring, fence, load),
      is_acquiring_dearer && is_fence_dearer   ? Verdict::held
      : is_acquiring_dearer || is_fence_dearer ? Verdict::partly
                                               : Verdict::failed});
}

void measure_gpu(Run& run) {
  Bench bench(run);
  const std::vector<Way> ours{Way::bare, Way::signal, Way::fenced, Way::closing_load, Way::seq_cst};
  std::vector<Way> all = ours;
  all.push_back(Way::wait_notify);  // libcu++ has no cluster scope
  measure_route(bench, Route::block_shared, {Way::signal}, false);
  measure_route(bench, Route::block_memory, ours, false);
  measure_route(bench, Route::cluster_shared, {Way::signal}, false);
  measure_route(bench, Route::cluster_memory, ours, false);
  measure_route(bench, Route::gpu, all, false, kGpuMicroseconds);
  measure_route(bench, Route::gpu, all, true);
  measure_route(bench, Route::system, all, false, kSystemMicroseconds);
  measure_route(bench, Route::system, all, true);
  measure_route(bench, Route::host_device, {Way::bare, Way::signal, Way::fenced}, false,
                kHostMicroseconds);
  add_findings(bench);
  measure_publish(bench);
  measure_broadcast(bench);
  run.note(
      "\"by hand\" acquires at every poll, as Signal does, without back-off and deadline; "
      "wait/notify is libcu++'s, with acquire and release at gpu scope and with its "
      "defaults at system scope");
}

#endif

void measure_signal(Run& run) {
#if ATTACCA_WITH_CUDA
  if (run.device.is_cuda()) return measure_gpu(run);
#endif
  measure_threads(run);
}

const Registered registered{{"signal",
                             "how long does a signal take, by scope, by way of waiting, by number "
                             "of flags and of waiters?",
                             Needs::either, measure_signal}};

}  // namespace

}  // namespace bench
