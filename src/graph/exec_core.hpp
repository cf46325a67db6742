// exec_core.hpp: what stands behind Exec and DeviceExec: the owned graph, the backend's instance
// of it, and the update contract, which is the same for every backend.
#pragma once

#include <attacca/exec.hpp>
#include <memory>
#include <optional>
#include <string>

#include "graph/data.hpp"
#include "graph/executor.hpp"

namespace attacca::graph {

/// Throws BadArgument for a grid no device can launch.
void check_grid(const KernelInfo& kernel, const Grid& grid);
/// Throw BadArgument for null addresses and for nothing to do, which CUDA has no node for.
void check_copy(const void* to, const void* from, std::size_t bytes);
void check_fill(const void* to, std::size_t bytes);
/// The same for rows, and for a pitch that is smaller than the width.
void check_copy_2d(Pitched to, ConstPitched from, std::size_t width_bytes, std::size_t rows);

class ExecCore {
 public:
  ExecCore(const Graph& source, Target target);

  void launch(StreamRef stream);
  UpdateReport change(const Node& node, const std::function<void(NodeData&)>& edit);
  UpdateReport enable(const Node& node, bool is_enabled);
  UpdateReport update(const Graph& source);

  const Graph& source() const { return source_; }
  Instance& instance() { return *instance_; }
  ExecCounters counters() const { return counters_; }
  ExecMemory memory() const;

 private:
  NodeId find(const Node& node);
  /// Makes the instance follow the source. Where that fails, `restore` brings the source back to
  /// what it was, the instance follows that, and the failure is thrown.
  UpdateReport apply(const Changes& changes, const std::function<void()>& restore);
  void go_back(const Changes& changes);
  UpdateReport reinstantiate(Refusal refusal);
  void upload();

  Graph source_;
  Target target_;
  /// By NodeId, of the graph that gave the exec its shape, once another one has updated it: handles
  /// of both name our nodes.
  std::vector<std::uint64_t> first_origins_;
  std::unique_ptr<Instance> instance_;
  std::string lost_;  // why the instance is not what the source says; empty: it is
  ExecCounters counters_;
};

/// The first reason why `to` cannot be reached from `from` by setting parameters: nodes, kinds,
/// edges, kernels, attributes or conditionals that differ. The rules are those of the driver.
std::optional<Refusal> structural_difference(const GraphData& from, const GraphData& to);

}  // namespace attacca::graph
