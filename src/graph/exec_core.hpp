// exec_core.hpp: the core behind Exec and DeviceExec: the graph they own, the backend's instance of
// it, and the update contract, which is the same for every backend.
#pragma once

#include <attacca/exec.hpp>
#include <memory>
#include <optional>
#include <string>

#include "graph/data.hpp"
#include "graph/executor.hpp"

namespace attacca::graph {

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
  /// With marks, if the device is being traced.
  std::unique_ptr<Instance> make_instance() const;
  NodeId find(const Node& node);
  /// Makes the instance follow the source. On failure it calls `restore`, which undoes the change
  /// to the source, makes the instance follow that, and throws the failure.
  UpdateReport apply(const Changes& changes, const std::function<void()>& restore);
  void go_back(const Changes& changes);
  UpdateReport reinstantiate(Refusal refusal);
  void upload();

  Graph source_;
  Target target_;
  /// By NodeId: the origins of the graph that gave the exec its shape, kept once another graph has
  /// updated it. Handles of both graphs name our nodes.
  std::vector<std::uint64_t> first_origins_;
  std::unique_ptr<Instance> instance_;
  std::string lost_;  // why the instance no longer matches the source; empty: it does
  ExecCounters counters_;
};

}  // namespace attacca::graph
