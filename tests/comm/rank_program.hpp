// rank_program.hpp: random programs of exchanges. Every rank has an array of numbers. A step
// changes the numbers of each rank by itself, or exchanges some of them within a group.
// `run_program` runs a program as one rank, in host memory; `interpret` computes without any group
// what every rank must have at the end.
#pragma once

#include <attacca/attacca.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

namespace attacca::test {

enum class StepOf {
  change,  // every rank changes its numbers, each in its way
  broadcast,
  all_reduce,
  all_gather,
  reduce_scatter,
  send,
  put_signal,
  get,
  fetch_add,
};

struct RankStep {
  StepOf of = StepOf::change;
  std::size_t group = 0;
  std::size_t count = 0;  // of one part
  std::size_t first = 0;  // where the step's numbers begin
  int root = 0;           // or the rank that sends, puts, is read, counts: a rank of the group
  int other = 0;          // the rank that receives, waits or reads
  bool is_in_place = false;
  Reduction reduction = Reduction::sum;
};

enum class Way { at_once, on_a_stream, in_a_graph, in_a_captured_graph };

struct RankProgram {
  static constexpr std::size_t kNumbers = 6000;
  static constexpr std::size_t kHalf = kNumbers / 2;  // results that are not in place go behind it

  struct Run {
    Way way = Way::at_once;
    int launches = 1;  // of its graph
    std::vector<RankStep> steps;
  };
  int ranks = 1;
  std::vector<std::vector<int>> groups;  // the first has all ranks
  std::vector<Run> runs;
};

/// What programs may have.
struct ProgramKinds {
  std::vector<StepOf> steps{
      StepOf::change,         StepOf::broadcast, StepOf::all_reduce, StepOf::all_gather,
      StepOf::reduce_scatter, StepOf::send,      StepOf::put_signal, StepOf::get,
      StepOf::fetch_add};
  std::vector<Reduction> reductions{Reduction::sum, Reduction::min, Reduction::max,
                                    Reduction::sum_in_pairs};
  std::vector<Way> ways{Way::at_once, Way::on_a_stream, Way::in_a_graph, Way::in_a_captured_graph};
  bool have_subgroups = true;
  bool may_mix_groups = true;    // in a run
  bool may_signal_again = true;  // in another launch of a graph
};

inline RankProgram make_program(std::uint32_t seed, int ranks, const ProgramKinds& kinds = {}) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t end) { return random() % end; };  // alike in every library
  const auto one_of = [&](const auto& values) { return values[below(values.size())]; };
  RankProgram program;
  program.ranks = ranks;
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  program.groups.push_back(all);
  for (int extra = 0; extra < 2 && kinds.have_subgroups; ++extra) {
    for (std::size_t at = all.size(); at > 1; --at) std::swap(all[at - 1], all[below(at)]);
    const std::size_t size = 1 + below(all.size());
    program.groups.emplace_back(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
  }
  for (std::size_t runs = 1 + below(3); runs > 0; --runs) {
    RankProgram::Run run;
    run.way = one_of(kinds.ways);
    if (run.way == Way::in_a_graph || run.way == Way::in_a_captured_graph)
      run.launches = 1 + static_cast<int>(below(3));
    const std::size_t only_group = below(program.groups.size());
    for (std::size_t steps = 1 + below(6); steps > 0; --steps) {
      RankStep step;
      step.of = one_of(kinds.steps);
      step.group = kinds.may_mix_groups ? below(program.groups.size()) : only_group;
      const std::size_t size = program.groups[step.group].size();
      const std::size_t most = RankProgram::kHalf / size;
      const std::array sizes{std::size_t{0},  std::size_t{1},  std::size_t{2},  std::size_t{15},
                             std::size_t{16}, std::size_t{17}, std::size_t{64}, std::size_t{65},
                             below(most),     below(most)};
      step.count = std::min(one_of(sizes), most);
      step.first = below(RankProgram::kHalf - step.count * size + 1);
      step.root = static_cast<int>(below(size));
      step.other = static_cast<int>(below(size));
      step.is_in_place = below(2) == 0;
      step.reduction = one_of(kinds.reductions);
      if (step.of == StepOf::put_signal && !kinds.may_signal_again) run.launches = 1;
      run.steps.push_back(step);
    }
    program.runs.push_back(std::move(run));
  }
  return program;
}

using Numbers = std::vector<float>;

template <class T = float>
std::vector<T> start_of(int rank) {
  std::vector<T> numbers(RankProgram::kNumbers);
  for (std::size_t at = 0; at < numbers.size(); ++at)
    numbers[at] = static_cast<T>((at * 2654435761u) % 1000) / T{7} + static_cast<T>(rank);
  return numbers;
}
inline void change(std::span<float> numbers, int rank) {
  for (float& x : numbers) {
    x *= 0.37f;
    x += static_cast<float>(rank + 1) / 3.0f;
  }
}

inline void change(std::span<std::uint32_t> numbers, int rank) {
  for (std::uint32_t& x : numbers) x = 5 * x + static_cast<std::uint32_t>(rank + 1);
}

