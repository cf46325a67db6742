// world.cpp: completes messages with a deadline, and passes notices between ranks.
#include "comm/process/world.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "comm/group.hpp"

namespace attacca::comm {

namespace {

using namespace std::chrono_literals;

constexpr int kNoticeTag = 1;
constexpr std::chrono::nanoseconds kLongestRace = 2s;  // between a device's end and a connection's
constexpr std::size_t kLargestMessage = std::size_t{1} << 30;  // MPI counts with an int

}  // namespace

template <class Work>
auto World::on_wire(const Work& work) {
  try {
    return work();
  } catch (const WireError& error) {
    fail_locked(fmt::format("rank {}: {}", rank_, error.what()));
  }
}

World::World(std::unique_ptr<Wire> wire, std::chrono::nanoseconds deadline)
    : deadline_(deadline), wire_(std::move(wire)), rank_(wire_->rank()), size_(wire_->size()) {
  const auto ranks = static_cast<std::size_t>(size_);
  incoming_.resize(ranks);
  received_.resize(ranks);
  has_left_.resize(ranks);
  has_ended_.resize(ranks);
  known_waits_.resize(ranks);
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) listen(peer);
  listener_.emplace([this](const core::DeviceFailed& failure) { explain(failure); });
}

World::~World() {
  // If this rank ends by an error of its own, that is what there is to say.
  if (!finalize() && !was_thrown_ && std::uncaught_exceptions() == 0)
    std::fprintf(stderr, "attacca: rank %d: %s\n", rank_, message_.c_str());
}

/// False, with the reason in message_, if not all ranks have left within the deadline.
bool World::finalize() {
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
                               seconds_of(deadline_));
        is_broken_ = true;
        return false;
      }
      lock.unlock();
      backoff.pause();
      lock.lock();
    }
  } catch (const RanksBroken&) {
    return false;
  }
  incoming_.erase(incoming_.begin() + rank_);
  message_ = wire_->end(incoming_.data(), incoming_.size(), deadline_);
  return message_.empty();
}

World::Turn World::take_turn() {
  Turn turn(mutex_);
  check_locked();
  return turn;
}

void World::send(const Turn&, Transfers& to, int peer, int tag, const std::byte* data,
                 std::size_t bytes) {
  for (std::size_t first = 0; first == 0 || first < bytes; first += kLargestMessage)
    to.push_back({peer, on_wire([&] {
                    return wire_->send(peer, tag, data + first,
                                       std::min(bytes - first, kLargestMessage));
                  })});
}

void World::receive(const Turn&, Transfers& to, int peer, int tag, std::byte* data,
                    std::size_t bytes) {
  for (std::size_t first = 0; first == 0 || first < bytes; first += kLargestMessage)
    to.push_back({peer, on_wire([&] {
                    return wire_->receive(peer, tag, data + first,
                                          std::min(bytes - first, kLargestMessage));
                  })});
}

/// Whether all are done; removes those that are.
bool World::test(Transfers& transfers) {
  on_wire([&] {
    wire_->progress();
    std::erase_if(transfers, [&](Transfer& transfer) { return wire_->is_done(transfer.request); });
  });
  return transfers.empty();
}

void World::wait(Turn& turn, Transfers& transfers, const std::function<std::string()>& what) {
  // To lock and unlock takes a tenth of the time of a short exchange.
  constexpr std::chrono::microseconds kBriefly{5};
  if (test(transfers)) return;
  const auto start = Clock::now();
  while (Clock::now() - start < kBriefly)
    if (test(transfers)) return;
  auto next_notice = start + deadline_ / 4;
  for (Backoff backoff;;) {
    turn.unlock();
    backoff.pause();
    turn.lock();
    check_locked();
    if (test(transfers)) return;
    if (backoff.is_time_to_look()) {
      poll_locked();
      check_locked();
    }
    if (!backoff.is_slow()) continue;
    Wait wait{rank_, {}, {}};
    for (const Transfer& transfer : transfers) wait.missing.push_back(transfer.peer);
    std::sort(wait.missing.begin(), wait.missing.end());
    wait.missing.erase(std::unique(wait.missing.begin(), wait.missing.end()), wait.missing.end());
    const bool waits_for_gone =
        std::any_of(wait.missing.begin(), wait.missing.end(),
                    [&](int peer) { return has_left_[static_cast<std::size_t>(peer)]; });
    const auto now = Clock::now();
    const bool is_overdue =
        now >= start + deadline_ && (now >= start + deadline_ * 3 / 2 || !has_fallen_silent());
    if (waits_for_gone || is_overdue || now >= next_notice) wait.what = what();
    if (waits_for_gone && test(transfers)) return;  // it may have sent before it left
    if (waits_for_gone || is_overdue) give_up_on(wait);
    if (now >= next_notice) {
      tell_all(Notice::Kind::waits, wait.missing, wait.what);
      next_notice = now + deadline_ / 4;
    }
  }
}

