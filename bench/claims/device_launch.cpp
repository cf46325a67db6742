// device_launch.cpp: a graph launched by the host and the same graph launched by a kernel in three
// modes: the time until its first kernel runs and until all of it has run, by its length and width.
#include <algorithm>
#include <atomic>
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>
#include <optional>

#include "claims/launch.hpp"

namespace bench {

namespace {

using namespace claims;
using attacca::Buffer;
using attacca::LaunchMode;
using attacca::Visibility;

const char* const kBlog =
    "NVIDIA, Enabling Dynamic Control Flow in CUDA Graphs with Device Graph Launch (2022), "
    "developer.nvidia.com/blog/enabling-dynamic-control-flow-in-cuda-graphs-with-device-graph-"
    "launch; repeated in AI Systems Performance Engineering (O'Reilly, 2025), chapter 12";
constexpr double kClaimedFactor = 2;
constexpr double kFlat = 1.2;
constexpr double kLongestPollMicroseconds = 1e6;
// The time from a store by the device until the host sees it: half of a round trip through pinned
// memory, 3.06 µs on an H200 (`attacca bench signal`). It is subtracted from what the host measures
// before a verdict.
constexpr double kSeenAfterMicroseconds = 1.5;

struct Mode {
  const char* name;
  LaunchMode mode;
};
constexpr Mode kModes[] = {{"tail", LaunchMode::tail},
                           {"fire-and-forget", LaunchMode::fire_and_forget},
                           {"sibling", LaunchMode::sibling}};
constexpr std::size_t kLaunchers = 1 + std::size(kModes);  // the host is the first

/// A straight line of `nodes`, or one kernel, then `width` side by side, then another one.
struct Shape {
  bool is_line;
  unsigned size;
  unsigned nodes() const { return is_line ? size : size + 2; }
  const char* axis() const { return is_line ? "nodes" : "width"; }
};

/// The memory for the kernels' times and counts.
struct Board {
  explicit Board(const attacca::Device& device)
      : times(device, 3), flag(device, 1, Visibility::shared), cells(device, 512) {
    clear_cells();
  }
  struct Times {
    std::int64_t launched, started, ended;
  };
  void clear() {
    times.write(std::vector<std::int64_t>(times.size(), 0));
    std::atomic_ref<unsigned>(*flag.data()).store(0);
  }
  void clear_cells() { cells.write(std::vector<unsigned>(cells.size(), 0)); }
  Times read() const {
    const auto values = times.read();
    if (values[1] == 0 || values[2] == 0) throw attacca::Error("a launched graph did not run");
    return {values[0], values[1], values[2]};
  }
  std::int64_t* launched() const { return times.data(); }
  std::int64_t* started() const { return times.data() + 1; }
  std::int64_t* ended() const { return times.data() + 2; }