template <class T>
void interpret(const RankStep& step, const std::vector<int>& members,
               std::vector<std::vector<T>>& state) {
  const std::size_t n = members.size(), half = RankProgram::kHalf;
  const std::size_t first = step.first, count = step.count;
  const auto root = static_cast<std::size_t>(step.root);
  const auto other = static_cast<std::size_t>(step.other);
  std::vector<std::vector<T>> before;
  for (const int member : members) before.push_back(state[static_cast<std::size_t>(member)]);
  const auto reduced = [&](std::size_t at) {
    if (step.reduction == Reduction::sum_in_pairs) {
      std::vector<T> sums;
      for (const std::vector<T>& numbers : before) sums.push_back(numbers[at]);
      for (; sums.size() > 1; sums.resize((sums.size() + 1) / 2))
        for (std::size_t m = 0; m < sums.size(); m += 2)
          sums[m / 2] = m + 1 < sums.size() ? sums[m] + sums[m + 1] : sums[m];
      return sums[0];
    }
    T value = before[0][at];
    for (std::size_t m = 1; m < n; ++m) {
      const T next = before[m][at];
      value = step.reduction == Reduction::sum   ? value + next
              : step.reduction == Reduction::min ? std::min(value, next)
                                                 : std::max(value, next);
    }
    return value;
  };
  for (std::size_t m = 0; m < n; ++m) {
    std::vector<T>& own = state[static_cast<std::size_t>(members[m])];
    const auto write = [&](std::size_t to, std::size_t length, auto value_at) {
      for (std::size_t at = 0; at < length; ++at) own[to + at] = value_at(at);
    };
    const auto from_root = [&](std::size_t at) { return before[root][first + at]; };
    const std::size_t to = step.is_in_place ? first : half + first;
    switch (step.of) {
      case StepOf::change:
        change(std::span(own), members[m]);
        break;
      case StepOf::broadcast:
        write(first, count, from_root);
        break;
      case StepOf::all_reduce:
        write(to, count, [&](std::size_t at) { return reduced(first + at); });
        break;
      case StepOf::all_gather:
        for (std::size_t from = 0; from < n; ++from) {
          // In place, a rank's part lies among the results already.
          const std::size_t part = first + (step.is_in_place ? from * count : 0);
          write(to + from * count, count, [&](std::size_t at) { return before[from][part + at]; });
        }
        break;
      case StepOf::reduce_scatter:
        write(to + (step.is_in_place ? m * count : 0), count,
              [&](std::size_t at) { return reduced(first + m * count + at); });
        break;
      case StepOf::send:
        if (m == other && root != other) write(half, count, from_root);
        break;
      case StepOf::put_signal:
      case StepOf::get:
        if (m == other) write(half, count, from_root);
        break;
      case StepOf::fetch_add:
        own[0] = static_cast<T>(n * (n + 1) / 2);
        break;
    }
  }
}

template <class T = float>
std::vector<std::vector<T>> interpret(const RankProgram& program) {
  std::vector<std::vector<T>> state;
  for (int rank = 0; rank < program.ranks; ++rank) state.push_back(start_of<T>(rank));
  for (const RankProgram::Run& run : program.runs)
    for (int turn = 0; turn < run.launches; ++turn)
      for (const RankStep& step : run.steps) interpret(step, program.groups[step.group], state);
  return state;
}

/// A group of a program with its symmetric memory, as one of its members has them.
struct ProgramGroup {
  Group group;
  SymmetricBuffer<float> inbox;
  SymmetricBuffer<std::uint64_t> words;  // a signal and a counter
  std::uint64_t before = 0;              // what fetch-add and get leave

  ProgramGroup(const Device&, const Group& of)
      : group(of),
        inbox(of.symmetric<float>(RankProgram::kHalf)),
        words(of.symmetric<std::uint64_t>(2)) {}
};

/// What a rank computes by itself, for a stream or a graph.
struct Work {
  using After = std::optional<Node>;
  std::function<void(StreamRef)> enqueue;
  std::function<Node(Graph&, const After&)> add_to;

  template <class Add>
  static Work of(const Add& add) {
    return {[=](StreamRef stream) { add(stream); },
            [=](Graph& graph, const After& last) -> Node {
              auto node = add(graph);
              if (last) node.after(*last);
              return node;
            }};
  }
};
using Action = std::variant<Exchange, Work>;

