// loopback.cpp: ranks as threads of one process. Ranks meet at a board, read each other's memory
// and meet again, so nobody leaves while another still reads from it.
#include <fmt/core.h>
#include <algorithm>
#include <atomic>
#include <attacca/nccl.hpp>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

#include "comm/group.hpp"
#include "comm/nccl/group.hpp"
#include "comm/peer_copies.hpp"
#include "comm/reduce.hpp"
#include "comm/shared_device.hpp"
#include "comm/waits.hpp"

namespace attacca::comm {

namespace {

constexpr std::uint64_t kWithdrawn = std::uint64_t{1} << 63;
constexpr std::size_t kAlignment = 256;

/// What all ranks of the program share.
class World {
 public:
  World(int ranks, std::chrono::nanoseconds deadline)
      : deadline_(deadline), waits_(static_cast<std::size_t>(ranks)) {}

  std::chrono::nanoseconds deadline() const { return deadline_; }
  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  void check() const {
    if (is_broken()) throw RanksBroken(message_);
  }
  /// Keeps the first message.
  void break_with(const std::string& message) {
    const std::lock_guard lock(mutex_);
    break_locked(message);
  }
  void leave(int rank) {
    {
      const std::lock_guard lock(mutex_);
      waits_.leave(rank);
    }
    changed_.notify_all();
  }
  /// Call it after a change that a `ready` looks at.
  void notify() {
    // Both sides are seq_cst: the sleeper is counted before it looks a last time, and the change is
    // made before this looks for sleepers.
    if (sleepers_.load() == 0) return;
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

  /// Waits until `ready()`. If the program breaks first, or this wait breaks it, calls `withdraw`;
  /// throws if that returns true, and else the exchange is complete after all. `describe()` says
  /// who waits for whom; it is only called once the wait is slow.
  template <class Ready, class Withdraw, class Describe>
  void wait(Ready ready, Withdraw withdraw, Describe describe) {
    Backoff backoff;
    for (; !backoff.is_slow(); backoff.pause()) {
      if (ready()) return;
      if (is_broken()) break;
    }
    const auto end = std::chrono::steady_clock::now() + deadline_;
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    Wait wait = describe();
    waits_.add(wait);
    while (!ready()) {
      if (!is_broken()) {
        wait = describe();
        if (const auto gone = waits_.gone_for(wait)) break_locked(*gone);
      }
      if (is_broken()) break;
      if (changed_.wait_until(lock, end) == std::cv_status::timeout && !ready())
        break_locked(waits_.overdue(describe(), deadline_));
    }
    waits_.remove(wait);
    sleepers_.fetch_sub(1);
    if (is_broken() && !ready() && withdraw()) throw RanksBroken(message_);
  }
  /// Waits for another thread that only copies memory.
  template <class Ready>
  void wait_for_copy(Ready ready) {
    for (Backoff backoff; !ready(); backoff.pause()) continue;
  }

  /// The board of these members, the same for each of their `number`-th calls.
  std::shared_ptr<class Board> board(const std::vector<int>& members, std::uint64_t number);

 private:
  void break_locked(const std::string& message) {
    if (is_broken()) return;
    message_ = message;
    is_broken_.store(true, std::memory_order_release);
    changed_.notify_all();
  }

  const std::chrono::nanoseconds deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> is_broken_{false};
  std::string message_;  // written once, before is_broken_
  Waits waits_;
  std::map<std::pair<std::vector<int>, std::uint64_t>, std::weak_ptr<class Board>> boards_;
};

/// Where the ranks of one group meet. A rank is at most one meeting ahead of another, so two sets
/// of seats, used in turn, are enough.
class Board {
 public:
  explicit Board(std::size_t size) : channels(size * size) {
    for (Meeting& meeting : meetings) meeting.seats.resize(size);
  }

  /// What a rank brings to a meeting.
  struct Seat {
    Descriptor descriptor;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::shared_ptr<SymmetricBlock> block;  // of rank 0, in an allocation
    void* item = nullptr;                   // see GroupImpl::meet_at_first
    std::atomic<std::uint64_t> arrived{0};  // sequence

