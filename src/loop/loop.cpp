// loop.cpp: chooses the form of a loop and builds it in one of four forms. The validator's problems
// are the reasons against a form. Costs are measured on the device (costs.hpp).
#include <attacca/loop.hpp>
#include <attacca/memory.hpp>
#include <attacca/occupancy.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <variant>

#include "graph/data.hpp"
#include "graph/executor.hpp"
#include "graph/lower.hpp"
#include "graph/marks.hpp"
#include "loop/costs.hpp"
#include "loop/relaunch.hpp"

namespace attacca {

using namespace graph;
using attacca::detail::GridBarrier;
using attacca::detail::HandleKind;
using attacca::detail::PersistentArgs;
using attacca::detail::PersistentParts;
using attacca::detail::PersistentStep;

namespace {

loop::BodySize size_of(const GraphData& body) {
  loop::BodySize size{};
  for (const LoweredNode& node : lower(body).root.nodes) {
    const auto* kernel = std::get_if<KernelPart>(&body.nodes[node.id].part);
    ++size.nodes;
    size.large_nodes += kernel && kernel->grid.blocks.count() > 1;
  }
  return size;
}

Condition cell_condition(unsigned* cell) {
  return Condition(reinterpret_cast<std::uint64_t>(cell), HandleKind::cell);
}

/// Why the body cannot be one persistent kernel; empty if it can.
std::string persistent_obstacle(const GraphData& data, const PersistentParts* program) {
  if (!program) return "no persistent program was offered; see Loop::with and make_persistent";
  const Lowered lowered = lower(data);
  const KernelPart* first = nullptr;
  for (const LoweredNode& node : lowered.root.nodes) {
    const NodeData& from = data.nodes[node.id];
    const auto* kernel = std::get_if<KernelPart>(&from.part);
    if (!kernel) return fmt::format("{} '{}' is no kernel", kind_name(from), from.name);
    if (std::find(program->parts.begin(), program->parts.end(), kernel->info) ==
        program->parts.end())
      return fmt::format("kernel '{}' is not in the persistent program", from.name);
    if (!first) first = kernel;
    if (!(kernel->grid.threads == first->grid.threads))
      return fmt::format("kernel '{}' has blocks of another size", from.name);
    if (kernel->grid.shared_bytes != 0)
      return fmt::format("kernel '{}' uses dynamic shared memory", from.name);
    if (data.find_l2_window(from))
      return fmt::format("kernel '{}' has an L2 window, and one kernel can have only one",
                         from.name);
    if (kernel->is_device_updatable || !from.is_enabled)
      return fmt::format("kernel '{}' is switched off or device-updatable", from.name);
  }
  if (data.device.is_cuda() && !program->kernel.cuda)
    return "the persistent program has no CUDA body; compile its file with nvcc";
  return "";
}

std::string first_reason(const std::vector<GraphError>& problems) {
  return problems.empty() ? "" : problems.front().what();
}

}  // namespace

const char* loop_form_name(LoopForm form) {
  switch (form) {
    case LoopForm::while_node:
      return "while node";
    case LoopForm::self_relaunch:
      return "self-relaunch";
    case LoopForm::persistent_kernel:
      return "persistent kernel";
    case LoopForm::host_loop:
      return "host loop";
  }
  return "unknown form";
}

std::string LoopPlan::explain() const {
  std::string text = fmt::format("loop '{}' becomes a {}; costs are measured on this machine\n",
                                 loop, loop_form_name(chosen));
  for (const LoopOption& option : options) {
    text += fmt::format("  {:<18}", loop_form_name(option.form));
    const bool is_cheapest = std::none_of(options.begin(), options.end(), [&](const auto& other) {
      return other.is_legal && other.microseconds_per_pass < option.microseconds_per_pass;
    });
    if (!option.is_legal)
      text += fmt::format("not possible: {}\n", option.why_not);
    else
      text += fmt::format("about {:.2f} us per pass beside the kernels' work{}\n",
                          option.microseconds_per_pass,
                          option.form != chosen ? ""
                          : is_cheapest         ? "   <- chosen"
                                                : "   <- asked for");
  }
  return text;
}

Loop::Loop(const Device& device, std::string name, Body body)
    : device_(device), name_(std::move(name)), body_(std::move(body)) {
  if (!body_) throw BadArgument(fmt::format("loop '{}' has no body", name_));
}

Loop& Loop::with(const PersistentProgram& program) {
  if (program.patience.count() <= 0)
    throw BadArgument(fmt::format(
        "loop '{}': the blocks of a persistent kernel would wait for one another for {} "
        "ns; give PersistentProgram::patience a positive time, such as 60s",
        name_, program.patience.count()));
  program_ = program;
  return *this;
}

Graph Loop::body_without_cell() const {
  static unsigned no_cell = 0;
  Graph body(device_, name_);
  body_(body, cell_condition(&no_cell));
  return body;
}

Graph Loop::graph() const {
  Graph graph(device_, name_);
  graph.while_(name_, body_);
  return graph;
}

LoopPlan Loop::options() const {
  const Graph whole = graph();
  const std::vector<GraphError> while_problems = whole.problems();
  for (const GraphError& problem : while_problems)
    if (problem.rule() == Rule::condition_never_set || problem.rule() == Rule::empty_body ||
        problem.rule() == Rule::cycle)
      throw problem;

  const Graph body = body_without_cell();
  LoopPlan plan;
  plan.loop = name_;
  const std::array<std::string, kLoopForms> obstacles{
      first_reason(while_problems), first_reason(body.device_problems()),
      persistent_obstacle(data_of(body), program_ ? program_->parts_.get() : nullptr),
      first_reason(body.problems())};
  for (std::size_t at = 0; at < plan.options.size(); ++at) {
    LoopOption& option = plan.options[at];
    option.form = static_cast<LoopForm>(at);
    option.why_not = obstacles[at];
    option.is_legal = option.why_not.empty();
  }
  return plan;
}

LoopPlan Loop::plan() const {
  LoopPlan plan = options();
  const Graph body = body_without_cell();
  const loop::BodySize size = size_of(data_of(body));
  const LoopOption* best = nullptr;
  for (LoopOption& option : plan.options) {
    if (!option.is_legal) continue;
    option.microseconds_per_pass =
        loop::cost_of_pass(loop::cost_of(device_, option.form), option.form, size);
    if (!best || option.microseconds_per_pass < best->microseconds_per_pass) best = &option;
  }
  if (!best) throw body.problems().front();
  plan.chosen = best->form;
  return plan;
}

namespace {

/// Device memory that a loop's graph points to. The graph keeps it, and so do launches in flight.
struct LoopMemory {
  LoopMemory(const Device& device, Visibility of_cell)
      : cell(device, 1, of_cell), barrier(device, 0), code(device, 0) {}

