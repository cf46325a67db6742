// update.cpp: changing an executable graph of a straight line of kernels, by its length: one node,
// all nodes from another graph, all nodes captured again, and starting over.
#include <attacca/capture.hpp>
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>
#include <optional>

#include "claims/launch.hpp"
#include "overhead/kernels.hpp"

#if ATTACCA_WITH_CUDA
#include "overhead/chain.hpp"
#include "raw.hpp"
#endif

namespace bench {

namespace {

using namespace claims;

constexpr double kFewMicroseconds = 10;
constexpr double kCheaper = 0.9;
const char* const kProgrammingGuide =
    "CUDA C++ Programming Guide, section on CUDA graphs, "
    "docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-graphs";

/// A way to change an executable graph. `change` is timed and returns what a launch then adds to
/// the cell; `prepare` and `launch` are not part of it.
struct Way {
  std::function<unsigned()> change;
  std::function<void()> launch;
  std::function<void()> prepare = [] {};
};

void must_be_in_place(const attacca::UpdateReport& report) {
  if (report.was_reinstantiated)
    throw attacca::Error(fmt::format("an update was not made in place: {}", report.reason));
}

/// 2, 1, 2, …: the values that nodes are set to. They start with 1, so every change is real.
unsigned next(unsigned& value) { return value = 3 - value; }

/// A line in which every node adds `add`, as attacca builds, changes and launches it.
struct Line {
  Line(const attacca::Device& device, unsigned count, unsigned* cell, unsigned add)
      : graph(device, "line") {
    for (unsigned at = 0; at < count; ++at) {
      const auto node = graph.kernel(kernels::touch, kOneWarp, {cell, add});
      if (at) node.after(nodes.back());
      nodes.push_back(node);
    }
  }
  attacca::Graph graph;
  std::vector<attacca::KernelNode<kernels::TouchArgs>> nodes;
};

/// The four ways in attacca, and a launch without a change. Not movable: the ways refer to this
/// object.
struct Ours {
  Ours(const attacca::Stream& on, unsigned nodes, unsigned* to)
      : stream(on), count(nodes), cell(to) {}
  Ours(const Ours&) = delete;

  attacca::Graph captured(unsigned add) const {
    return attacca::capture(stream, [&](attacca::StreamRef recorded) {
      for (unsigned at = 0; at < count; ++at)
        recorded.kernel(kernels::touch, kOneWarp, {cell, add});
    });
  }

  Way unchanged() {
    return {[this] { return count; }, [this] { first.launch(stream); }};
  }
  Way set_one() {
    return {[this, value = 1u]() mutable {
              must_be_in_place(first_set.set(lines[0].nodes[count / 2], {cell, next(value)}));
              return count - 1 + value;
            },
            [this] { first_set.launch(stream); }};
  }
  Way update() {
    return {[this, value = 1u]() mutable {
              must_be_in_place(updated.update(lines[next(value) - 1].graph));
              return count * value;
            },
            [this] { updated.launch(stream); }};
  }
  Way recapture() {
    return {[this, value = 1u]() mutable {
              must_be_in_place(recaptured.update(captured(next(value))));
              return count * value;
            },
            [this] { recaptured.launch(stream); }};
  }
  Way instantiate() {
    return {[this, value = 1u]() mutable {
              fresh.emplace(lines[next(value) - 1].graph.instantiate());
              return count * value;
            },
            [this] { fresh->launch(stream); }, [this] { fresh.reset(); }};
  }

  const attacca::Stream& stream;
  unsigned count;
  unsigned* cell;
  Line lines[2] = {{stream.device(), count, cell, 1}, {stream.device(), count, cell, 2}};
  attacca::Exec first = lines[0].graph.instantiate();
  attacca::Exec first_set = lines[0].graph.instantiate();
  attacca::Exec updated = lines[0].graph.instantiate();
  attacca::Exec recaptured = captured(1).instantiate();
  std::optional<attacca::Exec> fresh{};
};

#if ATTACCA_WITH_CUDA
/// The same by hand.
struct Theirs {
  Theirs(cudaStream_t on, unsigned nodes, unsigned* to) : stream(on), count(nodes), cell(to) {}
  Theirs(const Theirs&) = delete;

