// mandelbrot_pixels.hpp: the kernels of nested_mandelbrot.cpp: the steps of a point, the border of
// a square, and its inside.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

#include "example.hpp"

namespace attacca::examples::mandelbrot {

constexpr unsigned kSide = 512;     // pixels; a power of two
constexpr unsigned kSmallest = 32;  // squares of this side are not quartered
constexpr unsigned kSquares = 341;  // of sides 512, 256, 128, 64 and 32
constexpr unsigned kSteps = 96;

/// Steps until the point of a pixel is farther than 2 from the origin; kSteps if it never is. In
/// fixed point, so that host and GPU agree to the last bit.
ATTACCA_HD inline unsigned steps_at(unsigned x, unsigned y) {
  constexpr int kBits = 24;
  constexpr std::int64_t kOne = 1 << kBits;
  const std::int64_t cx = 3 * kOne * x / kSide - 9 * kOne / 4,
                     cy = 3 * kOne * y / kSide - 3 * kOne / 2;
  std::int64_t zx = 0, zy = 0;
  for (unsigned steps = 0; steps < kSteps; ++steps) {
    const std::int64_t xx = zx * zx >> kBits, yy = zy * zy >> kBits;
    if (xx + yy > 4 * kOne) return steps;
    zy = (2 * zx * zy >> kBits) + cy;
    zx = xx - yy + cx;
  }
  return kSteps;
}

struct Square {
  unsigned x, y, side;
  unsigned id;  // in the tree of squares: the quarters of n are 4n + 1 to 4n + 4
};
struct Range {
  unsigned most, saved;  // saved is kSteps minus the fewest steps; both start at 0
  ATTACCA_HD bool is_one_value() const { return most + saved == kSteps; }
};
struct SquareKernel {
  struct Args {
    std::uint8_t* pixels;  // [kSide, kSide]
    Range* borders;        // [kSquares]
    unsigned* total_steps;
    Square square;
  };
  static Cost cost(const Args& a) {
    const double pixels = 1.0 * a.square.side * a.square.side;
    return {.flops = 8 * kSteps * pixels, .bytes = pixels};
  }
  ATTACCA_HD static unsigned draw(const Args& a, unsigned x, unsigned y) {
    const unsigned steps = steps_at(x, y);
    a.pixels[y * kSide + x] = static_cast<std::uint8_t>(steps);
    fetch_add(*a.total_steps, steps);
    return steps;
  }
};
using Args = SquareKernel::Args;

struct Border : SquareKernel {
  static constexpr const char* name = "border";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const Square& s = a.square;
    const unsigned last = s.side - 1, i = static_cast<unsigned>(t.index());
    if (i >= 4 * last) return;
    const unsigned edge = i / last, along = i % last;
    const unsigned dx = edge == 0 ? along : edge == 1 ? last : edge == 2 ? last - along : 0;
    const unsigned dy = edge == 0 ? 0 : edge == 1 ? along : edge == 2 ? last : last - along;
    const unsigned steps = draw(a, s.x + dx, s.y + dy);
    raise_to(a.borders[s.id].most, steps);
    raise_to(a.borders[s.id].saved, kSteps - steps);
  }
};
struct Inside : SquareKernel {
  static constexpr const char* name = "inside";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const Square& s = a.square;
    const unsigned inner = s.side - 2, i = static_cast<unsigned>(t.index());
    if (i >= inner * inner) return;
    const unsigned x = s.x + 1 + i % inner, y = s.y + 1 + i / inner;
    if (a.borders[s.id].is_one_value())
      a.pixels[y * kSide + x] = a.pixels[s.y * kSide + s.x];
    else
      draw(a, x, y);
  }
};

}  // namespace attacca::examples::mandelbrot
