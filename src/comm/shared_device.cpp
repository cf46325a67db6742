// shared_device.cpp: an exchange of ranks that share a device is one kernel. The threads meet on
// the host, and the first rank's stream runs the work of all: it waits for an event of every other
// stream, and they wait for its event. So the device's own order is all that ranks wait for.
// Nothing spins on it, and a rank that does not come holds up a thread and not the device.
//
// A graph with exchanges is joined with those of the other ranks (joint_graph.hpp). Its ranks meet
// once when they launch it, however many exchanges it has.
//
// Puts, gets and counters are work of one rank alone. A wait for a signal is an edge from the put
// in a graph, and outside graphs the put's event, which the thread waits for on the host until the
// put was enqueued (shared_heap.hpp).
#include "comm/shared_device.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "comm/device_group.hpp"
#include "comm/exchange_kernel.hpp"
#include "comm/joint_graph.hpp"
#include "comm/shared_heap.hpp"
#include "graph/lower.hpp"
#include "graph/meeting.hpp"

namespace attacca::comm {

namespace {

using graph::GraphData;
using graph::Instance;
using graph::StreamImpl;

/// What a rank brings when work is handed to the device.
struct Arrival {
  StreamImpl* stream;
  graph::EventImpl* event;  // reached when this rank's part may begin
  const ExchangeData* exchange = nullptr;
  std::optional<Event> done = {};  // of the first rank, which may be gone when this one waits
};

/// Whether other ranks wait for this exchange, or it for them.
bool ties_ranks(const ExchangeData& exchange) {
  const Operation operation = exchange.descriptor.operation;
  return is_collective(operation) || operation == Operation::wait || exchange.signal.block;
}

class SharedDevice final : public DeviceGroup {
 public:
  SharedDevice(std::shared_ptr<GroupImpl> control, const Device& device)
      : DeviceGroup("edges", std::move(control), device), event_(device) {}

  void enqueue(const ExchangePtr& exchange, StreamRef stream) override {
    check_exchange(*exchange, stream.device());
    stream.library(exchange->name, call_of(exchange));
  }
  PlainNode add_to(const ExchangePtr& exchange, Graph& graph) override {
    check_exchange(*exchange, graph.device());
    return with_accesses(graph.library(exchange->name, call_of(exchange)), *exchange);
  }
  std::shared_ptr<GroupImpl> subgroup(const std::vector<int>& members) override {
    return std::make_shared<SharedDevice>(control()->subgroup(members), device());
  }

  /// Runs an exchange that is not part of a graph.
  void run_on(const ExchangeData& exchange, StreamRef stream) {
    check();
    if (is_collective(exchange.descriptor.operation))
      return run_together(exchange, *graph::state_of(stream).impl);
    if (exchange.descriptor.operation == Operation::wait) return enqueue_wait(exchange, stream);
    enqueue_one_sided(exchange, stream);
    if (!exchange.signal.block) return;
    const Event done(device());
    stream.record(done);
    announce(exchange, done);
  }
  /// Launches an instance of all ranks' graphs, in which these puts set signals.
  void launch(Instance& instance, const std::string& name, std::span<const ExchangePtr> puts,
              StreamImpl& stream) {
    Descriptor descriptor;
    descriptor.operation = Operation::launch;
    descriptor.set_name(name);
    meet_on(descriptor, stream, nullptr, [&](auto) {
      instance.launch(stream);
      if (puts.empty()) return;
      const Event done(device());
      stream.record(graph::impl_of(done));
      for (const ExchangePtr& put : puts) announce(*put, done);
    });
  }
  std::unique_ptr<Instance> instantiate(const GraphData& data, graph::Target target);

 private:
  std::function<void(StreamRef)> call_of(const ExchangePtr& exchange);

