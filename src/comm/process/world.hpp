// world.hpp: the processes of a program as all groups of this process use them: messages with a
// deadline, and notices by which ranks tell each other that they wait, leave or fail. One mutex
// guards the wire.
#pragma once

#include <attacca/ranks.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/process/wire.hpp"
#include "comm/waits.hpp"
#include "core/device_events.hpp"

namespace attacca::comm {

/// Messages of one exchange that are on their way.
struct Transfer {
  int peer;  // as in the whole program
  Request request;
};
using Transfers = std::vector<Transfer>;

class World {
 public:
  World(std::unique_ptr<Wire> wire, std::chrono::nanoseconds deadline);
  /// Waits, up to the deadline, until all ranks leave. If not all do, it says so on stderr.
  ~World();
  World(const World&) = delete;

  const char* name() const { return wire_->name(); }
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::nanoseconds deadline() const { return deadline_; }

  /// For as long as a thread has it, the wire is its own. Throws if the program is broken.
  using Turn = std::unique_lock<std::mutex>;
  Turn take_turn();
  void send(const Turn&, Transfers& to, int peer, int tag, const std::byte* data,
            std::size_t bytes);
  void receive(const Turn&, Transfers& to, int peer, int tag, std::byte* data, std::size_t bytes);
  /// Waits until all are done; gives others their turn where that takes longer than a message
  /// between two cores. If it throws, the program is broken and the wire is not used again, so
  /// nothing is written to memory that the messages were meant for. `what`: what peers that are
  /// missing did not do.
  void wait(Turn& turn, Transfers& transfers, const std::function<std::string()>& what);

  void check();
  /// Breaks the program with this message, unless it is broken already, and throws.
  [[noreturn]] void fail(const std::string& message);
  /// Reads what has come. If a rank has ended without leaving, the program is broken. Throws if so.
  void poll();

  /// Groups that share a rank have different contexts; see ProcessGroup::subgroup.
  std::mutex subgroup_mutex;
  std::uint64_t next_context = 2;
  int highest_tag() const { return wire_->highest_tag(); }
  std::size_t most_at_once() const { return wire_->most_at_once(); }
  bool takes_gpu_memory() const { return wire_->takes_gpu_memory(); }

 private:
  static constexpr std::size_t kTextBytes = 992;
  /// A message on the line.
  struct Notice {
    enum class Kind : std::int32_t { waits, leaves, fails };
    static constexpr std::size_t kMissing = 6;
    Kind kind = Kind::waits;
    std::int32_t missing_count = 0;
    std::int32_t missing[kMissing] = {};
    char text[kTextBytes] = {};
  };
  struct Sent {
    Notice notice;
    std::vector<Request> requests;
  };
  using Clock = std::chrono::steady_clock;

  bool finalize();
  void tell_all(Notice::Kind kind, const std::vector<int>& missing, const std::string& text);
  void listen(int peer);
  void handle(int from, const Notice& notice);
  void poll_locked();
  void check_locked();
  [[noreturn]] void fail_locked(const std::string& message);
  /// Runs `work`, which uses the wire. Breaks the program if the wire does.
  template <class Work>
  auto on_wire(const Work& work);
  bool test(Transfers& transfers);
  void look_around(const std::string& then);
  /// Breaks the program if the end of a rank explains it, and throws.
  void explain(const core::DeviceFailed& failure);
  [[noreturn]] void give_up_on(const Wait& wait);
  struct Known {
    Clock::time_point when;
    Wait wait;
  };
  bool is_recent(const Known& known) const;
  bool has_fallen_silent() const;

  const std::chrono::nanoseconds deadline_;
  const std::unique_ptr<Wire> wire_;
  const int rank_;
  const int size_;

  std::mutex mutex_;               // of the wire and of what follows
  std::vector<Request> incoming_;  // by rank: the next notice
  std::vector<Notice> received_;
  std::list<Sent> sent_;  // until the wire has taken them
  bool is_broken_ = false;
  bool was_thrown_ = false;  // the program knows
  std::string message_;
  std::vector<bool> has_left_;
  std::vector<bool> has_ended_;                                 // without a word
  std::vector<Known> known_waits_;                              // by rank; the last one it told of
  std::optional<core::Listener<core::DeviceFailed>> listener_;  // last: it uses all the others
};

}  // namespace attacca::comm
