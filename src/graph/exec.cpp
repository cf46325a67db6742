// exec.cpp: the public Exec and DeviceExec. Each call checks its arguments, finds the node's part
// and leaves the rest to ExecCore.
#include <attacca/exec.hpp>

#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "graph/argument_checks.hpp"
#include "graph/exec_core.hpp"
#include "graph/residency.hpp"

namespace attacca {

using namespace graph;

namespace {

ExecCore& opened(const std::unique_ptr<ExecCore>& core) {
  if (!core) throw BadArgument("an exec that was moved from; use the one it was moved to");
  return *core;
}

/// The part that a typed handle names. Throws where that node is of another kind in this exec.
template <class Kind>
Kind& part_of(NodeData& node) {
  if (auto* part = std::get_if<Kind>(&node.part)) return *part;
  throw BadArgument(
      fmt::format("that node is {} '{}' in this exec; use a handle of the graph it was made from",
                  kind_name(node), node.name));
}

}  // namespace

ExecBase::ExecBase(std::unique_ptr<ExecCore> core) : core_(std::move(core)) {}
ExecBase::ExecBase(ExecBase&&) noexcept = default;
ExecBase& ExecBase::operator=(ExecBase&&) noexcept = default;
ExecBase::~ExecBase() = default;

UpdateReport ExecBase::set_kernel(const Node& node, const Grid* grid, const void* args,
                                  std::size_t size) {
  return opened(core_).change(node, [&](NodeData& data) {
    auto& kernel = part_of<KernelPart>(data);
    if (kernel.args.size() != size)
      throw BadArgument(
          fmt::format("kernel '{}' takes {} bytes of arguments and was given {}; use "
                      "a handle of the graph this exec was made from",
                      data.name, kernel.args.size(), size));
    if (grid) {
      check_grid(*kernel.info, *grid);
      check_residency(impl_of(core_->source().device()), *kernel.info, *grid, data.name);
      kernel.grid = *grid;
    }
    std::memcpy(kernel.args.data(), args, size);
  });
}

UpdateReport ExecBase::set(const CopyNode& node, void* to, const void* from, std::size_t bytes) {
  check_copy(to, from, bytes);
  return opened(core_).change(node, [&](NodeData& data) {
    part_of<CopyPart>(data) = {to, from, bytes};
  });
}

UpdateReport ExecBase::set(const CopyNode& node, Pitched to, ConstPitched from,
                           std::size_t width_bytes, std::size_t rows) {
  check_copy_2d(to, from, width_bytes, rows);
  return opened(core_).change(node, [&](NodeData& data) {
    part_of<CopyPart>(data) = copy_part(to, from, width_bytes, rows);
  });
}

UpdateReport ExecBase::set(const FillNode& node, void* to, std::uint8_t value, std::size_t bytes) {
  check_fill(to, bytes);
  return opened(core_).change(node, [&](NodeData& data) {
    part_of<FillPart>(data) = {to, value, bytes};
  });
}

UpdateReport ExecBase::enable(const Node& node, bool is_enabled) {
  return opened(core_).enable(node, is_enabled);
}
UpdateReport ExecBase::update(const Graph& graph) { return opened(core_).update(graph); }
const Graph& ExecBase::graph() const { return opened(core_).source(); }
ExecCounters ExecBase::counters() const { return opened(core_).counters(); }
ExecMemory ExecBase::memory() const { return opened(core_).memory(); }

void Exec::launch(StreamRef stream) { opened(core_).launch(stream); }
void* Exec::native() const { return opened(core_).instance().native(); }

DeviceGraph DeviceExec::handle() const { return opened(core_).instance().handle(); }
void DeviceExec::start(StreamRef stream) { opened(core_).launch(stream); }

}  // namespace attacca