  RawGraph captured(unsigned add) const {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (unsigned at = 0; at < count; ++at) {
      kernels::TouchArgs args{cell, add};
      void* pointers[] = {&args};
      check(cudaLaunchKernel(kernels::raw.touch, dim3(1), dim3(32), pointers, 0, stream));
    }
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph));
    return RawGraph(graph);
  }
  static void update_from(const RawExec& exec, const RawGraph& graph) {
    cudaGraphExecUpdateResultInfo info{};
    check(cudaGraphExecUpdate(exec.get(), graph.get(), &info));
  }
  void launch(const RawExec& exec) const { check(cudaGraphLaunch(exec.get(), stream)); }

  Way set_one() {
    return {[this, value = 1u]() mutable {
              kernels::TouchArgs args{cell, next(value)};
              void* pointers[] = {&args};
              cudaKernelNodeParams params{};
              params.func = const_cast<void*>(kernels::raw.touch);
              params.gridDim = dim3(1);
              params.blockDim = dim3(32);
              params.kernelParams = pointers;
              check(cudaGraphExecKernelNodeSetParams(first_set.get(), lines[0].nodes[count / 2],
                                                     &params));
              return count - 1 + value;
            },
            [this] { launch(first_set); }};
  }
  Way update() {
    return {[this, value = 1u]() mutable {
              update_from(updated, lines[next(value) - 1].graph);
              return count * value;
            },
            [this] { launch(updated); }};
  }
  Way recapture() {
    return {[this, value = 1u]() mutable {
              update_from(recaptured, captured(next(value)));
              return count * value;
            },
            [this] { launch(recaptured); }};
  }
  Way instantiate() {
    return {[this, value = 1u]() mutable {
              fresh = bench::instantiate(lines[next(value) - 1].graph);
              return count * value;
            },
            [this] { launch(fresh); }, [this] { fresh.reset(); }};
  }

  cudaStream_t stream;
  unsigned count;
  unsigned* cell;
  RawChain lines[2] = {RawChain(ChainOf{count, cell}),
                       RawChain(ChainOf{count, cell, attacca::EdgeKind::full, 2, 2})};
  RawExec first_set = bench::instantiate(lines[0].graph);
  RawExec updated = bench::instantiate(lines[0].graph);
  RawGraph first_captured = captured(1);
  RawExec recaptured = bench::instantiate(first_captured);
  RawExec fresh{};
};
#endif

constexpr std::size_t kWays = 4;
const char* const kNames[kWays] = {"set one node", "update", "capture and update", "instantiate"};
enum WayNumber { set_one, whole_update, recapture, again };

/// Microseconds, for one length; `by_hand` is empty on the host.
struct Measured {
  unsigned nodes;
  std::vector<Summary> ours, by_hand;
};

Measured measure(Run& run, const attacca::Stream& stream, unsigned nodes) {
  attacca::Buffer<unsigned> cell(run.device, std::vector<unsigned>(1, 0));
  Ours ours(stream, nodes, cell.data());
  std::vector<Way> ways{ours.set_one(), ours.update(), ours.recapture(), ours.instantiate()};
#if ATTACCA_WITH_CUDA
  std::optional<Theirs> theirs;
  if (run.device.is_cuda()) {
    theirs.emplace(static_cast<cudaStream_t>(stream.native()), nodes, cell.data());
    for (Way way :
         {theirs->set_one(), theirs->update(), theirs->recapture(), theirs->instantiate()})
      ways.push_back(std::move(way));
  }
#endif
  ways.push_back(ours.unchanged());

  unsigned expected = 0;
  std::vector<std::vector<double>> launches(ways.size());  // the call that follows a change
  std::vector<std::function<double()>> variants;
  for (std::size_t at = 0; at < ways.size(); ++at)
    variants.push_back([&, at] {
      const Way& way = ways[at];
      way.prepare();
      unsigned added = 0;
      const double time = microseconds([&] { added = way.change(); });
      launches[at].push_back(microseconds([&] { way.launch(); }));
      stream.synchronize();
      expected += added;
      return time;
    });
  const auto times =
      run.interleave(fmt::format("{} nodes", nodes), nodes > 100 ? 31 : 101, variants);
  if (const unsigned seen = cell.read().front(); seen != expected)
    throw attacca::Error(fmt::format("changed graphs added {} instead of {}", seen, expected));

  Measured measured{nodes, {times.begin(), times.begin() + kWays}, {}};
  if (ways.size() > kWays + 1)
    measured.by_hand.assign(times.begin() + kWays, times.begin() + 2 * kWays);
  for (std::size_t at = 0; at < kWays; ++at) {
    Row row{kNames[at], {{"nodes", nodes}}, measured.ours[at]};
    if (!measured.by_hand.empty()) row.baseline = measured.by_hand[at].median;
    run.add(std::move(row));
  }
  run.add(compared("launch after an update", {{"nodes", nodes}},
                   summarize_rounds(launches[whole_update]), summarize_rounds(launches.back())));
  return measured;
}