    Seat() = default;
    Seat(Seat&&) noexcept {}  // for resize of an empty vector
  };
  struct Meeting {
    std::vector<Seat> seats;
    // Ranks that have come, and ranks that have done their part, over all its uses. A rank that
    // gives up sets kWithdrawn, and then the meeting never takes place.
    std::atomic<std::uint64_t> arrivals{0};
    std::atomic<std::uint64_t> departures{0};
  };
  /// A send on its way from one rank to another.
  struct Channel {
    enum State : std::uint32_t { empty, posted, taking, withdrawn };
    std::atomic<std::uint32_t> state{empty};
    Descriptor descriptor;
    const std::byte* from = nullptr;
    std::mutex sending, receiving;  // one at a time
  };

  Meeting meetings[2];
  std::vector<Channel> channels;  // [sender, receiver]
};

std::shared_ptr<Board> World::board(const std::vector<int>& members, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<Board>& known = boards_[{members, number}];
  std::shared_ptr<Board> found = known.lock();
  if (!found) known = found = std::make_shared<Board>(members.size());
  return found;
}

/// A rank of the program. All its groups share it; when they are gone, it has left.
struct Member {
  Member(std::shared_ptr<World> of, int number) : world(std::move(of)), rank(number) {}
  ~Member() { world->leave(rank); }
  Member(const Member&) = delete;

  std::shared_ptr<World> world;
  int rank;
  std::mutex mutex;
  std::map<std::vector<int>, std::uint64_t> subgroups;  // calls, by members
};

class LoopbackGroup final : public GroupImpl {
 public:
  LoopbackGroup(std::shared_ptr<Member> member, std::shared_ptr<Board> board, int rank,
                std::vector<int> members)
      : GroupImpl("loopback", rank, std::move(members), member->world->deadline()),
        member_(std::move(member)),
        world_(*member_->world),
        board_(std::move(board)) {}

  void run(const ExchangeData& exchange) override {
    switch (exchange.descriptor.operation) {
      case Operation::send:
        return send(exchange);
      case Operation::receive:
        return receive(exchange);
      case Operation::barrier:
        return meet(exchange.descriptor, {}, {});
      default:
        meet(exchange.descriptor, {exchange.from, exchange.to, nullptr, nullptr},
             [&](Board::Meeting& meeting, const Descriptor& descriptor) {
               exchange_memory(descriptor, meeting.seats);
             });
    }
  }
  std::shared_ptr<GroupImpl> subgroup(const std::vector<int>& chosen) override {
    std::vector<int> world_ranks;
    for (const int member : chosen) world_ranks.push_back(world_rank(member));
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(member_->mutex);
      number = ++member_->subgroups[world_ranks];
    }
    const auto own = std::find(chosen.begin(), chosen.end(), rank());
    auto group = std::make_shared<LoopbackGroup>(member_, world_.board(world_ranks, number),
                                                 static_cast<int>(own - chosen.begin()),
                                                 std::move(world_ranks));
    Descriptor descriptor;
    descriptor.operation = Operation::subgroup;
    descriptor.set_name(list_ranks(group->members()));
    group->meet(descriptor, {}, {});
    return group;
  }
  std::shared_ptr<GroupImpl> on(const Device& device, Transport transport) override;
  void meet_at_first(const Descriptor& descriptor, void* brought, const Work& work) override {
    meet(descriptor, {nullptr, nullptr, nullptr, brought},
         [&](Board::Meeting& meeting, const Descriptor&) {
           if (rank() != 0) return;
           std::vector<void*> items;
           for (const Board::Seat& seat : meeting.seats) items.push_back(seat.item);
           try {
             work(items);
           } catch (const std::exception& error) {
             world_.break_with(error.what());
           }
         });
    world_.check();
  }
  void check() override { world_.check(); }
  void fail(const std::string& message) override {
    world_.break_with(message);
    world_.check();
  }

 private:
  struct Brought {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::shared_ptr<SymmetricBlock> block;
    void* item = nullptr;
  };
  using Part = std::function<void(Board::Meeting&, const Descriptor&)>;

