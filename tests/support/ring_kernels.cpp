// ring_kernels.cpp: the bodies of kernels that wait at rings in vain. nvcc compiles them in a CUDA
// build.
#include "support/ring_kernels.hpp"

#include <attacca/device/staged_copy.hpp>

#include "kernels/waits.hpp"
#if defined(__CUDACC__)
#include "kernels/linear/sm90_pair_ring.cuh"
#endif

namespace attacca::test {

namespace {

constexpr std::uint64_t kLittlePatience = 50'000'000;  // ns

/// The common part of these kernels: on the host they do nothing.
template <class A>
struct OnGpu {
  using Args = A;
  static Cost cost(const Args&) { return {}; }
  static void host(const Grid&, const Args&) {}
};

struct UseRing : OnGpu<RingArgs> {
  static constexpr const char* name = "use_ring";
  static constexpr const char* waits_for[] = {kernels::kFullWait, kernels::kEmptyWait};

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    __shared__ kernels::Ring<2, 1, 1, kLittlePatience> ring;
    __shared__ uint4 stages[2];
    if (threadIdx.x == 0) ring.init();
    __syncthreads();
    if (threadIdx.x < 32)
      read(ring, stages, a);
    else if (a.lack != RingLack::filler)
      fill(ring, stages, a);
    ring.report(t);
#endif
  }

#if defined(__CUDACC__)
 private:
  template <class Ring>
  __device__ static void read(Ring& ring, const uint4* stages, const Args& a) {
    typename Ring::State at;
    unsigned sum = 0;
    unsigned given_up = 0;
    for (unsigned i = 0; i < a.stages; ++i) {
      // Two stages stay unreleased. Their data must have arrived before the block exits.
      if (a.lack == RingLack::release && i == 2) break;
      if (!ring.wait_full(at)) {
        ++given_up;
        continue;
      }
      const unsigned word = stages[at.stage].x;
      sum += word;
      if (a.lack != RingLack::release) ring.release(at, word);
      at.advance();
    }
    if (threadIdx.x != 0) return;
    a.given_up[0] = given_up;
    *a.sum = sum;
  }
  template <class Ring>
  __device__ static void fill(Ring& ring, uint4* stages, const Args& a) {
    typename Ring::State at;
    unsigned given_up = 0;
    for (unsigned i = 0; i < a.stages; ++i) {
      if (!ring.begin_fill(at, sizeof(uint4))) {
        ++given_up;
        continue;
      }
      if (threadIdx.x % 32 == 0) ring.copy(at, stages + at.stage, a.source, sizeof(uint4));
      at.advance();
    }
    if (threadIdx.x % 32 == 0) a.given_up[1] = given_up;
  }
#endif
};

struct StarvePair : OnGpu<StarveArgs> {
  static constexpr const char* name = "starve_pair";
  static constexpr const char* waits_for[] = {kernels::kFullWait, kernels::kEmptyWait,
                                              "something that never comes"};
  static constexpr unsigned max_threads = 32;
  static constexpr unsigned min_blocks = 1;
  static constexpr unsigned cluster = 2;

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    __shared__ kernels::PairRing<2, 1, kLittlePatience> ring;
    if (threadIdx.x == 0) ring.init();
    kernels::synchronize_pair();
    unsigned given_up = 0;
    for (unsigned i = 0; i < 3; ++i) {
      const bool is_answered =
          blockIdx.x % 2 == 0
              ? ring.wait_full({})
              : ring.wait_otherwise(kernels::kRingWaits, 7, kernels::kPatienceNanoseconds,
                                    [] { return false; });
      if (!is_answered) ++given_up;
    }
    if (threadIdx.x == 0) a.given_up[blockIdx.x] = given_up;
    if (blockIdx.x % 2 != 0) ring.report(t);  // reports only if its peer has not told it
    kernels::synchronize_pair();
    if (blockIdx.x % 2 == 0) ring.report(t);
#endif
  }
};

struct StarveBulkCopy : OnGpu<StarveArgs> {
  static constexpr const char* name = "starve_bulk_copy";
  static constexpr const char* waits_for[] = {"bread", "a chunk to be copied by TMA"};

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    using Copy =
        device::ChunkPipeline<std::uint32_t, 64, 2, device::detail::BulkMover<2, kLittlePatience>>;
    __shared__ typename Copy::Storage storage;
    Copy copy(t, storage, 1);
    for (unsigned i = 0; i < 3; ++i) {
      (void)copy.wait();
      copy.release();
    }
    if (threadIdx.x == 0) a.given_up[blockIdx.x] = 1;
#endif
  }
};

}  // namespace

const Kernel<RingArgs> use_ring = make_kernel<UseRing>();
const Kernel<StarveArgs> starve_pair = make_kernel<StarvePair>();
const Kernel<StarveArgs> starve_bulk_copy = make_kernel<StarveBulkCopy>();

}  // namespace attacca::test
