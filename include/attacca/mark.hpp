// mark.hpp: a node that marks a place in a graph: when it runs, it adds a record (see
// device/records.hpp). It costs what a kernel of one thread costs.
#pragma once

#include <attacca/device/records.hpp>
#include <attacca/kernel.hpp>

namespace attacca {

struct MarkArgs {
  device::RecordsRef records;
  std::uint32_t what;
  std::uint32_t value;
  /// Counts the passes of a loop for its records; null: there is none. Marks of one loop share it.
  std::uint32_t* pass = nullptr;
  enum class Pass : std::uint32_t { same, next, none } counts = Pass::same;
};
const Kernel<MarkArgs>& mark();

}  // namespace attacca
