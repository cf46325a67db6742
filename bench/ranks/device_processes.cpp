// device_processes.cpp: a program that `attacca bench ranks-device` starts as two processes: puts
// with signals, work stealing, a pipeline and kernels in step, through NVSHMEM. Where there is no
// GPU, through memory that the processes share. Rank 0 writes a line for each row: name, bytes,
// unit, then 10th percentile, median and 90th percentile of ours, and the median of the same by
// hand (-1: none), with semicolons between.
#include <fmt/core.h>
#include <attacca/attacca.hpp>
#include <attacca/launch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <optional>
#include <vector>

#include "harness.hpp"
#include "ranks/process_kernels.hpp"

namespace bench {

namespace {

using namespace attacca;

class Program {
 public:
  Program(const Group& world, int samples)
      : world_(world),
        device_(Device::cuda_count() > 0 ? Device::cuda(0) : Device::host(2)),
        group_(device_.is_cuda() ? world.on(device_, Transport::nvshmem) : world),
        stream_(device_),
        samples_(samples),
        out_(device_, std::vector<std::uint64_t>(kBlocks * kThreads)),
        arrived_(device_, std::vector<std::uint32_t>(1)) {}

  void run() {
    for (const std::size_t bytes :
         {std::size_t{4} << 10, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20})
      put_and_signal(bytes);
    stealing();
    pipeline();
    in_step();
  }

 private:
  static constexpr unsigned kBlocks = 16, kThreads = 32;
  static constexpr int kTrips = 16;

  bool is_first() const { return group_.rank() == 0; }
  int other() const { return 1 - group_.rank(); }
  Grid work_grid() const { return device_.is_cuda() ? Grid{{kBlocks}, {kThreads}} : Grid{}; }

  /// Microseconds from the first rank's start until all are done with what `work` enqueues. A rank
  /// may leave the barrier late, so one rank's own time would be too short. The clock is the
  /// machine's.
  template <class Work>
  double time(const Work& work) {
    const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
    world_.barrier().run();
    std::int64_t start = now();
    work();
    stream_.synchronize();
    std::int64_t end = now();
    world_.all_reduce(std::span(&start, 1), Reduction::min).run();
    world_.all_reduce(std::span(&end, 1), Reduction::max).run();
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::duration(end - start))
        .count();
  }
  template <class... Variants>
  std::vector<Summary> in_turn(const Variants&... variants) {
    std::vector<std::vector<double>> times(sizeof...(variants));
    for (int sample = 0; sample <= samples_; ++sample) {
      std::size_t at = 0;
      const auto add = [&](double value) {
        if (sample > 0) times[at].push_back(value);  // the first one is a warm-up
        ++at;
      };
      (add(variants()), ...);
    }
    std::vector<Summary> summaries;
    for (const auto& values : times) summaries.push_back(summarize(values));
    return summaries;
  }
  void write(const char* name, std::size_t bytes, const char* unit, const Summary& ours,
             double by_hand) const {
    if (is_first())
      fmt::print("{};{};{};{};{};{};{}\n", name, bytes, unit, ours.p10, ours.median, ours.p90,
                 by_hand);
  }

  static void expect(bool is_so, const char* problem) {
    if (!is_so) throw Error(fmt::format("wrong results: {}", problem));
  }
  /// What a rank puts.
  static float number_of(int rank) { return static_cast<float>(rank + 1); }
  void expect_of_other(const SymmetricBuffer<float>& inbox, const char* what) const {
    Buffer<float> seen(device_, inbox.size());
    stream_.copy<float>(seen.span(), inbox.span());
    stream_.synchronize();
    expect(seen.read() == std::vector<float>(inbox.size(), number_of(other())), what);
  }

  /// `kTrips` round trips in a graph. At its end all signals are zero again.
  template <class Put, class Wait>
  Graph trips(const SymmetricBuffer<std::uint64_t>& signal, const Put& put, const Wait& wait) {
    Graph graph(device_, "trips");
    std::optional<Node> last;
    const auto add = [&](const auto& node) {
      if (last) node.after(*last);
      last = node;
    };
    for (std::uint64_t trip = 1; trip <= kTrips; ++trip)
      for (const bool puts : {is_first(), !is_first()})
        puts ? add(put(graph, trip)) : add(wait(graph, trip));
    const auto clear = graph.fill(signal.data(), 0, sizeof(std::uint64_t)).after(*last);
    group_.barrier().add_to(graph).after(clear);
    return graph;
  }

