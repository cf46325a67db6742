// rules.cpp: the names of the rules, as errors and reports spell them.
#include <attacca/error.hpp>

namespace attacca {

const char* rule_name(Rule rule) {
  switch (rule) {
    case Rule::cycle:
      return "cycle";
    case Rule::empty_graph:
      return "empty graph";
    case Rule::empty_body:
      return "empty body";
    case Rule::allocation_in_body:
      return "allocation in a body";
    case Rule::allocation_in_device_graph:
      return "allocation in a device graph";
    case Rule::conditional_in_device_graph:
      return "conditional in a device graph";
    case Rule::node_in_body:
      return "node not allowed in a body";
    case Rule::node_in_device_graph:
      return "node not allowed in a device graph";
    case Rule::condition_unused:
      return "condition unused";
    case Rule::condition_shared:
      return "condition shared";
    case Rule::condition_set_too_late:
      return "condition set too late";
    case Rule::condition_never_set:
      return "condition never set";
    case Rule::condition_race:
      return "condition set twice at a time";
    case Rule::programmatic_edge:
      return "programmatic edge";
    case Rule::consumer_never_waits:
      return "consumer never waits";
    case Rule::free_without_allocation:
      return "free without allocation";
    case Rule::outside_allocation_life:
      return "use outside an allocation";
    case Rule::two_devices:
      return "two devices";
    case Rule::launch_in_body:
      return "device launch in a body";
    case Rule::launch_outside_graph:
      return "device launch outside a graph";
    case Rule::spawn_in_body:
      return "nested launch in a body";
    case Rule::spawn_in_device_graph:
      return "nested launch in a device graph";
    case Rule::edge_across_scopes:
      return "edge across scopes";
    case Rule::updatable_node:
      return "device-updatable node";
    case Rule::no_body_for_backend:
      return "no body for this backend";
    case Rule::foreign_handle:
      return "handle of another graph";
    case Rule::blocks_may_not_fit:
      return "blocks that wait for each other may not fit";
    case Rule::waits_side_by_side:
      return "blocks that wait for each other side by side";
    case Rule::unordered_access:
      return "unordered access";
  }
  return "unknown rule";
}

}  // namespace attacca
