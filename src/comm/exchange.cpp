// exchange.cpp: compares and describes exchanges.
#include "comm/exchange.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>

#include "core/counted.hpp"

namespace attacca::comm {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::barrier:
      return "barrier";
    case Operation::broadcast:
      return "broadcast";
    case Operation::all_reduce:
      return "all-reduce";
    case Operation::all_gather:
      return "all-gather";
    case Operation::reduce_scatter:
      return "reduce-scatter";
    case Operation::send:
      return "send";
    case Operation::receive:
      return "receive";
    case Operation::symmetric:
      return "symmetric allocation";
    case Operation::subgroup:
      return "subgroup";
    case Operation::join_device:
      return "on";
    case Operation::instantiate:
      return "instantiation";
    case Operation::launch:
      return "launch";
    case Operation::put:
      return "put";
    case Operation::get:
      return "get";
    case Operation::wait:
      return "wait";
    case Operation::fetch_add:
      return "fetch-add";
  }
  return "unknown operation";  // bytes of another process
}

void Descriptor::set_name(const std::string& text) {
  std::memset(name, 0, sizeof name);
  std::memcpy(name, text.data(), std::min(text.size(), sizeof name - 1));
}

namespace {

std::string type_name(const Descriptor& d) {
  switch (d.type) {
    case ElementType::i32:
      return "i32";
    case ElementType::u32:
      return "u32";
    case ElementType::i64:
      return "i64";
    case ElementType::u64:
      return "u64";
    case ElementType::f32:
      return "f32";
    case ElementType::f64:
      return "f64";
    case ElementType::bytes:
      break;
  }
  return d.element_bytes == 1 ? "bytes" : fmt::format("elements of {} bytes", d.element_bytes);
}

const char* reduction_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::min:
      return "minimum";
    case Reduction::max:
      return "maximum";
    case Reduction::sum_in_pairs:
      return "sum in pairs";
  }
  return "unknown reduction";
}

std::string sizes(const Descriptor& d) { return fmt::format("{} {}", d.count, type_name(d)); }

}  // namespace

std::string describe(const Descriptor& d) {
  std::string text = name_of(d.operation);
  if (const std::string name(d.name, strnlen(d.name, sizeof d.name)); !name.empty() && name != text)
    text += fmt::format(" '{}'", name);
  if (d.operation == Operation::launch && d.count > 0)
    return text + fmt::format(" of {} blocks of {} threads", d.count, d.key);
  if (d.operation == Operation::subgroup || d.operation == Operation::join_device ||
      d.operation == Operation::launch)
    return text;
  if (d.operation == Operation::instantiate)
    return text + fmt::format(" of a graph with {}", counted(d.count, "exchange"));
  if (d.operation != Operation::barrier) text += " of " + sizes(d);
  if (d.operation == Operation::broadcast) text += fmt::format(" from rank {}", d.root);
  if (d.operation == Operation::all_reduce || d.operation == Operation::reduce_scatter)
    text += fmt::format(", {}", reduction_name(d.reduction));
  if (is_collective(d.operation) && d.moved != d.count)
    text += fmt::format(", limited to {}", d.moved);
  return text;
}

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t at = 0; at < ranks.size(); ++at) {
    if (at > 0) text += at + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[at]);
  }
  return text;
}

std::string disagreement(std::span<const Descriptor> by_member, const std::vector<int>& ranks) {
  const auto differs = [&](const Descriptor& d) { return !(d == by_member[0]); };
  if (std::none_of(by_member.begin(), by_member.end(), differs)) return {};
  std::vector<const Descriptor*> kinds;
  std::vector<std::vector<int>> callers;
  for (std::size_t at = 0; at < by_member.size(); ++at) {
    const auto known = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const Descriptor* d) { return *d == by_member[at]; });
    const auto kind = static_cast<std::size_t>(known - kinds.begin());
    if (known == kinds.end()) kinds.push_back(&by_member[at]), callers.emplace_back();
    callers[kind].push_back(ranks[at]);
  }
  std::string text = fmt::format("the ranks disagree about collective {}: ", by_member[0].sequence);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    text += fmt::format("{}{} called {}", kind == 0 ? "" : ", ", list_ranks(callers[kind]),
                        describe(*kinds[kind]));
  return text + "; all ranks of a group must call the same collectives in the same order";
}

std::string disagreement(const Descriptor& send, int sender, const Descriptor& receive,
                         int receiver) {
  if (send.count == receive.count && send.type == receive.type &&
      send.element_bytes == receive.element_bytes)
    return {};
  return fmt::format("rank {} sends {} to rank {}, which expects {}; both must name the same size",
                     sender, sizes(send), receiver, sizes(receive));
}

}  // namespace attacca::comm
