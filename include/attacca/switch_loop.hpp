// switch_loop.hpp: a loop whose passes choose what they run: a lead decides which of several arms
// runs in this pass, and something may run beside the arm. Written once, and lowered to a WHILE
// node with a SWITCH inside, or to a graph for each arm that launches the next one from the device.
//
//   const SwitchLoop loop(device, "serve", {
//       .lead = [&](Graph& pass, Condition again, Condition arm) { … },  // sets both
//       .arms = {small_step, large_step},
//       .beside = [&](Graph& pass) { … }});
//   SwitchLoopExec exec = loop.instantiate();
//   exec.launch(stream);
#pragma once

#include <attacca/loop.hpp>

namespace attacca {

class SwitchLoopExec;

class SwitchLoop {
 public:
  struct Parts {
    /// Comes first in every pass. It sets `arm`, to a number that no arm has if none shall run, and
    /// `again`. A lead that sets `again` to 0 sets `arm` so too; `beside` may then run once more or
    /// not at all. A kernel with which it begins may start before the arm has ended if it declares
    /// `waits` (kernel.hpp), and touches what the arm or `beside` write only after it has waited.
    std::function<void(Graph&, Condition again, Condition arm)> lead;
    std::vector<Graph::Fill> arms;
    /// Runs between two leads, beside the arm; may be empty.
    Graph::Fill beside = {};
    /// A word of the device in which `beside` leaves the arm that the next lead will choose; null:
    /// nobody knows it before the lead. With it a graph that launches the next one does so while
    /// its arm still runs. REQUIRES: behind a pass with an arm the lead goes on, with that arm.
    const unsigned* next = nullptr;
    /// Runs once in each launch, before the first lead; may be empty.
    Graph::Fill before = {};
    /// Runs behind the lead of each pass without an arm, but not in the form of a WHILE node: for
    /// what gets the next pass or launch ready and has no other effect; may be empty.
    Graph::Fill behind = {};
    /// The names of the arms in prints and traces. Without any, arms have numbers.
    std::vector<std::string> arm_names = {};
  };

  SwitchLoop(const Device& device, std::string name, Parts parts);

  /// Says which of the forms `while_node` and `self_relaunch` are legal and what a pass costs in
  /// each, and chooses the cheaper one. See Loop::plan.
  LoopPlan plan() const;
  /// Lowers to the plan's choice, or to `form`. Throws BadArgument for another form, and the
  /// validator's GraphError for a form that is not legal.
  SwitchLoopExec instantiate(std::optional<LoopForm> form = std::nullopt) const;
  /// The loop as a graph with a WHILE node.
  Graph graph() const;

 private:
  struct Arms;
  Graph pass_of(unsigned arm, const Arms& arms) const;

  Device device_;
  std::string name_;
  Parts parts_;
};

/// A lowered loop. Like an Exec it may be destroyed while a launch is in flight.
class SwitchLoopExec {
 public:
  SwitchLoopExec(SwitchLoopExec&&) noexcept;
  ~SwitchLoopExec();
  /// Returns at once. REQUIRES: the launch before has ended.
  void launch(StreamRef stream);
  LoopForm form() const;
  ExecMemory memory() const;

 private:
  friend class SwitchLoop;
  struct Impl;
  explicit SwitchLoopExec(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attacca