  void put_and_signal(std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    const auto inbox = group_.symmetric<float>(count);
    const auto signal = group_.symmetric<std::uint64_t>(1);
    const Buffer<float> own(device_, std::vector<float>(count, number_of(group_.rank())));
    const Graph ours = trips(
        signal,
        [&](Graph& graph, std::uint64_t trip) {
          return group_.put_signal<float>(inbox.span(), own.span(), other(), signal.data(), trip)
              .add_to(graph);
        },
        [&](Graph& graph, std::uint64_t trip) {
          return group_.wait(signal.data(), trip, other()).add_to(graph);
        });
    const unsigned blocks = static_cast<unsigned>(std::clamp<std::size_t>(bytes >> 14, 1, 64));
    const Grid grid = device_.is_cuda() ? Grid{{blocks}, {256}} : Grid{};
    const Graph by_hand = trips(
        signal,
        [&](Graph& graph, std::uint64_t trip) {
          return graph.kernel(
              put_by_hand, grid,
              {own.data(), inbox.of(other()), count, signal.of(other()), trip, arrived_.data()});
        },
        [&](Graph& graph, std::uint64_t trip) {
          return graph.kernel(wait_by_hand, Grid{}, {signal.data(), trip});
        });
    const Graph with_copies = trips(
        signal,
        [&](Graph& graph, std::uint64_t trip) {
          return graph.child("copy and signal", [&](Graph& inside) {
            inside
                .kernel(
                    put_by_hand, Grid{},
                    {own.data(), inbox.of(other()), 0, signal.of(other()), trip, arrived_.data()})
                .after(inside.copy(inbox.of(other()), own.data(), bytes));
          });
        },
        [&](Graph& graph, std::uint64_t trip) {
          return graph.kernel(wait_by_hand, Grid{}, {signal.data(), trip});
        });
    Exec a = ours.instantiate(), b = by_hand.instantiate(), c = with_copies.instantiate();
    const auto timed = [&](Exec& exec) {
      return time([&] { exec.launch(stream_); }) / (2 * kTrips);
    };
    const auto times =
        in_turn([&] { return timed(a); }, [&] { return timed(b); }, [&] { return timed(c); });
    for (Exec* exec : {&a, &b, &c}) {
      stream_.fill(inbox.data(), 0, bytes);
      stream_.synchronize();
      time([&] { exec->launch(stream_); });
      expect_of_other(inbox, "a put");
    }
    write("put with a signal against kernels by hand", bytes, "µs", times[0], times[1].median);
    write("copy node and a kernel for the signal against one kernel", bytes, "µs", times[2],
          times[1].median);
  }

  void stealing() {
    const auto counter = group_.symmetric<std::uint64_t>(1);
    const std::uint32_t rounds = device_.is_cuda() ? 20'000 : 5'000;
    constexpr std::uint64_t kItems = 1024;
    const auto with = [&](Split split) {
      if (is_first()) {
        stream_.fill(counter.data(), 0, sizeof(std::uint64_t));
        stream_.synchronize();
      }
      return time([&] {
        stream_.kernel(do_items, work_grid(),
                       {split, counter.of(0), out_.data(), kItems, rounds,
                        static_cast<std::uint32_t>(group_.rank()), 2});
      });
    };
    const auto times =
        in_turn([&] { return with(Split::steal); }, [&] { return with(Split::perfect); },
                [&] { return with(Split::halves); });
    const std::uint64_t right = sum_of_items(kItems, rounds);
    for (const Split split : {Split::steal, Split::perfect, Split::halves}) {
      with(split);
      const std::vector<std::uint64_t> out = out_.read();
      std::uint64_t sum =
          std::accumulate(out.begin(), out.begin() + work_grid().blocks.x, std::uint64_t{0});
      world_.all_reduce(std::span(&sum, 1)).run();
      expect(sum == right, "an item was not done once");
    }
    write("work stealing by blocks against a perfect split", 0, "µs", times[0], times[1].median);
    write("static split against a perfect split", 0, "µs", times[2], times[1].median);
  }

