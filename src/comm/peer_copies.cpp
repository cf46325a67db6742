// peer_copies.cpp: an exchange of ranks with a GPU each, as copies from one GPU's memory to
// another's (which the driver makes directly where it can). The threads meet twice on the host: to
// tell where their data are, and when all have enqueued their copies. In between, streams wait for
// each other's events. Nothing of it can be captured, so graphs are refused.
#include "comm/peer_copies.hpp"

#include <fmt/core.h>
#include <attacca/memory.hpp>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "comm/compare.hpp"
#include "comm/device_group.hpp"
#include "comm/exchange_kernel.hpp"
#include "graph/meeting.hpp"

namespace attacca::comm {

namespace {

class PeerCopies final : public DeviceGroup {
 public:
  PeerCopies(std::shared_ptr<GroupImpl> control, const Device& device)
      : DeviceGroup("peer", std::move(control), device), ready_(device), copied_(device) {}

  void enqueue(const ExchangePtr& exchange, StreamRef stream) override {
    check_exchange(*exchange, stream.device());
    stream.library(exchange->name, call_of(exchange));
  }
  PlainNode add_to(const ExchangePtr& exchange, Graph& graph) override {
    check_exchange(*exchange, graph.device());
    return graph.library(exchange->name, call_of(exchange));
  }
  std::shared_ptr<GroupImpl> subgroup(const std::vector<int>& members) override {
    return join_peers(control()->subgroup(members), device());
  }

  void run_on(const ExchangeData& exchange, StreamRef stream) {
    compare_on_host(*control(), exchange);
    const Arrival own{&exchange, &ready_, &copied_};
    stream.record(ready_);
    const std::vector<Arrival> all = meet(own);
    std::vector<Event> others;  // of ranks that may be gone after the second meeting
    for (const Arrival& other : all) {
      if (other.exchange == &exchange) continue;
      stream.wait(*other.ready);
      others.push_back(*other.copied);
    }
    copy(exchange, all, stream);
    stream.record(copied_);
    (void)meet(own);
    // Results may lie where others have read.
    for (const Event& copied : others) stream.wait(copied);
    add_up(exchange, stream);
  }

 private:
  /// What a rank brings. Ranks share the process, so addresses are enough.
  struct Arrival {
    const ExchangeData* exchange;
    const Event* ready;   // its data are there
    const Event* copied;  // it has read all it needs
  };

  class Call final : public graph::Meeting {
   public:
    Call(std::shared_ptr<PeerCopies> group, ExchangePtr exchange)
        : group_(std::move(group)), exchange_(std::move(exchange)) {}
    void enqueue(StreamRef stream) override { group_->run_on(*exchange_, stream); }
    std::unique_ptr<graph::Instance> instantiate(const graph::GraphData& data,
                                                 graph::Target) override {
      throw BadArgument(
          fmt::format("'{}' of graph '{}' would copy between GPUs of threads, which no graph can "
                      "hold; use nccl, or enqueue it on a stream",
                      exchange_->name, data.name));
    }

   private:
    std::shared_ptr<PeerCopies> group_;
    ExchangePtr exchange_;
  };
  graph::MeetingCall call_of(const ExchangePtr& exchange) {
    return {
        std::make_shared<Call>(std::static_pointer_cast<PeerCopies>(shared_from_this()), exchange)};
  }

  void check_exchange(const ExchangeData& exchange, const Device& of) const {
    check_device(exchange, of);
    if (!is_collective(exchange.descriptor.operation))
      throw BadArgument(
          fmt::format("peer copies have no {}; use a collective, of a subgroup if need be",
                      name_of(exchange.descriptor.operation)));
  }
  std::shared_ptr<SymmetricBlock> make_block(std::size_t) override {
    throw BadArgument(
        "peer copies have no symmetric memory; use the group that this one came from");
  }

  std::vector<Arrival> meet(const Arrival& own) {
    std::vector<Arrival> all(static_cast<std::size_t>(size()));
    Access::group(control())
        .all_gather<Arrival>(std::span(&own, 1), std::span(all))
        .named("peer copies")
        .run();
    return all;
  }

  static bool adds(const Descriptor& d) {
    return d.operation == Operation::all_reduce || d.operation == Operation::reduce_scatter;
  }
  /// Sums go to memory between, whose parts are added up once all have copied.
  void copy(const ExchangeData& e, const std::vector<Arrival>& all, StreamRef stream) {
    const Descriptor& d = e.descriptor;
    const std::size_t bytes = d.part_bytes();
    if (bytes == 0 || d.operation == Operation::barrier) return;
    if (d.operation == Operation::broadcast) {
      if (rank() != d.root)
        stream.copy(e.to, all[static_cast<std::size_t>(d.root)].exchange->from, bytes);
      return;
    }
    if (adds(d) && (!between_ || between_->size() < bytes * all.size())) {
      stream.synchronize();  // earlier exchanges use the old memory
      between_.emplace(device(), bytes * all.size());
    }
    const bool scatters = d.operation == Operation::reduce_scatter;
    for (std::size_t source = 0; source < all.size(); ++source) {
      std::byte* const to = (adds(d) ? between_->data() : e.to) + source * bytes;
      const std::byte* const from =
          all[source].exchange->from + (scatters ? static_cast<std::size_t>(rank()) * bytes : 0);
      if (to != from) stream.copy(to, from, bytes);
    }
  }
  void add_up(const ExchangeData& e, StreamRef stream) {
    const Descriptor& d = e.descriptor;
    if (!adds(d) || d.part_bytes() == 0) return;
    std::vector<const std::byte*> parts;
    for (int source = 0; source < size(); ++source)
      parts.push_back(between_->data() + static_cast<std::size_t>(source) * d.part_bytes());
    const ExchangeArgs args = sum_of(d, parts, e.to, d.count);
    stream.kernel(exchange_kernel(args), grid_of(args, device().is_cuda()), args);
  }

  Event ready_, copied_;
  std::optional<Buffer<std::byte>> between_;  // [ranks, bytes of a part]
};

}  // namespace

std::shared_ptr<GroupImpl> join_peers(std::shared_ptr<GroupImpl> control, const Device& device) {
  if (control->size() > kMostSharing)
    throw BadArgument(fmt::format("{} ranks with peer copies; use at most {}, or nccl",
                                  control->size(), kMostSharing));
  return std::make_shared<PeerCopies>(std::move(control), device);
}

}  // namespace attacca::comm
