// loop.hpp: a loop, written once as a body and a condition, and lowered to whatever is legal and
// cheapest on its device. The body runs once, and again while the condition is set to non-zero.
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

/// What lowering a loop in one form means.
struct LoopOption {
  LoopForm form = LoopForm::host_loop;
  bool is_legal = false;
  std::string why_not;  // empty where legal
  // Where legal: overhead plus node dispatch, as measured on the device, not the kernels' own work.
  double microseconds_per_pass = 0;
};

/// The options, cheapest legal one chosen. Prints as a short table of reasons.
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

  /// The first plan for a device runs small loops on it, to learn what each form costs there: some
  /// milliseconds on the host. What it learns is kept for as long as the program runs.
  LoopPlan plan() const;
  /// Lowers to the plan's choice, or to `form`, which must be legal.
  LoopExec instantiate(std::optional<LoopForm> form = std::nullopt) const;
  /// The loop as a graph with a WHILE node, for printing.
  Graph graph() const;

 private:
  /// Which forms are legal, at no cost; none is chosen.
  LoopPlan options() const;
  /// The body with a condition that stands nowhere, to be looked at.
  Graph body_without_cell() const;

  Device device_;
  std::string name_;
  Body body_;
  std::optional<PersistentProgram> program_;
};

/// A lowered loop. `launch` returns at once in every form but host_loop, which runs the passes on
/// the calling thread, returns when the last one has ended, and throws what fails in them. Like an
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
