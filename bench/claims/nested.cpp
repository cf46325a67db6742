// nested.cpp: trees of kernels in which each has two children, spawned by their parents or launched
// by the host, which waits for the parents first: the time of a tree, and how long no kernel ran.
#include <algorithm>
#include <cmath>

#include "claims/launch.hpp"
#include "claims/nested_kernels.hpp"

namespace bench {

namespace {

using namespace claims;
using attacca::Buffer;
using attacca::SpawnMode;

constexpr unsigned kTrees = 10;  // in a sample, one after another
constexpr unsigned kDeepest = 5;
constexpr double kTreeMicroseconds = 5;  // of arithmetic in each kernel of the deeper trees
constexpr double kClaimedShare = 0.25;
constexpr double kClaimedIdleByHost = 40, kClaimedIdle = 5;  // percent

constexpr unsigned kernels_of(unsigned depth) { return (2u << depth) - 1; }

/// Room for the trees of a sample.
struct Grove {
  explicit Grove(const attacca::Device& device)
      : spans(device, kTrees * kernels_of(kDeepest)), numbers(device, spans.size()) {}
  void clear() {
    spans.write(std::vector<Span>(spans.size()));
    numbers.write(std::vector<unsigned>(numbers.size(), 0));
  }
  BranchArgs root(unsigned tree, unsigned depth, unsigned turns, SpawnMode mode) const {
    const unsigned first = tree * kernels_of(depth);
    return {spans.data() + first, numbers.data() + first, 0, depth, turns, mode};
  }
  Buffer<Span> spans;
  Buffer<unsigned> numbers;
};

/// A way to run the tree under a root.
struct Way {
  const char* name;
  SpawnMode mode;  // where kernels spawn
  std::function<void(const attacca::Stream&, const BranchArgs& root)> run;
};

void launch_level(const attacca::Stream& stream, BranchArgs args, unsigned level) {
  for (args.kernel = (1u << level) - 1; args.kernel < (2u << level) - 1; ++args.kernel)
    stream.kernel(lone_branch, kOneWarp, args);
}
void spawn_tree(const attacca::Stream& stream, const BranchArgs& root) {
  stream.kernel(branch, kOneWarp, root);
}
/// Waits for each level, as a host must if the level decides what to launch next.
void wait_for_levels(const attacca::Stream& stream, const BranchArgs& root) {
  for (unsigned level = 0; level <= root.levels; ++level) {
    launch_level(stream, root, level);
    stream.synchronize();
  }
}
void launch_all(const attacca::Stream& stream, const BranchArgs& root) {
  for (unsigned level = 0; level <= root.levels; ++level) launch_level(stream, root, level);
}
const Way kWays[] = {{"host, waits", {}, wait_for_levels},
                     {"host, knows ahead", {}, launch_all},
                     {"fire-and-forget", SpawnMode::fire_and_forget, spawn_tree},
                     {"tail", SpawnMode::tail, spawn_tree}};
enum WayNumber { host_waits, host_knows, fired, tails };

/// The share of the time from the first start to the last end in which no kernel ran, in percent.
double idle_percent(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.start < b.start; });
  std::int64_t busy = 0;
  std::int64_t end = spans.front().start;  // of all that was looked at
  for (const Span& span : spans) {
    busy += std::max<std::int64_t>(0, span.end - std::max(end, span.start));
    end = std::max(end, span.end);
  }
  const auto whole = static_cast<double>(end - spans.front().start);
  return 100 * (1 - static_cast<double>(busy) / whole);
}

struct Case {
  unsigned depth;
  double kernel_us;
  unsigned turns;
};

/// Microseconds of one tree; adds the idle percentage to `idle`.
double sample(const attacca::Stream& stream, Grove& grove, const Way& way, const Case& of,
              std::vector<double>& idle) {
  grove.clear();
  const double time = microseconds([&] {
    for (unsigned tree = 0; tree < kTrees; ++tree)
      way.run(stream, grove.root(tree, of.depth, of.turns, way.mode));
    stream.synchronize();
  });
  std::vector<Span> spans = grove.spans.read();
  spans.resize(kTrees * kernels_of(of.depth));
  for (const Span& span : spans)
    if (span.start == 0 || span.end < span.start)
      throw attacca::Error(fmt::format("{}: a kernel of a tree did not run", way.name));
  idle.push_back(idle_percent(std::move(spans)));
  return time / kTrees;
}

void expect_numbers(const Grove& grove, const Case& of) {
  const auto numbers = grove.numbers.read();
  for (unsigned kernel = 0; kernel < kernels_of(of.depth); ++kernel)
    for (unsigned tree = 0; tree < kTrees; ++tree)
      if (numbers[tree * kernels_of(of.depth) + kernel] != turned(kernel, of.turns))
        throw attacca::Error(fmt::format("kernel {} of a tree computed something else", kernel));
}

/// By way.
struct Measured {
  Case of;
  std::vector<Summary> time, idle;
};

