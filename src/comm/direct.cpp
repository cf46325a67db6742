// direct.cpp: the wire reads and writes memory of a device without regard to streams, so the host
// waits for the stream before a trade and for the trade before it enqueues more. Sums are a kernel,
// in the order of ranks. An all-reduce is a reduce-scatter of slices and then their all-gather.
// A graph's host node must not call CUDA, as such a wire does, so graphs have staged exchanges.
#include "comm/direct.hpp"

#include <attacca/memory.hpp>

#include <optional>
#include <utility>
#include <vector>

#include "comm/device_group.hpp"
#include "comm/exchange_kernel.hpp"
#include "comm/reduce.hpp"
#include "comm/staged.hpp"
#include "graph/access.hpp"
#include "graph/executor.hpp"

namespace attacca::comm {

namespace {

class Direct final : public DeviceGroup {
 public:
  Direct(const std::shared_ptr<GroupImpl>& control, const Device& device)
      : DeviceGroup("direct", control, device), in_graphs_(stage(control, device)) {}

  void enqueue(const ExchangePtr& exchange, StreamRef stream) override {
    if (graph::state_of(stream).recorder || !is_collective(exchange->descriptor.operation))
      return in_graphs_->enqueue(exchange, stream);  // which refuses what is no collective
    check_device(*exchange, stream.device());
    run_on(*exchange, stream);
  }
  PlainNode add_to(const ExchangePtr& exchange, Graph& graph) override {
    return in_graphs_->add_to(exchange, graph);
  }
  std::shared_ptr<GroupImpl> subgroup(const std::vector<int>& members) override {
    return join_direct(control()->subgroup(members), device());
  }

 private:
  struct Parts {
    explicit Parts(int ranks)
        : to(static_cast<std::size_t>(ranks)), from(static_cast<std::size_t>(ranks)) {}
    std::vector<Outgoing> to;
    std::vector<Incoming> from;
  };

  std::shared_ptr<SymmetricBlock> make_block(std::size_t bytes) override {
    return in_graphs_->allocate(bytes);  // which refuses it
  }

  void trade_after(StreamRef stream, const ExchangeData& exchange, const Parts& parts) {
    stream.synchronize();
    graph::impl_of(device()).run_here([&] { control()->trade(exchange, parts.to, parts.from); });
  }

  void run_on(const ExchangeData& e, StreamRef stream) {
    const Descriptor& d = e.descriptor;
    const auto own = static_cast<std::size_t>(rank());
    const std::size_t bytes = d.part_bytes();
    Parts parts(size());
    switch (d.operation) {
      case Operation::broadcast:
        if (rank() == d.root)
          parts.to.assign(parts.to.size(), {e.from, bytes});
        else
          parts.from[static_cast<std::size_t>(d.root)] = {e.to, bytes};
        return trade_after(stream, e, parts);
      case Operation::all_gather:
        for (std::size_t at = 0; at < parts.to.size(); ++at) {
          parts.to[at] = {e.from, bytes};
          parts.from[at] = {e.to + at * bytes, bytes};
        }
        trade_after(stream, e, parts);
        if (std::byte* const place = e.to + own * bytes; bytes > 0 && place != e.from)
          stream.copy(place, e.from, bytes);
        return;
      case Operation::reduce_scatter:
        return add_up(
            e, stream,
            [&](int at) {
              return Slice{static_cast<std::size_t>(at) * bytes, bytes};
            },
            e.to);
      case Operation::all_reduce: {
        const auto slice = [&](int at) { return slice_of(d, at, size()); };
        const Slice mine = slice(rank());
        add_up(e, stream, slice, e.to + mine.first);
        for (int at = 0; at < size(); ++at) {
          parts.to[static_cast<std::size_t>(at)] = {e.to + mine.first, mine.bytes};
          parts.from[static_cast<std::size_t>(at)] = {e.to + slice(at).first, slice(at).bytes};
        }
        return trade_after(stream, e, parts);
      }
      default:
        return trade_after(stream, e, parts);  // a barrier
    }
  }

  /// Gives every rank its slice, and adds up those that come for this one.
  template <class SliceOf>
  void add_up(const ExchangeData& e, StreamRef stream, const SliceOf& slice_at, std::byte* sum) {
    constexpr std::size_t kLine = 256;
    const std::size_t bytes = slice_at(rank()).bytes;
    const std::size_t stride = (bytes + kLine - 1) / kLine * kLine;
    const std::size_t all = stride * static_cast<std::size_t>(size());
    if (!between_ || between_->size() < all) {
      stream.synchronize();  // an earlier exchange uses the old memory
      between_.emplace(device(), all);
    }
    Parts parts(size());
    std::vector<const std::byte*> sources(parts.to.size());
    for (int at = 0; at < size(); ++at) {
      const auto index = static_cast<std::size_t>(at);
      const Slice slice = slice_at(at);
      parts.to[index] = {e.from + slice.first, slice.bytes};
      parts.from[index] = {between_->data() + index * stride, bytes};
      sources[index] = at == rank() ? parts.to[index].data() : parts.from[index].data();
    }
    trade_after(stream, e, parts);
    if (bytes == 0) return;
    const ExchangeArgs args =
        sum_of(e.descriptor, sources, sum, bytes / e.descriptor.element_bytes);
    stream.kernel(exchange_kernel(args), grid_of(args, device().is_cuda()), args);
  }

  const std::shared_ptr<GroupImpl> in_graphs_;
  std::optional<Buffer<std::byte>> between_;  // [ranks, bytes of a slice]
};

}  // namespace

std::shared_ptr<GroupImpl> join_direct(std::shared_ptr<GroupImpl> control, const Device& device) {
  return std::make_shared<Direct>(control, device);
}

}  // namespace attacca::comm
