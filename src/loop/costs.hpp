// costs.hpp: the cost of a loop's pass in each form, without its kernels' work. It is measured on
// the device that the loop runs on, because forms rank differently from one machine to the next.
#pragma once

#include <attacca/loop.hpp>

namespace attacca::loop {

/// Microseconds. A kernel of many blocks has to be spread over the device and waited for.
struct FormCost {
  double per_pass;
  double per_node;        // of one block, or no kernel
  double per_large_node;  // of many blocks
};

/// Nodes of a body.
struct BodySize {
  unsigned nodes;
  unsigned large_nodes;  // of those, kernels of many blocks
};

/// Runs loops that do nothing in that form: some milliseconds on the host.
FormCost measure_cost(const Device& device, LoopForm form);

/// Measured at the first call for a device and a form, and kept. Thread-safe.
FormCost cost_of(const Device& device, LoopForm form);

/// Microseconds of a pass of a SwitchLoop with an idle kernel in each arm and one beside it, in one
/// of its two forms. Measured and kept likewise.
double cost_of_switch(const Device& device, LoopForm form);

/// Microseconds of a pass. If one node of a persistent kernel has many blocks, all blocks wait for
/// each other after every node.
double cost_of_pass(const FormCost& cost, LoopForm form, const BodySize& body);

/// While it lives, `cost_of` returns these for every device. For tests of the choice of a form.
/// REQUIRES: one at a time.
class FixedCosts {
 public:
  explicit FixedCosts(const std::array<FormCost, kLoopForms>& costs);
  FixedCosts(const FixedCosts&) = delete;
  ~FixedCosts();
};

}  // namespace attacca::loop