void judge(Run& run, const std::vector<Measured>& measured) {
  std::vector<double> nodes, updates, our_updates, sets, our_sets, instantiations;
  std::size_t quick_updates = 0, quick_sets = 0, cheaper = 0;
  for (const Measured& of : measured) {
    const auto by_hand = [&](WayNumber way) { return of.by_hand[way].median; };
    nodes.push_back(of.nodes);
    updates.push_back(by_hand(whole_update));
    our_updates.push_back(of.ours[whole_update].median);
    sets.push_back(by_hand(set_one));
    our_sets.push_back(of.ours[set_one].median);
    instantiations.push_back(by_hand(again));
    quick_updates += by_hand(whole_update) <= kFewMicroseconds;
    quick_sets += by_hand(set_one) <= kFewMicroseconds;
    cheaper += by_hand(whole_update) <= kCheaper * by_hand(again);
  }
  const std::string sizes = in_words(nodes, 0);
  run.add({"A graph that is ready to run is updated from another in a few microseconds.", kBook,
           fmt::format("cudaGraphExecUpdate of {} nodes: {} µs; attacca's update {} µs.", sizes,
                       in_words(updates), in_words(our_updates)),
           verdict_of(quick_updates, measured.size())});
  run.add({"One node of a graph that is ready to run is changed in a few microseconds.", kBook,
           fmt::format("cudaGraphExecKernelNodeSetParams in graphs of {} nodes: {} µs; attacca's "
                       "set {} µs.",
                       sizes, in_words(sets), in_words(our_sets)),
           verdict_of(quick_sets, measured.size())});
  run.add({"Updating a graph is cheaper than instantiating it again.", kProgrammingGuide,
           fmt::format("Of {} nodes: updating {} µs, instantiating {} µs.", sizes,
                       in_words(updates), in_words(instantiations)),
           verdict_of(cheaper, measured.size())});
}

void update(Run& run) {
#if ATTACCA_WITH_CUDA
  std::optional<Gpu> gpu;  // makes the device current for the ways by hand
  if (run.device.is_cuda()) gpu.emplace(run.device);
#endif
  const attacca::Stream stream(run.device);
  const std::vector<unsigned> sizes = run.is_quick() ? std::vector<unsigned>{10, 100}
                                                     : std::vector<unsigned>{1, 10, 100, 300, 1000};
  std::vector<Measured> measured;
  for (const unsigned nodes : sizes) measured.push_back(measure(run, stream, nodes));
  if (run.device.is_cuda())
    judge(run, measured);
  else
    note_host(run);
  run.note(
      "Host time. Every change is followed by a launch; that call alone, against one of a graph "
      "that nobody changed, is the row \"launch after an update\". An update changes all nodes.");
  run.add(Plot{.title = "Changing a graph that is ready to run",
               .x = "nodes",
               .x_label = "nodes in a straight line",
               .y_label = "µs",
               .is_log_y = true,
               .rows = {std::begin(kNames), std::end(kNames)}});
}

const Registered registered{{"update",
                             "what does it cost to change an executable graph, against its size?",
                             Needs::either, update}};

}  // namespace

}  // namespace bench
