// program.hpp: random programs, which are graphs with control flow whose result depends on every
// edge, and an interpreter that computes the expected result. program_graph.hpp builds the graphs.
// Each step owns one cell, and reads only cells of steps that the edges put before it, so the
// result does not depend on which steps run at the same time.
#pragma once

#include <rapidcheck.h>
#include <attacca/attacca.hpp>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "support/kernels.hpp"

namespace attacca::test {

enum class StepKind {
  kernel,
  copy,
  fill,
  host,
  library,
  scratch,
  child,
  if_,
  if_else,
  switch_,
  while_
};
inline constexpr const char* kStepNames[] = {"kernel",  "copy",    "fill",  "host",
                                             "library", "scratch", "child", "if",
                                             "if/else", "switch",  "while"};

struct Step;
using Steps = std::vector<Step>;

struct Step {
  StepKind kind = StepKind::kernel;
  std::uint32_t cell = 0;  // its own; also its number in the program
  std::uint32_t salt = 0;
  std::vector<unsigned> after;       // places of earlier steps of the same scope
  std::vector<std::uint32_t> reads;  // cells; a conditional chooses by the first
  bool is_enabled = true;            // mix, copy, fill
  bool is_programmatic = false;      // mix: its edges from kernels are programmatic
  bool is_copied = false;            // child: built as a graph of its own and copied in
  std::uint32_t passes = 1;          // while
  std::vector<Steps> bodies;
};

struct Program {
  Steps steps;
  std::uint32_t cell_count = 0;
};

// --- generator ----------------------------------------------------------------------------------

struct Shape {
  unsigned max_steps = 60;
  unsigned max_depth = 3;
  bool has_conditionals = true;
};

class ProgramMaker {
 public:
  explicit ProgramMaker(const Shape& shape) : shape_(shape), steps_left_(shape.max_steps) {}

  Program make() {
    Program program;
    program.steps = scope(0, false, {}, 16);
    program.cell_count = next_cell_;
    return program;
  }

 private:
  using Cells = std::vector<std::uint32_t>;

  /// Picks evenly; inRange alone would prefer small numbers in the first cases.
  static unsigned pick(unsigned below) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0u, below));
  }

  Steps scope(unsigned depth, bool is_body, const Cells& seen, unsigned most) {
    Steps steps;
    std::vector<Cells> seen_after;  // cells that each step so far, and those after it, may read
    const unsigned count = 1 + pick(most);
    for (unsigned at = 0; at < count && (at == 0 || steps_left_ > 0); ++at) {
      if (steps_left_ > 0) --steps_left_;
      Step step;
      step.cell = next_cell_++;
      step.salt = pick(1000);
      Cells visible = seen;
      if (at > 0)
        for (unsigned edges = pick(std::min(at, 3u) + 1); edges > 0; --edges) {
          const unsigned from = pick(at);
          if (std::find(step.after.begin(), step.after.end(), from) != step.after.end()) continue;
          step.after.push_back(from);
          visible.insert(visible.end(), seen_after[from].begin(), seen_after[from].end());
        }
      if (!visible.empty())
        for (unsigned reads = pick(MixArgs::kMaxReads + 1); reads > 0; --reads)
          step.reads.push_back(visible[pick(static_cast<unsigned>(visible.size()))]);
      // The first step of a body is a kernel, so that no body is empty.
      if (at > 0) choose_kind(step, depth, is_body);
      const std::uint32_t first_inner = next_cell_;
      fill(step, depth, is_body, visible);
      visible.push_back(step.cell);
      for (std::uint32_t inner = first_inner; inner < next_cell_; ++inner) visible.push_back(inner);
      std::sort(visible.begin(), visible.end());
      visible.erase(std::unique(visible.begin(), visible.end()), visible.end());
      seen_after.push_back(std::move(visible));
      steps.push_back(std::move(step));
    }
    return steps;
  }

  void choose_kind(Step& step, unsigned depth, bool is_body) {
    using Kind = StepKind;
    std::vector<Kind> kinds(4, Kind::kernel);
    kinds.insert(kinds.end(), {Kind::fill, Kind::library});
    if (!step.reads.empty()) kinds.push_back(Kind::copy);
    if (!is_body && shape_.has_conditionals) {
      kinds.push_back(Kind::host);
      if (!step.reads.empty()) kinds.push_back(Kind::scratch);
    }
    if (depth < shape_.max_depth) {
      kinds.push_back(Kind::child);
      if (shape_.has_conditionals)
        kinds.insert(kinds.end(),
                     {Kind::if_, Kind::if_else, Kind::switch_, Kind::while_, Kind::while_});
    }
    step.kind = kinds[pick(static_cast<unsigned>(kinds.size()))];
  }

  void fill(Step& step, unsigned depth, bool is_body, const Cells& visible) {
    const bool is_body_inside = is_body || step.kind != StepKind::child;
    const auto add_bodies = [&](unsigned count) {
      for (unsigned at = 0; at < count; ++at)
        step.bodies.push_back(scope(depth + 1, is_body_inside, visible, 5));
    };
    switch (step.kind) {
      case StepKind::kernel:
        step.is_programmatic = pick(4) == 0;
        break;
      case StepKind::child:
        step.is_copied = pick(2) == 0;
        add_bodies(1);
        break;
      case StepKind::if_:
        add_bodies(1);
        break;
      case StepKind::if_else:
        add_bodies(2);
        break;
      case StepKind::switch_:
        add_bodies(1 + pick(3));
        break;
      case StepKind::while_:
        step.passes = 1 + pick(4);
        add_bodies(1);
        break;
      default:
        break;
    }
  }

  Shape shape_;
  unsigned steps_left_;
  std::uint32_t next_cell_ = 0;
};

