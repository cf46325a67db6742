// Properties of whole graphs: random programs give the interpreter's result on every device, byte
// for byte, launch after launch, and an updated exec gives the same result as a new one.
#include <cstdlib>

#include "properties/program.hpp"
#include "properties/program_graph.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

// Makes rapidcheck try the same cases every time, unless RC_PARAMS is set. It reads the variable at
// the first check.
const bool kIsSeeded = [] { return ::setenv("RC_PARAMS", "seed=7 max_success=200", 0) == 0; }();

class GraphProperty : public OnEachDevice {
 protected:
  /// Ends early on a GPU, where each case instantiates graphs.
  bool is_enough() { return is_cuda() && ++cases_ > 40; }

  std::vector<std::uint32_t> launch_and_read(Exec& exec, Buffer<std::uint32_t>& cells,
                                             const std::vector<std::uint32_t>& start, int times) {
    cells.write(start);
    for (int at = 0; at < times; ++at) exec.launch(stream());
    stream().synchronize();
    return cells.read();
  }
  static std::vector<std::uint32_t> interpreted(const Program& program,
                                                const std::vector<std::uint32_t>& start,
                                                int times) {
    std::vector<std::uint32_t> cells = start;
    for (int at = 0; at < times; ++at) Interpreter(cells).run(program.steps);
    return cells;
  }

 private:
  int cases_ = 0;
};
ATTACCA_ON_EACH_DEVICE(GraphProperty);

TEST_P(GraphProperty, a_graph_gives_what_the_interpreter_gives) {
  ASSERT_TRUE(kIsSeeded);
  EXPECT_TRUE(rc::check("a graph gives what the interpreter gives", [&] {
    const Program program = *programs();
    if (is_enough()) return;
    const std::vector<std::uint32_t> start = first_cells(program);
    Buffer<std::uint32_t> cells(device(), start);
    Handles handles;
    Graph graph(device(), "random");
    ProgramBuilder(cells.data(), handles).build(program.steps, graph);
    for (const GraphError& problem : graph.problems()) RC_FAIL(problem.what());

    Exec exec = graph.instantiate();
    RC_ASSERT(launch_and_read(exec, cells, start, 1) == interpreted(program, start, 1));
    RC_ASSERT(launch_and_read(exec, cells, start, 3) == interpreted(program, start, 3));
  }));
}

TEST_P(GraphProperty, a_device_graph_gives_what_the_interpreter_gives) {
  EXPECT_TRUE(rc::check("a device graph gives what the interpreter gives", [&] {
    const Program program = *programs({.max_steps = 40, .has_conditionals = false});
    const auto mode =
        *rc::gen::element(LaunchMode::tail, LaunchMode::fire_and_forget, LaunchMode::sibling);
    if (is_enough()) return;
    const std::vector<std::uint32_t> start = first_cells(program);
    Buffer<std::uint32_t> cells(device(), start);
    Handles handles;
    Graph graph(device(), "random");
    ProgramBuilder(cells.data(), handles).build(program.steps, graph);
    const DeviceExec target = graph.instantiate_for_device();
    Graph outer(device(), "launcher");
    outer.kernel(launch, Grid{}, {.graph = target.handle(), .mode = mode, .tally = {}});
    Exec exec = outer.instantiate();
    RC_ASSERT(launch_and_read(exec, cells, start, 3) == interpreted(program, start, 3));
  }));
}

/// All kernel steps of a program, bodies included.
void collect_kernels(Steps& steps, std::vector<Step*>& into) {
  for (Step& step : steps) {
    if (step.kind == StepKind::kernel) into.push_back(&step);
    for (Steps& body : step.bodies) collect_kernels(body, into);
  }
}

TEST_P(GraphProperty, updates_leave_an_exec_as_a_fresh_one_would_be) {
  EXPECT_TRUE(rc::check("updates leave an exec as a fresh one would be", [&] {
    Program program = *programs();
    const auto rounds = *rc::gen::container<std::vector<std::vector<unsigned>>>(
        3, rc::gen::container<std::vector<unsigned>>(4, rc::gen::inRange(0u, 100000u)));
    if (is_enough()) return;
    const std::vector<std::uint32_t> start = first_cells(program);
    Buffer<std::uint32_t> cells(device(), start);
    Handles handles;
    Graph graph(device(), "random");
    ProgramBuilder(cells.data(), handles).build(program.steps, graph);
    Exec exec = graph.instantiate();
    std::vector<Step*> kernels;
    collect_kernels(program.steps, kernels);

    for (const std::vector<unsigned>& round : rounds) {
      for (const unsigned random : round) {
        Step& step = *kernels[random % kernels.size()];
        const auto handle = handles.find(step.cell);
        if (handle == handles.end()) continue;  // in a child that was copied in
        if (random / 64 % 2) {
          step.salt = random;
          exec.set(handle->second, ProgramBuilder::args_of(step, cells.data()));
        } else {
          step.is_enabled = !step.is_enabled;
          exec.enable(handle->second, step.is_enabled);
        }
      }
      Graph now(device(), "fresh");
      Handles others;
      ProgramBuilder(cells.data(), others).build(program.steps, now);
      Exec fresh = now.instantiate();
      const auto expected = interpreted(program, start, 2);
      RC_ASSERT(launch_and_read(exec, cells, start, 2) == expected);
      RC_ASSERT(launch_and_read(fresh, cells, start, 2) == expected);
    }
  }));
}

TEST_P(GraphProperty, updating_from_a_graph_leaves_an_exec_as_a_fresh_one_would_be) {
  EXPECT_TRUE(rc::check("updating from a graph leaves an exec as a fresh one would be", [&] {
    const Program first = *programs({.max_steps = 30});
    // Sometimes the same shape with other values, sometimes another program altogether.
    Program second = *rc::gen::inRange(0, 3) == 0 ? *programs({.max_steps = 30}) : first;
    const unsigned salt = *rc::gen::inRange(0u, 1000u);
    if (is_enough()) return;
    std::vector<Step*> kernels;
    collect_kernels(second.steps, kernels);
    for (std::size_t at = 0; at < kernels.size(); ++at) {
      kernels[at]->salt += salt * (at % 3);
      kernels[at]->is_enabled = (salt + at) % 5 != 0;
    }
    std::vector<std::uint32_t> start = first_cells(first);
    if (second.cell_count > first.cell_count) start = first_cells(second);
    Buffer<std::uint32_t> cells(device(), start);
    const auto build = [&](const Program& program) {
      Handles handles;
      Graph graph(device(), "random");
      ProgramBuilder(cells.data(), handles).build(program.steps, graph);
      return graph;
    };
    Exec exec = build(first).instantiate();
    RC_ASSERT(launch_and_read(exec, cells, start, 1) == interpreted(first, start, 1));
    exec.update(build(second));
    RC_ASSERT(launch_and_read(exec, cells, start, 2) == interpreted(second, start, 2));
    exec.update(build(first));
    RC_ASSERT(launch_and_read(exec, cells, start, 2) == interpreted(first, start, 2));
  }));
}

}  // namespace
}  // namespace attacca::test
