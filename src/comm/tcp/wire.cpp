// wire.cpp: TCP as a wire: a connection to every other rank. A rank whose connection has ended is
// gone, so a process that dies is noticed at once.
#include <sys/socket.h>
#include <sys/uio.h>

#include <fmt/core.h>
#include <attacca/launch.hpp>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/group.hpp"
#include "comm/process/group.hpp"
#include "comm/tcp/inbox.hpp"
#include "comm/tcp/meeting.hpp"

namespace attacca::comm {

namespace {

class TcpWire final : public Wire {
 public:
  TcpWire(int rank, std::vector<Socket> sockets) : rank_(rank), links_(sockets.size()) {
    for (std::size_t at = 0; at < links_.size(); ++at) links_[at].socket = std::move(sockets[at]);
  }
  ~TcpWire() override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    for (Link& link : links_)
      if (link.socket) link.socket.close_gently(end);
  }

  const char* name() const override { return "tcp"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(links_.size()); }
  int highest_tag() const override { return std::numeric_limits<int>::max(); }

  Request send(int peer, int tag, const std::byte* data, std::size_t bytes) override {
    auto message = std::make_unique<Message>();
    message->header.tag = tag;
    message->header.bytes = bytes;
    message->data = data;
    Link& link = link_of(peer);
    link.outgoing.push_back(message.get());
    flush(link);
    return keep(std::move(message));
  }
  Request receive(int peer, int tag, std::byte* data, std::size_t bytes) override {
    auto message = std::make_unique<Message>();
    message->slot = {tag, data, bytes, false};
    link_of(peer).inbox.post(message->slot);
    return keep(std::move(message));
  }
  void progress() override {
    for (Link& link : links_) {
      if (!link.socket || link.is_gone) continue;
      flush(link);
      read(link);
    }
  }
  bool is_done(Request& request) override {
    const auto found = messages_.find(request.handle);
    if (found == messages_.end()) return true;
    if (!found->second->slot.is_done) return false;
    messages_.erase(found);
    return true;
  }
  bool is_gone(int peer) const override { return links_[static_cast<std::size_t>(peer)].is_gone; }
  std::string end(Request*, std::size_t, std::chrono::nanoseconds) override { return {}; }

 private:
  /// One that is sent, or the slot of one that is to come. `slot.is_done` is for both.
  struct Message {
    FrameHeader header;
    const std::byte* data = nullptr;
    std::size_t sent = 0;  // of the header and the data
    Inbox::Slot slot;
  };
  struct Link {
    Socket socket;
    Inbox inbox;
    std::deque<Message*> outgoing;
    bool is_gone = false;
  };

  Link& link_of(int peer) { return links_[static_cast<std::size_t>(peer)]; }
  Request keep(std::unique_ptr<Message> message) {
    const Request request{reinterpret_cast<std::uintptr_t>(message.get())};
    messages_.emplace(request.handle, std::move(message));
    return request;
  }

  /// Nobody will read what is not sent yet.
  static void lose(Link& link) {
    link.is_gone = true;
    for (Message* message : link.outgoing) message->slot.is_done = true;
    link.outgoing.clear();
  }
  static void flush(Link& link) {
    if (link.is_gone) return lose(link);
    while (!link.outgoing.empty()) {
      Message& message = *link.outgoing.front();
      constexpr std::size_t kHeader = sizeof message.header;
      const std::size_t of_header = std::min(message.sent, kHeader);
      const std::size_t of_data = message.sent - of_header;
      iovec parts[2] = {
          {reinterpret_cast<std::byte*>(&message.header) + of_header, kHeader - of_header},
          {const_cast<std::byte*>(message.data) + of_data, message.header.bytes - of_data}};
      msghdr all{};
      all.msg_iov = parts;
      all.msg_iovlen = 2;
      const ssize_t sent = ::sendmsg(link.socket.get(), &all, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return;
      if (sent < 0) return lose(link);
      message.sent += static_cast<std::size_t>(sent);
      if (message.sent < kHeader + message.header.bytes) continue;
      message.slot.is_done = true;
      link.outgoing.pop_front();
    }
  }
  void read(Link& link) {
    for (;;) {
      const std::span<std::byte> room = link.inbox.room();
      const ssize_t came = ::recv(link.socket.get(), room.data(), room.size(), 0);
      if (came < 0 && errno == EINTR) continue;
      if (came < 0 && errno == EAGAIN) return;
      if (came <= 0) return lose(link);
      try {
        link.inbox.take(static_cast<std::size_t>(came));
      } catch (const WireError& error) {
        throw WireError(fmt::format("from rank {}: {}", &link - links_.data(), error.what()));
      }
    }
  }

  const int rank_;
  std::vector<Link> links_;  // by rank; this one's has no socket
  std::unordered_map<std::uintptr_t, std::unique_ptr<Message>> messages_;
};

}  // namespace
}  // namespace attacca::comm

namespace attacca {

Group join_tcp(const Launch& launch, const RanksOptions& options) {
  comm::check_options(options);
  if (launch.size < 1 || launch.rank < 0 || launch.rank >= launch.size)
    throw BadArgument(
        fmt::format("rank {} of {}; ranks are numbered from 0 to one less than their "
                    "count",
                    launch.rank, launch.size));
  return comm::group_of_processes(
      std::make_unique<comm::TcpWire>(launch.rank, comm::meet(launch, options.deadline)), options);
}

}  // namespace attacca