  Buffer<unsigned> cell;              // the condition
  Buffer<GridBarrier::Word> barrier;  // of a persistent kernel
  Buffer<std::byte> code;             // of a persistent kernel
};

}  // namespace

struct LoopExec::Impl {
  LoopForm form;
  std::shared_ptr<LoopMemory> memory;  // null for a WHILE node
  std::variant<std::monostate, Exec, DeviceExec> exec;
};

LoopExec::LoopExec(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoopExec::LoopExec(LoopExec&&) noexcept = default;
LoopExec::~LoopExec() = default;
LoopForm LoopExec::form() const { return impl_->form; }

void LoopExec::launch(StreamRef stream) {
  switch (impl_->form) {
    case LoopForm::while_node:
      std::get<Exec>(impl_->exec).launch(stream);
      break;
    case LoopForm::persistent_kernel:
      std::get<Exec>(impl_->exec).launch(stream);
      break;
    case LoopForm::self_relaunch:
      stream.fill(impl_->memory->cell.data(), 1, sizeof(unsigned));
      std::get<DeviceExec>(impl_->exec).start(stream);
      break;
    case LoopForm::host_loop:
      *impl_->memory->cell.data() = 1;
      do {
        std::get<Exec>(impl_->exec).launch(stream);
        stream.synchronize();
      } while (*const_cast<volatile unsigned*>(impl_->memory->cell.data()) != 0);
      break;
  }
}

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

/// A graph of one persistent kernel that runs the body; the steps and arguments go into `memory`.
Graph persistent_graph(const Device& device, const GraphData& body, const PersistentParts& program,
                       std::chrono::nanoseconds patience, LoopMemory& memory) {
  const Lowered lowered = lower(body);
  std::vector<PersistentStep> steps;
  std::vector<std::byte> bytes(aligned(lowered.root.nodes.size() * sizeof(PersistentStep)));
  Grid grid;
  const std::shared_ptr<Marks> marks = marks_of(device);
  const auto site_of = [&](const std::string& name) {
    return marks ? marks->add({.name = name, .graph = body.name, .is_range = true})
                 : device::SiteRef{};
  };
  const device::SiteRef pass = site_of(body.name);
  for (const LoweredNode& node : lowered.root.nodes) {
    const auto& kernel = std::get<KernelPart>(body.nodes[node.id].part);
    const auto part = std::find(program.parts.begin(), program.parts.end(), kernel.info);
    steps.push_back({static_cast<unsigned>(part - program.parts.begin()), kernel.grid.blocks,
                     static_cast<unsigned>(bytes.size()),
                     site_of(body.nodes[node.id].name).number});
    bytes.insert(bytes.end(), kernel.args.begin(), kernel.args.end());
    bytes.resize(aligned(bytes.size()));
    grid.threads = kernel.grid.threads;
    grid.blocks.x = static_cast<unsigned>(
        std::clamp<std::uint64_t>(kernel.grid.blocks.count(), grid.blocks.x, 1u << 20));
  }
  std::memcpy(bytes.data(), steps.data(), steps.size() * sizeof(PersistentStep));
  memory.code = Buffer<std::byte>(device, bytes);
  const std::uint64_t fits = occupancy(device, program.kernel, grid).resident_blocks;
  grid.blocks.x = static_cast<unsigned>(std::min<std::uint64_t>(fits, grid.blocks.x));
  memory.barrier = Buffer<GridBarrier::Word>(device, GridBarrier::words_for(grid.blocks.x));

  Graph graph(device, body.name);
  if (marks) data_of(graph).keeps.push_back(marks);
  const auto reset =
      graph.fill(memory.barrier.data(), 0, memory.barrier.bytes()).named("reset barrier");
  // As in every form, the condition holds until a kernel sets it to zero.
  unsigned* cell = memory.cell.data();
  const auto arm = graph.fill(cell, 1, sizeof(unsigned)).named("arm condition").after(reset);
  graph
      .kernel(Kernel<PersistentArgs>(program.kernel), grid,
              {memory.code.data(), static_cast<unsigned>(steps.size()), cell, memory.barrier.data(),
               static_cast<std::uint64_t>(patience.count()), pass})
      .after(arm);
  return graph;
}

}  // namespace

LoopExec Loop::instantiate(std::optional<LoopForm> form) const {
  const LoopPlan plan = form ? options() : this->plan();  // nothing is measured for a given form
  const LoopForm wanted = form.value_or(plan.chosen);
  const LoopOption& option = plan.options[static_cast<std::size_t>(wanted)];
  if (!option.is_legal)
    throw BadArgument(fmt::format("loop '{}' cannot become a {}: {}", name_, loop_form_name(wanted),
                                  option.why_not));

  auto impl = std::make_unique<LoopExec::Impl>();
  impl->form = wanted;
  if (wanted == LoopForm::while_node) {
    impl->exec = graph().instantiate();
    return LoopExec(std::move(impl));
  }
  const auto memory = std::make_shared<LoopMemory>(
      device_, wanted == LoopForm::host_loop ? Visibility::shared : Visibility::device);
  impl->memory = memory;
  Graph body(device_, name_);
  body_(body, cell_condition(memory->cell.data()));
  if (wanted == LoopForm::persistent_kernel) {
    Graph whole =
        persistent_graph(device_, data_of(body), *program_->parts_, program_->patience, *memory);
    data_of(whole).keeps.insert(data_of(whole).keeps.end(), {memory, program_->parts_});
    impl->exec = whole.instantiate();
    return LoopExec(std::move(impl));
  }
  data_of(body).keeps.push_back(memory);
  if (wanted == LoopForm::host_loop) {
    impl->exec = body.instantiate();
  } else {
    const std::vector<Node> last = Access::last_nodes(body);
    body.kernel(loop::relaunch(), Grid{}, {memory->cell.data()}).after(last);
    impl->exec = body.instantiate_for_device();
  }
  return LoopExec(std::move(impl));
}

}  // namespace attacca
