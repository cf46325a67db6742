// nested_mandelbrot: kernels that spawn kernels where there is something to see.
//
// The Mariani-Silver method draws the Mandelbrot set by squares. When all pixels on a square's
// border take the same number of steps, so do those inside, and it is filled; when they do not, it
// is quartered, and each quarter is looked at by a kernel of its own. Nothing on the device waits
// for a spawned kernel: what comes after the border goes into a tail.
#include <attacca/attacca.hpp>
#include <attacca/nested.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "example.hpp"

namespace attacca::examples {
namespace mandelbrot {

constexpr unsigned kSide = 512;     // pixels; a power of two
constexpr unsigned kSmallest = 32;  // squares of this side are not quartered
constexpr unsigned kSquares = 341;  // of sides 512, 256, 128, 64 and 32
constexpr unsigned kSteps = 96;

/// Steps until the point of a pixel is farther than 2 from the origin, kSteps where it never is.
/// In fixed point, so that host and GPU agree to the last bit.
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
  unsigned most, saved;  // saved: kSteps less the fewest steps, so that both start at 0
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
struct Look : SquareKernel {
  static constexpr const char* name = "look";
  ATTACCA_HD static void body(SpawningThread& t, const Args& a);
};
struct Decide : SquareKernel {
  static constexpr const char* name = "decide";
  ATTACCA_HD static void body(SpawningThread& t, const Args& a);
};
ATTACCA_HD void Look::body(SpawningThread& t, const Args& a) {
  t.spawn<Border>(Grid::covering(4 * (a.square.side - 1), 64), a, SpawnMode::fire_and_forget);
  t.spawn<Decide>(Grid{}, a, SpawnMode::tail);
}
ATTACCA_HD void Decide::body(SpawningThread& t, const Args& a) {
  const Square& s = a.square;
  if (a.borders[s.id].is_one_value() || s.side == kSmallest) {
    t.spawn<Inside>(Grid::covering(s.side * s.side, 64), a, SpawnMode::fire_and_forget);
    return;
  }
  for (unsigned quarter = 0; quarter < 4; ++quarter) {
    Args next = a;
    next.square = {s.x + quarter % 2 * s.side / 2, s.y + quarter / 2 * s.side / 2, s.side / 2,
                   4 * s.id + 1 + quarter};
    t.spawn<Look>(Grid{}, next, SpawnMode::fire_and_forget);
  }
}
const Kernel<Args> look = make_kernel<Look>();

Graph build(const Device& device, const Args& args) {
  Graph graph(device, "nested_mandelbrot");
  const auto clear = graph.fill(args.borders, 0, kSquares * sizeof(Range)).named("clear");
  graph.kernel(look, Grid{}, args).after(clear);
  return graph;
}

void run(const Device& device, std::ostream& out) {
  const Buffer<std::uint8_t> pixels(device, kSide * kSide);
  const Buffer<Range> borders(device, kSquares);
  const Buffer<unsigned> total_steps(device, std::vector<unsigned>{0});
  const Stream stream(device);
  const Args args{pixels.data(), borders.data(), total_steps.data(), {0, 0, kSide, 0}};
  Exec exec = build(device, args).instantiate();
  exec.launch(stream);
  stream.synchronize();

  std::vector<std::uint8_t> image = pixels.read();
  unsigned expected_steps = 0;
  for (unsigned i = 0; i < image.size(); ++i) {
    const unsigned steps = steps_at(i % kSide, i / kSide);
    expect(image[i] == steps, "pixel " + std::to_string(i));
    expected_steps += steps;
  }
  const auto path = std::filesystem::temp_directory_path() / "attacca-mandelbrot.pgm";
  std::ofstream file(path, std::ios::binary);
  file << "P5 " << kSide << ' ' << kSide << ' ' << kSteps << '\n';
  file.write(reinterpret_cast<const char*>(image.data()),
             static_cast<std::streamsize>(image.size()));
  expect(file.flush().good(), "cannot write " + path.string());
  out << image.size() << " pixels for " << 100ull * total_steps.read()[0] / expected_steps
      << "% of the steps that it takes to compute each; all are right\n"
      << "image in " << path.string() << '\n';
}

Graph graph(const Device& device) {
  const Buffer<Range> borders(device, kSquares);
  return build(device, {nullptr, borders.data(), nullptr, {0, 0, kSide, 0}});
}

}  // namespace mandelbrot

const Example nested_mandelbrot{"nested_mandelbrot",
                                "kernels that spawn kernels where there is something to see",
                                mandelbrot::graph, mandelbrot::run};

}  // namespace attacca::examples
