// group.cpp: exchanges as calls of NCCL, which a graph captures when it is instantiated. Ranks
// compare them on the host at that time, or, outside graphs, before each call. A replay costs no
// host call, and compares nothing. No rank launches a graph before it is on the devices of all.
#include "comm/nccl/group.hpp"

#include <fmt/core.h>
#include <attacca/memory.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "comm/compare.hpp"
#include "comm/device_group.hpp"
#include "comm/library_thread.hpp"
#include "comm/nccl/library.hpp"
#include "comm/nccl/watch.hpp"
#include "comm/one_sided_kernel.hpp"
#include "core/device_events.hpp"
#include "graph/access.hpp"
#include "graph/data.hpp"
#include "graph/executor.hpp"
#include "graph/meeting.hpp"

namespace attacca::comm {

namespace {

/// A communicator. Instantiated graphs that captured it must be gone first, so they keep it. They
/// do not keep the group, since its stream may keep ended graphs while it is busy. NCCL's kernels
/// wait for ever for a rank that does not come, so a watch aborts them when the program is broken.
/// From then on nothing is launched, and `synchronize` throws what broke it.
///
/// To abort, NCCL waits until no graph is left that captured this communicator or, where ranks are
/// threads, another rank's. Such a graph may go behind this one. So an abort has a thread of its
/// own, which nobody waits for longer than a moment.
class Communicator {
 public:
  using Call = std::function<void(NcclComm*)>;

  /// Throws BadArgument on all ranks alike. A collective call.
  Communicator(const std::shared_ptr<GroupImpl>& control, const Device& device)
      : control_(control),
        device_(device),
        library_(agree_on_library()),
        word_(device, 1),
        ended_(device, {0, 0}, Visibility::shared) {
    comm_ = start();
    watch_.emplace(*control, *ended_.data(), [this] { stop(); });
    guard_.emplace([this](const core::WorkPasses& work) { hear(work); });
  }
  ~Communicator() {
    guard_.reset();
    watch_.reset();
    // To destroy it waits for the others, so a program that is broken aborts.
    if (comm_ && is_broken())
      stop();
    else if (comm_)
      end(device_, comm_, library_.destroy);
    wait_a_moment([&] { return !calls_->is_aborting; });
  }
  Communicator(const Communicator&) = delete;

  /// What a graph needs. It keeps a communicator once for each of its exchanges.
  using Keeps = std::span<const std::shared_ptr<const void>>;

  /// While it lives, this thread captures a graph with so many calls.
  class Captured {
   public:
    Captured(std::shared_ptr<Communicator> by, std::uint64_t calls, Keeps keeps)
        : by_(std::move(by)), one_at_a_time_(by_->capture_mutex_) {
      by_->calls_left_ = calls;
      by_->exchanges_in_graph_ = by_->exchanges_of(keeps);
    }
    ~Captured() { by_->calls_left_ = 0; }
    Captured(const Captured&) = delete;

   private:
    std::shared_ptr<Communicator> by_;
    std::lock_guard<std::mutex> one_at_a_time_;
  };

  /// Hands it to `call`, which enqueues an exchange, and lets the device count that it has ended:
  /// where a graph is captured, all at once behind the last, which takes time only once. To be
  /// launched is counted here, unless the exchange is in a graph, whose launches are counted.
  /// Throws RanksBroken once the program is broken.
  void use(StreamRef stream, bool is_in_graph, const Call& call) {
    const InUse in_use(calls_->running);
    NcclComm* const comm = comm_;  // null only if the check throws
    control_->check();
    if (!is_in_graph) watch_->add_launched(1);
    try {
      call(comm);
    } catch (...) {
      if (!is_in_graph) watch_->take_launched_back(1);
      throw;
    }
    const bool is_captured = is_in_graph && device_.is_cuda();
    const std::uint64_t ended = !is_captured || calls_left_ == 0 ? 1
                                : --calls_left_ == 0             ? exchanges_in_graph_
                                                                 : 0;
    std::uint64_t* const count = ended_.data();
    if (ended > 0) stream.kernel(fetch_add_kernel(), Grid{}, {count, ended, count + 1});
  }
  const NcclLibrary& library() const { return library_; }
  /// The device's memory that barriers reduce.
  std::uint32_t* word() { return word_.data(); }
  void check(int error, const char* call) const {
    if (error != 0) throw DeviceError(problem(error, call));
  }

