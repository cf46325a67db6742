// ranks.hpp: a program that runs as several ranks, and what they exchange. A Group is a set of
// ranks, as one of them sees it. An Exchange is one operation between them, as data: run it at
// once, enqueue it on a stream, or put it into a graph between two kernels.
//
//   group.all_reduce(gradients.span()).run();
//   group.all_reduce(gradients.span()).enqueue(stream);  // under `capture` it becomes a node
//   group.all_reduce(gradients.span()).add_to(graph).after(backward);
//
// Groups come from `run_loopback` (ranks are threads of this process) or from mpi.hpp (ranks are
// processes). They move host memory; `on` gives a group of the same ranks that moves a device's.
// No wait lasts longer than the deadline. docs/ranks.md has the rules.
#pragma once

#include <attacca/device.hpp>
#include <attacca/device/rank_barrier.hpp>
#include <attacca/error.hpp>
#include <attacca/graph.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace attacca {

namespace comm {
class GroupImpl;
struct ExchangeData;
struct SymmetricBlock;
struct Access;
void* copy_of(const SymmetricBlock& block, int rank);
}  // namespace comm

/// A rank is missing, or the ranks do not agree about an exchange. Every rank of the program gets
/// the same message, in the exchange it waits in or in its next one. Afterwards no exchange of the
/// program works, in any group.
class RanksBroken : public Error {
 public:
  using Error::Error;
};

/// `sum` adds rank after rank: ((0 + 1) + 2) + 3. `sum_in_pairs` adds neighbours first, then the
/// sums of neighbours: (0 + 1) + (2 + 3). So halves and quarters of an array that is added up in
/// pairs give the same bits on 1, 2 and 4 ranks. Up to three ranks both are the same.
enum class Reduction : std::uint8_t { sum, min, max, sum_in_pairs };

/// How a group moves memory of a device.
///  automatic  edges for threads that share a device, peer for those with a GPU each, direct or
///             staged for processes on GPUs; ranks with host devices of their own need none
///  edges      the ranks' graphs are joined, and an exchange is one kernel between their edges;
///             with symmetric memory and one-sided exchanges, whose waits are edges and events
///  staged     a copy to pinned memory, a host call, a copy back
///  nccl       NVIDIA's library, opened when the program runs; see nccl.hpp
///  nvshmem    another, for processes; with symmetric memory and one-sided exchanges; see
///             nvshmem.hpp
///  peer       copies between the GPUs of threads that have one each; on streams, not in graphs
///  direct     MPI moves the memory of GPUs itself, if it is CUDA-aware; in graphs as staged
enum class Transport : std::uint8_t { automatic, edges, staged, nccl, nvshmem, peer, direct };
inline constexpr int kTransports = 7;
const char* transport_name(Transport transport);

namespace detail {

/// `bytes`: values that are moved and not computed with.
enum class ElementType : std::uint8_t { bytes, i32, u32, i64, u64, f32, f64 };

template <class T>
constexpr ElementType element_type() {
  using V = std::remove_const_t<T>;
  if constexpr (std::is_same_v<V, float>) return ElementType::f32;
  if constexpr (std::is_same_v<V, double>) return ElementType::f64;
  if constexpr (std::is_integral_v<V> && sizeof(V) == 4)
    return std::is_signed_v<V> ? ElementType::i32 : ElementType::u32;
  if constexpr (std::is_integral_v<V> && sizeof(V) == 8)
    return std::is_signed_v<V> ? ElementType::i64 : ElementType::u64;
  return ElementType::bytes;
}

/// Memory that an exchange reads or writes.
struct Elements {
  void* data;
  std::size_t count;
  std::size_t element_bytes;
  ElementType type;
};
template <class T>
Elements elements(std::span<T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {const_cast<std::remove_const_t<T>*>(values.data()), values.size(), sizeof(T),
          element_type<T>()};
}

}  // namespace detail

/// A type whose values can be added up.
template <class T>
concept Reducible = (detail::element_type<T>() != detail::ElementType::bytes);

/// One operation between ranks, as data. A cheap value. The memory it names must outlive every use.
class Exchange {
 public:
  /// Gives it a name, for messages, graphs and traces. Ranks must agree on the names of
  /// collectives, so two that are swapped are noticed even where their shapes are alike.
  Exchange named(std::string name) const;
  const std::string& name() const;
  /// Moves only the first `*count * each` elements of every part; the others may change or not.
  /// `count` is read when the exchange runs, where its group works, and is the same number on all
  /// ranks. Throws BadArgument for anything but a collective.
  Exchange limited_to(const std::uint32_t* count, std::size_t each) const;

