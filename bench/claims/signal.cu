// signal.cu: the kernels of the experiment `signal`, and their launchers. All blocks of a kernel
// wait for each other, so they are launched as a cluster or cooperatively.
#include "signal.hpp"

#include <cooperative_groups.h>

#include <utility>

namespace bench::signals {

namespace {

constexpr unsigned kWarp = 32;

__device__ bool is_worker() { return threadIdx.x % kWarp == 0; }
__device__ unsigned worker() { return (blockIdx.x * blockDim.x + threadIdx.x) / kWarp; }

template <Scope kScope, Way kWay>
__global__ void ping_pong_kernel(const PingPong a) {
  if (is_worker())
    play_side<kScope, kWay>(a, a.first_side + worker(), a.lines[PingPong::there].word,
                            a.lines[PingPong::back].word);
}

__global__ void ping_pong_in_block_kernel(const PingPong a) {
  __shared__ Line lines[2];
  if (threadIdx.x < 2) lines[threadIdx.x].word = 0;
  __syncthreads();
  if (is_worker()) play_side<Scope::block, Way::signal>(a, worker(), lines[0].word, lines[1].word);
}

/// Each side waits at a word in its own shared memory.
__global__ void ping_pong_in_cluster_kernel(const PingPong a) {
  __shared__ Line line;
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  if (threadIdx.x == 0) line.word = 0;
  cluster.sync();
  if (is_worker())
    play_side<Scope::cluster, Way::signal>(a, worker(), *cluster.map_shared_rank(&line.word, 1),
                                           *cluster.map_shared_rank(&line.word, 0));
  cluster.sync();  // the other side may still read our word
}

template <Scope kScope, std::size_t... kAt>
__device__ void publish(const Publish& a, std::index_sequence<kAt...>) {
  auto* flags = &a.lines[1];
  const auto flag = [&](std::size_t at) -> Signal<kScope>& {
    return reinterpret_cast<Signal<kScope>&>(flags[at].word);
  };
  for (std::uint32_t round = 1; round <= a.rounds; ++round) {
    a.lines[0].word = round;
    if (a.is_one_fence)
      Signal<kScope>::publish_all(round, flag(kAt)...);
    else
      (flag(kAt).publish(round), ...);
  }
}
template <Scope kScope>
__global__ void publish_kernel(const Publish a) {
  if (threadIdx.x != 0) return;
  if (a.count == 1) publish<kScope>(a, std::make_index_sequence<1>{});
  if (a.count == 2) publish<kScope>(a, std::make_index_sequence<2>{});
  if (a.count == 4) publish<kScope>(a, std::make_index_sequence<4>{});
  if (a.count == 8) publish<kScope>(a, std::make_index_sequence<8>{});
  if (a.count == 16) publish<kScope>(a, std::make_index_sequence<16>{});
}

template <Way kWay>
__global__ void broadcast_kernel(const Broadcast a) {
  if (!is_worker()) return;
  std::uint32_t& flag = a.lines[Broadcast::flag].word;
  auto& answers = reinterpret_cast<Signal<Scope::gpu>&>(a.lines[Broadcast::answers].word);
  std::uint32_t round = 1;
  for (; round <= a.rounds; ++round) {
    if (worker() == 0) {
      announce<Scope::gpu, kWay>(flag, round);
      if (!answers.wait(round * a.waiters, a.patience)) break;
    } else {
      if (!await<Scope::gpu, kWay>(flag, round, a.patience)) break;
      answers.raise();
    }
  }
  if (worker() == 0) a.lines[Broadcast::done].word = round - 1;
}

template <Scope kScope>
const void* ping_pong_of(Way way) {
  switch (way) {
    case Way::bare:
      return reinterpret_cast<const void*>(&ping_pong_kernel<kScope, Way::bare>);
    case Way::signal:
      return reinterpret_cast<const void*>(&ping_pong_kernel<kScope, Way::signal>);
    case Way::fenced:
      return reinterpret_cast<const void*>(&ping_pong_kernel<kScope, Way::fenced>);
    case Way::closing_load:
      return reinterpret_cast<const void*>(&ping_pong_kernel<kScope, Way::closing_load>);
    case Way::seq_cst:
      return reinterpret_cast<const void*>(&ping_pong_kernel<kScope, Way::seq_cst>);
    case Way::wait_notify:
      if constexpr (kScope == Scope::gpu || kScope == Scope::system)
        return reinterpret_cast<const void*>(&ping_pong_kernel<kScope, Way::wait_notify>);
  }
  return nullptr;
}

const void* ping_pong_of(Route route, Way way) {
  if (is_shared(route) && way != Way::signal) return nullptr;
  switch (route) {
    case Route::block_shared:
      return reinterpret_cast<const void*>(&ping_pong_in_block_kernel);
    case Route::block_memory:
      return ping_pong_of<Scope::block>(way);
    case Route::cluster_shared:
      return reinterpret_cast<const void*>(&ping_pong_in_cluster_kernel);
    case Route::cluster_memory:
      return ping_pong_of<Scope::cluster>(way);
    case Route::gpu:
      return ping_pong_of<Scope::gpu>(way);
    case Route::system:
    case Route::host_device:
      return ping_pong_of<Scope::system>(way);
  }
  return nullptr;
}

/// Launches all blocks at once, as a cluster or cooperatively.
template <class Args>
cudaError_t launch_together(const void* kernel, unsigned blocks, unsigned threads, bool is_cluster,
                            Args args, cudaStream_t stream) {
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  cudaLaunchAttribute together{};
  if (is_cluster) {
    together.id = cudaLaunchAttributeClusterDimension;
    together.val.clusterDim.x = blocks;
    together.val.clusterDim.y = 1;
    together.val.clusterDim.z = 1;
  } else {
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &together;
  config.numAttrs = 1;
  void* pointers[] = {&args};
  return cudaLaunchKernelExC(&config, kernel, pointers);
}

}  // namespace

cudaError_t launch(Route route, Way way, const PingPong& args, cudaStream_t stream) {
  const bool is_cluster = route == Route::cluster_shared || route == Route::cluster_memory;
  const bool is_one_block = route == Route::block_shared || route == Route::block_memory;
  const unsigned blocks = is_one_block || route == Route::host_device ? 1 : 2;
  return launch_together(ping_pong_of(route, way), blocks, is_one_block ? 2 * kWarp : kWarp,
                         is_cluster, args, stream);
}

cudaError_t launch(Scope scope, const Publish& args, cudaStream_t stream) {
  const void* kernel = scope == Scope::gpu
                           ? reinterpret_cast<const void*>(&publish_kernel<Scope::gpu>)
                           : reinterpret_cast<const void*>(&publish_kernel<Scope::system>);
  return launch_together(kernel, 1, kWarp, false, args, stream);
}

cudaError_t launch(Way way, const Broadcast& args, cudaStream_t stream) {
  const void* kernel =
      way == Way::bare     ? reinterpret_cast<const void*>(&broadcast_kernel<Way::bare>)
      : way == Way::fenced ? reinterpret_cast<const void*>(&broadcast_kernel<Way::fenced>)
                           : reinterpret_cast<const void*>(&broadcast_kernel<Way::signal>);
  return launch_together(kernel, 1 + args.waiters, kWarp, false, args, stream);
}

}  // namespace bench::signals