  std::shared_ptr<SymmetricBlock> make_block(std::size_t bytes) override {
    Descriptor descriptor;
    descriptor.operation = Operation::symmetric;
    descriptor.count = bytes;
    descriptor.element_bytes = 1;
    std::shared_ptr<SymmetricBlock> block = rank() == 0 ? allocate_for_all(bytes) : nullptr;
    meet(descriptor, {nullptr, nullptr, block, nullptr},
         [&](Board::Meeting& meeting, const Descriptor&) { block = meeting.seats[0].block; });
    return std::make_shared<SymmetricBlock>(*block);  // this rank's own, to be found while it lives
  }
  std::shared_ptr<SymmetricBlock> allocate_for_all(std::size_t bytes) {
    const std::size_t each = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const auto all = attacca::detail::array_bytes(each, static_cast<std::size_t>(size()));
    const auto alignment = std::align_val_t(kAlignment);
    auto* memory = static_cast<std::byte*>(::operator new(std::max(all, kAlignment), alignment));
    std::memset(memory, 0, all);
    auto block = std::make_shared<SymmetricBlock>();
    block->memory = {memory, [](void* p) { ::operator delete(p, std::align_val_t(kAlignment)); }};
    block->bytes = bytes;
    for (int at = 0; at < size(); ++at)
      block->bases.push_back(memory + each * static_cast<std::size_t>(at));
    return block;
  }

  /// Comes to the group's next meeting, does `work` once all are there, and waits until all have
  /// done theirs. Throws on all ranks, before any work, if their descriptors differ.
  void meet(Descriptor descriptor, Brought brought, const Part& work) {
    const std::lock_guard one_at_a_time(mutex_);
    world_.check();
    descriptor.sequence = ++sequence_;
    Board::Meeting& meeting = board_->meetings[sequence_ % 2];
    // The meeting had (sequence - 1) / 2 uses before this one.
    const std::uint64_t expected = static_cast<std::uint64_t>(size()) * ((sequence_ + 1) / 2);
    Board::Seat& seat = meeting.seats[static_cast<std::size_t>(rank())];
    seat.descriptor = descriptor;
    seat.from = brought.from;
    seat.to = brought.to;
    seat.block = std::move(brought.block);
    seat.item = brought.item;
    seat.arrived.store(sequence_, std::memory_order_relaxed);
    meeting.arrivals.fetch_add(1);  // releases the seat
    world_.notify();
    // A meeting that somebody has withdrawn from never reaches the number.
    const auto is_complete = [&] { return meeting.arrivals.load() == expected; };
    world_.wait(
        is_complete, [&] { return withdraw(meeting.arrivals, expected); },
        [&] { return wait_of(descriptor, meeting); });
    if (const std::string message = disagreement(descriptors_of(meeting), members());
        !message.empty())
      fail(message);
    if (!work) return;
    work(meeting, descriptor);
    meeting.departures.fetch_add(1);
    world_.wait_for_copy([&] { return meeting.departures.load() % size() == 0; });
    seat.block.reset();
  }
  /// False if the meeting has taken place.
  static bool withdraw(std::atomic<std::uint64_t>& arrivals, std::uint64_t expected) {
    std::uint64_t seen = arrivals.load();
    while (seen != expected)
      if (arrivals.compare_exchange_weak(seen, seen | kWithdrawn)) return true;
    return false;
  }
  Wait wait_of(const Descriptor& descriptor, const Board::Meeting& meeting) const {
    Wait wait{world_rank(rank()), {}, "come to " + describe(descriptor)};
    for (int at = 0; at < size(); ++at)
      if (meeting.seats[static_cast<std::size_t>(at)].arrived.load() < descriptor.sequence)
        wait.missing.push_back(world_rank(at));
    return wait;
  }
  static std::vector<Descriptor> descriptors_of(const Board::Meeting& meeting) {
    std::vector<Descriptor> all;
    for (const Board::Seat& seat : meeting.seats) all.push_back(seat.descriptor);
    return all;
  }

