// roofs.hpp: the parts of measuring roofs that others use: one rate alone, and the text in which
// roofs are kept.
#pragma once

#include <attacca/roofline.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace attacca::roofline {

/// Bytes per second that the device reads from its memory, the best of a few passes over more than
/// any cache holds.
double read_bandwidth(const Device& device);

/// The hardware behind a device: "Neoverse-V1, 2 threads", "NVIDIA H200".
std::string hardware_name(const Device& device);

/// A line for each figure.
std::string roofs_text(const Roofs& roofs);
/// None where a figure is missing, unknown or no number, so that what another version kept is
/// measured anew.
std::optional<Roofs> read_roofs(std::string_view text);

}  // namespace attacca::roofline
