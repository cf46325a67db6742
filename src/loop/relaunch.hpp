// relaunch.hpp: a kernel that relaunches its own graph while a cell is not zero. It is the last
// node of a loop lowered to a self-relaunching graph.
#pragma once

#include <attacca/kernel.hpp>

namespace attacca::loop {

struct RelaunchArgs {
  const unsigned* again;
};
const Kernel<RelaunchArgs>& relaunch();

}  // namespace attacca::loop
