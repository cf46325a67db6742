// rms_norm.cpp: the kernel of rms_norm.hpp with its CUDA body. The host body is in
// host/rms_norm.cpp.
#include "kernels/rms_norm.hpp"

#include <attacca/error.hpp>

#include "kernels/blocks.hpp"
#include "kernels/host/rms_norm.hpp"

namespace attacca::kernels {
namespace {

constexpr unsigned kThreads = 256;

struct RmsNorm {
  static constexpr const char* name = "rms_norm";
  using Args = RmsNormArgs;

  static Cost cost(const Args& a) {
    const double elements = 1.0 * a.rows.capacity * a.y.columns;
    const double written = 1.0 * a.rows.capacity * row_stride(a.y.format, a.y.columns);
    return {.flops = 4 * elements, .bytes = 4 * (elements + a.y.columns) + written};
  }

  static void host_block(Thread& t, const Args& a) { host::rms_norm(a, t.block.x, t.blocks.x); }

  /// One block for each row.
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    if (t.block.x >= *a.rows.count) return;
    const std::uint32_t columns = a.y.columns;
    const std::uint64_t from = a.gather ? static_cast<std::uint64_t>(a.gather[t.block.x])
                                        : static_cast<std::uint64_t>(t.block.x);
    const float* x = a.x + from * columns;
    float sum = 0;
    for (std::uint32_t at = t.thread.x; at < columns; at += kThreads) sum += x[at] * x[at];
    for (unsigned step = 16; step != 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    __shared__ float sums[kThreads / 32];
    if (t.thread.x % 32 == 0) sums[t.thread.x / 32] = sum;
    __syncthreads();
    double total = 0;
    for (const float warp_sum : sums) total += warp_sum;
    const float factor =
        static_cast<float>(1 / sqrt(total / columns + static_cast<double>(a.epsilon)));
    float* y = static_cast<float*>(a.y.row(t.block.x));
    for (std::uint32_t at = t.thread.x; at < columns; at += kThreads)
      y[at] = x[at] * factor * a.weight[at];
#endif
  }
};

}  // namespace

const Kernel<RmsNormArgs>& rms_norm() {
  static const Kernel<RmsNormArgs> kernel = make_kernel<RmsNorm>();
  return kernel;
}

Grid grid_of(const RmsNormArgs& args, bool is_cuda) {
  if (!is_cuda) return host_grid(1ull * args.rows.capacity * args.y.columns, 32768);
  if (args.y.format != RowFormat::f32)
    throw BadArgument("rms_norm: rows in the format i16 are for the host; use f32 on CUDA");
  return Grid{Dim3{args.rows.capacity}, Dim3{kThreads}};
}

}  // namespace attacca::kernels