Measured measure(Run& run, const attacca::Stream& stream, Grove& grove, const Case& of,
                 const nlohmann::ordered_json& params) {
  std::vector<std::vector<double>> idle(std::size(kWays));
  std::vector<std::function<double()>> variants;
  for (std::size_t at = 0; at < std::size(kWays); ++at)
    variants.push_back([&, at] { return sample(stream, grove, kWays[at], of, idle[at]); });
  Measured measured{of, {}, {}};
  measured.time = run.interleave(
      fmt::format("{} kernels of {} µs", kernels_of(of.depth), of.kernel_us), 51, variants);
  expect_numbers(grove, of);
  for (auto& values : idle) measured.idle.push_back(summarize_rounds(std::move(values)));
  for (std::size_t at = 0; at < std::size(kWays); ++at) {
    Row row{fmt::format("time, {}", kWays[at].name), params, measured.time[at]};
    if (at != host_waits) row.baseline = measured.time[host_waits].median;
    run.add(std::move(row));
  }
  for (std::size_t at = 0; at < std::size(kWays); ++at)
    run.add({fmt::format("idle, {}", kWays[at].name), params, measured.idle[at], "%"});
  return measured;
}

/// REQUIRES: parents with two children, in the order of their kernels' length.
void judge(Run& run, const std::vector<Measured>& pairs, const std::vector<Measured>& trees) {
  const auto distance = [](const Measured& of) {
    return std::abs(of.idle[host_waits].median - kClaimedIdleByHost);
  };
  const Measured& alike = *std::min_element(
      pairs.begin(), pairs.end(),
      [&](const Measured& a, const Measured& b) { return distance(a) < distance(b); });
  const double idle = alike.idle[fired].median;
  const double idle_by_host = alike.idle[host_waits].median;
  run.add(
      {"A parent that spawns its two children leaves the GPU idle for 5 % of the time, where a "
       "host that launches them leaves it idle for 40 %.",
       kBook,
       fmt::format(
           "With kernels of {:.0f} µs, where the host's share of {:.0f} % is closest to the "
           "claim, {:.0f} % when fired and {:.0f} % in tails; {:.0f} % when the host knows "
           "ahead what to launch and does not wait.",
           alike.of.kernel_us, idle_by_host, idle, alike.idle[tails].median,
           alike.idle[host_knows].median),
       idle <= 2 * kClaimedIdle     ? Verdict::held
       : idle <= 0.5 * idle_by_host ? Verdict::partly
                                    : Verdict::failed});

  std::size_t faster = 0;
  std::vector<double> lengths, saved, over_known, by_depth;
  for (const Measured& of : pairs) {
    const double share = 1 - of.time[fired].median / of.time[host_waits].median;
    faster += share >= kClaimedShare;
    lengths.push_back(of.of.kernel_us);
    saved.push_back(100 * share);
    over_known.push_back(100 * (1 - of.time[fired].median / of.time[host_knows].median));
  }
  std::vector<double> sizes;
  for (const Measured& of : trees) {
    sizes.push_back(kernels_of(of.of.depth));
    by_depth.push_back(100 * (1 - of.time[fired].median / of.time[host_waits].median));
  }
  run.add(
      {"A parent that spawns its two children is 25 % faster than three launches by the host.",
       kBook,
       fmt::format("With kernels of {} µs, spawning saves {} % of the time of a host that waits "
                   "for the parent and {} % of one that knows ahead what to launch; in trees of "
                   "{} kernels of {:.0f} µs, {} % of the time of a host that waits for each "
                   "level.",
                   in_words(lengths, 0), in_words(saved, 0), in_words(over_known, 0),
                   in_words(sizes, 0), kTreeMicroseconds, in_words(by_depth, 0)),
       verdict_of(faster, pairs.size())});
}

void add_plots(Run& run) {
  for (const auto& [x, label] : {std::pair{"kernel_us",
                                           "arithmetic of a kernel, µs (one parent, "
                                           "two children)"},
                                 {"kernels", "kernels in a tree"}}) {
    Plot time{.title = "Time of a tree of kernels",
              .x = x,
              .x_label = label,
              .y_label = "µs",
              .is_log_y = true};
    Plot idle{.title = "Time in which no kernel ran", .x = x, .x_label = label, .y_label = "%"};
    for (const Way& way : kWays) {
      time.rows.push_back(fmt::format("time, {}", way.name));
      idle.rows.push_back(fmt::format("idle, {}", way.name));
    }
    run.add(std::move(time));
    run.add(std::move(idle));
  }
}

void nested(Run& run) {
  const attacca::Stream stream(run.device);
  Grove grove(run.device);
  const double turns_per_us = turns_per_microsecond(run.device, stream);
  const auto turns = [&](double us) { return static_cast<unsigned>(us * turns_per_us); };
  std::vector<Measured> pairs, trees;
  for (const unsigned us :
       run.is_quick() ? std::vector<unsigned>{5, 20} : std::vector<unsigned>{2, 5, 10, 20, 50})
    pairs.push_back(measure(run, stream, grove, {1, 1.0 * us, turns(us)}, {{"kernel_us", us}}));
  for (unsigned depth = 1; depth <= (run.is_quick() ? 2 : kDeepest); ++depth)
    trees.push_back(measure(run, stream, grove,
                            {depth, kTreeMicroseconds, turns(kTreeMicroseconds)},
                            {{"kernels", kernels_of(depth)}}));
  if (run.device.is_cuda())
    judge(run, pairs, trees);
  else
    note_host(run);
  note_clock(run, stream);
  run.note(
      "Idle is the share of a sample, from the first kernel's start to the last one's end, in "
      "which "
      "no kernel ran; a parent that is spawning runs. Children that are fired may run beside each "
      "other, those in tails and those of the host's one stream do not.");
  add_plots(run);
}

const Registered registered{{"nested",
                             "is a tree of kernels faster when kernels spawn it than when the host "
                             "launches it?",
                             Needs::either, nested}};

}  // namespace

}  // namespace bench
