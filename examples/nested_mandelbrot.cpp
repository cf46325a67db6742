// nested_mandelbrot: kernels that spawn kernels where there is something to see.
//
// The Mariani-Silver method draws the Mandelbrot set by squares. When all pixels on a square's
// border take the same number of steps, so do those inside, and it is filled; when they do not, it
// is quartered, and each quarter gets a kernel of its own. Nothing on the device waits for a
// spawned kernel, so the work after the border is launched as a tail.
#include <attacca/attacca.hpp>
#include <attacca/nested.hpp>
#include <fstream>

#include "example.hpp"
#include "mandelbrot_pixels.hpp"

namespace attacca::examples {
namespace mandelbrot {

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

struct Picture {
  std::vector<std::uint8_t> pixels;
  unsigned steps;  // steps computed for the image
};

Picture draw(const Device& device) {
  const Buffer<std::uint8_t> pixels(device, kSide * kSide);
  const Buffer<Range> borders(device, kSquares);
  const Buffer<unsigned> total_steps(device, std::vector<unsigned>{0});
  const Stream stream(device);
  const Args args{pixels.data(), borders.data(), total_steps.data(), {0, 0, kSide, 0}};
  Exec exec = build(device, args).instantiate();
  exec.launch(stream);
  stream.synchronize();
  return {pixels.read(), total_steps.read()[0]};
}

void run(const Device& device, std::ostream& out) {
  const auto [image, steps_taken] = draw(device);
  unsigned expected_steps = 0;
  for (unsigned i = 0; i < image.size(); ++i) {
    const unsigned steps = steps_at(i % kSide, i / kSide);
    expect(image[i] == steps, "pixel " + std::to_string(i));
    expected_steps += steps;
  }
  out << image.size() << " pixels for " << 100ull * steps_taken / expected_steps
      << "% of the steps that it takes to compute each; all are right\n";
}

/// A PGM image.
void write(const Device& device, const std::string& path) {
  const std::vector<std::uint8_t> image = draw(device).pixels;
  std::ofstream file(path, std::ios::binary);
  file << "P5 " << kSide << ' ' << kSide << ' ' << kSteps << '\n';
  file.write(reinterpret_cast<const char*>(image.data()),
             static_cast<std::streamsize>(image.size()));
  if (!file.flush()) throw std::runtime_error("cannot write '" + path + "'");
}

Graph graph(const Device& device) {
  const Buffer<Range> borders(device, kSquares);
  return build(device, {nullptr, borders.data(), nullptr, {0, 0, kSide, 0}});
}

}  // namespace mandelbrot

const Example nested_mandelbrot{"nested_mandelbrot",
                                "kernels that spawn kernels where there is something to see",
                                mandelbrot::graph, mandelbrot::run, mandelbrot::write};

}  // namespace attacca::examples