  void exchange_memory(const Descriptor& d, std::vector<Board::Seat>& seats) const {
    const std::size_t part = d.part_bytes();
    const std::size_t bytes = d.moved_bytes();
    const Board::Seat& own = seats[static_cast<std::size_t>(rank())];
    if (bytes == 0) return;
    switch (d.operation) {
      case Operation::broadcast:
        if (rank() != d.root)
          std::memcpy(own.to, seats[static_cast<std::size_t>(d.root)].from, bytes);
        return;
      case Operation::all_gather:
        for (std::size_t at = 0; at < seats.size(); ++at)
          if (own.to + at * part != seats[at].from)
            std::memcpy(own.to + at * part, seats[at].from, bytes);
        return;
      case Operation::reduce_scatter: {
        std::byte* const target = own.to;
        return reduce(d, sources(seats, static_cast<std::size_t>(rank()) * part), {&target, 1},
                      bytes);
      }
      case Operation::all_reduce: {
        // Each rank computes one part, and writes it to all.
        const Slice slice = slice_of(d, rank(), size());
        std::vector<std::byte*> targets;
        for (const Board::Seat& seat : seats) targets.push_back(seat.to + slice.first);
        return reduce(d, sources(seats, slice.first), targets, slice.bytes);
      }
      default:
        return;
    }
  }
  static std::vector<const std::byte*> sources(const std::vector<Board::Seat>& seats,
                                               std::size_t offset) {
    std::vector<const std::byte*> all;
    for (const Board::Seat& seat : seats) all.push_back(seat.from + offset);
    return all;
  }

  Board::Channel& channel(int sender, int receiver) const {
    return board_->channels[static_cast<std::size_t>(sender * size() + receiver)];
  }
  void send(const ExchangeData& exchange) {
    using State = Board::Channel::State;
    Board::Channel& to = channel(rank(), exchange.peer);
    const std::lock_guard one_at_a_time(to.sending);
    world_.check();
    to.descriptor = exchange.descriptor;
    to.from = exchange.from;
    to.state.store(State::posted);
    world_.notify();
    const auto withdraw = [&] {
      std::uint32_t expected = State::posted;
      if (to.state.compare_exchange_strong(expected, State::withdrawn)) return true;
      world_.wait_for_copy([&] { return to.state.load() != State::taking; });
      return to.state.load() != State::empty;
    };
    world_.wait([&] { return to.state.load() == State::empty; }, withdraw,
                [&] { return wait_of(exchange, "receive the "); });
  }
  void receive(const ExchangeData& exchange) {
    using State = Board::Channel::State;
    Board::Channel& from = channel(exchange.peer, rank());
    const std::lock_guard one_at_a_time(from.receiving);
    world_.check();
    world_.wait([&] { return from.state.load() == State::posted; }, [] { return true; },
                [&] { return wait_of(exchange, "send for the "); });
    std::uint32_t expected = State::posted;
    if (!from.state.compare_exchange_strong(expected, State::taking)) world_.check();
    const std::string message = disagreement(from.descriptor, world_rank(exchange.peer),
                                             exchange.descriptor, world_rank(rank()));
    if (message.empty() && exchange.to_bytes > 0)
      std::memcpy(exchange.to, from.from, exchange.to_bytes);
    if (!message.empty()) world_.break_with(message);
    from.state.store(message.empty() ? State::empty : State::withdrawn);
    world_.notify();
    if (!message.empty()) world_.check();
  }
  Wait wait_of(const ExchangeData& exchange, const char* what) const {
    return {world_rank(rank()), {world_rank(exchange.peer)}, what + describe(exchange.descriptor)};
  }