 private:
  /// The library's calls that run. An abort may outlive the communicator.
  struct Calls {
    std::atomic<int> running{0};
    std::atomic<bool> is_aborting{false};
  };
  class InUse {
   public:
    explicit InUse(std::atomic<int>& running) : running_(running) { ++running_; }
    ~InUse() { --running_; }
    InUse(const InUse&) = delete;

   private:
    std::atomic<int>& running_;
  };

  std::string problem(int error, const char* call) const {
    return fmt::format("{}: {}; {}", call, library_.error_text(error), library_.last_error(comm_));
  }

  /// What NCCL's start leaves to others; if nobody takes the communicator, it is aborted.
  struct Started {
    Started(const Device& on, int (*how)(NcclComm*)) : device(on), abort(how) {}
    ~Started() {
      if (comm) end(device, comm, abort);
    }
    Device device;
    int (*abort)(NcclComm*);
    NcclComm* comm = nullptr;
    int error = 0;
  };
  /// All ranks come to it together, and wait for each other in it.
  NcclComm* start() {
    NcclId id{};
    int error = 0;
    if (control_->rank() == 0)
      graph::impl_of(device_).run_here([&] { error = library_.get_unique_id(&id); });
    tell_all(*control_, error == 0 ? std::string() : problem(error, "ncclGetUniqueId"), "");
    Access::group(control_).broadcast(std::span(&id, 1), 0).named("NCCL's id").run();
    const auto started = std::make_shared<Started>(device_, library_.abort);
    LibraryThread(control_, device_)
        .run("ncclCommInitRank",
             [started, id, init = library_.init_rank, ranks = control_->size(),
              rank = control_->rank()] { started->error = init(&started->comm, ranks, id, rank); });
    tell_all(*control_,
             started->error == 0 ? std::string() : problem(started->error, "ncclCommInitRank"),
             " (two ranks on one GPU need NCCL 2.30 or later, NCCL_MULTI_RANK_GPU_ENABLE=1 and "
             "NCCL_MAX_CTAS=4)");
    return std::exchange(started->comm, nullptr);
  }

  const NcclLibrary& agree_on_library() const {
    std::string own;
    const NcclLibrary* library = find_nccl(own);
    tell_all(*control_, own, "");
    std::vector<int> versions(static_cast<std::size_t>(control_->size()));
    Access::group(control_)
        .all_gather<int>(std::span(&library->version, 1), std::span(versions))
        .named("NCCL's versions")
        .run();
    const auto other = std::find_if(versions.begin(), versions.end(),
                                    [&](int version) { return version != versions[0]; });
    if (other != versions.end())
      throw BadArgument(fmt::format(
          "rank {} has NCCL {} and rank {} has NCCL {}; use the same version everywhere",
          control_->world_rank(0), versions[0],
          control_->world_rank(static_cast<int>(other - versions.begin())), *other));
    return *library;
  }

  bool is_broken() const {
    try {
      control_->poll();
      control_->check();
      return false;
    } catch (...) {
      return true;
    }
  }
  /// Calls begin no more, and those that have begun are let out, since NCCL frees what they use.
  /// One that does not return waits for a rank that does not come.
  void stop() {
    calls_->is_aborting = true;
    std::thread([device = device_, calls = calls_, comm = comm_.exchange(nullptr),
                 abort = library_.abort] {
      wait_a_moment([&] { return calls->running == 0; });
      end(device, comm, abort);
      calls->is_aborting = false;
    }).detach();
  }
  template <class IsDone>
  static void wait_a_moment(const IsDone& is_done) {
    constexpr std::chrono::seconds kMoment(1);
    const auto start = std::chrono::steady_clock::now();
    for (Backoff backoff; !is_done() && std::chrono::steady_clock::now() - start < kMoment;)
      backoff.pause();
  }
  static void end(const Device& device, NcclComm* comm, int (*how)(NcclComm*)) {
    try {
      graph::impl_of(device).run_here([&] { how(comm); });
    } catch (...) {  // the device is lost, and its memory with it
    }
  }
  std::uint64_t exchanges_of(Keeps keeps) const {
    return static_cast<std::uint64_t>(std::count_if(
        keeps.begin(), keeps.end(), [&](const auto& kept) { return kept.get() == this; }));
  }
  void hear(const core::WorkPasses& work) {
    if (work.was_refused) return watch_->take_launched_back(exchanges_of(work.keeps));
    control_->check();
    watch_->add_launched(exchanges_of(work.keeps));
  }

