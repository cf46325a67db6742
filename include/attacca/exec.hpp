// exec.hpp: a graph made ready to run. Exec is launched by the host, DeviceExec by device code.
#pragma once

#include <attacca/graph.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace attacca {

namespace graph {
class ExecCore;
}

/// The outcome of an update. Where the driver or the rules refuse a change in place, the graph is
/// instantiated anew, and this names the reason and the node.
struct UpdateReport {
  bool was_reinstantiated = false;
  std::string reason;  // empty where the update was made in place
  std::string node;
  bool handle_changed =
      false;  // of a DeviceExec: arguments that carry its handle must be set again

  explicit operator bool() const { return !was_reinstantiated; }
};

/// Counts of an exec's actions since it was made.
struct ExecCounters {
  std::uint64_t launches = 0;
  std::uint64_t nodes_updated = 0;
  std::uint64_t reinstantiations = 0;
  std::uint64_t uploads = 0;
};

/// Bytes that exist because of one exec.
struct ExecMemory {
  std::size_t host_bytes = 0;    // the graph as data, the plan, argument copies
  std::size_t pinned_bytes = 0;  // all its allocation nodes, each counted whole
};

/// The update contract that Exec and DeviceExec share. The exec owns a copy of its graph, and
/// handles of the graph it came from name its nodes. A change that throws leaves the exec as it
/// was, though it may have been instantiated anew: ask for `native()` or `handle()` again. If going
/// back fails too, launches throw DeviceError until an update succeeds. Not thread-safe. Destroying
/// an exec does not wait: the parts that a launch in flight uses, host calls included, live until
/// it has ended. The caller must keep the memory that kernels were given.
class ExecBase {
 public:
  ExecBase(ExecBase&&) noexcept;
  ExecBase& operator=(ExecBase&&) noexcept;

  template <class Args>
  UpdateReport set(const KernelNode<Args>& node, const std::type_identity_t<Args>& args) {
    return set_kernel(node, nullptr, &args, sizeof args);
  }
  template <class Args>
  UpdateReport set(const KernelNode<Args>& node, const Grid& grid,
                   const std::type_identity_t<Args>& args) {
    return set_kernel(node, &grid, &args, sizeof args);
  }
  template <class... P>
  UpdateReport set(const CudaKernelNode<P...>& node, const std::type_identity_t<P>&... args) {
    const detail::PackedParameters<P...> packed(args...);
    return set_kernel(node, nullptr, packed.data(), packed.kBytes);
  }
  template <class... P>
  UpdateReport set(const CudaKernelNode<P...>& node, const Grid& grid,
                   const std::type_identity_t<P>&... args) {
    const detail::PackedParameters<P...> packed(args...);
    return set_kernel(node, &grid, packed.data(), packed.kBytes);
  }
  UpdateReport set(const CopyNode& node, void* to, const void* from, std::size_t bytes);
  template <class T>
  UpdateReport set(const CopyNode& node, std::span<T> to,
                   std::span<const std::type_identity_t<T>> from) {
    detail::check_same_count(to.size(), from.size());
    return set(node, to.data(), from.data(), to.size_bytes());
  }
  /// For a copy of several rows. CUDA changes those by instantiating anew, and the report says so.
  UpdateReport set(const CopyNode& node, Pitched to, ConstPitched from, std::size_t width_bytes,
                   std::size_t rows);
  UpdateReport set(const FillNode& node, void* to, std::uint8_t value, std::size_t bytes);
  template <class T>
  UpdateReport set(const FillNode& node, std::span<T> to, std::uint8_t value) {
    return set(node, to.data(), value, to.size_bytes());
  }
  UpdateReport enable(const Node& node, bool is_enabled);
  /// Takes over everything in `graph`, in place where only parameters differ.
  UpdateReport update(const Graph& graph);

  const Graph& graph() const;
  ExecCounters counters() const;
  ExecMemory memory() const;

 protected:
  explicit ExecBase(std::unique_ptr<graph::ExecCore> core);
  ~ExecBase();
  UpdateReport set_kernel(const Node& node, const Grid* grid, const void* args, std::size_t size);
  std::unique_ptr<graph::ExecCore> core_;
};

/// Launched by the host. Launches of one exec run one after another; two execs may overlap.
class Exec : public ExecBase {
 public:
  void launch(StreamRef stream);
  /// The cudaGraphExec_t that runs it; null on the host. Valid until this is destroyed, or an
  /// update reports `was_reinstantiated` or throws. A caller that launches it must order that
  /// against launches from here, and must not change or destroy it.
  void* native() const;

 private:
  friend class Graph;
  using ExecBase::ExecBase;
};

/// Launched by device code, through `handle()` among a kernel's arguments. It is uploaded when made
/// and after every update. The host may start it too, while nothing on the device does, and must
/// change it only while nothing runs it.
class DeviceExec : public ExecBase {
 public:
  DeviceGraph handle() const;
  void start(StreamRef stream);

 private:
  friend class Graph;
  using ExecBase::ExecBase;
};

}  // namespace attacca
