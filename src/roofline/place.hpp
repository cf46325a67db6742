// place.hpp: where a kernel sits under the roofs, and what would help it.
#pragma once

#include <attacca/roofline.hpp>
#include <optional>

namespace attacca::roofline {

// A kernel at kNear of its floor or more is as good as it gets; below kFar no roof explains its
// time.
inline constexpr double kNear = 0.8;
inline constexpr double kFar = 0.3;

/// Microseconds that its bytes and its FLOPs take at the roofs.
double memory_us(const PlacedKernel& kernel, const Roofs& roofs);
double compute_us(const PlacedKernel& kernel, const Roofs& roofs);

/// Finds floor and limit. REQUIRES: the other members are set.
void place(PlacedKernel& kernel, const Roofs& roofs);

/// What would help the kernel by itself; none where it declares no cost.
std::optional<RoofAdvice> advice_for(const PlacedKernel& kernel, const Roofs& roofs);

/// "12.3 us", "1.2 ms"
std::string time_text(double us);
/// "1.50 GB"
std::string bytes_text(double bytes);

}  // namespace attacca::roofline
