// l2.cpp: checks of L2 windows, the guards over the backends, and the windows of graph nodes.
#include <attacca/error.hpp>
#include <attacca/l2.hpp>

#include <fmt/core.h>

#include <algorithm>

#include "graph/executor.hpp"

namespace attacca {

namespace {

/// For the destructors of guards: a device that fails there has already failed elsewhere.
template <class F>
void try_to(F&& restore) noexcept {
  try {
    restore();
  } catch (...) {
  }
}

void check_window(const L2Window& window, const L2Cache& cache) {
  if (window.bytes == 0 || !window.base)
    throw BadArgument(
        fmt::format("an L2 window of {} bytes at {}: give it an address and at least one byte, or "
                    "leave it out",
                    window.bytes, window.base));
  if (!(window.hit_ratio >= 0 && window.hit_ratio <= 1))
    throw BadArgument(fmt::format(
        "an L2 window with a hit ratio of {}; use 0 to 1, the share of its lines that are hits",
        window.hit_ratio));
  if (window.miss == L2Access::persisting)
    throw BadArgument(
        "an L2 window whose misses persist; let its hits persist, and misses be normal or "
        "streaming");
  if (cache.max_window != 0 && window.bytes > cache.max_window)
    throw BadArgument(
        fmt::format("an L2 window of {} bytes; this device takes at most {}: use a window of the "
                    "part that matters most",
                    window.bytes, cache.max_window));
  if (cache.max_set_aside != 0 && cache.set_aside == 0 && window.hit == L2Access::persisting)
    throw BadArgument(
        fmt::format("a persisting L2 window of {} bytes where 0 bytes are set aside; make an "
                    "L2SetAside of up to {} bytes first",
                    window.bytes, cache.max_set_aside));
}

}  // namespace

bool graph::has_effect(const L2Window& window, const L2Cache& cache) {
  return cache.max_window != 0 && (cache.max_set_aside != 0 || window.hit != L2Access::persisting);
}

void Node::set_l2_window(const L2Window& window) const {
  const std::string& kernel = name();  // throws where the node is gone
  try {
    check_window(window, l2_cache(data_->device));
    if (graph::AddressRange::is_stand_in(reinterpret_cast<std::uintptr_t>(window.base)))
      throw BadArgument(
          "an L2 window over memory that a graph allocates, whose address is not known yet; use a "
          "Buffer or an Arena");
  } catch (const BadArgument& error) {
    throw BadArgument(fmt::format("kernel '{}': {}", kernel, error.what()));
  }
  data_->l2_windows.insert_or_assign(id_, window);
}

L2Cache l2_cache(const Device& device) { return graph::impl_of(device).l2_cache(); }

L2SetAside::L2SetAside(const Device& device, std::size_t bytes) : device_(device) {
  const L2Cache cache = l2_cache(device);
  if (cache.max_set_aside == 0) return;
  former_ = cache.set_aside;
  graph::impl_of(device).set_aside_l2(std::min(bytes, cache.max_set_aside));
  granted_ = l2_cache(device).set_aside;
}

L2SetAside::~L2SetAside() {
  if (has_effect()) try_to([&] { graph::impl_of(device_).set_aside_l2(former_); });
}

L2SetAside L2SetAside::of_bytes(const Device& device, std::size_t bytes) {
  if (bytes == 0)
    throw BadArgument("0 bytes of L2 set aside; ask for at least one, or leave it out");
  return L2SetAside(device, bytes);
}

L2SetAside L2SetAside::of_fraction(const Device& device, double fraction) {
  if (!(fraction > 0 && fraction <= 1))
    throw BadArgument(
        fmt::format("a fraction {} of L2 set aside; use one above 0 and up to 1", fraction));
  const auto bytes = static_cast<double>(l2_cache(device).bytes);
  return L2SetAside(device, static_cast<std::size_t>(fraction * bytes));
}

L2Window L2Window::persisting(const void* base, std::size_t bytes, double hit_ratio) {
  return {base, bytes, hit_ratio, L2Access::persisting, L2Access::streaming};
}
L2Window L2Window::streaming(const void* base, std::size_t bytes) {
  return {base, bytes, 1, L2Access::streaming, L2Access::streaming};
}
L2Window L2Window::interleaved(const Device& device, const void* base, std::size_t bytes) {
  const std::size_t set_aside = l2_cache(device).set_aside;
  return persisting(base, bytes,
                    bytes <= set_aside || set_aside == 0
                        ? 1
                        : static_cast<double>(set_aside) / static_cast<double>(bytes));
}

L2Window l2_window(StreamRef stream) {
  return graph::impl_of(stream.device()).l2_window(*graph::state_of(stream).impl);
}

L2Guard::L2Guard(StreamRef stream, const L2Window& window, AtEnd at_end)
    : stream_(stream), window_(window), at_end_(at_end) {
  const L2Cache cache = l2_cache(stream.device());
  check_window(window, cache);
  if (graph::state_of(stream).recorder)
    throw BadArgument(
        "an L2 window on a stream that is being captured, which does not record it; build the "
        "graph and use KernelNode::l2_window, or an L2Hint in the kernels");
  former_ = l2_window(stream);
  has_effect_ = graph::has_effect(window, cache);
  if (has_effect_)
    graph::impl_of(stream.device()).set_l2_window(*graph::state_of(stream).impl, window);
}

L2Guard::~L2Guard() {
  if (!has_effect_) return;
  try_to([&] {
    graph::impl_of(stream_.device()).set_l2_window(*graph::state_of(stream_).impl, former_);
  });
  if (at_end_ == AtEnd::reset) try_to([&] { reset_l2(stream_); });
}

void reset_l2(StreamRef stream) {
  if (graph::state_of(stream).recorder)
    throw BadArgument("reset_l2 on a stream that is being captured; do it outside");
  graph::impl_of(stream.device()).reset_l2(*graph::state_of(stream).impl);
}

}  // namespace attacca