  std::shared_ptr<Member> member_;
  World& world_;
  std::shared_ptr<Board> board_;
  std::mutex mutex_;
  std::uint64_t sequence_ = 0;
};

/// Every rank sees the devices of all, so all decide alike.
std::shared_ptr<GroupImpl> LoopbackGroup::on(const Device& device, Transport transport) {
  Descriptor descriptor;
  descriptor.operation = Operation::join_device;
  descriptor.set_name(transport_name(transport));
  Device own = device;
  bool is_shared = true;  // all have one device
  bool are_apart = true;  // no two have the same
  bool has_cuda = false, has_host = false;
  std::string names;
  meet(descriptor, {nullptr, nullptr, nullptr, &own},
       [&](Board::Meeting& meeting, const Descriptor&) {
         const auto device_at = [&](std::size_t at) -> const Device& {
           return *static_cast<const Device*>(meeting.seats[at].item);
         };
         for (std::size_t at = 0; at < meeting.seats.size(); ++at) {
           const Device& other = device_at(at);
           is_shared &= other == own;
           for (std::size_t before = 0; before < at; ++before)
             are_apart &= !(device_at(before) == other);
           (other.is_cuda() ? has_cuda : has_host) = true;
           names += (names.empty() ? "" : ", ") + other.name();
         }
       });
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  if (transport == Transport::nccl) return join_nccl(subgroup(all), device);
  if (transport == Transport::nvshmem)
    throw BadArgument(
        "NVSHMEM wants a process for each rank, and these are threads; start the program with "
        "mpirun, or use edges or nccl");
  const char* const remedy = !has_cuda    ? "leave the transport out on the host"
                             : has_host   ? "give all ranks devices of one kind"
                             : is_shared  ? "use edges or nccl"
                             : has_nccl() ? "use nccl"
                                          : "install NCCL and use nccl";
  if (transport == Transport::staged)
    throw BadArgument(
        fmt::format("ranks that are threads have no staged exchanges, because host calls of one "
                    "device take turns; {}",
                    remedy));
  if (transport == Transport::direct)
    throw BadArgument(
        fmt::format("ranks that are threads have no MPI to move memory of GPUs; {}", remedy));
  const bool needs_peers =
      transport == Transport::peer || (transport == Transport::automatic && has_cuda);
  const bool are_alike = !has_cuda || !has_host;
  if (size() > 1 && are_apart && are_alike && needs_peers)
    return transport == Transport::automatic && has_nccl() ? join_nccl(subgroup(all), device)
                                                           : join_peers(subgroup(all), device);
  if (transport == Transport::peer)
    throw BadArgument(
        fmt::format("peer copies need a device for each rank, all of one kind, and these are on "
                    "{}; {}",
                    names, remedy));
  if (!is_shared && (has_cuda || transport == Transport::edges))
    throw BadArgument(
        fmt::format("ranks that are threads are on {}, and exchanges without NCCL need one device "
                    "that all share, or one for each; {}",
                    names, remedy));
  if (!is_shared) return shared_from_this();
  return share_device(subgroup(all), device);
}

}  // namespace
}  // namespace attacca::comm

namespace attacca {

std::vector<Group> make_loopback(int ranks, const RanksOptions& options) {
  if (ranks < 1 || ranks > 1024)
    throw BadArgument(fmt::format("{} ranks; a loopback group has 1 to 1024", ranks));
  comm::check_options(options);
  const auto world = std::make_shared<comm::World>(ranks, options.deadline);
  std::vector<int> members(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) members[static_cast<std::size_t>(rank)] = rank;
  const auto board = world->board(members, 0);
  std::vector<Group> groups;
  for (int rank = 0; rank < ranks; ++rank)
    groups.push_back(comm::Access::group(std::make_shared<comm::LoopbackGroup>(
        std::make_shared<comm::Member>(world, rank), board, rank, members)));
  return groups;
}

void run_loopback(int ranks, const std::function<void(const Group&)>& body,
                  const RanksOptions& options) {
  if (!body) throw BadArgument("ranks without a function; give them one to run");
  std::vector<Group> groups = make_loopback(ranks, options);
  std::mutex mutex;
  std::exception_ptr first;
  bool is_cause = false;  // `first` is not only what another rank's failure led to
  const auto keep = [&](bool is_own) {
    const std::lock_guard lock(mutex);
    if (!first || (is_own && !is_cause)) first = std::current_exception();
    is_cause = is_cause || is_own;
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, group = std::move(groups[static_cast<std::size_t>(rank)])]() mutable {
      try {
        body(group);
      } catch (const RanksBroken&) {
        keep(false);
      } catch (const std::exception& error) {
        keep(true);
        group.give_up(error.what());
      } catch (...) {
        keep(true);
        group.give_up("it threw something that is no std::exception");
      }
      const Group left = std::move(group);  // the rank leaves when its body has ended
    });
  groups.clear();
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace attacca
