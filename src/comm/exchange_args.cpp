// exchange_args.cpp: the arguments of the kernel in exchange_kernel.hpp.
#include "comm/exchange_kernel.hpp"

#include <algorithm>

namespace attacca::comm {

namespace {

/// The largest unit that all addresses and sizes of copies are multiples of.
std::uint32_t unit_of(std::span<const ExchangeData* const> exchanges) {
  std::uint64_t all = exchanges[0]->descriptor.part_bytes();
  for (const ExchangeData* exchange : exchanges) {
    all |= reinterpret_cast<std::uintptr_t>(exchange->from);
    all |= reinterpret_cast<std::uintptr_t>(exchange->to);
    if (exchange->limit) all |= exchange->limit_each * exchange->descriptor.element_bytes;
  }
  return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
}

}  // namespace

ExchangeArgs args_of(std::span<const ExchangeData* const> exchanges) {
  const Descriptor& d = exchanges[0]->descriptor;
  const bool is_copy = d.operation == Operation::broadcast || d.operation == Operation::all_gather;
  const std::uint32_t unit = is_copy ? unit_of(exchanges) : d.element_bytes;
  ExchangeArgs args{};
  args.ranks = args.targets = static_cast<std::int32_t>(exchanges.size());
  for (std::size_t rank = 0; rank < exchanges.size(); ++rank) {
    args.from[rank] = exchanges[rank]->from;
    args.to[rank] = exchanges[rank]->to;
  }
  args.count = unit > 0 ? d.part_bytes() / unit : 0;
  args.limit = exchanges[0]->limit;
  args.each = unit > 0 ? exchanges[0]->limit_each * d.element_bytes / unit : 0;
  args.unit_bytes = unit;
  args.root = d.root;
  args.operation = d.operation;
  args.type = d.type;
  args.reduction = d.reduction;
  return args;
}

ExchangeArgs sum_of(const Descriptor& exchange, std::span<const std::byte* const> parts,
                    std::byte* to, std::uint64_t count) {
  ExchangeArgs args{};
  args.operation = Operation::all_reduce;
  args.type = exchange.type;
  args.reduction = exchange.reduction;
  args.unit_bytes = exchange.element_bytes;
  args.count = count;
  args.ranks = static_cast<std::int32_t>(parts.size());
  args.targets = 1;
  args.to[0] = to;
  std::copy(parts.begin(), parts.end(), args.from);
  return args;
}

}  // namespace attacca::comm