  std::shared_ptr<GroupImpl> control_;
  Device device_;
  const NcclLibrary& library_;
  Buffer<std::uint32_t> word_;
  Buffer<std::uint64_t> ended_;  // exchanges, and what it was before the last of them
  std::mutex capture_mutex_;
  std::uint64_t exchanges_in_graph_ = 0, calls_left_ = 0;  // of the graph that is captured
  std::atomic<NcclComm*> comm_ = nullptr;
  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
  std::optional<Watch> watch_;
  std::optional<core::Listener<core::WorkPasses>> guard_;
};

NcclType type_of(ElementType type) {
  switch (type) {
    case ElementType::i32:
      return NcclType::i32;
    case ElementType::u32:
      return NcclType::u32;
    case ElementType::i64:
      return NcclType::i64;
    case ElementType::u64:
      return NcclType::u64;
    case ElementType::f32:
      return NcclType::f32;
    case ElementType::f64:
      return NcclType::f64;
    case ElementType::bytes:
      break;
  }
  return NcclType::u8;
}

NcclReduction reduction_of(Reduction reduction) {
  return reduction == Reduction::min   ? NcclReduction::min
         : reduction == Reduction::max ? NcclReduction::max
                                       : NcclReduction::sum;
}

class NcclGroup final : public LibraryGroup {
 public:
  NcclGroup(const std::shared_ptr<GroupImpl>& control, const Device& device)
      : LibraryGroup("nccl", control, device),
        communicator_(std::make_shared<Communicator>(control, device)) {}

  /// It waits for the others, and NCCL loads its kernels, which must not happen in a capture.
  void warm_up() {
    ExchangeData barrier;
    barrier.descriptor.operation = Operation::barrier;
    barrier.descriptor.set_name("warm up");
    run(barrier);
  }

  std::shared_ptr<GroupImpl> subgroup(const std::vector<int>& members) override {
    return join_nccl(control()->subgroup(members), device());
  }

 private:
  std::shared_ptr<SymmetricBlock> make_block(std::size_t) override {
    throw BadArgument(
        "NCCL's groups have no symmetric memory; use the group that this one came from, which has "
        "host memory");
  }

  void check_kind(const ExchangeData& exchange) const override {
    if (exchange.descriptor.reduction == Reduction::sum_in_pairs && size() > 2)
      throw BadArgument(
          fmt::format("NCCL adds up {} ranks in an order of its own, not in pairs; use sum, or "
                      "another transport",
                      size()));
  }

  std::shared_ptr<const void> needed_by_graphs() override { return communicator_; }

  /// An exchange of one rank. The first launch of a graph brings it to the device, and that may
  /// wait for a kernel there that waits for this rank: ranks may share a GPU. So graphs are brought
  /// there when they are made, and each rank waits until the others' are.
  class Call final : public graph::Meeting {
   public:
    Call(std::shared_ptr<NcclGroup> group, ExchangePtr exchange, bool is_in_graph)
        : group_(std::move(group)), exchange_(std::move(exchange)), is_in_graph_(is_in_graph) {}
    void enqueue(StreamRef stream) override { group_->call(*exchange_, stream, is_in_graph_); }
    std::unique_ptr<graph::Instance> instantiate(const graph::GraphData& data,
                                                 graph::Target target) override {
      std::vector<const Call*> calls;
      for (const graph::NodeData& node : data.nodes)
        if (const auto* call = dynamic_cast<const Call*>(graph::meeting_of(node))) {
          check_place(data, node, target);
          calls.push_back(call);
        }
      auto instance = capture(data, target, calls);
      instance->upload();
      std::set<const NcclGroup*> met;
      for (const Call* call : calls) call->meet(met);
      return instance;
    }

