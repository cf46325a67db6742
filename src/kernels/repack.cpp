// repack.cpp: the kernel of repack.hpp. One thread converts one block of 32 elements.
#include "kernels/repack.hpp"

#include <attacca/error.hpp>
#include <cmath>
#include <string>

#include "kernels/quantization.hpp"

namespace attacca::kernels {
namespace {

constexpr std::uint32_t kBlock = 32;
constexpr unsigned kThreads = 128;
constexpr int kFewestSteps = 96;  // of a Q8_0 block's quants: three times 32, the most of Q6_K

ATTACCA_HD void put_half(unsigned char* at, std::uint16_t half) {
  at[0] = static_cast<unsigned char>(half);
  at[1] = static_cast<unsigned char>(half >> 8);
}

struct Repack {
  static constexpr const char* name = "repack";
  using Args = RepackArgs;

  static Cost cost(const Args& a) {
    const double count = 1.0 * a.from.rows * a.from.columns;
    return {.flops = 4 * count,
            .bytes = static_cast<double>(a.from.bytes() +
                                         a.from.rows * row_bytes(a.type, a.from.columns))};
  }

  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const std::uint32_t blocks = a.from.columns / kBlock;
    const std::uint64_t row = t.index() / blocks;
    if (row >= a.from.rows) return;
    const auto first = static_cast<std::uint32_t>(t.index() % blocks) * kBlock;
    unsigned char* to = static_cast<unsigned char*>(a.to) + t.index() * block_shape(a.type).bytes;
    if (a.type == TensorType::q4_1)
      write_q4_1(static_cast<quantization::Bytes>(a.from.row(row)) + first / 256 * 144,
                 first % 256 / kBlock, to);
    else
      write_q8_0(a.from.type, a.from.row(row), first, to);
  }

 private:
  ATTACCA_HD static void write_q4_1(quantization::Bytes block, unsigned part, unsigned char* to) {
    const quantization::Part scales = quantization::part_of(block, part);
    put_half(to, half_of_float(scales.scale));
    put_half(to + 2, half_of_float(scales.offset));
    quantization::Bytes quants = block + 16 + part / 2 * kBlock;
    const unsigned shift = part % 2 * 4;
    for (unsigned i = 0; i < 16; ++i)
      to[4 + i] = static_cast<unsigned char>((quants[i] >> shift & 15) |
                                             (quants[i + 16] >> shift & 15) << 4);
  }
  /// A part of Q6_K or Q4_K, or a block of Q4_0, has elements that are small multiples of a number.
  /// So does a block of Q8_0 with the right scale: of those that map the largest element to a
  /// number from -128 to -96, or to 127, the one with the least squared error is taken.
  ATTACCA_HD static void write_q8_0(TensorType type, const void* row, std::uint32_t first,
                                    unsigned char* to) {
    float x[kBlock];
    float largest = 0;  // with its sign
    for (unsigned i = 0; i < kBlock; ++i) {
      x[i] = element(type, row, first + i);
      if (fabsf(x[i]) > fabsf(largest)) largest = x[i];
    }
    std::uint16_t best = half_of_float(fabsf(largest) / 127);
    float least = error_of(x, float_of_half(best));
    for (int q = -128; q <= -kFewestSteps; ++q) {
      const std::uint16_t half = half_of_float(largest / static_cast<float>(q));
      const float error = error_of(x, float_of_half(half));
      if (!(error < least)) continue;  // nor one that is no number
      least = error;
      best = half;
    }
    put_half(to, best);
    for (unsigned i = 0; i < kBlock; ++i)
      to[2 + i] =
          static_cast<unsigned char>(static_cast<signed char>(steps_of(x[i], float_of_half(best))));
  }
  ATTACCA_HD static float steps_of(float value, float scale) {
    const float steps = scale == 0 ? 0.0f : rintf(value / scale);
    return fminf(fmaxf(steps, -128.0f), 127.0f);
  }
  ATTACCA_HD static float error_of(const float* x, float scale) {
    float error = 0;
    for (unsigned i = 0; i < kBlock; ++i) {
      const float off = x[i] - scale * steps_of(x[i], scale);
      error += off * off;
    }
    return error;
  }
};

}  // namespace

bool can_repack(TensorType from, TensorType to) {
  return to == TensorType::q8_0 || (from == TensorType::q4_k && to == TensorType::q4_1);
}

const Kernel<RepackArgs>& repack() {
  static const Kernel<RepackArgs> kernel = make_kernel<Repack>();
  return kernel;
}

Grid grid_of(const RepackArgs& args, bool) {
  if (!can_repack(args.from.type, args.type) || args.from.columns % kBlock != 0)
    throw BadArgument(std::string("cannot repack ") + type_name(args.from.type) + " of " +
                      std::to_string(args.from.columns) + " columns as " + type_name(args.type));
  return Grid::covering(1ull * args.from.rows * (args.from.columns / kBlock), kThreads);
}

}  // namespace attacca::kernels
