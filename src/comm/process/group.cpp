// group.cpp: collectives of processes, from sends and receives. Every rank tells every other what
// it is about to do, with its data if they are short. So a difference is noticed before anyone
// waits for data, and a rank that does not come is known by name. Sums go in the order of ranks,
// which MPI's own reductions do not promise.
#include "comm/process/group.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "comm/direct.hpp"
#include "comm/exchange_kernel.hpp"
#include "comm/group.hpp"
#include "comm/nccl/group.hpp"
#include "comm/nvshmem/group.hpp"
#include "comm/process/shared_memory.hpp"
#include "comm/process/world.hpp"
#include "comm/reduce.hpp"
#include "comm/staged.hpp"

namespace attacca::comm {

namespace {

// Data up to this size travel with the descriptor. Above, the extra message costs little.
constexpr std::size_t kInlineBytes = 32 * 1024;
// An all-reduce up to this size sends everything to everyone. Above, each rank sums up one part,
// which is less to send if there are more than two ranks.
constexpr std::size_t kWholeBytes = 8 * 1024;
// A message that cannot be sent at once is cut into up to so many pieces that can. Two of them take
// 60 % of the time of one that waits for the receiver's answer, and five take as long as it.
constexpr std::size_t kMostPieces = 3;
constexpr std::size_t kAlignment = 256;
constexpr std::uint64_t kWorldContext = 0;
constexpr std::uint64_t kAgreementContext = 1;

class ProcessGroup final : public GroupImpl {
 public:
  ProcessGroup(std::shared_ptr<World> world, std::uint64_t context, int rank,
               std::vector<int> members)
      : GroupImpl(world->name(), rank, std::move(members), world->deadline()),
        world_(std::move(world)),
        context_(context),
        inbox_(static_cast<std::size_t>(size())),
        outbox_(static_cast<std::size_t>(size())),
        sources_(static_cast<std::size_t>(size())),
        outgoing_(static_cast<std::size_t>(size())),
        incoming_(static_cast<std::size_t>(size())) {
    if (tag(Line::last) > world_->highest_tag())
      throw BadArgument(fmt::format("{} has tags for {} groups; make fewer", world_->name(),
                                    (world_->highest_tag() - 8) / 4));
  }

  void run(const ExchangeData& exchange) override {
    switch (exchange.descriptor.operation) {
      case Operation::send:
        return send(exchange);
      case Operation::receive:
        return receive(exchange);
      default:
        return collective(exchange);
    }
  }
  std::shared_ptr<GroupImpl> subgroup(const std::vector<int>& chosen) override;
  std::shared_ptr<GroupImpl> on(const Device& device, Transport transport) override;
  void check() override { world_->check(); }
  void fail(const std::string& message) override { world_->fail(message); }
  void poll() override { world_->poll(); }
  void trade(const ExchangeData& exchange, std::span<const Outgoing> to,
             std::span<const Incoming> from) override {
    const std::lock_guard one_at_a_time(mutex_);
    move(meet(exchange, false), to, from);
  }

 private:
  enum class Line { collective, data, send, sent_data, last = sent_data };
  int tag(Line line) const {
    // Tags below 8 are the world's own.
    return static_cast<int>(8 + context_ * 4) + static_cast<int>(line);
  }

  std::shared_ptr<SymmetricBlock> make_block(std::size_t bytes) override;
  std::string why_not_direct(GroupImpl& own, const Device& device) const;
  void collective(const ExchangeData& exchange);
  void exchange_short(const ExchangeData& exchange, const Descriptor& descriptor);
  void exchange_long(const ExchangeData& exchange, const Descriptor& descriptor);
  void move(const Descriptor& descriptor, std::span<const Outgoing> to,
            std::span<const Incoming> from);
  void finish(const ExchangeData& exchange, const Descriptor& descriptor);
  void send(const ExchangeData& exchange);
  void receive(const ExchangeData& exchange);

