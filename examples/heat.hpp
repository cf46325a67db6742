// heat.hpp: the plate of heat.cpp, which `attacca demo` also runs.
#pragma once

#include <algorithm>
#include <attacca/attacca.hpp>
#include <cmath>
#include <utility>
#include <vector>

namespace attacca::examples {

/// A square plate with one hot edge, on a device.
struct HeatPlate {
  static constexpr unsigned kSide = 64;
  static constexpr unsigned kCells = kSide * kSide;
  static constexpr float kTolerance = 1e-3f;  // degrees

  explicit HeatPlate(const Device& device);
  /// Makes the plate cold again, except for the edge.
  void reset();

  Buffer<float> cells;      // [kSide, kSide]
  Buffer<float> sweep;      // the same between two half passes
  Buffer<unsigned> change;  // largest change of a cell in this pass, as the bits of a float
  Buffer<unsigned> passes;
};

std::vector<float> cold_plate();

/// Relaxes a plate until no cell changes by more than a thousandth of a degree.
Loop heat_loop(const Device& device, const HeatPlate& plate);

/// The same in plain C++, to compare with. Returns the number of passes.
inline unsigned relax_serially(std::vector<float>& cells) {
  constexpr unsigned kSide = HeatPlate::kSide;
  std::vector<float> next = cells;
  for (unsigned passes = 1;; ++passes) {
    float change = 0;
    for (int half = 0; half < 2; ++half) {
      for (unsigned y = 1; y < kSide - 1; ++y)
        for (unsigned x = 1; x < kSide - 1; ++x) {
          const unsigned i = y * kSide + x;
          next[i] = 0.25f * (cells[i - 1] + cells[i + 1] + cells[i - kSide] + cells[i + kSide]);
          change = std::max(change, std::abs(next[i] - cells[i]));
        }
      std::swap(cells, next);
    }
    if (change <= HeatPlate::kTolerance) return passes;
  }
}

}  // namespace attacca::examples
