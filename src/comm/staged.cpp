// staged.cpp: a copy to pinned memory, a host call, a copy back. One exchange is on its way at a
// time, because collectives of a group are ordered, so they share one piece of pinned memory. In a
// graph long all-reduces and broadcasts go in pieces through two halves of it: while the host
// exchanges one, the device copies the next and the last.
#include "comm/staged.hpp"

#include <fmt/core.h>
#include <attacca/memory.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "comm/device_group.hpp"
#include "graph/access.hpp"
#include "graph/executor.hpp"

namespace attacca::comm {

namespace {

class Staged final : public DeviceGroup {
 public:
  Staged(std::shared_ptr<GroupImpl> control, const Device& device)
      : DeviceGroup("staged", std::move(control), device) {}
  ~Staged() override {
    for (const Memory& pinned : pinned_) keep(pinned);
  }

  void enqueue(const ExchangePtr& exchange, StreamRef stream) override {
    check_exchange(*exchange, stream.device());
    const Pinned pinned = pin(*exchange, 0);
    if (exchange->from_bytes > 0) stream.copy(pinned.from, exchange->from, exchange->from_bytes);
    stream.host(exchange->name, call_of(*exchange, pinned));
    if (exchange->to_bytes > 0) stream.copy(exchange->to, pinned.to, exchange->to_bytes);
  }
  PlainNode add_to(const ExchangePtr& exchange, Graph& graph) override {
    check_exchange(*exchange, graph.device());
    const std::vector<ExchangeData> pieces = pieces_of(*exchange);
    const Pinned pinned[2] = {pin(pieces[0], 0), pin(pieces[0], pieces.size() > 1 ? 1 : 0)};
    return graph.child(exchange->name, [&](Graph& inside) {
      std::optional<Node> calls[2], copies_back[2];  // the last ones through each half
      for (std::size_t at = 0; at < pieces.size(); ++at) {
        const ExchangeData& piece = pieces[at];
        const std::size_t half = at % 2;
        const PlainNode call = inside.host(piece.name, call_of(piece, pinned[half]));
        if (piece.from_bytes > 0) {
          const auto copy = inside.copy(pinned[half].from, piece.from, piece.from_bytes);
          if (calls[half]) copy.after(*calls[half]);
          call.after(copy);
        }
        if (copies_back[half]) call.after(*copies_back[half]);
        if (const auto& before = calls[1 - half]) call.after(*before);
        calls[half] = call;
        if (piece.to_bytes > 0)
          copies_back[half] = inside.copy(piece.to, pinned[half].to, piece.to_bytes).after(call);
      }
    });
  }
  std::shared_ptr<GroupImpl> subgroup(const std::vector<int>& members) override {
    return std::make_shared<Staged>(control()->subgroup(members), device());
  }

 private:
  static constexpr std::size_t kPieceBytes = 1 << 20;

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

  /// The exchange in pieces of at most kPieceBytes, if that helps; all ranks cut it alike.
  static std::vector<ExchangeData> pieces_of(const ExchangeData& exchange) {
    const Descriptor& whole = exchange.descriptor;
    const bool can_be_cut =
        whole.operation == Operation::all_reduce || whole.operation == Operation::broadcast;
    if (!can_be_cut || whole.part_bytes() <= 2 * kPieceBytes) return {exchange};
    const std::size_t most = std::max<std::size_t>(kPieceBytes / whole.element_bytes, 1);
    std::vector<ExchangeData> pieces;
    for (std::size_t first = 0; first < whole.count; first += most) {
      ExchangeData& piece = pieces.emplace_back(exchange);
      piece.descriptor.count = piece.descriptor.moved = std::min(most, whole.count - first);
      const std::size_t bytes = piece.descriptor.part_bytes(), offset = first * whole.element_bytes;
      if (piece.from_bytes > 0) piece.from += offset, piece.from_bytes = bytes;
      if (piece.to_bytes > 0) piece.to += offset, piece.to_bytes = bytes;
    }
    return pieces;
  }

  /// Copies back that are in flight read it.
  void keep(const Memory& pinned) const {
    if (pinned) graph::impl_of(device()).keep_while_busy(pinned);
  }
  /// A half of the pinned memory, for an exchange. Exchanges that were given smaller memory before
  /// keep theirs.
  Pinned pin(const ExchangeData& exchange, std::size_t half) {
    const std::lock_guard lock(pinned_mutex_);
    constexpr std::size_t kLine = 256;
    const std::size_t first = (exchange.from_bytes + kLine - 1) / kLine * kLine;
    const std::size_t bytes = std::max<std::size_t>(first + exchange.to_bytes, 1);
    Memory& pinned = pinned_[half];
    if (!pinned || pinned->bytes() < bytes) {
      keep(pinned);
      pinned = std::make_shared<Buffer<std::byte>>(device(), bytes, Visibility::shared);
    }
    return {pinned, pinned->data(), pinned->data() + first};
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
  Memory pinned_[2];
};

}  // namespace

std::shared_ptr<GroupImpl> stage(std::shared_ptr<GroupImpl> control, const Device& device) {
  return std::make_shared<Staged>(std::move(control), device);
}

}  // namespace attacca::comm
