// random_fill.cpp: the kernel of random_fill.hpp and its grid.
#include "kernels/random_fill.hpp"

#include <attacca/error.hpp>
#include <string>

#include "kernels/quantization.hpp"

namespace attacca::kernels {
namespace {

constexpr std::uint64_t kEach = 8;  // numbers for each thread: 16 bytes of bf16
constexpr unsigned kThreads = 256;

struct RandomFill {
  static constexpr const char* name = "random_fill";
  using Args = RandomFillArgs;

  static Cost cost(const Args& a) {
    const double count = static_cast<double>(a.count);
    return {.flops = 5 * count, .bytes = count * block_shape(a.type).bytes};
  }

  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const std::uint64_t first = t.index() * kEach;
    const std::uint64_t last = first + kEach < a.count ? first + kEach : a.count;
    for (std::uint64_t at = first; at < last; ++at) {
      const float value = random_number(a.seed, at, a.deviation);
      if (a.type == TensorType::f32)
        static_cast<float*>(a.to)[at] = value;
      else
        static_cast<std::uint16_t*>(a.to)[at] =
            a.type == TensorType::f16 ? half_of_float(value) : bfloat_of_float(value);
    }
  }
};

}  // namespace

const Kernel<RandomFillArgs>& random_fill() {
  static const Kernel<RandomFillArgs> kernel = make_kernel<RandomFill>();
  return kernel;
}

Grid grid_of(const RandomFillArgs& args, bool) {
  if (args.type != TensorType::f32 && args.type != TensorType::f16 && args.type != TensorType::bf16)
    throw BadArgument(std::string("random_fill: cannot write ") + type_name(args.type) +
                      "; use F32, F16 or BF16");
  return Grid::covering((args.count + kEach - 1) / kEach, kThreads);
}

}  // namespace attacca::kernels