  void run_together(const ExchangeData& exchange, StreamImpl& stream) {
    meet_on(exchange.descriptor, stream, &exchange, [&](std::span<const Arrival* const> all) {
      std::vector<const ExchangeData*> exchanges;
      for (const Arrival* arrival : all) exchanges.push_back(arrival->exchange);
      const ExchangeArgs args = args_of(exchanges);
      stream.kernel(exchange_kernel(args).info(), grid_of(args, device().is_cuda()), &args);
    });
  }
  void check_exchange(const ExchangeData& exchange, const Device& of) const {
    check_device(exchange, of);
    const Operation operation = exchange.descriptor.operation;
    if (operation == Operation::send || operation == Operation::receive)
      throw BadArgument(fmt::format("ranks that share {} have no {}; use put_signal and wait",
                                    device().name(), name_of(operation)));
  }
  std::shared_ptr<SymmetricBlock> make_block(std::size_t bytes) override {
    Descriptor descriptor;
    descriptor.operation = Operation::symmetric;
    descriptor.count = bytes;
    descriptor.element_bytes = 1;
    std::shared_ptr<SymmetricBlock> own;
    control()->meet_at_first(descriptor, &own, [&](std::span<void* const> brought) {
      const auto block = make_shared_block(device(), bytes, size(), stream());
      for (void* item : brought)
        *static_cast<std::shared_ptr<SymmetricBlock>*>(item) =
            std::make_shared<SymmetricBlock>(*block);  // each rank's own, found while it lives
    });
    return own;
  }

  /// `work` enqueues, on the first rank's stream, what all ranks do together.
  template <class Work>
  void meet_on(const Descriptor& descriptor, StreamImpl& stream, const ExchangeData* exchange,
               const Work& work) {
    graph::EventImpl& event = graph::impl_of(event_);
    Arrival own{&stream, &event, exchange};
    if (rank() != 0) stream.record(event);
    control()->meet_at_first(descriptor, &own, [&](std::span<void* const> brought) {
      std::vector<Arrival*> all;
      for (void* item : brought) all.push_back(static_cast<Arrival*>(item));
      for (std::size_t other = 1; other < all.size(); ++other) stream.wait(*all[other]->event);
      work(std::span<const Arrival* const>(all.data(), all.size()));
      stream.record(event);
      for (Arrival* arrival : all) arrival->done = event_;
    });
    // The event is recorded again at the next meeting at the earliest, and this rank is there.
    if (rank() != 0) stream.wait(graph::impl_of(*own.done));
  }

  Event event_;
};

/// The graph of all ranks, as one of them sees it.
class JointInstance final : public Instance {
 public:
  JointInstance(std::shared_ptr<SharedDevice> group, std::shared_ptr<Instance> all,
                std::vector<ExchangePtr> puts, std::string name)
      : group_(std::move(group)),
        all_(std::move(all)),
        puts_(std::move(puts)),
        name_(std::move(name)) {}

  void launch(StreamImpl& stream) override { group_->launch(*all_, name_, puts_, stream); }
  std::optional<graph::Refusal> apply(const GraphData&, const graph::Changes&) override {
    return graph::Refusal{"it is one graph with those of other ranks", name_};
  }
  DeviceGraph handle() override { return {}; }
  void* native() override { return all_->native(); }
  std::size_t host_bytes() const override {
    return all_->host_bytes() / static_cast<std::size_t>(group_->size());
  }

 private:
  std::shared_ptr<SharedDevice> group_;
  std::shared_ptr<Instance> all_;
  std::vector<ExchangePtr> puts_;  // of all ranks, on the first
  std::string name_;
};

/// An exchange of this rank, as a node of a graph or as work of a stream.
class DeviceExchange final : public graph::Meeting {
 public:
  DeviceExchange(std::shared_ptr<SharedDevice> group, ExchangePtr exchange)
      : group_(std::move(group)), exchange_(std::move(exchange)) {}

