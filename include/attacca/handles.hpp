// handles.hpp: handles in kernel arguments to things that exist only once a graph is instantiated:
// a condition to set, a device graph to launch, a node to update. All are plain values.
//
// While a graph is data, a Condition or DeviceNode holds an address that nothing else in the
// process can have. Instantiation finds it among the argument bytes and writes the real handle in
// its place, as a linker relocates a symbol.
#pragma once

#include <attacca/grid.hpp>
#include <attacca/target.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace attacca {

namespace detail {

/// How to read a relocated handle.
enum class HandleKind : std::uint32_t { unresolved, host, cuda, cell };

/// The part of a host kernel node that device code may change.
struct HostNodeSlot {
  std::byte* args;
  std::size_t args_size;
  Grid* grid;
  bool* enabled;
};

}  // namespace detail

/// The value that an if, while or switch tests. A kernel sets it, from exactly one thread.
/// The default applies once per launch of the whole graph, not once per pass of a loop.
class Condition {
 public:
  ATTACCA_HD void set(unsigned value) const {
#if defined(__CUDA_ARCH__)
    if (kind_ == detail::HandleKind::cuda)
        [[likely]] {  // each line of code costs time in a small kernel
      cudaGraphSetConditional(static_cast<cudaGraphConditionalHandle>(target_), value);
      return;
    }
#endif
    *reinterpret_cast<volatile unsigned*>(target_) = value;
  }

  constexpr Condition() = default;
  ATTACCA_HD constexpr Condition(std::uint64_t target, detail::HandleKind kind)
      : target_(target), kind_(kind) {}
  constexpr std::uint64_t target() const { return target_; }

 private:
  std::uint64_t target_ = 0;
  detail::HandleKind kind_ = detail::HandleKind::unresolved;
  std::uint32_t none_ = 0;  // arguments are compared as bytes, so every byte is set
};

/// A graph that device code launches; see `DeviceExec`. Valid while its DeviceExec lives.
struct DeviceGraph {
  void* exec = nullptr;
};

/// A kernel node whose arguments, grid and enabled flag a kernel of the same graph may change,
/// before the node runs. One thread calls. The change holds for later launches too.
template <class Args>
class DeviceNode {
  static_assert(std::is_trivially_copyable_v<Args>);

 public:
  ATTACCA_HD void set(const Args& args) const {
#if defined(__CUDA_ARCH__)
    cudaGraphKernelNodeSetParam(reinterpret_cast<cudaGraphDeviceNode_t>(target_), 0, &args,
                                sizeof args);
#else
    std::memcpy(slot().args, &args, sizeof args);
#endif
  }
  ATTACCA_HD void set_blocks(Dim3 blocks) const {
#if defined(__CUDA_ARCH__)
    cudaGraphKernelNodeSetGridDim(reinterpret_cast<cudaGraphDeviceNode_t>(target_),
                                  dim3(blocks.x, blocks.y, blocks.z));
#else
    slot().grid->blocks = blocks;
#endif
  }
  ATTACCA_HD void set_enabled(bool is_enabled) const {
#if defined(__CUDA_ARCH__)
    cudaGraphKernelNodeSetEnabled(reinterpret_cast<cudaGraphDeviceNode_t>(target_), is_enabled);
#else
    *slot().enabled = is_enabled;
#endif
  }

  constexpr DeviceNode() = default;
  constexpr explicit DeviceNode(std::uint64_t target) : target_(target) {}

 private:
  const detail::HostNodeSlot& slot() const {
    return *reinterpret_cast<const detail::HostNodeSlot*>(target_);
  }
  std::uint64_t target_ = 0;
  detail::HandleKind kind_ = detail::HandleKind::unresolved;  // keeps the layout of Condition
  std::uint32_t none_ = 0;
};

static_assert(sizeof(Condition) == 16 && std::is_trivially_copyable_v<Condition>);
static_assert(sizeof(DeviceNode<int>) == 16 && std::is_trivially_copyable_v<DeviceNode<int>>);
static_assert(std::is_trivially_copyable_v<DeviceGraph>);

}  // namespace attacca