  Outgoing outgoing(const ExchangeData& exchange, int to) const;
  Incoming incoming(const ExchangeData& exchange, int from);
  /// Sends descriptors, with data if they are short, and compares those that come. Returns the one
  /// that all have.
  Descriptor meet(const ExchangeData& exchange, bool has_data);
  /// How many bytes of a message one piece has; the last one may have fewer.
  std::size_t piece_of(std::size_t bytes) const {
    const std::size_t most = world_->most_at_once();
    return bytes <= most || (bytes - 1) / most >= kMostPieces ? bytes : most;
  }
  static std::byte* room(std::vector<std::byte>& buffer, std::size_t bytes) {
    if (buffer.size() < bytes) buffer.resize(bytes);
    return buffer.data();
  }

  std::shared_ptr<World> world_;
  std::uint64_t context_;
  std::mutex mutex_;  // collectives, one at a time
  std::mutex send_mutex_, receive_mutex_;
  std::uint64_t sequence_ = 0;
  std::vector<std::vector<std::byte>> inbox_, outbox_;  // by member: a descriptor and short data
  std::vector<std::byte> scratch_;                      // long data to be added up
  std::vector<const std::byte*> sources_;               // by member: what is added up
  std::vector<Outgoing> outgoing_;                      // by member: long data
  std::vector<Incoming> incoming_;
  Transfers transfers_, later_;  // later: all pieces of messages but the first
  std::vector<std::byte> sent_, received_;
};

bool is_reduction(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter ||
         operation == Operation::subgroup;
}

bool is_whole(const Descriptor& d, int ranks) {
  return d.operation == Operation::subgroup ||
         (d.operation == Operation::all_reduce && (ranks == 2 || d.moved_bytes() <= kWholeBytes));
}

/// The most that one rank sends to another in the first round.
std::size_t most_bytes(const Descriptor& d, int ranks) {
  if (d.operation == Operation::barrier || d.operation == Operation::symmetric) return 0;
  if (d.operation == Operation::all_reduce && !is_whole(d, ranks))
    return slice_of(d, 0, ranks).bytes;
  return d.moved_bytes();
}

GroupImpl::Outgoing ProcessGroup::outgoing(const ExchangeData& e, int to) const {
  const Descriptor& d = e.descriptor;
  const std::size_t bytes = d.moved_bytes();
  switch (d.operation) {
    case Operation::broadcast:
      return rank() == d.root ? Outgoing{e.from, bytes} : Outgoing{};
    case Operation::all_gather:
      return {e.from, bytes};
    case Operation::reduce_scatter:
      return {e.from + static_cast<std::size_t>(to) * d.part_bytes(), bytes};
    case Operation::all_reduce:
    case Operation::subgroup: {
      if (is_whole(d, size())) return {e.from, bytes};
      const Slice slice = slice_of(d, to, size());
      return {e.from + slice.first, slice.bytes};
    }
    default:
      return {};
  }
}

/// Where long data of another rank go. Parts of sums lie side by side in the scratch memory.
GroupImpl::Incoming ProcessGroup::incoming(const ExchangeData& e, int from) {
  const Descriptor& d = e.descriptor;
  const std::size_t bytes = d.moved_bytes();
  const auto at = static_cast<std::size_t>(from);
  switch (d.operation) {
    case Operation::broadcast:
      return from == d.root ? Incoming{e.to, bytes} : Incoming{};
    case Operation::all_gather:
      return {e.to + at * d.part_bytes(), bytes};
    default: {
      const bool is_split = d.operation == Operation::all_reduce && !is_whole(d, size());
      const std::size_t part = is_split ? slice_of(d, rank(), size()).bytes : bytes;
      const std::size_t stride = (part + kAlignment - 1) / kAlignment * kAlignment;
      return {room(scratch_, stride * static_cast<std::size_t>(size())) + stride * at, part};
    }
  }
}

void ProcessGroup::collective(const ExchangeData& exchange) {
  const std::lock_guard one_at_a_time(mutex_);
  const bool is_short = most_bytes(exchange.descriptor, size()) <= kInlineBytes;
  const Descriptor descriptor = meet(exchange, is_short);
  if (is_short)
    exchange_short(exchange, descriptor);
  else
    exchange_long(exchange, descriptor);
}

Descriptor ProcessGroup::meet(const ExchangeData& exchange, bool has_data) {
  World::Turn turn = world_->take_turn();
  Descriptor descriptor = exchange.descriptor;
  descriptor.sequence = ++sequence_;
  transfers_.clear();
  later_.clear();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const std::size_t most = sizeof descriptor + kInlineBytes;
    std::byte* message = room(inbox_[static_cast<std::size_t>(peer)], most);
    world_->receive(turn, transfers_, world_rank(peer), tag(Line::collective), message, most);
    if (!has_data) continue;
    const std::size_t bytes = sizeof descriptor + incoming(exchange, peer).size();
    const std::size_t piece = piece_of(bytes);
    for (std::size_t at = piece; at < bytes; at += piece)
      world_->receive(turn, later_, world_rank(peer), tag(Line::collective), message + at,
                      std::min(piece, bytes - at));
  }
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const Outgoing out = has_data ? outgoing(exchange, peer) : Outgoing{};
    const std::size_t bytes = sizeof descriptor + out.size();
    const std::size_t piece = piece_of(bytes);
    std::byte* message = room(outbox_[static_cast<std::size_t>(peer)], bytes);
    std::memcpy(message, &descriptor, sizeof descriptor);
    if (!out.empty()) std::memcpy(message + sizeof descriptor, out.data(), out.size());
    for (std::size_t at = 0; at < bytes; at += piece)
      world_->send(turn, transfers_, world_rank(peer), tag(Line::collective), message + at,
                   std::min(piece, bytes - at));
  }
  const auto what = [&] { return "come to " + describe(descriptor); };
  world_->wait(turn, transfers_, what);
  bool do_agree = true;
  for (std::size_t at = 0; at < inbox_.size(); ++at)
    if (static_cast<int>(at) != rank())
      do_agree &= std::memcmp(inbox_[at].data(), &descriptor, sizeof descriptor) == 0;
  if (do_agree) {
    world_->wait(turn, later_, what);
    return descriptor;
  }
  std::vector<Descriptor> all(static_cast<std::size_t>(size()), descriptor);
  for (std::size_t at = 0; at < all.size(); ++at)
    if (static_cast<int>(at) != rank()) std::memcpy(&all[at], inbox_[at].data(), sizeof descriptor);
  turn.unlock();
  world_->fail(disagreement(all, members()));
}

