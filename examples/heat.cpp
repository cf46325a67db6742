// heat: a loop that ends when the data says so.
//
// Heat spreads over a plate: in each pass every cell becomes the mean of its neighbours, until no
// cell changes by more than a thousandth of a degree. Only the device knows how many passes that
// takes. The loop is written once, as a body and a condition; the plan says which forms it may take
// here (a WHILE node, a graph that relaunches itself, one persistent kernel, a loop on the host),
// what a pass costs in each, and which one was chosen.
#include "heat.hpp"

#include <algorithm>
#include <attacca/attacca.hpp>
#include <bit>

#include "example.hpp"

namespace attacca::examples {
namespace {

constexpr unsigned kSide = HeatPlate::kSide;
constexpr float kTolerance = HeatPlate::kTolerance;
constexpr float kHot = 100.0f;
constexpr unsigned kMostPasses = 100000;

struct Relax {
  static constexpr const char* name = "relax";
  struct Args {
    const float* from;  // [kSide, kSide]
    float* to;
    unsigned* change;
  };
  static Cost cost(const Args&) {
    return {.flops = 5.0 * HeatPlate::kCells, .bytes = 8.0 * HeatPlate::kCells};
  }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const auto i = static_cast<unsigned>(t.index());
    const unsigned x = i % kSide, y = i / kSide;
    if (x == 0 || x == kSide - 1 || y == 0 || y >= kSide - 1) return;
    const float mean =
        0.25f * (a.from[i - 1] + a.from[i + 1] + a.from[i - kSide] + a.from[i + kSide]);
    const float change = mean > a.from[i] ? mean - a.from[i] : a.from[i] - mean;
    a.to[i] = mean;
    // Non-negative floats compare as their bits do, and a maximum does not depend on the order.
    raise_to(*a.change, std::bit_cast<unsigned>(change));
  }
};
struct Test {
  static constexpr const char* name = "test";
  struct Args {
    unsigned* change;
    unsigned* passes;
    Condition again;
  };
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 16}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    const unsigned passes = ++*a.passes;
    a.again.set(std::bit_cast<float>(*a.change) > kTolerance && passes < kMostPasses);
    *a.change = 0;
  }
};
const Kernel<Relax::Args> relax = make_kernel<Relax>();
const Kernel<Test::Args> test = make_kernel<Test>();
const PersistentProgram persistent = make_persistent<Relax, Test>();

}  // namespace

std::vector<float> cold_plate() {
  std::vector<float> cells(HeatPlate::kCells, 0.0f);
  std::fill_n(cells.begin(), kSide, kHot);
  return cells;
}

HeatPlate::HeatPlate(const Device& device)
    : cells(device, kCells), sweep(device, kCells), change(device, 1), passes(device, 1) {
  reset();
}

void HeatPlate::reset() {
  cells.write(cold_plate());
  sweep.write(cold_plate());
  change.write(std::vector<unsigned>{0});
  passes.write(std::vector<unsigned>{0});
}

Loop heat_loop(const Device& device, const HeatPlate& plate) {
  float *const cells = plate.cells.data(), *const sweep = plate.sweep.data();
  unsigned *const change = plate.change.data(), *const passes = plate.passes.data();
  Loop loop(device, "until steady", [=](Graph& body, Condition again) {
    const Grid grid = Grid::covering(HeatPlate::kCells);
    const auto there = body.kernel(relax, grid, {.from = cells, .to = sweep, .change = change});
    const auto back =
        body.kernel(relax, grid, {.from = sweep, .to = cells, .change = change}).after(there);
    body.kernel(test, Grid{{1}, grid.threads}, {.change = change, .passes = passes, .again = again})
        .after(back);
  });
  return loop.with(persistent);
}

namespace {

void run(const Device& device, std::ostream& out) {
  HeatPlate plate(device);
  const Loop loop = heat_loop(device, plate);
  LoopExec exec = loop.instantiate();
  const Stream stream(device);
  exec.launch(stream);
  stream.synchronize();

  std::vector<float> expected = cold_plate();
  const unsigned expected_passes = relax_serially(expected);
  const unsigned passes = plate.passes.read()[0];
  expect(passes == expected_passes, "the number of passes");
  expect(plate.cells.read() == expected, "the temperatures");
  out << loop.plan().explain() << passes << " passes as a " << loop_form_name(exec.form())
      << "; the middle of the plate is at " << expected[kSide / 2 * kSide + kSide / 2]
      << " degrees.\n"
      << "All " << expected.size() << " temperatures are those of plain C++, bit for bit.\n";
}

Graph graph(const Device& device) { return heat_loop(device, HeatPlate(device)).graph(); }

}  // namespace

const Example heat{"heat",
                   "a loop that ends when the data says so, in the form that is cheapest here",
                   graph, run};

}  // namespace attacca::examples
