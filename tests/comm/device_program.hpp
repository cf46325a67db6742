// device_program.hpp: runs the random programs of rank_program.hpp in a device's memory, with the
// steps that the group's transport has. Numbers wrap around, so no order of sums matters, and NCCL
// may have its own.
#pragma once

#include <gtest/gtest.h>

#include "comm/rank_program.hpp"
#include "support/kernels.hpp"

namespace attacca::test {

using Words = std::vector<std::uint32_t>;

inline bool is_one_sided(const Group& group) {
  return group.backend() == "edges" || group.backend() == "nvshmem";
}

inline ProgramKinds kinds_of(const Group& group) {
  const std::string& backend = group.backend();
  ProgramKinds kinds;
  std::vector<StepOf> steps{StepOf::change, StepOf::broadcast, StepOf::all_reduce,
                            StepOf::all_gather, StepOf::reduce_scatter};
  if (backend == "nccl") steps.push_back(StepOf::send);
  if (is_one_sided(group))
    steps.insert(steps.end(), {StepOf::put_signal, StepOf::get, StepOf::fetch_add});
  kinds.steps = steps;
  if (backend == "nccl") kinds.reductions.pop_back();
  if (backend == "peer") kinds.ways = {Way::at_once, Way::on_a_stream};
  kinds.have_subgroups = backend != "nvshmem";
  kinds.may_mix_groups = backend != "edges";
  kinds.may_signal_again = false;
  return kinds;
}

/// A group of a program with its memory, as one of its members has them.
struct DeviceProgramGroup {
  Group group;
  std::optional<SymmetricBuffer<std::uint32_t>> inbox;
  std::optional<SymmetricBuffer<std::uint64_t>> words;  // a signal and a counter
  Buffer<std::uint64_t> before;                         // what fetch-add and get leave
  std::uint64_t signals = 0;                            // that were set

  DeviceProgramGroup(const Device& device, const Group& of) : group(of), before(device, 1) {
    if (!is_one_sided(of)) return;
    inbox = of.symmetric<std::uint32_t>(RankProgram::kHalf);
    words = of.symmetric<std::uint64_t>(2);
  }
};

/// What this rank does for a step. `world_rank`: its number in the program.
inline std::vector<Action> actions_of(const RankStep& step, DeviceProgramGroup& in,
                                      std::span<std::uint32_t> numbers, int world_rank) {
  using Span = std::span<std::uint32_t>;
  const Group& group = in.group;
  const auto own = static_cast<std::size_t>(group.rank());
  const auto n = static_cast<std::size_t>(group.size());
  const std::size_t half = RankProgram::kHalf, count = step.count;
  const Span from = numbers.subspan(step.first, count);
  const Span to = numbers.subspan(step.is_in_place ? step.first : half + step.first);
  const Span result = numbers.subspan(half, count);
  const Span inbox = in.inbox ? in.inbox->span().subspan(0, count) : Span();
  const bool is_root = group.rank() == step.root, is_other = group.rank() == step.other;
  std::vector<Action> actions;
  const auto add = [&](Action action) { actions.push_back(std::move(action)); };
  const auto copy = [&](Span into, Span source) {
    if (!source.empty())
      add(Work::of([=](auto& on) { return on.template copy<std::uint32_t>(into, source); }));
  };
  switch (step.of) {
    case StepOf::change: {
      const AffineArgs args{reinterpret_cast<int*>(numbers.data()), numbers.size(), 5,
                            world_rank + 1};
      add(Work::of([=](auto& on) { return on.kernel(affine, Grid::covering(args.count), args); }));
      break;
    }
    case StepOf::broadcast:
      add(group.broadcast(from, step.root));
      break;
    case StepOf::all_reduce:
      add(group.all_reduce<std::uint32_t>(from, to.subspan(0, count), step.reduction));
      break;
    case StepOf::all_gather:
      add(group.all_gather<std::uint32_t>(step.is_in_place ? to.subspan(own * count, count) : from,
                                          to.subspan(0, count * n)));
      break;
    case StepOf::reduce_scatter:
      add(group.reduce_scatter<std::uint32_t>(numbers.subspan(step.first, count * n),
                                              to.subspan(step.is_in_place ? own * count : 0, count),
                                              step.reduction));
      break;
    case StepOf::send:
      if (step.root == step.other) break;
      if (is_root) add(group.send(from, step.other));
      if (is_other) add(group.receive(result, step.root));
      break;
    case StepOf::put_signal:
      ++in.signals;
      add(group.barrier());  // the receiver has read what was put before
      if (is_root)
        add(group.put_signal<std::uint32_t>(inbox, from, step.other, in.words->data(), in.signals));
      if (is_other) {
        add(group.wait(in.words->data(), in.signals, step.root));
        copy(result, inbox);
      }
      break;
    case StepOf::get:
      add(group.barrier());
      copy(inbox, from);
      add(group.barrier());
      if (is_other) add(group.get<std::uint32_t>(result, inbox, step.root));
      add(group.barrier());
      break;
    case StepOf::fetch_add: {
      const Span low(reinterpret_cast<std::uint32_t*>(in.before.data()), 1);
      add(group.barrier());
      add(group.fetch_add(in.words->data() + 1, own + 1, step.root, in.before.data()));
      add(group.barrier());
      add(group.get<std::uint64_t>(in.before.span(), in.words->span().subspan(1, 1), step.root));
      copy(numbers.subspan(0, 1), low);
      add(group.barrier());
      if (is_root)
        add(Work::of(
            [counter = in.words->span().subspan(1, 1)](auto& on) { return on.fill(counter, 0); }));
      break;
    }
  }
  return actions;
}

/// Runs the program as one rank, and returns this rank's numbers.
inline Words run_program(const RankProgram& program, const Device& device, const Group& world) {
  Buffer<std::uint32_t> numbers(device, start_of<std::uint32_t>(world.rank()));
  run_runs<DeviceProgramGroup>(program, device, world, numbers.span());
  return numbers.read();
}

/// One rank's part of `count` programs.
inline void programs_give_what_the_interpreter_gives(const Device& device, const Group& group,
                                                     std::uint32_t count,
                                                     const ProgramKinds& kinds) {
  for (std::uint32_t seed = 2000; seed < 2000 + count; ++seed) {
    const RankProgram program = make_program(seed, group.size(), kinds);
    const auto expected = interpret<std::uint32_t>(program);
    ASSERT_EQ(run_program(program, device, group), expected[static_cast<std::size_t>(group.rank())])
        << "seed " << seed << ", rank " << group.rank() << " of " << group.size();
  }
}
inline void programs_give_what_the_interpreter_gives(const Device& device, const Group& group,
                                                     std::uint32_t count) {
  programs_give_what_the_interpreter_gives(device, group, count, kinds_of(group));
}

}  // namespace attacca::test
