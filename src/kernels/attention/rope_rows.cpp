// rope_rows.cpp: the kernel of rope_epilogue.hpp that finds what its epilogues take of each row.
#include <algorithm>
#include <cmath>

#include "kernels/attention/prompt_runs.hpp"
#include "kernels/attention/rope_epilogue.hpp"
#include "kernels/blocks.hpp"

#if defined(__CUDACC__)
#include "kernels/attention/attention_rope.cuh"
#endif

namespace attacca::kernels {
namespace {

constexpr unsigned kThreads = 64;

struct RopeRows {
  static constexpr const char* name = "rope_rows";
  static constexpr bool waits = true;
  using Args = RopeRowsArgs;

  static Cost cost(const Args& a) {
    const double angles = 0.5 * a.rows.capacity * a.kv.head_size;
    return {.flops = 3 * angles, .bytes = angles * sizeof(Angle)};
  }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    const std::uint32_t half = a.kv.head_size / 2, rows = std::min(*a.rows.count, a.rows.capacity);
    for (std::uint32_t row = t.block.x; row < rows; row += t.blocks.x) {
      find_places(a, row, rows);
      for (std::uint32_t at = 0; at < half; ++at) {
        const double angle = static_cast<double>(a.positions[row]) * a.frequencies[at];
        a.to.angles[std::size_t{row} * half + at] = {static_cast<float>(std::cos(angle)),
                                                     static_cast<float>(std::sin(angle))};
      }
    }
  }

  /// One block for each row.
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    t.wait_for_producers();
    t.release_consumers();
    const std::uint32_t row = t.block.x, rows = *a.rows.count;
    if (row >= rows) return;
    const std::uint32_t half = a.kv.head_size / 2;
    for (std::uint32_t at = t.thread.x; at < half; at += kThreads) {
      const float2 angle = attending::angle_of(a.frequencies[at], a.positions[row]);
      a.to.angles[std::uint64_t{row} * half + at] = {angle.x, angle.y};
    }
    if (t.thread.x == 0) find_places(a, row, rows);
#endif
  }

 private:
  ATTACCA_HD static void find_places(const Args& a, std::uint32_t row, std::uint32_t rows) {
    const Slots slot{a.slots};
    const auto position = static_cast<std::uint32_t>(a.positions[row]);
    a.to.cells[row] =
        static_cast<std::uint32_t>(a.kv.offset(slot(row), position, 0) / a.kv.head_size);
    a.to.is_in_long_run[row] = is_in_long_run(row, rows, slot) ? 1 : 0;
  }
  struct Slots {
    const std::int32_t* of;
    ATTACCA_HD std::uint32_t operator()(std::uint32_t row) const {
      return static_cast<std::uint32_t>(of[row]);
    }
  };
};

}  // namespace

const Kernel<RopeRowsArgs>& rope_rows() {
  static const Kernel<RopeRowsArgs> kernel = make_kernel<RopeRows>();
  return kernel;
}

Grid grid_of(const RopeRowsArgs& args, bool is_cuda) {
  if (is_cuda) return Grid{Dim3{args.rows.capacity}, Dim3{kThreads}};
  return host_grid(args.rows.capacity, 32768 / std::max(args.kv.head_size, 1u));
}

}  // namespace attacca::kernels
