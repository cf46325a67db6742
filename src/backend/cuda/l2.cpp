// l2.cpp: a GPU's L2 cache: its sizes, the part set aside, and the windows of streams and nodes.
#include "backend/cuda/l2.hpp"

#include <fmt/core.h>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/stream.hpp"

namespace attacca::cuda {

using namespace graph;

namespace {

cudaStream_t native(StreamImpl& stream) { return static_cast<CudaStream&>(stream).get(); }

void refuse_capture(StreamImpl& stream) {
  if (static_cast<CudaStream&>(stream).is_being_captured())
    throw BadArgument(
        "the L2 window of a stream that is being captured, which does not record it; build the "
        "graph and use KernelNode::l2_window, or an L2Hint in the kernels");
}

cudaAccessProperty to_cuda(L2Access access) {
  switch (access) {
    case L2Access::streaming:
      return cudaAccessPropertyStreaming;
    case L2Access::persisting:
      return cudaAccessPropertyPersisting;
    case L2Access::normal:
      break;
  }
  return cudaAccessPropertyNormal;
}

L2Access from_cuda(cudaAccessProperty property) {
  switch (property) {
    case cudaAccessPropertyStreaming:
      return L2Access::streaming;
    case cudaAccessPropertyPersisting:
      return L2Access::persisting;
    case cudaAccessPropertyNormal:
      break;
  }
  return L2Access::normal;
}

}  // namespace

cudaAccessPolicyWindow to_cuda(const L2Window& window) {
  return {const_cast<void*>(window.base), window.bytes, static_cast<float>(window.hit_ratio),
          to_cuda(window.hit), to_cuda(window.miss)};
}

L2Cache CudaDevice::l2_cache() {
  const CurrentDevice current(index_);
  const auto ask = [&](cudaDeviceAttr attribute) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, attribute, index_), "asking for the size of L2");
    return static_cast<std::size_t>(value);
  };
  L2Cache cache{ask(cudaDevAttrL2CacheSize), ask(cudaDevAttrMaxPersistingL2CacheSize),
                ask(cudaDevAttrMaxAccessPolicyWindowSize)};
  if (cache.max_set_aside != 0)
    check(cudaDeviceGetLimit(&cache.set_aside, cudaLimitPersistingL2CacheSize),
          "asking how much of L2 is set aside");
  return cache;
}

void CudaDevice::set_aside_l2(std::size_t bytes) {
  const CurrentDevice current(index_);
  check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes),
        [&] { return fmt::format("setting {} bytes of L2 aside on {}", bytes, name()); });
}

L2Window CudaDevice::l2_window(StreamImpl& stream) {
  const CurrentDevice current(index_);
  cudaLaunchAttributeValue value{};
  check(cudaStreamGetAttribute(native(stream), cudaLaunchAttributeAccessPolicyWindow, &value),
        "asking for a stream's L2 window");
  const cudaAccessPolicyWindow& window = value.accessPolicyWindow;
  return {window.base_ptr, window.num_bytes, window.hitRatio, from_cuda(window.hitProp),
          from_cuda(window.missProp)};
}

void CudaDevice::set_l2_window(StreamImpl& stream, const L2Window& window) {
  const CurrentDevice current(index_);
  refuse_capture(stream);
  cudaLaunchAttributeValue value{};
  value.accessPolicyWindow = to_cuda(window);
  check(cudaStreamSetAttribute(native(stream), cudaLaunchAttributeAccessPolicyWindow, &value),
        [&] { return fmt::format("setting an L2 window of {} bytes", window.bytes); });
}

void CudaDevice::reset_l2(StreamImpl& stream) {
  const CurrentDevice current(index_);
  refuse_capture(stream);
  // StreamImpl::synchronize would take the failures that the user must see.
  check(cudaStreamSynchronize(native(stream)), "waiting before L2 is reset");
  check(cudaCtxResetPersistingL2Cache(), "resetting the persisting lines of L2");
}

}  // namespace attacca::cuda
