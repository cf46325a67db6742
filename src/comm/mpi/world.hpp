// world.hpp: MPI as all groups of this process use it: requests with a deadline, and a line on
// which ranks tell each other that they wait, leave or fail.
//
// MPI is asked for serialized threads, and one mutex guards every call. A thread of its own starts
// and ends MPI, so both have a deadline too.
#pragma once

#include <mpi.h>

#include <attacca/ranks.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/waits.hpp"

namespace attacca::comm {

/// Messages of one exchange that are on their way.
struct Transfer {
  int peer;  // as in the whole program
  MPI_Request request;
};
using Transfers = std::vector<Transfer>;

class MpiWorld {
 public:
  /// Throws RanksBroken if MPI has not started within the deadline.
  explicit MpiWorld(std::chrono::nanoseconds deadline);
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::nanoseconds deadline() const { return deadline_; }

  void send(Transfers& to, int peer, int tag, const std::byte* data, std::size_t bytes);
  void receive(Transfers& to, int peer, int tag, std::byte* data, std::size_t bytes);
  /// Waits until all are done. If it throws, the program is broken and MPI is not called again, so
  /// nothing is written to memory that the messages were meant for. `what`: what peers that are
  /// missing did not do.
  void wait(Transfers& transfers, const std::function<std::string()>& what);

  void check();
  /// Breaks the program with this message, unless it is broken already, and throws.
  [[noreturn]] void fail(const std::string& message);
  void poll();

  /// Groups that share a rank have different contexts; see MpiGroup::subgroup.
  std::mutex subgroup_mutex;
  std::uint64_t next_context = 2;
  int highest_tag() const { return highest_tag_; }

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
    std::vector<MPI_Request> requests;
  };
  using Clock = std::chrono::steady_clock;

  void run_mpi();
  bool finalize();
  void tell_all(Notice::Kind kind, const std::vector<int>& missing, const std::string& text);
  void listen();
  void handle(int from, const Notice& notice);
  void poll_locked();
  void check_locked();
  [[noreturn]] void fail_locked(const std::string& message);
  void check_call(int result, const char* call);
  template <class Byte, class Start>
  void transfer(Transfers& to, int peer, Byte* data, std::size_t bytes, const char* call,
                const Start& start);
  bool test(Transfers& transfers);
  [[noreturn]] void give_up_on(const Wait& wait);

  const std::chrono::nanoseconds deadline_;
  int rank_ = 0;
  int size_ = 1;
  int highest_tag_ = 32767;

  std::mutex mutex_;  // of MPI and of what follows
  MPI_Comm all_ = MPI_COMM_NULL;
  MPI_Request incoming_ = MPI_REQUEST_NULL;
  Notice received_;
  std::list<Sent> sent_;  // until MPI has taken them
  bool is_broken_ = false;
  bool was_thrown_ = false;  // the program knows
  std::string message_;
  std::vector<bool> has_left_;
  struct Known {
    Clock::time_point when;
    Wait wait;
  };
  std::vector<Known> known_waits_;  // by rank; the last one it told of

  /// Shared with the thread that runs MPI, which may outlive this if MPI does not return.
  struct Life {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_started = false;
    bool must_end = false;
    bool has_ended = false;
    std::string problem;
    MPI_Comm all = MPI_COMM_NULL;
  };
  std::shared_ptr<Life> life_ = std::make_shared<Life>();
};

}  // namespace attacca::comm
