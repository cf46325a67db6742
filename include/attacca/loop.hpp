// loop.hpp: a loop, written once as a body and a condition, and lowered to the cheapest legal form
// on its device. The body runs once, and again while the condition is set to non-zero.
#pragma once

#include <array>
#include <attacca/exec.hpp>
#include <attacca/persistent.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace attacca {

enum class LoopForm : std::uint8_t { while_node, self_relaunch, persistent_kernel, host_loop };
inline constexpr int kLoopForms = 4;
const char* loop_form_name(LoopForm form);

/// One form that a loop can take: whether it is legal, and its cost.
struct LoopOption {
  LoopForm form = LoopForm::host_loop;
  bool is_legal = false;
  std::string why_not;  // empty where legal
  // Where legal: overhead plus node dispatch as measured on the device, without the kernels' work.
  double microseconds_per_pass = 0;
};

/// The options; the cheapest legal one is chosen. Prints as a short table of reasons.
struct LoopPlan {
  std::string loop;
  std::array<LoopOption, kLoopForms> options;
  LoopForm chosen = LoopForm::host_loop;
  std::string explain() const;
};

class LoopExec;

class Loop {
 public:
  using Body = std::function<void(Graph&, Condition again)>;
  Loop(const Device& device, std::string name, Body body);

  /// Offers a persistent kernel that can run the body's kernels; see persistent.hpp.
  Loop& with(const PersistentProgram& program);

  /// The first plan for a device runs small loops on it to measure the cost of each form: some
  /// milliseconds on the host. The result is kept as long as the program runs.
  LoopPlan plan() const;
  /// Lowers to the plan's choice, or to `form`, which must be legal.
  LoopExec instantiate(std::optional<LoopForm> form = std::nullopt) const;
  /// The loop as a graph with a WHILE node, for printing.
  Graph graph() const;

 private:
  /// Says which forms are legal, measures nothing and chooses none.
  LoopPlan options() const;
  /// The body with a condition that no node tests, for inspection.
  Graph body_without_cell() const;

  Device device_;
  std::string name_;
  Body body_;
  std::optional<PersistentProgram> program_;
};

/// A lowered loop. `launch` returns at once in every form except host_loop, which runs the passes
/// on the calling thread, returns when the last one has ended, and throws their failures. Like an
/// Exec it may be destroyed while a launch is in flight.
class LoopExec {
 public:
  LoopExec(LoopExec&&) noexcept;
  ~LoopExec();
  void launch(StreamRef stream);
  LoopForm form() const;

 private:
  friend class Loop;
  struct Impl;
  explicit LoopExec(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attacca
