// compare.cpp: compares descriptors and problems over a group that moves host memory.
#include "comm/compare.hpp"

#include <fmt/core.h>

namespace attacca::comm {

namespace {

void fail_unless_empty(GroupImpl& group, const std::string& message) {
  if (!message.empty()) group.fail(message);
}

}  // namespace

void compare_on_host(GroupImpl& group, const ExchangeData& exchange) {
  const Group control = Access::group(group.shared_from_this());
  const int own_rank = group.world_rank(group.rank());
  Descriptor own = exchange.descriptor;
  Descriptor other;
  switch (own.operation) {
    case Operation::send: {
      control.send(std::span(&own, 1), exchange.peer).run();
      control.receive(std::span(&other, 1), exchange.peer).run();
      return fail_unless_empty(group,
                               disagreement(own, own_rank, other, group.world_rank(exchange.peer)));
    }
    case Operation::receive: {
      control.receive(std::span(&other, 1), exchange.peer).run();
      control.send(std::span(&own, 1), exchange.peer).run();
      return fail_unless_empty(group,
                               disagreement(other, group.world_rank(exchange.peer), own, own_rank));
    }
    default: {
      std::vector<Descriptor> all(static_cast<std::size_t>(group.size()));
      control.all_gather<Descriptor>(std::span(&own, 1), std::span(all)).named("compare").run();
      fail_unless_empty(group, disagreement(all, group.members()));
    }
  }
}

void tell_all(GroupImpl& group, const std::string& own_problem, const std::string& remedy) {
  const Group control = Access::group(group.shared_from_this());
  int first = own_problem.empty() ? control.size() : control.rank();
  control.all_reduce(std::span(&first, 1), Reduction::min).named("problems").run();
  if (first == control.size()) return;
  char text[400] = {};
  if (control.rank() == first) own_problem.copy(text, sizeof text - 1);
  control.broadcast(std::span<char>(text), first).named("problem").run();
  throw BadArgument(fmt::format("rank {}: {}{}", group.world_rank(first), text, remedy));
}

}  // namespace attacca::comm
