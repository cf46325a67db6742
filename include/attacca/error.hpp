// error.hpp: the exceptions of attacca. Every message names the place, the value and the remedy.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace attacca {

/// Base of everything attacca throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A value handed to attacca that it cannot use.
class BadArgument : public Error {
 public:
  using Error::Error;
};

namespace detail {
/// The bytes of `count` elements. Throws BadArgument where no memory could hold that many.
std::size_t array_bytes(std::size_t count, std::size_t element_bytes);
}  // namespace detail

/// A call of the driver or the operating system that failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// The rule of a graph that was broken. `rule_name` gives its spelling.
enum class Rule {
  cycle,
  empty_graph,
  empty_body,
  allocation_in_body,
  allocation_in_device_graph,
  conditional_in_device_graph,
  node_in_body,
  node_in_device_graph,
  condition_unused,
  condition_shared,
  condition_set_too_late,
  condition_never_set,
  condition_race,
  programmatic_edge,
  consumer_never_waits,
  free_without_allocation,
  outside_allocation_life,
  two_devices,
  launch_in_body,
  launch_outside_graph,
  spawn_in_body,
  spawn_in_device_graph,
  edge_across_scopes,
  updatable_node,
  no_body_for_backend,
  foreign_handle,
  blocks_may_not_fit,
  waits_side_by_side,
  unordered_access,
};
const char* rule_name(Rule rule);

/// A graph that breaks a rule, found before the driver sees it.
class GraphError : public Error {
 public:
  GraphError(Rule rule, std::string node, const std::string& message)
      : Error(message), rule_(rule), node_(std::move(node)) {}
  Rule rule() const { return rule_; }
  /// Name of the node at fault; the graph's own where there is none.
  const std::string& node() const { return node_; }

 private:
  Rule rule_;
  std::string node_;
};

/// A node that failed while its graph ran; thrown by the next `synchronize`.
class NodeFailed : public Error {
 public:
  NodeFailed(std::string node, const std::string& message)
      : Error(message), node_(std::move(node)) {}
  const std::string& node() const { return node_; }

 private:
  std::string node_;
};

/// A launch or spawn that was refused to device code; thrown by the next `synchronize`.
class LaunchRefused : public NodeFailed {
 public:
  using NodeFailed::NodeFailed;
};

/// A wait in device code that timed out, with the waiter and its reason; thrown by the next
/// `synchronize`.
class WaitOverdue : public NodeFailed {
 public:
  using NodeFailed::NodeFailed;
};

/// The source of a kernel's work broke, such as a WorkQueue; thrown by the next `synchronize`. The
/// message says how much work was done and how much was not.
class SourceBroken : public NodeFailed {
 public:
  using NodeFailed::NodeFailed;
};

}  // namespace attacca