  /// Runs it now. Returns when this rank's part is done: its results are here, and its memory may
  /// be changed. Throws RanksBroken.
  void run() const;
  /// Runs it in the order of the stream. If it fails, `synchronize` throws NodeFailed with the
  /// message of RanksBroken. While the stream is captured this adds a node. Throws BadArgument for
  /// a stream of another device than the group's, and for one of a CUDA device if the group moves
  /// host memory.
  void enqueue(StreamRef stream) const;
  /// Adds it to a graph as a node that declares its accesses: a host call, or a library call of a
  /// group on a device. Every launch runs it once.
  PlainNode add_to(Graph& graph) const;

 private:
  friend struct comm::Access;
  explicit Exchange(std::shared_ptr<const comm::ExchangeData> data) : data_(std::move(data)) {}
  std::shared_ptr<const comm::ExchangeData> data_;
};

/// An array that every rank of a group has, for one-sided exchanges. An exchange names the caller's
/// own copy, and means the same place in the copy of another rank. The memory starts as zeros, and
/// stays while any rank has its buffer.
template <class T>
class SymmetricBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::span<T> span() const { return {data_, count_}; }
  /// The copy of another rank, which this rank's kernels can read and write. Throws BadArgument for
  /// a rank that is not in the group.
  T* of(int rank) const { return static_cast<T*>(comm::copy_of(*block_, rank)); }

 private:
  friend class Group;
  SymmetricBuffer(std::shared_ptr<comm::SymmetricBlock> block, void* data, std::size_t count)
      : block_(std::move(block)), data_(static_cast<T*>(data)), count_(count) {}
  std::shared_ptr<comm::SymmetricBlock> block_;
  T* data_;
  std::size_t count_;
};

/// A set of ranks, numbered from 0, as one of them sees it. A cheap value. A rank leaves when its
/// last Group and Exchange are gone; ranks that wait for it then get an error.
///
/// All ranks of a group must run its collectives in the same order, one at a time; a graph that
/// holds several orders them by edges. Sends from one rank to another arrive in order. Thread-safe
/// apart from that.
class Group {
 public:
  int rank() const;
  int size() const;
  /// "loopback", "tcp", "mpi", "edges" (ranks that share a device), "staged", "nccl", "nvshmem",
  /// "peer" or "direct".
  const std::string& backend() const;
  std::chrono::nanoseconds deadline() const;
  /// A group of some of these ranks, in the order of `members`, which are ranks of this group and
  /// include the caller. Only the members call it, and all give the same list.
  Group subgroup(const std::vector<int>& members) const;
  /// The same ranks, with exchanges that are work of `device` and move its memory. A collective
  /// call. Throws BadArgument, on all ranks alike, if the transport cannot do that. Ranks that
  /// share a device instantiate, launch and update graphs with exchanges together, in the same
  /// order. Ranks with host devices of their own get this group.
  Group on(const Device& device, Transport transport = Transport::automatic) const;
  /// Launches a kernel on every rank, in the order of the stream, so that kernels can wait for each
  /// other with a RankBarrier. A collective call: the ranks first compare the kernel's name and its
  /// grid. Use an NVSHMEM group, or a group that moves host memory and a stream of a host device
  /// with a thread for each rank. Throws BadArgument for other groups, whose kernels cannot be sure
  /// to run at the same time.
  template <class Args>
  void launch_together(const Kernel<Args>& kernel, const Grid& grid,
                       const std::type_identity_t<Args>& args, StreamRef stream) const {
    agree_on_launch(kernel.info(), grid, stream.device());
    stream.kernel(kernel, grid, args);
  }
  /// Throws RanksBroken if an exchange of the program has failed, or a process of it has ended.
  void check() const;
  /// Tells all ranks that this one cannot go on. Their exchanges throw RanksBroken with the reason.
  void give_up(const std::string& reason) const noexcept;

  // Collectives: every rank of the group runs them. Counts agree on all ranks.

  /// Returns on every rank once all have come.
  Exchange barrier() const;
  /// The values of `root` replace those of all others.
  template <class T>
  Exchange broadcast(std::span<T> values, int root) const {
    return make_broadcast(detail::elements(values), root);
  }
  /// Every rank gets the sum over all ranks, added up in the order of ranks, so all get the same
  /// bits in every run. `from` and `to` are the same memory or do not overlap.
  template <Reducible T>
  Exchange all_reduce(std::span<const std::type_identity_t<T>> from, std::span<T> to,
                      Reduction reduction = Reduction::sum) const {
    return make_all_reduce(detail::elements(from), detail::elements(to), reduction);
  }
  template <Reducible T>
  Exchange all_reduce(std::span<T> values, Reduction reduction = Reduction::sum) const {
    return make_all_reduce(detail::elements(values), detail::elements(values), reduction);
  }
  /// `to` gets the values of rank 0, then those of rank 1, and so on: `size()` times as many. In
  /// place, `from` is this rank's part of `to`.
  template <class T>
  Exchange all_gather(std::span<const std::type_identity_t<T>> from, std::span<T> to) const {
    return make_all_gather(detail::elements(from), detail::elements(to));
  }
  /// Adds up over all ranks and gives part i of the sum to rank i: `from` has `size()` times as
  /// many values as `to`. In place, `to` is this rank's part of `from`.
  template <Reducible T>
  Exchange reduce_scatter(std::span<const std::type_identity_t<T>> from, std::span<T> to,
                          Reduction reduction = Reduction::sum) const {
    return make_reduce_scatter(detail::elements(from), detail::elements(to), reduction);
  }

