// world.cpp: starts and ends MPI, completes requests, and passes notices between ranks.
#include "comm/mpi/world.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "comm/group.hpp"

namespace attacca::comm {

namespace {

constexpr int kNoticeTag = 1;
constexpr std::size_t kLargestMessage = std::size_t{1} << 30;  // MPI counts with an int

std::string error_text(int result) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

MpiWorld::MpiWorld(std::chrono::nanoseconds deadline) : deadline_(deadline) {
  std::thread([life = life_] {
    std::unique_lock lock(life->mutex);
    const auto start = [&]() -> std::string {
      int is_initialized = 0, provided = 0;
      MPI_Initialized(&is_initialized);
      if (is_initialized) return "the program has started MPI itself";
      if (const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
          result != MPI_SUCCESS)
        return "MPI_Init_thread: " + error_text(result);
      if (provided < MPI_THREAD_SERIALIZED) return "this MPI library does not support threads";
      if (const int result = MPI_Comm_dup(MPI_COMM_WORLD, &life->all); result != MPI_SUCCESS)
        return "MPI_Comm_dup: " + error_text(result);
      MPI_Comm_set_errhandler(life->all, MPI_ERRORS_RETURN);
      return {};
    };
    lock.unlock();
    std::string problem = start();
    lock.lock();
    life->problem = std::move(problem);
    life->has_started = true;
    life->changed.notify_all();
    life->changed.wait(lock, [&] { return life->must_end; });
    lock.unlock();
    MPI_Finalize();
    lock.lock();
    life->has_ended = true;
    life->changed.notify_all();
  }).detach();
  {
    std::unique_lock lock(life_->mutex);
    if (!life_->changed.wait_for(lock, deadline, [&] { return life_->has_started; }))
      throw RanksBroken(fmt::format(
          "MPI has not started within {:.3g} s, so a process of this program did not come; see the "
          "launcher's output",
          seconds(deadline)));
    if (!life_->problem.empty()) throw RanksBroken("MPI did not start: " + life_->problem);
    all_ = life_->all;
  }
  MPI_Comm_rank(all_, &rank_);
  MPI_Comm_size(all_, &size_);
  int* bound = nullptr;
  int is_set = 0;
  MPI_Comm_get_attr(all_, MPI_TAG_UB, &bound, &is_set);
  if (is_set) highest_tag_ = *bound;
  has_left_.resize(static_cast<std::size_t>(size_));
  known_waits_.resize(static_cast<std::size_t>(size_));
  listen();
}

MpiWorld::~MpiWorld() {
  if (!finalize() && !was_thrown_)
    std::fprintf(stderr, "attacca: rank %d: MPI is not finalised: %s\n", rank_, message_.c_str());
}

/// False, with the reason in message_, if not all ranks have left within the deadline.
bool MpiWorld::finalize() {
  std::unique_lock lock(mutex_);
  if (is_broken_) return false;
  try {
    tell_all(Notice::Kind::leaves, {}, {});
    has_left_[static_cast<std::size_t>(rank_)] = true;
    const auto end = Clock::now() + deadline_;
    Backoff backoff;
    while (std::count(has_left_.begin(), has_left_.end(), false) > 0 || !sent_.empty()) {
      poll_locked();
      if (is_broken_) return false;
      if (Clock::now() >= end) {
        std::vector<int> staying;
        for (int at = 0; at < size_; ++at)
          if (!has_left_[static_cast<std::size_t>(at)]) staying.push_back(at);
        message_ = fmt::format("{} did not leave within {:.3g} s", list_ranks(staying),
                               seconds(deadline_));
        is_broken_ = true;
        return false;
      }
      lock.unlock();
      backoff.pause();
      lock.lock();
    }
    MPI_Cancel(&incoming_);
    MPI_Wait(&incoming_, MPI_STATUS_IGNORE);
    MPI_Comm_free(&all_);
  } catch (const RanksBroken&) {
    return false;
  }
  std::unique_lock life(life_->mutex);
  life_->must_end = true;
  life_->changed.notify_all();
  if (life_->changed.wait_for(life, deadline_, [&] { return life_->has_ended; })) return true;
  message_ = "MPI_Finalize does not return";
  return false;
}

void MpiWorld::check_call(int result, const char* call) {
  if (result != MPI_SUCCESS)
    fail_locked(fmt::format("rank {}: {}: {}", rank_, call, error_text(result)));
}

/// Calls start(data, bytes, request) for each message that the bytes take.
template <class Byte, class Start>
void MpiWorld::transfer(Transfers& to, int peer, Byte* data, std::size_t bytes, const char* call,
                        const Start& start) {
  const std::lock_guard lock(mutex_);
  check_locked();
  do {
    const std::size_t part = std::min(bytes, kLargestMessage);
    to.push_back({peer, MPI_REQUEST_NULL});
    check_call(start(data, static_cast<int>(part), &to.back().request), call);
    data += part;
    bytes -= part;
  } while (bytes > 0);
}

void MpiWorld::send(Transfers& to, int peer, int tag, const std::byte* data, std::size_t bytes) {
  transfer(to, peer, data, bytes, "MPI_Isend",
           [&](const std::byte* from, int count, MPI_Request* request) {
             return MPI_Isend(from, count, MPI_BYTE, peer, tag, all_, request);
           });
}

void MpiWorld::receive(Transfers& to, int peer, int tag, std::byte* data, std::size_t bytes) {
  transfer(to, peer, data, bytes, "MPI_Irecv",
           [&](std::byte* into, int count, MPI_Request* request) {
             return MPI_Irecv(into, count, MPI_BYTE, peer, tag, all_, request);
           });
}

/// Whether all are done; removes those that are.
bool MpiWorld::test(Transfers& transfers) {
  std::erase_if(transfers, [&](Transfer& transfer) {
    int is_done = 0;
    check_call(MPI_Test(&transfer.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    return is_done != 0;
  });
  return transfers.empty();
}

void MpiWorld::wait(Transfers& transfers, const std::function<std::string()>& what) {
  const auto start = Clock::now();
  auto next_notice = start + deadline_ / 4;
  Backoff backoff;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      check_locked();
      if (test(transfers)) return;
      if (backoff.is_time_to_look()) {
        poll_locked();
        check_locked();
      }
      if (backoff.is_slow()) {
        Wait wait{rank_, {}, {}};
        for (const Transfer& transfer : transfers) wait.missing.push_back(transfer.peer);
        std::sort(wait.missing.begin(), wait.missing.end());
        wait.missing.erase(std::unique(wait.missing.begin(), wait.missing.end()),
                           wait.missing.end());
        const bool waits_for_gone =
            std::any_of(wait.missing.begin(), wait.missing.end(),
                        [&](int peer) { return has_left_[static_cast<std::size_t>(peer)]; });
        const auto now = Clock::now();
        const bool is_overdue = now >= start + deadline_;
        if (waits_for_gone || is_overdue || now >= next_notice) wait.what = what();
        if (waits_for_gone && test(transfers)) return;  // it may have sent before it left
        if (waits_for_gone || is_overdue) give_up_on(wait);
        if (now >= next_notice) {
          tell_all(Notice::Kind::waits, wait.missing, wait.what);
          next_notice = now + deadline_ / 4;
        }
      }
    }
    backoff.pause();
  }
}

void MpiWorld::give_up_on(const Wait& wait) {
  Waits waits(static_cast<std::size_t>(size_));
  for (int at = 0; at < size_; ++at)
    if (has_left_[static_cast<std::size_t>(at)]) waits.leave(at);
  if (const auto gone = waits.gone_for(wait)) fail_locked(*gone);
  waits.add(wait);
  for (const Known& known : known_waits_)
    if (!known.wait.missing.empty() && Clock::now() - known.when < deadline_ / 2)
      waits.add(known.wait);
  fail_locked(waits.overdue(wait, deadline_));
}

void MpiWorld::check() {
  const std::lock_guard lock(mutex_);
  check_locked();
}

void MpiWorld::check_locked() {
  if (!is_broken_) return;
  was_thrown_ = true;
  throw RanksBroken(message_);
}

void MpiWorld::fail(const std::string& message) {
  const std::lock_guard lock(mutex_);
  fail_locked(message);
}

void MpiWorld::fail_locked(const std::string& message) {
  if (!is_broken_) {
    is_broken_ = true;
    message_ = message.substr(0, kTextBytes - 1);  // what the others get
    tell_all(Notice::Kind::fails, {}, message_);
  }
  was_thrown_ = true;
  throw RanksBroken(message_);
}

void MpiWorld::poll() {
  const std::lock_guard lock(mutex_);
  check_locked();
  poll_locked();
}

void MpiWorld::poll_locked() {
  for (;;) {
    int has_come = 0;
    MPI_Status status;
    check_call(MPI_Test(&incoming_, &has_come, &status), "MPI_Test");
    if (!has_come) break;
    const Notice notice = received_;
    listen();
    handle(status.MPI_SOURCE, notice);
  }
  std::erase_if(sent_, [](Sent& sent) {
    int is_done = 0;
    MPI_Testall(static_cast<int>(sent.requests.size()), sent.requests.data(), &is_done,
                MPI_STATUSES_IGNORE);
    return is_done != 0;
  });
}

void MpiWorld::listen() {
  check_call(MPI_Irecv(&received_, sizeof received_, MPI_BYTE, MPI_ANY_SOURCE, kNoticeTag, all_,
                       &incoming_),
             "MPI_Irecv");
}

void MpiWorld::handle(int from, const Notice& notice) {
  const std::string text(notice.text, strnlen(notice.text, sizeof notice.text));
  switch (notice.kind) {
    case Notice::Kind::leaves:
      has_left_[static_cast<std::size_t>(from)] = true;
      return;
    case Notice::Kind::fails:
      if (!is_broken_) message_ = text;
      is_broken_ = true;
      return;
    case Notice::Kind::waits: {
      Known& known = known_waits_[static_cast<std::size_t>(from)];
      known.when = Clock::now();
      known.wait = {from, {}, text};
      const auto count = static_cast<std::size_t>(std::max(0, notice.missing_count));
      known.wait.missing.assign(notice.missing, notice.missing + std::min(count, Notice::kMissing));
    }
  }
}

/// Does not wait. MPI buffers messages as short as these.
void MpiWorld::tell_all(Notice::Kind kind, const std::vector<int>& missing,
                        const std::string& text) {
  Sent& sent = sent_.emplace_back();
  sent.notice.kind = kind;
  for (const int rank : missing) {
    if (static_cast<std::size_t>(sent.notice.missing_count) == Notice::kMissing) break;
    sent.notice.missing[sent.notice.missing_count++] = rank;
  }
  std::memcpy(sent.notice.text, text.data(), std::min(text.size(), kTextBytes - 1));
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    sent.requests.push_back(MPI_REQUEST_NULL);
    MPI_Isend(&sent.notice, sizeof sent.notice, MPI_BYTE, peer, kNoticeTag, all_,
              &sent.requests.back());
  }
}

}  // namespace attacca::comm
