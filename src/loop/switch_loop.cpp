// switch_loop.cpp: builds a SwitchLoop in one of two forms, and measures small loops of both to
// choose one.
#include <attacca/memory.hpp>
#include <attacca/switch_loop.hpp>

#include <fmt/core.h>

#include <variant>

#include "graph/data.hpp"
#include "graph/executor.hpp"
#include "loop/costs.hpp"
#include "loop/next_arm.hpp"

namespace attacca {

using attacca::detail::HandleKind;
using graph::Access;
using graph::data_of;

/// What the graphs of a self-relaunching loop share. The graph that the host launches keeps it, and
/// so do launches in flight.
struct SwitchLoop::Arms {
  explicit Arms(const Device& device, std::size_t count)
      : cells(device, std::vector<unsigned>(2)), graphs(device, count + 1) {}

  Condition again() const { return cell(0); }
  Condition arm() const { return cell(1); }
  Condition cell(std::size_t at) const {
    return Condition(reinterpret_cast<std::uint64_t>(cells.data() + at), HandleKind::cell);
  }

  Buffer<unsigned> cells;  // the two conditions
  Buffer<DeviceGraph> graphs;
  std::vector<DeviceExec> execs;  // in the order of `graphs`
};

struct SwitchLoopExec::Impl {
  LoopForm form;
  std::variant<Exec, DeviceExec> exec;
  std::size_t arms_bytes = 0;  // of the graphs that the device launches, on the host
};

SwitchLoopExec::SwitchLoopExec(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SwitchLoopExec::SwitchLoopExec(SwitchLoopExec&&) noexcept = default;
SwitchLoopExec::~SwitchLoopExec() = default;
LoopForm SwitchLoopExec::form() const { return impl_->form; }

ExecMemory SwitchLoopExec::memory() const {
  ExecMemory memory = std::visit([](const auto& exec) { return exec.memory(); }, impl_->exec);
  memory.host_bytes += impl_->arms_bytes;
  return memory;
}

void SwitchLoopExec::launch(StreamRef stream) {
  if (impl_->form == LoopForm::while_node) return std::get<Exec>(impl_->exec).launch(stream);
  std::get<DeviceExec>(impl_->exec).start(stream);
}

SwitchLoop::SwitchLoop(const Device& device, std::string name, Parts parts)
    : device_(device), name_(std::move(name)), parts_(std::move(parts)) {
  if (!parts_.lead) throw BadArgument(fmt::format("loop '{}' has no lead", name_));
  if (parts_.arms.empty()) throw BadArgument(fmt::format("loop '{}' has no arm", name_));
  if (!parts_.arm_names.empty() && parts_.arm_names.size() != parts_.arms.size())
    throw BadArgument(
        fmt::format("loop '{}' has {} arms and {} names for them; give each a name, or "
                    "none",
                    name_, parts_.arms.size(), parts_.arm_names.size()));
  if (parts_.next && !parts_.beside)
    throw BadArgument(
        fmt::format("loop '{}' knows the next arm early, but nothing beside the arm "
                    "could tell it; give it a `beside`, or no `next`",
                    name_));
}

namespace {

/// Puts a node behind others. A kernel that waits for its producers may be on its way before they
/// have ended: what stands between two arms is time in which nothing else runs.
void put_behind(const Node& node, const std::vector<Node>& producers) {
  const auto* const kernel = std::get_if<graph::KernelPart>(&Access::node(node).part);
  for (const Node& producer : producers) {
    const bool starts_early =
        kernel && kernel->info->traits.waits &&
        std::holds_alternative<graph::KernelPart>(Access::node(producer).part);
    Access::add_edge(node, producer, starts_early ? EdgeKind::programmatic : EdgeKind::full);
  }
}

/// Puts the nodes that `fill` adds behind `producers`.
void fill_after(Graph& graph, const std::vector<Node>& producers, const Graph::Fill& fill) {
  const std::size_t before = graph.nodes().size();
  fill(graph);
  const std::vector<Node> nodes = graph.nodes();
  for (std::size_t at = before; at < nodes.size(); ++at)
    if (Access::node(nodes[at]).deps.empty()) put_behind(nodes[at], producers);
}

}  // namespace

Graph SwitchLoop::graph() const {
  Graph whole(device_, name_);
  if (parts_.before) parts_.before(whole);
  const std::vector<Node> before = Access::last_nodes(whole);
  const Node loop = whole.while_(name_, [&](Graph& pass, Condition again) {
    const Condition arm = pass.condition("arm", static_cast<unsigned>(parts_.arms.size()));
    parts_.lead(pass, again, arm);
    const std::vector<Node> lead = Access::last_nodes(pass);
    if (parts_.beside) fill_after(pass, lead, parts_.beside);
    const Node arms = pass.switch_("arm", arm, parts_.arms).after(lead);
    graph::GraphData& data = data_of(pass);
    const std::vector<graph::ScopeId> bodies = insides_of(data.nodes[arms.id()]);
    for (std::size_t at = 0; at < parts_.arm_names.size(); ++at)
      data.scopes[bodies[at]].label = parts_.arm_names[at];
  });
  put_behind(loop, before);
  return whole;
}

/// An arm and what runs beside it, then the lead, which decides on the next arm. The number after
/// the last arm's has none, and the one after that is the loop's first pass, of `before` and a
/// lead. A launch waits until the whole pass has ended, so it may be made as soon as the next arm
/// is known: behind the lead it would lengthen the gap between two arms.
Graph SwitchLoop::pass_of(unsigned arm, const Arms& arms) const {
  const auto none = static_cast<unsigned>(parts_.arms.size());
  const auto arm_name = [&] {
    return parts_.arm_names.empty() ? fmt::format("arm {}", arm) : parts_.arm_names[arm];
  };
  Graph pass(device_, arm < none ? fmt::format("{}, {}", name_, arm_name()) : name_);
  const bool launches_early = arm < none && parts_.next;
  const auto launch_behind = [&](const std::vector<Node>& nodes) {
    const unsigned* const again = launches_early ? nullptr : arms.cells.data();
    const unsigned* const next = launches_early ? parts_.next : arms.cells.data() + 1;
    put_behind(pass.kernel(loop::next_arm(), Grid{}, {again, next, arms.graphs.data(), none, arm}),
               nodes);
  };
  if (arm < none) parts_.arms[arm](pass);
  const std::size_t of_arm = data_of(pass).nodes.size();
  if (arm <= none && parts_.beside) parts_.beside(pass);
  if (launches_early) {
    std::vector<Node> beside = Access::last_nodes(pass);
    std::erase_if(beside, [&](const Node& node) { return node.id() < of_arm; });
    launch_behind(beside);
  }
  if (arm > none && parts_.before) parts_.before(pass);
  fill_after(pass, Access::last_nodes(pass),
             [&](Graph& graph) { parts_.lead(graph, arms.again(), arms.arm()); });
  const std::vector<Node> lead = Access::last_nodes(pass);
  if (!launches_early) launch_behind(lead);
  if (arm == none && parts_.behind) fill_after(pass, lead, parts_.behind);
  return pass;
}

LoopPlan SwitchLoop::plan() const {
  LoopPlan plan;
  plan.loop = name_;
  const Arms arms(device_, parts_.arms.size());
  const auto relaunch_problem = [&]() -> std::string {
    for (unsigned arm = 0; arm <= parts_.arms.size() + 1; ++arm)
      for (const GraphError& problem : pass_of(arm, arms).device_problems()) return problem.what();
    return "";
  };
  const std::vector<GraphError> while_problems = graph().problems();
  for (std::size_t at = 0; at < plan.options.size(); ++at) {
    LoopOption& option = plan.options[at];
    option.form = static_cast<LoopForm>(at);
    if (option.form == LoopForm::while_node)
      option.why_not = while_problems.empty() ? "" : while_problems.front().what();
    else if (option.form == LoopForm::self_relaunch)
      option.why_not = relaunch_problem();
    else
      option.why_not = "a loop that switches has no such form";
    option.is_legal = option.why_not.empty();
    if (option.is_legal) option.microseconds_per_pass = loop::cost_of_switch(device_, option.form);
  }
  const LoopOption &by_while = plan.options[0], &by_relaunch = plan.options[1];
  if (!by_while.is_legal && !by_relaunch.is_legal) throw while_problems.front();
  const bool relaunches =
      by_relaunch.is_legal &&
      (!by_while.is_legal || by_relaunch.microseconds_per_pass < by_while.microseconds_per_pass);
  plan.chosen = relaunches ? LoopForm::self_relaunch : LoopForm::while_node;
  return plan;
}

SwitchLoopExec SwitchLoop::instantiate(std::optional<LoopForm> form) const {
  const LoopForm wanted = form ? *form : plan().chosen;
  if (wanted == LoopForm::while_node)
    return SwitchLoopExec(
        std::make_unique<SwitchLoopExec::Impl>(wanted, graph().instantiate(), std::size_t{0}));
  if (wanted != LoopForm::self_relaunch)
    throw BadArgument(
        fmt::format("loop '{}' cannot become a {}: a loop that switches has no such "
                    "form; use while_node or self_relaunch",
                    name_, loop_form_name(wanted)));
  const auto count = static_cast<unsigned>(parts_.arms.size());
  const auto arms = std::make_shared<Arms>(device_, count);
  std::vector<DeviceGraph> handles;
  std::size_t bytes = 0;
  for (unsigned arm = 0; arm <= count; ++arm) {
    arms->execs.push_back(pass_of(arm, *arms).instantiate_for_device());
    handles.push_back(arms->execs.back().handle());
    bytes += arms->execs.back().memory().host_bytes;
  }
  arms->graphs.write(handles);
  Graph first = pass_of(count + 1, *arms);
  data_of(first).keeps.push_back(arms);
  return SwitchLoopExec(
      std::make_unique<SwitchLoopExec::Impl>(wanted, first.instantiate_for_device(), bytes));
}

}  // namespace attacca