  void enqueue(StreamRef stream) override { group_->run_on(*exchange_, stream); }
  std::unique_ptr<Instance> instantiate(const GraphData& data, graph::Target target) override {
    return group_->instantiate(data, target);
  }
  const SharedDevice* group() const { return group_.get(); }
  const ExchangePtr& exchange() const { return exchange_; }

 private:
  std::shared_ptr<SharedDevice> group_;
  ExchangePtr exchange_;
};

std::function<void(StreamRef)> SharedDevice::call_of(const ExchangePtr& exchange) {
  auto self = std::static_pointer_cast<SharedDevice>(shared_from_this());
  if (ties_ranks(*exchange))
    return graph::MeetingCall{std::make_shared<DeviceExchange>(std::move(self), exchange)};
  return [self = std::move(self), exchange](StreamRef stream) { self->run_on(*exchange, stream); };
}

/// A graph with its exchanges, in the order in which it runs them.
JointPart part_of(const GraphData& data, const SharedDevice* group) {
  const auto exchange_of = [](const graph::NodeData& node) {
    return dynamic_cast<const DeviceExchange*>(graph::meeting_of(node));
  };
  for (const graph::NodeData& node : data.nodes) {
    const DeviceExchange* exchange = exchange_of(node);
    if (exchange && node.scope != graph::kRootScope)
      throw BadArgument(fmt::format(
          "'{}' of graph '{}' is in a child or a body, where ranks that share a device cannot "
          "meet; add it to the graph itself",
          node.name, data.name));
    if (exchange && exchange->group() != group)
      throw BadArgument(fmt::format(
          "graph '{}' has exchanges of two groups; ranks that share a device meet in one",
          data.name));
  }
  JointPart part{&data, {}, {}, {}};
  for (const NodeId id : graph::topological_order(data, graph::kRootScope, false)) {
    const DeviceExchange* exchange = exchange_of(data.nodes[id]);
    if (!exchange) continue;
    const Operation operation = exchange->exchange()->descriptor.operation;
    auto& kind = operation == Operation::put    ? part.puts
                 : operation == Operation::wait ? part.waits
                                                : part.collectives;
    kind.push_back({id, exchange->exchange()});
  }
  return part;
}

std::unique_ptr<Instance> SharedDevice::instantiate(const GraphData& data, graph::Target target) {
  if (target != graph::Target::host_launch)
    throw BadArgument(fmt::format(
        "graph '{}' has exchanges of ranks, so the host must launch it; instantiate() it",
        data.name));
  struct Brought {
    JointPart part;
    std::shared_ptr<Instance> instance;
  } own{part_of(data, this), nullptr};
  Descriptor descriptor;
  descriptor.operation = Operation::instantiate;
  descriptor.set_name(data.name);
  descriptor.count = own.part.collectives.size();
  std::vector<ExchangePtr> puts;
  control()->meet_at_first(descriptor, &own, [&](std::span<void* const> brought) {
    std::vector<const JointPart*> parts;
    for (void* item : brought) parts.push_back(&static_cast<Brought*>(item)->part);
    for (const JointPart* part : parts)
      for (const JointNode& put : part->puts) puts.push_back(put.exchange);
    const GraphData joint = join(parts, members());
    const std::shared_ptr<Instance> instance =
        graph::impl_of(device()).instantiate(joint, graph::Target::host_launch);
    for (void* item : brought) static_cast<Brought*>(item)->instance = instance;
  });
  return std::make_unique<JointInstance>(std::static_pointer_cast<SharedDevice>(shared_from_this()),
                                         std::move(own.instance), std::move(puts), data.name);
}

}  // namespace

std::shared_ptr<GroupImpl> share_device(std::shared_ptr<GroupImpl> control, const Device& device) {
  if (control->size() > kMostSharing)
    throw BadArgument(fmt::format("{} ranks on {}; at most {} share a device", control->size(),
                                  device.name(), kMostSharing));
  return std::make_shared<SharedDevice>(std::move(control), device);
}

}  // namespace attacca::comm