/// What this rank does for a step. `world_rank`: its number in the program.
inline std::vector<Action> actions_of(const RankStep& step, ProgramGroup& in,
                                      std::span<float> numbers, int world_rank) {
  const Group& group = in.group;
  const auto own = static_cast<std::size_t>(group.rank());
  const auto n = static_cast<std::size_t>(group.size());
  const std::size_t half = RankProgram::kHalf, count = step.count;
  const std::span<float> from = numbers.subspan(step.first, count);
  const std::span<float> to = numbers.subspan(step.is_in_place ? step.first : half + step.first);
  const std::span<float> result = numbers.subspan(half, count);
  const std::span<float> inbox = in.inbox.span().subspan(0, count);
  const bool is_root = group.rank() == step.root, is_other = group.rank() == step.other;
  std::vector<Action> actions;
  const auto add = [&](Action action) { actions.push_back(std::move(action)); };
  const auto compute = [&](const std::function<void()>& call) {
    add(Work::of([=](auto& on) { return on.host("compute", call); }));
  };
  const auto copy = [&](std::span<float> into, std::span<const float> source) {
    compute([=] { std::copy(source.begin(), source.end(), into.begin()); });
  };
  switch (step.of) {
    case StepOf::change:
      compute([=] { change(numbers, world_rank); });
      break;
    case StepOf::broadcast:
      add(group.broadcast(from, step.root));
      break;
    case StepOf::all_reduce:
      add(group.all_reduce<float>(from, to.subspan(0, count), step.reduction));
      break;
    case StepOf::all_gather:
      add(group.all_gather<float>(step.is_in_place ? to.subspan(own * count, count) : from,
                                  to.subspan(0, count * n)));
      break;
    case StepOf::reduce_scatter:
      add(group.reduce_scatter<float>(numbers.subspan(step.first, count * n),
                                      to.subspan(step.is_in_place ? own * count : 0, count),
                                      step.reduction));
      break;
    case StepOf::send:
      if (step.root == step.other) break;
      if (is_root) add(group.send(from, step.other));
      if (is_other) add(group.receive(result, step.root));
      break;
    case StepOf::put_signal:
      add(group.barrier());  // the receiver has read what was put before
      if (is_root) add(group.put_signal<float>(inbox, from, step.other, in.words.data(), 1));
      if (is_other) {
        add(group.wait(in.words.data(), 1, step.root));
        copy(result, inbox);
        compute([word = in.words.data()] { *word = 0; });
      }
      break;
    case StepOf::get:
      add(group.barrier());
      copy(inbox, from);
      add(group.barrier());
      if (is_other) add(group.get<float>(result, inbox, step.root));
      add(group.barrier());
      break;
    case StepOf::fetch_add:
      add(group.barrier());
      add(group.fetch_add(in.words.data() + 1, own + 1, step.root, &in.before));
      add(group.barrier());
      add(group.get<std::uint64_t>(std::span(&in.before, 1), in.words.span().subspan(1, 1),
                                   step.root));
      compute([numbers, &in] { numbers[0] = static_cast<float>(in.before); });
      add(group.barrier());
      if (is_root) compute([word = in.words.data() + 1] { *word = 0; });
      break;
  }
  return actions;
}

inline void run_actions(const Device& device, const std::vector<Action>& actions, Way way,
                        int launches) {
  const Stream stream(device);
  const auto enqueue_one = [](const Action& action, StreamRef on) {
    if (const auto* exchange = std::get_if<Exchange>(&action))
      exchange->enqueue(on);
    else
      std::get<Work>(action).enqueue(on);
  };
  const auto enqueue = [&](StreamRef on) {
    for (const Action& action : actions) enqueue_one(action, on);
  };
  if (actions.empty()) return;
  if (way == Way::at_once) {
    for (const Action& action : actions)
      if (const auto* exchange = std::get_if<Exchange>(&action)) {
        exchange->run();
      } else {
        enqueue_one(action, stream);
        stream.synchronize();
      }
    return;
  }
  if (way == Way::on_a_stream) {
    enqueue(stream);
    return stream.synchronize();
  }
  Graph graph(device, "program");
  if (way == Way::in_a_captured_graph) {
    graph = capture(stream, enqueue);
  } else {
    Work::After last;
    for (const Action& action : actions)
      if (const auto* exchange = std::get_if<Exchange>(&action)) {
        const PlainNode node = exchange->add_to(graph);
        if (last) node.after(*last);
        last = node;
      } else {
        last = std::get<Work>(action).add_to(graph, last);
      }
  }
  Exec exec = graph.instantiate();
  for (int turn = 0; turn < launches; ++turn) exec.launch(stream);
  stream.synchronize();
}

/// Runs the program as one rank. `In`: a group with its memory, for which there is `actions_of`.
template <class In, class T>
void run_runs(const RankProgram& program, const Device& device, const Group& world,
              std::span<T> numbers) {
  std::vector<std::optional<In>> groups(program.groups.size());
  groups[0].emplace(device, world);
  for (std::size_t at = 1; at < groups.size(); ++at) {
    const std::vector<int>& members = program.groups[at];
    if (std::find(members.begin(), members.end(), world.rank()) != members.end())
      groups[at].emplace(device, world.subgroup(members));
  }
  for (const RankProgram::Run& run : program.runs) {
    std::vector<Action> actions;
    for (const RankStep& step : run.steps)
      if (std::optional<In>& in = groups[step.group])
        for (Action& action : actions_of(step, *in, numbers, world.rank()))
          actions.push_back(std::move(action));
    run_actions(device, actions, run.way, run.launches);
  }
}

/// Runs the program as one rank in host memory, and returns this rank's numbers.
inline Numbers run_program(const RankProgram& program, const Group& world) {
  Numbers numbers = start_of(world.rank());
  run_runs<ProgramGroup>(program, Device::host(1), world, std::span(numbers));
  return numbers;
}

}  // namespace attacca::test
