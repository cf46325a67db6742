// next_arm.hpp: a kernel that launches the graph of the next arm of a SwitchLoop. It is the last
// node of each of those graphs, or stands beside the arm where the next one is known sooner.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::loop {

struct NextArmArgs {
  const unsigned* again;  // null: the loop goes on
  const unsigned* arm;
  const DeviceGraph* graphs;  // of the arms, then of a pass without one
  unsigned none;              // how many arms there are
  unsigned own;               // place there of the graph that this node is in
};
const Kernel<NextArmArgs>& next_arm();

}  // namespace attacca::loop