bool World::is_recent(const Known& known) const {
  return !known.wait.missing.empty() && Clock::now() - known.when < deadline_ / 2;
}

/// Whether a rank has said within the deadline that it waits, and not lately: it may lack a
/// processor, and then the rank that it waits for is to blame.
bool World::has_fallen_silent() const {
  return std::any_of(known_waits_.begin(), known_waits_.end(), [&](const Known& known) {
    return !known.wait.missing.empty() && !is_recent(known) &&
           Clock::now() - known.when < deadline_;
  });
}

void World::give_up_on(const Wait& wait) {
  Waits waits(static_cast<std::size_t>(size_));
  for (int at = 0; at < size_; ++at)
    if (has_left_[static_cast<std::size_t>(at)]) waits.leave(at);
  if (const auto gone = waits.gone_for(wait)) fail_locked(*gone);
  waits.add(wait);
  for (const Known& known : known_waits_)
    if (is_recent(known)) waits.add(known.wait);
  fail_locked(waits.overdue(wait, deadline_));
}

void World::check() {
  const std::lock_guard lock(mutex_);
  check_locked();
}

void World::explain(const core::DeviceFailed& failure) {
  // The device may fail before the connection of the rank that took it along has closed.
  const auto end = Clock::now() + (failure.is_for_good ? std::min(deadline_, kLongestRace) : 0ns);
  Backoff backoff;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      look_around(fmt::format("; then on rank {}: {}", rank_, failure.words));
    }
    if (Clock::now() >= end) return;
    backoff.pause();
  }
}

void World::check_locked() {
  if (!is_broken_) return;
  was_thrown_ = true;
  throw RanksBroken(message_);
}

void World::fail(const std::string& message) {
  const std::lock_guard lock(mutex_);
  fail_locked(message);
}

void World::fail_locked(const std::string& message) {
  if (!is_broken_) {
    is_broken_ = true;
    message_ = message.substr(0, kTextBytes - 1);  // what the others get
    tell_all(Notice::Kind::fails, {}, message_);
  }
  was_thrown_ = true;
  throw RanksBroken(message_);
}

void World::poll() {
  const std::lock_guard lock(mutex_);
  look_around("");
}

/// `then`: what followed the end of a rank.
void World::look_around(const std::string& then) {
  check_locked();
  poll_locked();
  check_locked();
  std::vector<int> ended;
  for (int at = 0; at < size_; ++at)
    if (has_ended_[static_cast<std::size_t>(at)]) ended.push_back(at);
  if (ended.empty()) return;
  fail_locked(fmt::format("{} {} ended without leaving{}", list_ranks(ended),
                          ended.size() == 1 ? "has" : "have", then));
}

void World::poll_locked() {
  on_wire([&] {
    wire_->progress();
    for (int peer = 0; peer < size_; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      if (peer == rank_) continue;
      while (wire_->is_done(incoming_[at])) {
        const Notice notice = received_[at];
        listen(peer);
        handle(peer, notice);
      }
      if (wire_->is_gone(peer) && !has_left_[at]) has_left_[at] = has_ended_[at] = true;
    }
    std::erase_if(sent_, [&](Sent& sent) {
      std::erase_if(sent.requests, [&](Request& request) { return wire_->is_done(request); });
      return sent.requests.empty();
    });
  });
}

void World::listen(int peer) {
  const auto at = static_cast<std::size_t>(peer);
  incoming_[at] = wire_->receive(peer, kNoticeTag, reinterpret_cast<std::byte*>(&received_[at]),
                                 sizeof(Notice));
}

void World::handle(int from, const Notice& notice) {
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

/// Does not wait: wires buffer messages as short as these.
void World::tell_all(Notice::Kind kind, const std::vector<int>& missing, const std::string& text) {
  Sent& sent = sent_.emplace_back();
  sent.notice.kind = kind;
  for (const int rank : missing) {
    if (static_cast<std::size_t>(sent.notice.missing_count) == Notice::kMissing) break;
    sent.notice.missing[sent.notice.missing_count++] = rank;
  }
  std::memcpy(sent.notice.text, text.data(), std::min(text.size(), kTextBytes - 1));
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    try {
      sent.requests.push_back(wire_->send(
          peer, kNoticeTag, reinterpret_cast<const std::byte*>(&sent.notice), sizeof sent.notice));
    } catch (const WireError&) {  // then this rank cannot be told
    }
  }
}

}  // namespace attacca::comm
