// group.hpp: the interface of a backend: a group as one rank sees it.
#pragma once

#include <attacca/ranks.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange.hpp"

namespace attacca::comm {

using ExchangePtr = std::shared_ptr<const ExchangeData>;

/// Thread-safe. `members` are the group's ranks, numbered as in the whole program; messages use
/// these numbers.
class GroupImpl : public std::enable_shared_from_this<GroupImpl> {
 public:
  virtual ~GroupImpl() = default;

  /// Runs a collective, a send or a receive to its end.
  virtual void run(const ExchangeData& exchange) = 0;
  /// REQUIRES: members of this group, the caller among them, none twice.
  virtual std::shared_ptr<GroupImpl> subgroup(const std::vector<int>& members) = 0;
  /// Throws RanksBroken if the program is broken.
  virtual void check() = 0;
  /// Breaks the program, unless it is broken already, and throws. All ranks get the message.
  virtual void fail(const std::string& message) = 0;
  /// Looks for messages of other ranks, and whether one has ended; a wait on memory calls it now
  /// and then. Throws RanksBroken if the program is broken.
  virtual void poll() {}

  /// Hand an exchange to a stream or a graph: as a host call, unless the group is on a device.
  virtual void enqueue(const ExchangePtr& exchange, StreamRef stream);
  virtual PlainNode add_to(const ExchangePtr& exchange, Graph& graph);
  virtual bool is_on_device() const { return false; }
  /// A group of the same ranks that moves host memory: this one, unless it is on a device.
  virtual std::shared_ptr<GroupImpl> control() { return shared_from_this(); }
  /// See Group::on.
  virtual std::shared_ptr<GroupImpl> on(const Device& device, Transport transport) = 0;
  /// Meets the others, and then the first rank works for all: `work` gets what each has brought, by
  /// rank. If it throws, the program is broken. REQUIRES: ranks are threads of this process.
  using Work = std::function<void(std::span<void* const>)>;
  virtual void meet_at_first(const Descriptor& descriptor, void* brought, const Work& work);

  /// Meets the others for `exchange`, and then moves a part to each rank and one from each; those
  /// of the caller itself, and empty ones, stay. It may be memory of a GPU where the ranks' wire
  /// takes that. REQUIRES: ranks are processes.
  using Outgoing = std::span<const std::byte>;
  using Incoming = std::span<std::byte>;
  virtual void trade(const ExchangeData& exchange, std::span<const Outgoing> to,
                     std::span<const Incoming> from);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::string& backend() const { return backend_; }
  std::chrono::nanoseconds deadline() const { return deadline_; }
  const std::vector<int>& members() const { return members_; }
  /// The number of a rank of this group in the whole program.
  int world_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<SymmetricBlock> allocate(std::size_t bytes);
  /// The place of this rank's symmetric memory at `address`. Throws BadArgument if `bytes` bytes
  /// from there on are not in one block of this group.
  SymmetricPlace place_of(const void* address, std::size_t bytes, const char* what);

 protected:
  GroupImpl(std::string backend, int rank, std::vector<int> members,
            std::chrono::nanoseconds deadline)
      : backend_(std::move(backend)),
        rank_(rank),
        members_(std::move(members)),
        deadline_(deadline) {}
  /// A collective. The memory is zeroed.
  virtual std::shared_ptr<SymmetricBlock> make_block(std::size_t bytes) = 0;

 private:
  std::string backend_;
  int rank_;
  std::vector<int> members_;
  std::chrono::nanoseconds deadline_;
  std::mutex blocks_mutex_;
  std::vector<std::weak_ptr<SymmetricBlock>> blocks_;
};

/// Declares what an exchange reads and writes.
PlainNode with_accesses(const PlainNode& node, const ExchangeData& exchange);

/// Throws BadArgument unless the deadline is positive.
void check_options(const RanksOptions& options);

/// Runs a one-sided operation on symmetric memory that this process can address.
void run_one_sided(const ExchangeData& exchange);

/// Waits until `seen()` is at least the value of a wait. Throws RanksBroken at the deadline.
void wait_for_value(const ExchangeData& exchange, const std::function<std::uint64_t()>& seen);

/// Waits a little, longer with each call: first not at all, so a quick answer is seen quickly, then
/// it yields, so others can run where there are more ranks than cores, then it sleeps.
class Backoff {
 public:
  void pause();
  /// Whether the next call of `pause` sleeps; cheap waits are over then.
  bool is_slow() const { return turns_ >= kSpins + kYields; }
  /// Whether this is a turn to look at things that are not urgent.
  bool is_time_to_look() const { return turns_ % 32 == 31 || is_slow(); }

 private:
  static constexpr int kSpins = 100;
  static constexpr int kYields = 200;
  /// On a busy machine one yield may take as long.
  static constexpr std::chrono::milliseconds kLongestYields{5};
  int turns_ = 0;
  std::chrono::steady_clock::time_point first_yield_{};
};

}  // namespace attacca::comm