  // Between two ranks. A send may wait for its receive.

  template <class T>
  Exchange send(std::span<T> values, int to) const {
    return make_send(detail::elements(values), to);
  }
  template <class T>
  Exchange receive(std::span<T> values, int from) const {
    return make_receive(detail::elements(values), from);
  }

  // One-sided: the other rank takes no part. `to` of a put, `from` of a get, signals and counters
  // are symmetric memory of this group.

  /// An array on every rank. A collective call, which throws as `run` does.
  template <class T>
  SymmetricBuffer<T> symmetric(std::size_t count) const {
    auto [block, data] = allocate(detail::array_bytes(count, sizeof(T)));
    return {std::move(block), data, count};
  }
  /// Writes into another rank's memory. It may be read there after a barrier, or after a signal.
  template <class T>
  Exchange put(std::span<T> to, std::span<const std::type_identity_t<T>> from, int rank) const {
    return make_put(detail::elements(to), detail::elements(from), rank, nullptr, 0);
  }
  /// Writes, and then sets `signal` there to `value`. A `wait` that sees the value sees the data.
  template <class T>
  Exchange put_signal(std::span<T> to, std::span<const std::type_identity_t<T>> from, int rank,
                      std::uint64_t* signal, std::uint64_t value) const {
    return make_put(detail::elements(to), detail::elements(from), rank, signal, value);
  }
  template <class T>
  Exchange get(std::span<T> to, std::span<const std::type_identity_t<T>> from, int rank) const {
    return make_get(detail::elements(to), detail::elements(from), rank);
  }
  /// Waits until this rank's `signal` is at least `value`. `from`: the rank that will set it, for
  /// the message if it does not.
  Exchange wait(std::uint64_t* signal, std::uint64_t value, int from) const;
  /// Adds to another rank's `counter` and writes its value before that to `before`. Atomic among
  /// all ranks, the owner's own calls included.
  Exchange fetch_add(std::uint64_t* counter, std::uint64_t value, int rank,
                     std::uint64_t* before) const;

 private:
  friend struct comm::Access;
  explicit Group(std::shared_ptr<comm::GroupImpl> impl) : impl_(std::move(impl)) {}
  void agree_on_launch(const KernelInfo& kernel, const Grid& grid, const Device& device) const;
  Exchange make_broadcast(const detail::Elements& values, int root) const;
  Exchange make_all_reduce(const detail::Elements& from, const detail::Elements& to,
                           Reduction reduction) const;
  Exchange make_all_gather(const detail::Elements& from, const detail::Elements& to) const;
  Exchange make_reduce_scatter(const detail::Elements& from, const detail::Elements& to,
                               Reduction reduction) const;
  Exchange make_send(const detail::Elements& values, int to) const;
  Exchange make_receive(const detail::Elements& values, int from) const;
  Exchange make_put(const detail::Elements& to, const detail::Elements& from, int rank,
                    std::uint64_t* signal, std::uint64_t value) const;
  Exchange make_get(const detail::Elements& to, const detail::Elements& from, int rank) const;
  std::pair<std::shared_ptr<comm::SymmetricBlock>, void*> allocate(std::size_t bytes) const;

  std::shared_ptr<comm::GroupImpl> impl_;
};

/// A barrier for kernels that run on all ranks at the same time. `words`: one for each rank, used
/// for nothing else; they must outlive the kernels. Throws BadArgument for too few words or more
/// than RankBarrier::kMostRanks ranks.
device::RankBarrier rank_barrier(const Group& group, const SymmetricBuffer<std::uint32_t>& words);

struct RanksOptions {
  /// The longest wait for another rank. It covers the work that a rank does between two exchanges.
  std::chrono::nanoseconds deadline = std::chrono::seconds(30);
};

/// Ranks as threads of this process: the reference for all other backends. Each Group may move to a
/// thread of its own. Ranks that launch graphs need a device each, such as Device::host(1): a rank
/// that waits in a graph keeps one of the device's workers.
std::vector<Group> make_loopback(int ranks, const RanksOptions& options = {});

/// Runs `body` once for each rank of a new loopback group, each on a thread, and waits for all. If
/// a body throws, that rank gives up. Throws the exception that came first.
void run_loopback(int ranks, const std::function<void(const Group&)>& body,
                  const RanksOptions& options = {});

}  // namespace attacca