void ProcessGroup::exchange_short(const ExchangeData& exchange, const Descriptor& descriptor) {
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    if (static_cast<int>(at) == rank()) continue;
    sources_[at] = inbox_[at].data() + sizeof(Descriptor);
    if (is_reduction(descriptor.operation)) continue;
    if (const Incoming in = incoming(exchange, static_cast<int>(at)); !in.empty())
      std::memcpy(in.data(), sources_[at], in.size());
  }
  finish(exchange, descriptor);
}

void ProcessGroup::exchange_long(const ExchangeData& exchange, const Descriptor& descriptor) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const auto at = static_cast<std::size_t>(peer);
    outgoing_[at] = outgoing(exchange, peer);
    incoming_[at] = incoming(exchange, peer);
    sources_[at] = incoming_[at].data();
  }
  move(descriptor, outgoing_, incoming_);
  finish(exchange, descriptor);
}

void ProcessGroup::move(const Descriptor& descriptor, std::span<const Outgoing> to,
                        std::span<const Incoming> from) {
  World::Turn turn = world_->take_turn();
  transfers_.clear();
  for (int peer = 0; peer < size(); ++peer)
    if (const Incoming in = from[static_cast<std::size_t>(peer)]; peer != rank() && !in.empty())
      world_->receive(turn, transfers_, world_rank(peer), tag(Line::data), in.data(), in.size());
  for (int peer = 0; peer < size(); ++peer)
    if (const Outgoing out = to[static_cast<std::size_t>(peer)]; peer != rank() && !out.empty())
      world_->send(turn, transfers_, world_rank(peer), tag(Line::data), out.data(), out.size());
  world_->wait(turn, transfers_, [&] { return "finish " + describe(descriptor); });
}

