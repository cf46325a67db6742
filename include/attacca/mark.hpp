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
};
const Kernel<MarkArgs>& mark();

}  // namespace attacca
