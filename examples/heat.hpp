// heat.hpp: the plate of heat.cpp, which `attacca demo` runs too.
#pragma once

#include <attacca/attacca.hpp>
#include <vector>

namespace attacca::examples {

/// A square plate with one hot edge, on a device.
struct HeatPlate {
  static constexpr unsigned kSide = 64;
  static constexpr unsigned kCells = kSide * kSide;

  explicit HeatPlate(const Device& device);
  /// Cold again but for the edge.
  void reset();

  Buffer<float> cells;      // [kSide, kSide]
  Buffer<float> sweep;      // the same between two half passes
  Buffer<unsigned> change;  // largest change of a cell in this pass, as the bits of a float
  Buffer<unsigned> passes;
};

std::vector<float> cold_plate();

/// Relaxes a plate until no cell changes by more than a thousandth of a degree.
Loop heat_loop(const Device& device, const HeatPlate& plate);

}  // namespace attacca::examples