/// This rank's own part: sums, and the second round of a long all-reduce.
void ProcessGroup::finish(const ExchangeData& e, const Descriptor& d) {
  const auto own = static_cast<std::size_t>(rank());
  const std::size_t bytes = d.moved_bytes();
  std::byte* const place = e.to + own * d.part_bytes();
  if (d.operation == Operation::all_gather && bytes > 0 && e.from != place)
    std::memcpy(place, e.from, bytes);
  if (!is_reduction(d.operation) || bytes == 0) return;
  const bool is_split = d.operation == Operation::all_reduce && !is_whole(d, size());
  const Slice slice = is_split ? slice_of(d, rank(), size()) : Slice{0, bytes};
  sources_[own] = outgoing(e, rank()).data();
  std::byte* const target = e.to + slice.first;
  reduce(d, sources_, {&target, 1}, slice.bytes);
  if (!is_split) return;
  for (int peer = 0; peer < size(); ++peer) {
    const Slice part = slice_of(d, peer, size());
    outgoing_[static_cast<std::size_t>(peer)] = {target, slice.bytes};
    incoming_[static_cast<std::size_t>(peer)] = {e.to + part.first, part.bytes};
  }
  move(d, outgoing_, incoming_);
}

void ProcessGroup::send(const ExchangeData& exchange) {
  const std::lock_guard one_at_a_time(send_mutex_);
  const Descriptor& d = exchange.descriptor;
  const bool is_short = exchange.from_bytes <= kInlineBytes;
  const std::size_t short_bytes = is_short ? exchange.from_bytes : 0;
  std::byte* message = room(sent_, sizeof d + short_bytes);
  std::memcpy(message, &d, sizeof d);
  if (short_bytes > 0) std::memcpy(message + sizeof d, exchange.from, short_bytes);
  const int peer = world_rank(exchange.peer);
  World::Turn turn = world_->take_turn();
  Transfers transfers;
  world_->send(turn, transfers, peer, tag(Line::send), message, sizeof d + short_bytes);
  if (!is_short)
    world_->send(turn, transfers, peer, tag(Line::sent_data), exchange.from, exchange.from_bytes);
  world_->wait(turn, transfers, [&] { return "receive the " + describe(d); });
}

void ProcessGroup::receive(const ExchangeData& exchange) {
  const std::lock_guard one_at_a_time(receive_mutex_);
  const Descriptor& d = exchange.descriptor;
  const int peer = world_rank(exchange.peer);
  const auto what = [&] { return "send for the " + describe(d); };
  const std::size_t most = sizeof(Descriptor) + kInlineBytes;
  World::Turn turn = world_->take_turn();
  Transfers transfers;
  world_->receive(turn, transfers, peer, tag(Line::send), room(received_, most), most);
  world_->wait(turn, transfers, what);
  Descriptor sent;
  std::memcpy(&sent, received_.data(), sizeof sent);
  if (const std::string message = disagreement(sent, peer, d, world_rank(rank()));
      !message.empty()) {
    turn.unlock();
    world_->fail(message);
  }
  if (exchange.to_bytes > kInlineBytes) {
    world_->receive(turn, transfers, peer, tag(Line::sent_data), exchange.to, exchange.to_bytes);
    world_->wait(turn, transfers, what);
  } else if (exchange.to_bytes > 0) {
    std::memcpy(exchange.to, received_.data() + sizeof sent, exchange.to_bytes);
  }
}

/// The members agree on the smallest context that is new to all of them. Until then they use a
/// context for agreements, in which each rank makes one subgroup at a time.
std::shared_ptr<GroupImpl> ProcessGroup::subgroup(const std::vector<int>& chosen) {
  std::vector<int> world_ranks;
  for (const int member : chosen) world_ranks.push_back(world_rank(member));
  const auto own =
      static_cast<int>(std::find(chosen.begin(), chosen.end(), rank()) - chosen.begin());
  const std::lock_guard one_at_a_time(world_->subgroup_mutex);
  const auto agreement =
      std::make_shared<ProcessGroup>(world_, kAgreementContext, own, world_ranks);
  ExchangeData data;
  data.descriptor.operation = Operation::subgroup;
  data.descriptor.count = data.descriptor.moved = 1;
  data.descriptor.element_bytes = sizeof world_->next_context;
  data.descriptor.type = ElementType::u64;
  data.descriptor.reduction = Reduction::max;
  data.descriptor.set_name(list_ranks(world_ranks));
  for (const int member : world_ranks)  // FNV-1a
    data.descriptor.key =
        (data.descriptor.key ^ static_cast<std::uint64_t>(member + 1)) * 0x100000001b3u;
  std::uint64_t context = 0;
  data.from = reinterpret_cast<const std::byte*>(&world_->next_context);
  data.to = reinterpret_cast<std::byte*>(&context);
  agreement->collective(data);
  world_->next_context = context + 1;
  return std::make_shared<ProcessGroup>(world_, context, own, std::move(world_ranks));
}