  /// Stage one computes a batch, puts it with a signal and goes on; stage two waits and computes.
  /// The two slots are guarded by a signal "full", at stage two, and one "empty", at stage one.
  Graph stage(const SymmetricBuffer<float>& inbox, const SymmetricBuffer<std::uint64_t>& signals,
              const Buffer<float>& own, std::uint64_t batches, bool hands_over, bool computes) {
    const std::size_t count = inbox.size() / 2;
    Graph graph(device_, is_first() ? "stage one" : "stage two");
    std::optional<Node> work, last[2], waited;
    for (std::uint64_t batch = 0; batch < batches; ++batch) {
      const std::size_t slot = batch % 2;
      std::uint64_t* const signal = signals.data() + slot;
      const std::uint64_t turn = batch / 2 + 1;
      std::optional<Node> wait;
      if (hands_over && (!is_first() || turn > 1)) {
        const PlainNode node =
            group_.wait(signal, is_first() ? turn - 1 : turn, other()).add_to(graph);
        if (waited) node.after(*waited);
        waited = wait = node;
      }
      if (computes) {
        const auto step =
            graph.kernel(busy, work_grid(),
                         {out_.data(), (device_.is_cuda() ? 1 : 8) * kRounds[is_first() ? 0 : 1]});
        // Programmatic: it starts while the one before it computes, so the wait for two nodes is
        // hidden.
        if (work) step.after_programmatic(*work);
        // Stage one reuses a slot that was handed over, and stage two one that has arrived.
        if (is_first() ? last[slot].has_value() : wait.has_value())
          step.after(is_first() ? *last[slot] : *wait);
        work = step;
      }
      if (!hands_over) continue;
      const std::size_t moved = is_first() ? count : 0;
      const PlainNode put = group_
                                .put_signal<float>(inbox.span().subspan(slot * count, moved),
                                                   own.span().first(moved), other(), signal, turn)
                                .add_to(graph);
      if (work) put.after(*work);
      if (wait && (is_first() || !work)) put.after(*wait);
      if (const auto& before = last[1 - slot]) put.after(*before);
      last[slot] = put;
    }
    if (!hands_over) return graph;
    for (std::size_t slot = 0; slot < 2 && is_first(); ++slot)  // until all is given back
      waited = group_.wait(signals.data() + slot, batches / 2, other())
                   .add_to(graph)
                   .after(*last[1])
                   .after(*waited);
    const auto clear = graph.fill(signals.data(), 0, 2 * sizeof(std::uint64_t));
    clear.after(*waited).after(*last[1]);
    if (work) clear.after(*work);
    group_.barrier().add_to(graph).after(clear);
    return graph;
  }

  void pipeline() {
    constexpr std::size_t kBytes = 1 << 20, kFloats = kBytes / sizeof(float);
    const auto inbox = group_.symmetric<float>(2 * kFloats);
    const auto signals = group_.symmetric<std::uint64_t>(2);
    const Buffer<float> own(device_, std::vector<float>(kFloats, number_of(group_.rank())));
    /// What a batch adds to a run, and what a run takes beside that, in microseconds.
    struct Line {
      double each, once;
    };
    const auto line_of = [&](bool hands_over, bool computes) {
      const auto run_of = [&](std::uint64_t batches) {
        return stage(inbox, signals, own, batches, hands_over, computes).instantiate();
      };
      return [this, few = run_of(kFew), many = run_of(kMany)]() mutable -> Line {
        const double a = time([&] { few.launch(stream_); });
        const double b = time([&] { many.launch(stream_); });
        const double each = (b - a) / (kMany - kFew);
        return {each, a - kFew * each};
      };
    };
    auto all = line_of(true, true);
    auto handing_over = line_of(true, false), computing = line_of(false, true);
    Line both{};
    const auto times = in_turn(
        [&] {
          both = all();
          const double shown = (both.each - computing().each) / handing_over().each;
          return 100 * (1 - std::clamp(shown, 0.0, 1.0));
        },
        [&] { return both.once; });
    stream_.fill(inbox.data(), 0, 2 * kBytes);
    stream_.synchronize();
    all();
    if (!is_first()) expect_of_other(inbox, "the pipeline");
    write("hand-off hidden behind compute in a full pipeline, two stages", kBytes, "%", times[0],
          -1);
    write("launching, filling and draining that pipeline, once a run", kBytes, "µs", times[1], -1);
  }

  void in_step() {
    constexpr std::uint32_t kTurns = 1000;
    const auto words = group_.symmetric<std::uint32_t>(2);
    const device::RankBarrier barrier = rank_barrier(group_, words);
    std::uint32_t past = 0;
    const auto meet = [&] {
      const double taken = time([&] {
        group_.launch_together(meetings, Grid{}, {barrier, past, kTurns}, stream_);
      });
      past += kTurns;
      return taken / kTurns;
    };
    write("meeting of kernels that go in step", 0, "µs", in_turn(meet)[0], -1);
  }

  static constexpr std::uint64_t kFew = 40, kMany = 120;       // batches of a run; even numbers
  static constexpr std::uint32_t kRounds[2] = {1'200, 2'000};  // stage two is the slower one

  const Group& world_;
  const Device device_;
  const Group group_;
  const Stream stream_;
  const int samples_;
  const Buffer<std::uint64_t> out_;
  const Buffer<std::uint32_t> arrived_;
};

}  // namespace

}  // namespace bench

int main(int count, char** arguments) {
  try {
    const auto launch = attacca::find_launch();
    if (!launch || launch->size != 2) {
      fmt::print(stderr, "this needs a launcher that starts two processes, such as launch.py\n");
      return 2;
    }
    const attacca::Group world = attacca::join_tcp(*launch);
    bench::Program(world, count > 1 ? std::atoi(arguments[1]) : 11).run();
    world.barrier().run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
