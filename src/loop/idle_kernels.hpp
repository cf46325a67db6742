// idle_kernels.hpp: kernels that do nothing; loops of them are timed to find the cost of a pass.
#pragma once

#include <attacca/kernel.hpp>
#include <attacca/persistent.hpp>

namespace attacca::loop {

struct IdleArgs {
  unsigned unused;
};
const Kernel<IdleArgs>& idle();

/// Ends a loop after *left passes.
struct CountArgs {
  unsigned* left;
  Condition again;
};
const Kernel<CountArgs>& count_passes();

/// The same for a SwitchLoop of two arms, which take turns.
struct ChooseArgs {
  unsigned* left;
  Condition again;
  Condition arm;
};
const Kernel<ChooseArgs>& choose_arm();

const PersistentProgram& idle_and_count();

}  // namespace attacca::loop