inline rc::Gen<Program> programs(const Shape& shape = {}) {
  return rc::gen::exec([shape] { return ProgramMaker(shape).make(); });
}

// --- interpreter --------------------------------------------------------------------------------

class Interpreter {
 public:
  explicit Interpreter(std::vector<std::uint32_t>& cells) : cells_(cells) {}

  void run(const Steps& steps) {
    for (const Step& step : steps) run(step);
  }

 private:
  void run(const Step& step) {
    const std::uint32_t choice = cells_[step.reads.empty() ? step.cell : step.reads.front()];
    std::uint32_t& own = cells_[step.cell];
    switch (step.kind) {
      case StepKind::kernel:
      case StepKind::library:
        if (!step.is_enabled) break;
        own = mix_in(own, step.salt);
        for (const std::uint32_t cell : step.reads) own = mix_in(own, cells_[cell]);
        break;
      case StepKind::copy:
      case StepKind::scratch:
        if (step.is_enabled) own = choice;
        break;
      case StepKind::fill:
        if (step.is_enabled) own = 0x01010101u * (step.salt % 256);
        break;
      case StepKind::host:
        break;
      case StepKind::child:
        run(step.bodies[0]);
        break;
      case StepKind::if_:
      case StepKind::if_else:
        if (choice % 2)
          run(step.bodies[0]);
        else if (step.bodies.size() > 1)
          run(step.bodies[1]);
        break;
      case StepKind::switch_:
        if (const std::size_t at = choice % (step.bodies.size() + 1); at < step.bodies.size())
          run(step.bodies[at]);
        break;
      case StepKind::while_:
        if (choice % 2) do {
            run(step.bodies[0]);
            ++own;
          } while (own % step.passes != 0);
        break;
    }
  }

  std::vector<std::uint32_t>& cells_;
};

inline std::vector<std::uint32_t> first_cells(const Program& program) {
  std::vector<std::uint32_t> cells(program.cell_count);
  for (std::uint32_t at = 0; at < program.cell_count; ++at) cells[at] = at * 2654435761u;
  return cells;
}

// --- printing -----------------------------------------------------------------------------------

inline void show(const Steps& steps, const std::string& indent, std::ostream& os) {
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const Step& step = steps[at];
    os << indent << at << ": " << kStepNames[static_cast<int>(step.kind)] << " cell " << step.cell
       << " salt " << step.salt << " after [";
    for (const unsigned from : step.after) os << from << ' ';
    os << "] reads [";
    for (const std::uint32_t cell : step.reads) os << cell << ' ';
    os << ']' << (step.is_enabled ? "" : " off") << (step.is_programmatic ? " programmatic" : "")
       << (step.is_copied ? " copied" : "");
    if (step.kind == StepKind::while_) os << " passes " << step.passes;
    os << '\n';
    for (const Steps& body : step.bodies) {
      show(body, indent + "    ", os);
      os << indent << "    --\n";
    }
  }
}
inline void showValue(const Program& program, std::ostream& os) {
  os << '\n';
  show(program.steps, "  ", os);
}

}  // namespace attacca::test
