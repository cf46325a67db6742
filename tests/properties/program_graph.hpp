// program_graph.hpp: builds the graph of a random program.
#pragma once

#include <attacca/attacca.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "properties/program.hpp"

namespace attacca::test {

/// Handles of the kernels that can be set, by cell.
using Handles = std::map<std::uint32_t, KernelNode<MixArgs>>;

class ProgramBuilder {
 public:
  ProgramBuilder(std::uint32_t* cells, Handles& handles) : cells_(cells), handles_(handles) {}

  void build(const Steps& steps, Graph& into) {
    std::vector<Built> built;
    for (const Step& step : steps) {
      std::vector<Node> producers;
      bool all_kernels = !step.after.empty();
      for (const unsigned from : step.after) {
        producers.push_back(*built[from].exit);
        all_kernels = all_kernels && built[from].is_kernel;
      }
      built.push_back(build(step, into, producers, all_kernels));
    }
    ends_ = {};
    for (const Built& one : built) ends_.push_back(*one.exit);
  }

  static MixArgs args_of(const Step& step, std::uint32_t* cells) {
    MixArgs args{};
    args.cells = cells;
    args.self = step.cell;
    args.salt = step.salt;
    for (const std::uint32_t cell : step.reads) args.reads[args.count++] = cell;
    return args;
  }

 private:
  struct Built {
    std::optional<Node> exit;  // nodes behind the step follow this one
    bool is_kernel = false;
  };

  Built build(const Step& step, Graph& into, const std::vector<Node>& producers, bool all_kernels) {
    std::uint32_t* own = cells_ + step.cell;
    const std::uint32_t from = step.reads.empty() ? step.cell : step.reads.front();
    const std::string name =
        kStepNames[static_cast<int>(step.kind)] + (" " + std::to_string(step.cell));
    switch (step.kind) {
      case StepKind::kernel: {
        const bool waits = step.is_programmatic && all_kernels;
        const auto node = into.kernel(waits ? mix_waiting : mix, Grid{}, args_of(step, cells_))
                              .named(name)
                              .enabled(step.is_enabled);
        for (const Node& producer : producers)
          waits ? node.after_programmatic(producer) : node.after(producer);
        handles_.emplace(step.cell, node);
        return {node, true};
      }
      case StepKind::copy:
        return {
            into.copy(own, cells_ + from, 4).named(name).after(producers).enabled(step.is_enabled)};
      case StepKind::fill:
        return {into.fill(own, static_cast<std::uint8_t>(step.salt % 256), 4)
                    .named(name)
                    .after(producers)
                    .enabled(step.is_enabled)};
      case StepKind::host:
        return {into.host(name, [] {}).after(producers)};
      case StepKind::library:
        return {into.library(name, [args = args_of(step, cells_)](
                                       StreamRef on) { on.kernel(mix, Grid{}, args); })
                    .after(producers)};
      case StepKind::scratch: {
        const auto memory = into.allocate<std::uint32_t>(name, 3).after(producers);
        const auto in = into.copy(memory.data() + 2, cells_ + from, 4).after(memory);
        const auto out = into.copy(own, memory.data() + 2, 4).after(in);
        return {into.free(memory).after(out)};
      }
      case StepKind::child: {
        if (!step.is_copied)
          return {into.child(name, [&](Graph& inside) { build(step.bodies[0], inside); })
                      .after(producers)};
        Graph other(into.device(), name);
        Handles unreachable;
        ProgramBuilder(cells_, unreachable).build(step.bodies[0], other);
        return {into.child(name, other).after(producers)};
      }
      default:
        return {build_conditional(step, into, producers, name, from)};
    }
  }

  Node build_conditional(const Step& step, Graph& into, const std::vector<Node>& producers,
                         const std::string& name, std::uint32_t from) {
    const Condition condition = into.condition(name);
    const auto modulo =
        step.kind == StepKind::switch_ ? static_cast<std::uint32_t>(step.bodies.size() + 1) : 2u;
    const auto set =
        into.kernel(choose, Grid{},
                    {.condition = condition, .cells = cells_, .from = from, .modulo = modulo})
            .after(producers);
    std::vector<Graph::Fill> bodies;
    for (const Steps& body : step.bodies)
      bodies.push_back([&](Graph& inside) { build(body, inside); });
    if (step.kind == StepKind::if_) return into.if_(name, condition, bodies[0]).after(set);
    if (step.kind == StepKind::if_else)
      return into.if_(name, condition, bodies[0], bodies[1]).after(set);
    if (step.kind == StepKind::switch_) return into.switch_(name, condition, bodies).after(set);
    return into
        .while_(name, condition,
                [&](Graph& inside) {
                  bodies[0](inside);
                  inside
                      .kernel(count_pass, Grid{},
                              {.again = condition,
                               .cells = cells_,
                               .counter = step.cell,
                               .passes = step.passes})
                      .after(ends_);
                })
        .after(set);
  }

  std::uint32_t* cells_;
  Handles& handles_;
  std::vector<Node> ends_;  // of the scope built last
};

}  // namespace attacca::test
