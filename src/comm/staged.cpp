// staged.cpp: a copy to pinned memory, a host call, a copy back. One exchange is on its way at a
// time, because collectives of a group are ordered, so they share one piece of pinned memory.
#include "comm/staged.hpp"

#include <fmt/core.h>
#include <attacca/memory.hpp>

#include <algorithm>
#include <functional>

#include "comm/device_group.hpp"

namespace attacca::comm {

namespace {

class Staged final : public DeviceGroup {
 public:
  Staged(std::shared_ptr<GroupImpl> control, const Device& device)
      : DeviceGroup("staged", std::move(control), device) {}

  void enqueue(const ExchangePtr& exchange, StreamRef stream) override {
    check_exchange(*exchange, stream.device());
    const Pinned pinned = pin(*exchange);
    if (exchange->from_bytes > 0) stream.copy(pinned.from, exchange->from, exchange->from_bytes);
    stream.host(exchange->name, call_of(*exchange, pinned));
    if (exchange->to_bytes > 0) stream.copy(exchange->to, pinned.to, exchange->to_bytes);
  }
  PlainNode add_to(const ExchangePtr& exchange, Graph& graph) override {
    check_exchange(*exchange, graph.device());
    const Pinned pinned = pin(*exchange);
    const PlainNode node = graph.child(exchange->name, [&](Graph& inside) {
      const PlainNode call = inside.host(exchange->name, call_of(*exchange, pinned));
      if (exchange->from_bytes > 0)
        call.after(inside.copy(pinned.from, exchange->from, exchange->from_bytes));
      if (exchange->to_bytes > 0)
        inside.copy(exchange->to, pinned.to, exchange->to_bytes).after(call);
    });
    return node;
  }
  std::shared_ptr<GroupImpl> subgroup(const std::vector<int>& members) override {
    return std::make_shared<Staged>(control()->subgroup(members), device());
  }

 private:
  using Memory = std::shared_ptr<Buffer<std::byte>>;
  struct Pinned {
    Memory memory;
    std::byte* from;
    std::byte* to;
  };

  void check_exchange(const ExchangeData& exchange, const Device& of) const {
    check_device(exchange, of);
    if (!is_collective(exchange.descriptor.operation))
      throw BadArgument(
          fmt::format("{} of memory of {} is not there; use a collective, of a subgroup if need be",
                      name_of(exchange.descriptor.operation), device().name()));
  }
  std::shared_ptr<SymmetricBlock> make_block(std::size_t) override {
    throw BadArgument(
        fmt::format("processes have no symmetric memory of {}; use the group that this one came "
                    "from, which has host memory",
                    device().name()));
  }

  /// Pinned memory for an exchange. Exchanges that were given smaller memory before keep theirs.
  Pinned pin(const ExchangeData& exchange) {
    const std::lock_guard lock(pinned_mutex_);
    constexpr std::size_t kLine = 256;
    const std::size_t first = (exchange.from_bytes + kLine - 1) / kLine * kLine;
    const std::size_t bytes = std::max<std::size_t>(first + exchange.to_bytes, 1);
    if (!pinned_ || pinned_->bytes() < bytes)
      pinned_ = std::make_shared<Buffer<std::byte>>(device(), bytes, Visibility::shared);
    return {pinned_, pinned_->data(), pinned_->data() + first};
  }
  /// All is moved, because the host cannot read the number that would limit it.
  std::function<void()> call_of(ExchangeData exchange, const Pinned& pinned) {
    exchange.group = control();
    exchange.from = pinned.from;
    exchange.to = pinned.to;
    exchange.limit = nullptr;
    return
        [exchange = std::move(exchange), memory = pinned.memory] { exchange.group->run(exchange); };
  }

  std::mutex pinned_mutex_;
  Memory pinned_;
};

}  // namespace

std::shared_ptr<GroupImpl> stage(std::shared_ptr<GroupImpl> control, const Device& device) {
  return std::make_shared<Staged>(std::move(control), device);
}

}  // namespace attacca::comm