   private:
    /// Each launch has every exchange once, and is known to the host: the watch counts them.
    static void check_place(const graph::GraphData& data, const graph::NodeData& node,
                            graph::Target target) {
      const auto refuse = [&](const char* where) {
        throw BadArgument(fmt::format(
            "'{}' is an exchange through NCCL {}; NCCL's exchanges stand in graphs that "
            "the host launches, and in their children",
            node.name, where));
      };
      if (target == graph::Target::device_launch) refuse("in a graph for launches from the device");
      for (graph::ScopeId scope = node.scope; scope != graph::kRootScope;
           scope = data.nodes[data.scopes[scope].parent].scope)
        if (data.scopes[scope].is_body) refuse("in the body of a condition or a loop");
    }
    static std::unique_ptr<graph::Instance> capture(const graph::GraphData& data,
                                                    graph::Target target,
                                                    const std::vector<const Call*>& calls) {
      std::map<std::shared_ptr<Communicator>, std::uint64_t> used;
      for (const Call* call : calls) ++used[call->group_->communicator_];
      std::list<Communicator::Captured> captured;
      for (const auto& [communicator, times] : used)
        captured.emplace_back(communicator, times, data.keeps);
      return graph::impl_of(data.device).instantiate(data, target);
    }
    /// All ranks of a group meet once, and those of a send each time.
    void meet(std::set<const NcclGroup*>& met) const {
      if (is_collective(exchange_->descriptor.operation) && !met.insert(group_.get()).second)
        return;
      compare_on_host(*group_->control(), *exchange_);
    }

    std::shared_ptr<NcclGroup> group_;
    ExchangePtr exchange_;
    bool is_in_graph_;
  };
  std::function<void(StreamRef)> function_of(const ExchangePtr& exchange,
                                             bool is_in_graph) override {
    return graph::MeetingCall{std::make_shared<Call>(
        std::static_pointer_cast<NcclGroup>(shared_from_this()), exchange, is_in_graph)};
  }

  void call(const ExchangeData& e, StreamRef stream, bool is_in_graph) override {
    compare_on_host(*control(), e);
    void* const native = graph::state_of(stream).impl->native_for_a_call();
    graph::impl_of(device()).run_here([&] {
      communicator_->use(stream, is_in_graph, [&](NcclComm* comm) { hand_over(e, comm, native); });
    });
  }
  void hand_over(const ExchangeData& e, NcclComm* comm, void* stream) {
    const Descriptor& d = e.descriptor;
    const NcclLibrary& nccl = communicator_->library();
    const std::size_t bytes = d.part_bytes();
    const auto check = [&](int error) { communicator_->check(error, name_of(d.operation)); };
    switch (d.operation) {
      case Operation::broadcast:
        return check(nccl.broadcast(e.from,
                                    rank() == d.root ? const_cast<std::byte*>(e.from) : e.to, bytes,
                                    NcclType::u8, d.root, comm, stream));
      case Operation::all_gather:
        return check(nccl.all_gather(e.from, e.to, bytes, NcclType::u8, comm, stream));
      case Operation::all_reduce:
        return check(nccl.all_reduce(e.from, e.to, d.count, type_of(d.type),
                                     reduction_of(d.reduction), comm, stream));
      case Operation::reduce_scatter:
        return check(nccl.reduce_scatter(e.from, e.to, d.count, type_of(d.type),
                                         reduction_of(d.reduction), comm, stream));
      case Operation::send:
        return check(nccl.send(e.from, bytes, NcclType::u8, e.peer, comm, stream));
      case Operation::receive:
        return check(nccl.receive(e.to, bytes, NcclType::u8, e.peer, comm, stream));
      default:  // a barrier
        return check(nccl.all_reduce(communicator_->word(), communicator_->word(), 1, NcclType::u32,
                                     NcclReduction::max, comm, stream));
    }
  }

  std::shared_ptr<Communicator> communicator_;
};

}  // namespace

std::shared_ptr<GroupImpl> join_nccl(std::shared_ptr<GroupImpl> control, const Device& device) {
  const auto group = std::make_shared<NcclGroup>(control, device);
  group->warm_up();
  return group;
}

}  // namespace attacca::comm
