// meeting.cpp: every rank listens at a port of its own and tells it to rank 0, which tells all
// ranks where the others are. Then each rank connects to those before it.
#include "comm/tcp/meeting.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>

#include "comm/exchange.hpp"
#include "comm/waits.hpp"

namespace attacca::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// The first bytes of every connection.
struct Hello {
  char magic[8] = {'a', 't', 't', 'a', 'c', 'c', 'a', '1'};
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t port = 0;  // where this rank listens
};

/// Where a rank listens. An empty address is that of rank 0's machine.
struct Place {
  char address[60] = {};
  std::int32_t port = 0;
};

/// What rank 0 tells the others before their places.
struct Verdict {
  char problem[240] = {};  // empty: all have come
};

bool say_hello(const Socket& socket, const Launch& launch, int port, Deadline end) {
  Hello hello;
  hello.rank = launch.rank;
  hello.size = launch.size;
  hello.port = port;
  return socket.send_all(&hello, sizeof hello, end);
}

/// False for a visitor that is no rank of attacca's.
bool hear_hello(const Socket& socket, Hello& hello, Deadline end) {
  return socket.receive_all(&hello, sizeof hello, end) &&
         std::memcmp(hello.magic, Hello().magic, sizeof hello.magic) == 0;
}

/// Accepts connections until all ranks from `first` on have come, or the deadline. Returns what is
/// wrong with one that came.
std::string accept_all(const Socket& door, const Launch& launch, int first,
                       std::vector<Socket>& links, std::vector<Place>& places, Deadline end) {
  const auto count = [&] {
    return std::count_if(links.begin() + first, links.end(),
                         [](const Socket& link) { return !link; });
  };
  while (count() > 0) {
    Socket link = door.accept(end);
    if (!link) return {};
    Hello hello;
    if (!hear_hello(link, hello, std::min(end, Clock::now() + std::chrono::seconds(2)))) continue;
    if (hello.size != launch.size)
      return fmt::format(
          "rank {} was started as one of {} processes and rank {} as one of {}; give all the same "
          "number",
          hello.rank, hello.size, launch.rank, launch.size);
    if (hello.rank < first || hello.rank >= launch.size ||
        links[static_cast<std::size_t>(hello.rank)])
      return fmt::format("two processes say that they are rank {}; give each a number of its own",
                         hello.rank);
    const auto at = static_cast<std::size_t>(hello.rank);
    link.peer().copy(places[at].address, sizeof places[at].address - 1);
    places[at].port = hello.port;
    links[at] = std::move(link);
  }
  return {};
}

/// Names the ranks from `first` on that have not come, or returns an empty text.
std::string missing(const std::vector<Socket>& links, const Launch& launch, int first,
                    std::chrono::nanoseconds deadline) {
  std::vector<int> ranks;
  for (int rank = first; rank < launch.size; ++rank)
    if (!links[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  if (ranks.empty()) return {};
  return fmt::format("{} did not come to {}:{} within {:.3g} s", list_ranks(ranks), launch.address,
                     launch.port, seconds_of(deadline));
}

std::vector<Socket> meet_as_first(const Launch& launch, std::chrono::nanoseconds deadline,
                                  Deadline end) {
  const auto size = static_cast<std::size_t>(launch.size);
  std::vector<Socket> links(size);
  std::vector<Place> places(size);
  const Socket door = Socket::listening(launch.address, launch.port);
  std::string problem = accept_all(door, launch, 1, links, places, end);
  if (problem.empty()) problem = missing(links, launch, 1, deadline);
  Verdict verdict;
  problem.copy(verdict.problem, sizeof verdict.problem - 1);
  const Deadline soon = std::max(end, Clock::now() + std::chrono::seconds(1));
  for (Socket& link : links)
    if (link && link.send_all(&verdict, sizeof verdict, soon) && problem.empty())
      link.send_all(places.data(), size * sizeof(Place), soon);
  if (!problem.empty()) throw RanksBroken(problem);
  return links;
}

std::vector<Socket> meet_as_other(const Launch& launch, std::chrono::nanoseconds deadline,
                                  Deadline end) {
  const auto size = static_cast<std::size_t>(launch.size);
  std::vector<Socket> links(size);
  std::vector<Place> places(size);
  // Rank 0 says who is missing, so the others give it a little longer.
  const Deadline later =
      end + std::max<std::chrono::nanoseconds>(deadline / 4, std::chrono::seconds(1));
  const Socket door = Socket::listening(launch.address, 0);
  Socket& first = links[0];
  first = Socket::connected(launch.address, launch.port, end);
  Verdict verdict;
  if (!first || !say_hello(first, launch, door.port(), end) ||
      !first.receive_all(&verdict, sizeof verdict, later))
    throw RanksBroken(fmt::format("rank 0 did not answer at {}:{} within {:.3g} s", launch.address,
                                  launch.port, seconds_of(deadline)));
  if (verdict.problem[0] != '\0')
    throw RanksBroken(
        std::string(verdict.problem, strnlen(verdict.problem, sizeof verdict.problem)));
  const auto broken = [&](int rank) {
    return RanksBroken(fmt::format(
        "rank {} cannot connect to rank {}; is there a firewall between their machines?",
        launch.rank, rank));
  };
  if (!first.receive_all(places.data(), size * sizeof(Place), later)) throw broken(0);
  for (int rank = 1; rank < launch.rank; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    Place& place = places[at];
    place.address[sizeof place.address - 1] = '\0';
    links[at] = Socket::connected(place.address[0] == '\0' ? launch.address : place.address,
                                  static_cast<std::uint16_t>(place.port), later);
    if (!links[at] || !say_hello(links[at], launch, 0, later)) throw broken(rank);
  }
  if (const std::string problem = accept_all(door, launch, launch.rank + 1, links, places, later);
      !problem.empty())
    throw RanksBroken(problem);
  for (int rank = launch.rank + 1; rank < launch.size; ++rank)
    if (!links[static_cast<std::size_t>(rank)]) throw broken(rank);
  return links;
}

}  // namespace

std::vector<Socket> meet(const Launch& launch, std::chrono::nanoseconds deadline) {
  const Deadline end = Clock::now() + deadline;
  return launch.rank == 0 ? meet_as_first(launch, deadline, end)
                          : meet_as_other(launch, deadline, end);
}

}  // namespace attacca::comm
