// torch_guest.cpp: a library that a Python program loads beside PyTorch. Each function gets a
// cudaStream_t and device addresses from PyTorch. tests/oracle/torch_stream.py calls it.
#include <attacca/attacca.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace {

using namespace attacca;

struct Scale {
  static constexpr const char* name = "scale";
  struct Args {
    std::int32_t* x;
    std::int32_t factor;
    std::uint64_t count;
  };
  static Cost cost(const Args& a) {
    return {.flops = 1.0 * static_cast<double>(a.count),
            .bytes = 8.0 * static_cast<double>(a.count)};
  }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.index() < a.count) a.x[t.index()] *= a.factor;
  }
};
const Kernel<Scale::Args> scale = make_kernel<Scale>();

__global__ void shift(std::int32_t* x, std::int32_t by, std::uint64_t count) {
  const std::uint64_t at = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (at < count) x[at] += by;
}

struct Guest {
  Device device;
  std::optional<Exec> exec;
  std::optional<CudaKernelNode<std::int32_t*, std::int32_t, std::uint64_t>> shifting;
};

std::string last_error;

/// Returns 0, or 1 with the reason in `last_error`. No exception reaches Python.
template <class Work>
int guarded(Work work) {
  try {
    work();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

}  // namespace

extern "C" {

const char* guest_error() { return last_error.c_str(); }

/// A graph of x = x * factor + by, in two kernels: one of attacca and one plain. Null on failure.
void* guest_make(int device, std::int32_t* x, std::uint64_t count, std::int32_t factor,
                 std::int32_t by) {
  auto guest = std::make_unique<Guest>(Guest{Device::host(), {}, {}});
  const int failed = guarded([&] {
    guest->device = Device::cuda(device);
    Graph graph(guest->device, "guest");
    const auto scaled =
        graph.kernel(scale, Grid::covering(count), {.x = x, .factor = factor, .count = count});
    guest->shifting =
        graph.kernel(cuda_kernel("shift", &shift), Grid::covering(count), x, by, count)
            .after(scaled);
    guest->exec = graph.instantiate();
  });
  return failed ? nullptr : guest.release();
}

int guest_launch(void* self, void* cuda_stream) {
  return guarded([&] {
    auto& guest = *static_cast<Guest*>(self);
    guest.exec->launch(BorrowedStream(guest.device, cuda_stream));
  });
}

int guest_set_shift(void* self, std::int32_t* x, std::int32_t by, std::uint64_t count) {
  return guarded([&] {
    auto& guest = *static_cast<Guest*>(self);
    guest.exec->set(*guest.shifting, x, by, count);
  });
}

/// The same kernel without a graph, for the stream's owner to capture.
int guest_enqueue(int device, void* cuda_stream, std::int32_t* x, std::uint64_t count,
                  std::int32_t factor) {
  return guarded([&] {
    BorrowedStream(Device::cuda(device), cuda_stream)
        .kernel(scale, Grid::covering(count), {.x = x, .factor = factor, .count = count});
  });
}

/// Takes over a cudaGraph_t; `guest_launch` runs it. Null on failure.
void* guest_adopt(int device, void* cuda_graph) {
  auto guest = std::make_unique<Guest>(Guest{Device::host(), {}, {}});
  const int failed = guarded([&] {
    guest->device = Device::cuda(device);
    guest->exec = adopt_cuda(guest->device, cuda_graph, "adopted").instantiate();
  });
  return failed ? nullptr : guest.release();
}

void guest_free(void* self) { delete static_cast<Guest*>(self); }

}  // extern "C"