std::shared_ptr<GroupImpl> ProcessGroup::on(const Device& device, Transport transport) {
  if (transport == Transport::edges)
    throw BadArgument("processes have no graph in common; use staged or nccl exchanges");
  if (transport == Transport::peer)
    throw BadArgument("processes have no addresses in common; use nccl, nvshmem or staged");
  if (transport == Transport::automatic && !device.is_cuda()) return shared_from_this();
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  if (transport == Transport::nccl) return join_nccl(subgroup(all), device);
  if (transport == Transport::nvshmem) {
    static std::atomic<bool> was_started{false};
    if (was_started.exchange(true))
      throw BadArgument("NVSHMEM was started before in this process; keep the group that has it");
    return join_nvshmem(subgroup(all), device);
  }
  auto own = subgroup(all);
  if (transport == Transport::staged) return stage(std::move(own), device);
  const std::string problem = why_not_direct(*own, device);
  if (problem.empty()) return join_direct(std::move(own), device);
  if (transport == Transport::automatic) return stage(std::move(own), device);
  throw BadArgument(problem + "; use staged, nccl or nvshmem");
}

/// Empty, or the same on all ranks.
std::string ProcessGroup::why_not_direct(GroupImpl& own, const Device& device) const {
  if (size() > kMostSharing)
    return fmt::format("{} ranks that exchange directly are more than {}", size(), kMostSharing);
  int takes = !device.is_cuda() || world_->takes_gpu_memory();
  Access::group(own.shared_from_this()).all_reduce(std::span(&takes, 1), Reduction::min).run();
  return takes ? "" : fmt::format("{} does not move memory of GPUs on all ranks", backend());
}

std::shared_ptr<SymmetricBlock> ProcessGroup::make_block(std::size_t bytes) {
  ExchangeData meeting;
  meeting.descriptor.operation = Operation::symmetric;
  meeting.descriptor.count = bytes;
  meeting.descriptor.element_bytes = 1;
  collective(meeting);

  const Group self = Access::group(shared_from_this());
  const std::size_t each = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t all =
      std::max(attacca::detail::array_bytes(each, static_cast<std::size_t>(size())), kAlignment);
  SharedMemory shared;
  char name[64] = {};
  if (rank() == 0) {
    shared = SharedMemory::make(all);
    shared.name().copy(name, sizeof name - 1);
  }
  self.broadcast(std::span<char>(name), 0).run();
  if (rank() != 0) shared = SharedMemory::open(name, all);
  // The first rank with a problem tells all the others.
  int first = shared.problem().empty() ? size() : rank();
  self.all_reduce(std::span(&first, 1), Reduction::min).run();
  if (rank() == 0) shared.unlink();
  if (first < size()) {
    char problem[200] = {};
    if (rank() == first) shared.problem().copy(problem, sizeof problem - 1);
    self.broadcast(std::span<char>(problem), first).run();
    throw BadArgument(fmt::format(
        "rank {}: {}; processes that use symmetric memory of the host must be on one machine",
        world_rank(first), problem));
  }
  auto block = std::make_shared<SymmetricBlock>();
  block->memory = shared.memory();
  block->bytes = bytes;
  for (int at = 0; at < size(); ++at)
    block->bases.push_back(shared.memory().get() + each * static_cast<std::size_t>(at));
  return block;
}

}  // namespace

Group group_of_processes(std::unique_ptr<Wire> wire, const RanksOptions& options) {
  auto world = std::make_shared<World>(std::move(wire), options.deadline);
  std::vector<int> members(static_cast<std::size_t>(world->size()));
  std::iota(members.begin(), members.end(), 0);
  const int rank = world->rank();
  return Access::group(
      std::make_shared<ProcessGroup>(std::move(world), kWorldContext, rank, std::move(members)));
}

}  // namespace attacca::comm