  Buffer<std::int64_t> times;
  Buffer<unsigned> flag;
  Buffer<unsigned> cells;  // one for each node
};

attacca::Graph build(const attacca::Device& device, const Shape& shape, const Board& board) {
  attacca::Graph graph(device, shape.is_line ? "line" : "fan");
  const unsigned count = shape.nodes();
  std::vector<attacca::Node> nodes;
  for (unsigned at = 0; at < count; ++at) {
    const bool is_first = at == 0;
    const bool is_last = at + 1 == count;
    const auto node =
        graph.kernel(mark, kOneWarp,
                     {board.cells.data() + at, is_first ? board.started() : nullptr,
                      is_last ? board.ended() : nullptr, is_first ? board.flag.data() : nullptr});
    if (shape.is_line && !is_first)
      node.after(nodes.back());
    else if (!shape.is_line && is_last)
      node.after(std::vector<attacca::Node>(nodes.begin() + 1, nodes.end()));
    else if (!shape.is_line && !is_first)
      node.after(nodes.front());
    nodes.push_back(node);
  }
  return graph;
}

/// Waits until the host sees the flag.
void poll(unsigned& flag) {
  const auto start = now_ns();
  while (std::atomic_ref<unsigned>(flag).load(std::memory_order_acquire) == 0)
    if (static_cast<double>(now_ns() - start) / 1000 > kLongestPollMicroseconds)
      throw attacca::Error("a graph launched by the host did not start within a second");
}

/// Microseconds from the launch: to the first kernel, and to the end of the last.
struct Samples {
  std::vector<double> first, all;
};

double sample_host(const attacca::Stream& stream, Board& board, attacca::Exec& exec,
                   Samples& samples) {
  board.clear();
  const std::int64_t start = now_ns();
  exec.launch(stream);
  // The host and the GPU have different clocks, so the host polls a flag. On the host device there
  // is one clock.
  if (stream.device().is_cuda()) poll(*board.flag.data());
  const std::int64_t seen = now_ns();
  stream.synchronize();
  const std::int64_t end = now_ns();
  const Board::Times times = board.read();
  const std::int64_t started = stream.device().is_cuda() ? seen : times.started;
  samples.first.push_back(static_cast<double>(started - start) / 1000);
  samples.all.push_back(static_cast<double>(end - start) / 1000);
  return samples.first.back();
}

double sample_device(const attacca::Stream& stream, Board& board, attacca::Exec& launcher,
                     Samples& samples) {
  board.clear();
  launcher.launch(stream);
  stream.synchronize();
  const Board::Times times = board.read();
  samples.first.push_back(static_cast<double>(times.started - times.launched) / 1000);
  samples.all.push_back(static_cast<double>(times.ended - times.launched) / 1000);
  return samples.first.back();
}

/// The first kernel's medians, by launcher.
struct Measured {
  Shape shape;
  std::vector<double> first;
};

Measured measure(Run& run, const attacca::Stream& stream, Board& board, const Shape& shape) {
  const attacca::Graph graph = build(run.device, shape, board);
  attacca::Exec by_host = graph.instantiate();
  const attacca::DeviceExec by_device = graph.instantiate_for_device();
  std::vector<attacca::Exec> launchers;
  for (const Mode& mode : kModes) {
    attacca::Graph launcher(run.device, mode.name);
    launcher.kernel(launch_graph, kOneWarp, {board.launched(), by_device.handle(), mode.mode});
    launchers.push_back(launcher.instantiate());
  }

  unsigned launches = 0;
  std::vector<Samples> samples(kLaunchers);
  std::vector<std::function<double()>> variants{
      [&] { return ++launches, sample_host(stream, board, by_host, samples[0]); }};
  for (std::size_t at = 0; at < launchers.size(); ++at)
    variants.push_back([&, at] {
      return ++launches, sample_device(stream, board, launchers[at], samples[at + 1]);
    });
  run.interleave(fmt::format("{} {}", shape.axis(), shape.size), 101, variants);
  const auto cells = board.cells.read();
  for (unsigned at = 0; at < shape.nodes(); ++at)
    if (cells[at] != launches)
      throw attacca::Error(fmt::format("a node ran {} times in {} launches", cells[at], launches));
  board.clear_cells();

  Measured measured{shape, {}};
  const auto add = [&](const char* what, std::vector<double> Samples::*of) {
    std::optional<double> host;
    for (std::size_t at = 0; at < kLaunchers; ++at) {
      Row row{fmt::format("{}, {}", what, at ? kModes[at - 1].name : "host launch"),
              {{shape.axis(), shape.size}},
              summarize_rounds(samples[at].*of)};
      row.baseline = host;
      if (!host) host = row.value.median;
      if (of == &Samples::first) measured.first.push_back(row.value.median);
      run.add(std::move(row));
    }
  };
  add("first kernel", &Samples::first);
  add("whole graph", &Samples::all);
  return measured;
}

void judge(Run& run, const std::vector<Measured>& measured) {
  std::size_t faster = 0, flat = 0, cases = 0;
  std::string factors, growth;
  for (std::size_t at = 1; at < kLaunchers; ++at) {
    double least = 1e9, most = 0;
    for (const Measured& of : measured) {
      const double factor = (of.first[0] - kSeenAfterMicroseconds) / of.first[at];
      least = std::min(least, factor);
      most = std::max(most, factor);
      faster += factor >= kClaimedFactor;
      ++cases;
    }
    factors += fmt::format("{} {:.1f} to {:.1f} times as long as a launch by {}",
                           at == 1 ? "" : ",", least, most, kModes[at - 1].name);
  }
  for (std::size_t at = 0; at < kLaunchers; ++at) {
    growth += fmt::format("{}{}", at == 0 ? "" : "; ", at ? kModes[at - 1].name : "host");
    for (const bool is_line : {true, false}) {
      const auto of_axis = [&](const Measured& of) { return of.shape.is_line == is_line; };
      const double least = std::find_if(measured.begin(), measured.end(), of_axis)->first[at];
      const double most = std::find_if(measured.rbegin(), measured.rend(), of_axis)->first[at];
      growth +=
          fmt::format(" {:.1f} to {:.1f} µs over {}", least, most, is_line ? "length," : "width");
      if (at) flat += most <= kFlat * least;
    }
  }
  run.add({"Launching a graph from the device takes half as long as from the host, or less.", kBlog,
           fmt::format("To the first kernel, over {} shapes, a launch by the host takes{}.",
                       measured.size(), factors),
           verdict_of(faster, cases)});
  run.add(
      {"The time of a launch from the device does not depend on the graph's size or width, "
       "while that of the host's grows.",
       kBlog, fmt::format("To the first kernel, smallest to largest: {}.", growth),
       verdict_of(flat, 2 * std::size(kModes))});
}

void device_launch(Run& run) {
  const attacca::Stream stream(run.device);
  Board board(run.device);
  const auto sizes = [&](std::vector<unsigned> all) {
    return run.is_quick() ? std::vector<unsigned>{all.front(), all.back()} : all;
  };
  std::vector<Measured> measured;
  for (const unsigned nodes : sizes({1, 5, 20, 100, 500}))
    measured.push_back(measure(run, stream, board, {true, nodes}));
  for (const unsigned width : sizes({1, 4, 16, 64}))
    measured.push_back(measure(run, stream, board, {false, width}));
  note_clock(run, stream);
  if (run.device.is_cuda()) {
    judge(run, measured);
    run.note(fmt::format(
        "A device launch is timed from the launching kernel's clock to the first kernel's, a host "
        "launch from the call until the host sees a flag that the first kernel raises in pinned "
        "memory, which takes about {} µs more; the verdict takes them off. The end of a host "
        "launch is that of synchronize.",
        kSeenAfterMicroseconds));
  } else {
    note_host(run);
  }
  for (const auto& [axis, label] :
       {std::pair{"nodes", "kernels in a straight line"}, {"width", "kernels beside each other"}}) {
    Plot plot{
        .title = "From a launch to the first kernel", .x = axis, .x_label = label, .y_label = "µs"};
    plot.rows.push_back("first kernel, host launch");
    for (const Mode& mode : kModes) plot.rows.push_back(fmt::format("first kernel, {}", mode.name));
    run.add(std::move(plot));
  }
}

const Registered registered{{"device-launch",
                             "is a graph launched faster by a kernel than by the host, and does "
                             "its size matter?",
                             Needs::either, device_launch}};

}  // namespace

}  // namespace bench
