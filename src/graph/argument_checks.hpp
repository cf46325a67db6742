// argument_checks.hpp: checks of one call's arguments, the same whether the call adds a node,
// changes one or enqueues on a stream. Rules about a whole graph are in validate.cpp.
#pragma once

#include <attacca/device.hpp>
#include <attacca/grid.hpp>
#include <attacca/kernel.hpp>
#include <cstddef>
#include <string>

namespace attacca::graph {

/// Throws BadArgument for a grid that no device can launch.
void check_grid(const KernelInfo& kernel, const Grid& grid);
/// These throw BadArgument for a null address and for zero bytes, as CUDA has no node for either,
/// and for more bytes than any memory holds.
void check_copy(const void* to, const void* from, std::size_t bytes);
void check_fill(const void* to, std::size_t bytes);
/// Also throws for a pitch smaller than the width.
void check_copy_2d(Pitched to, ConstPitched from, std::size_t width_bytes, std::size_t rows);

/// The name of a device in a message that also names `beside`: "another host device" where both
/// have one name.
std::string name_beside(const Device& device, const Device& beside);

}  // namespace attacca::graph
