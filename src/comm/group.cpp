// group.cpp: Group and Exchange: checks arguments, makes exchanges, runs them or hands them to a
// stream or a graph.
#include "comm/group.hpp"

#include <fmt/core.h>
#include <algorithm>

#include "comm/compare.hpp"

namespace attacca {

using comm::ElementType;
using comm::ExchangeData;
using comm::Operation;
using detail::Elements;

namespace {

void check_rank(int rank, int size, const char* what) {
  if (rank < 0 || rank >= size)
    throw BadArgument(
        fmt::format("{} rank {} is not in the group; give 0 to {}", what, rank, size - 1));
}

ExchangeData start(const std::shared_ptr<comm::GroupImpl>& group, Operation operation) {
  ExchangeData data;
  data.group = group;
  data.descriptor.operation = operation;
  data.name = comm::name_of(operation);
  data.descriptor.set_name(data.name);
  return data;
}

void set_elements(ExchangeData& data, const Elements& elements) {
  data.descriptor.count = data.descriptor.moved = elements.count;
  data.descriptor.element_bytes = static_cast<std::uint32_t>(elements.element_bytes);
  data.descriptor.type = elements.type;
}

std::size_t bytes_of(const Elements& elements) { return elements.count * elements.element_bytes; }

void set_from(ExchangeData& data, const Elements& from) {
  data.from = static_cast<const std::byte*>(from.data);
  data.from_bytes = bytes_of(from);
}

void set_to(ExchangeData& data, const Elements& to) {
  data.to = static_cast<std::byte*>(to.data);
  data.to_bytes = bytes_of(to);
}

Exchange finish(ExchangeData data) {
  return comm::Access::exchange(std::make_shared<const ExchangeData>(std::move(data)));
}

void check_times(const Elements& part, const Elements& whole, int size, const char* what) {
  if (whole.count != part.count * static_cast<std::size_t>(size))
    throw BadArgument(
        fmt::format("{} of {} and {} elements by {} ranks; the larger must have {} elements", what,
                    part.count, whole.count, size, part.count * static_cast<std::size_t>(size)));
}

void check_same(const Elements& to, const Elements& from, const char* what) {
  if (to.count != from.count)
    throw BadArgument(fmt::format("{} from {} to {} elements; the counts must agree", what,
                                  from.count, to.count));
}

/// `in_place`: where `from` must start if it overlaps `to`.
void check_overlap(const ExchangeData& data, const std::byte* in_place) {
  const bool is_apart =
      data.from + data.from_bytes <= data.to || data.to + data.to_bytes <= data.from;
  if (data.from_bytes > 0 && data.to_bytes > 0 && !is_apart && data.from != in_place)
    throw BadArgument(fmt::format(
        "the memory that the {} reads and the memory that it writes overlap; give the same memory, "
        "as docs/ranks.md says for each collective, or memory apart",
        data.name));
}

void run(const ExchangeData& data) {
  if (data.group->is_on_device()) return data.group->run(data);
  if (is_one_sided(data.descriptor.operation)) return run_one_sided(data);
  if (!data.limit) return data.group->run(data);
  ExchangeData now = data;
  now.descriptor.moved =
      std::min<std::uint64_t>(data.descriptor.count, std::uint64_t{*data.limit} * data.limit_each);
  data.group->run(now);
}

void refuse_cuda(const Device& device, const ExchangeData& data) {
  if (device.is_cuda())
    throw BadArgument(
        fmt::format("the {} group moves host memory, so its {} cannot be work of {}; use a stream "
                    "or a graph of a host device, or a group from Group::on",
                    data.group->backend(), data.name, device.name()));
}

}  // namespace

Exchange Exchange::named(std::string name) const {
  ExchangeData data = *data_;
  data.descriptor.set_name(name);
  data.name = std::move(name);
  return finish(std::move(data));
}

const std::string& Exchange::name() const { return data_->name; }

Exchange Exchange::limited_to(const std::uint32_t* count, std::size_t each) const {
  if (!is_collective(data_->descriptor.operation))
    throw BadArgument(
        fmt::format("{} cannot be limited; only collectives can", describe(data_->descriptor)));
  ExchangeData data = *data_;
  data.limit = count;
  data.limit_each = each;
  return finish(std::move(data));
}

void Exchange::run() const { attacca::run(*data_); }
void Exchange::enqueue(StreamRef stream) const { data_->group->enqueue(data_, stream); }
PlainNode Exchange::add_to(Graph& graph) const { return data_->group->add_to(data_, graph); }

int Group::rank() const { return impl_->rank(); }
int Group::size() const { return impl_->size(); }
const std::string& Group::backend() const { return impl_->backend(); }
std::chrono::nanoseconds Group::deadline() const { return impl_->deadline(); }

Group Group::subgroup(const std::vector<int>& members) const {
  std::vector<bool> is_member(static_cast<std::size_t>(size()));
  for (const int member : members) {
    check_rank(member, size(), "subgroup member");
    if (is_member[static_cast<std::size_t>(member)])
      throw BadArgument(fmt::format("rank {} is in the subgroup twice; name it once", member));
    is_member[static_cast<std::size_t>(member)] = true;
  }
  if (!is_member[static_cast<std::size_t>(rank())])
    throw BadArgument(
        fmt::format("rank {} is not in the subgroup; only its members make it", rank()));
  return Group(impl_->subgroup(members));
}

Group Group::on(const Device& device, Transport transport) const {
  if ((transport == Transport::nccl || transport == Transport::nvshmem) && !device.is_cuda())
    throw BadArgument(
        fmt::format("{} moves memory of GPUs, and {} is none; leave the transport out",
                    transport == Transport::nccl ? "NCCL" : "NVSHMEM", device.name()));
  return Group(impl_->on(device, transport));
}

const char* transport_name(Transport transport) {
  static constexpr const char* kNames[] = {"automatic", "edges", "staged", "nccl",
                                           "nvshmem",   "peer",  "direct"};
  return kNames[static_cast<std::size_t>(transport)];
}

void Group::agree_on_launch(const KernelInfo& kernel, const Grid& grid,
                            const Device& device) const {
  if (backend() != "nvshmem" && (impl_->is_on_device() || device.is_cuda()))
    throw BadArgument(fmt::format(
        "kernel '{}' of {} cannot wait for other ranks through '{}': it might stand in front of "
        "theirs in one queue; use NVSHMEM, or end the kernel and exchange between kernels",
        kernel.name, device.name(), backend()));
  ExchangeData launch = start(impl_, Operation::launch);
  launch.descriptor.set_name(kernel.name);
  launch.descriptor.count = grid.blocks.count();
  launch.descriptor.key = grid.threads.count();
  comm::compare_on_host(*impl_->control(), launch);
}

device::RankBarrier rank_barrier(const Group& group, const SymmetricBuffer<std::uint32_t>& words) {
  using device::RankBarrier;
  if (group.size() > RankBarrier::kMostRanks ||
      words.size() < static_cast<std::size_t>(group.size()))
    throw BadArgument(
        fmt::format("a barrier of {} ranks with {} words; give a word for each of at most {} ranks",
                    group.size(), words.size(), RankBarrier::kMostRanks));
  RankBarrier barrier{};
  barrier.rank = group.rank();
  barrier.ranks = group.size();
  static_assert(sizeof(RankBarrier::Word) == sizeof(std::uint32_t));
  for (int rank = 0; rank < group.size(); ++rank)
    barrier.words[rank] = reinterpret_cast<RankBarrier::Word*>(words.of(rank));
  return barrier;
}

void Group::check() const {
  impl_->poll();
  impl_->check();
}

void Group::give_up(const std::string& reason) const noexcept {
  try {
    impl_->fail(fmt::format("rank {} gave up: {}", impl_->world_rank(rank()), reason));
  } catch (...) {  // the others will notice that it is missing
  }
}

Exchange Group::barrier() const { return finish(start(impl_, Operation::barrier)); }

Exchange Group::make_broadcast(const Elements& values, int root) const {
  check_rank(root, size(), "root");
  ExchangeData data = start(impl_, Operation::broadcast);
  set_elements(data, values);
  data.descriptor.root = root;
  if (rank() == root)
    set_from(data, values);
  else
    set_to(data, values);
  return finish(std::move(data));
}

Exchange Group::make_all_reduce(const Elements& from, const Elements& to,
                                Reduction reduction) const {
  check_same(to, from, "all-reduce");
  ExchangeData data = start(impl_, Operation::all_reduce);
  set_elements(data, to);
  set_from(data, from);
  set_to(data, to);
  data.descriptor.reduction = reduction;
  check_overlap(data, data.to);
  return finish(std::move(data));
}

Exchange Group::make_all_gather(const Elements& from, const Elements& to) const {
  check_times(from, to, size(), "all-gather");
  ExchangeData data = start(impl_, Operation::all_gather);
  set_elements(data, from);
  set_from(data, from);
  set_to(data, to);
  check_overlap(data, data.to + static_cast<std::size_t>(rank()) * data.from_bytes);
  return finish(std::move(data));
}

Exchange Group::make_reduce_scatter(const Elements& from, const Elements& to,
                                    Reduction reduction) const {
  check_times(to, from, size(), "reduce-scatter");
  ExchangeData data = start(impl_, Operation::reduce_scatter);
  set_elements(data, to);
  set_from(data, from);
  set_to(data, to);
  data.descriptor.reduction = reduction;
  check_overlap(data, data.to - static_cast<std::size_t>(rank()) * data.to_bytes);
  return finish(std::move(data));
}

Exchange Group::make_send(const Elements& values, int to) const {
  check_rank(to, size(), "receiving");
  if (to == rank()) throw BadArgument(fmt::format("rank {} sends to itself; copy instead", to));
  ExchangeData data = start(impl_, Operation::send);
  set_elements(data, values);
  set_from(data, values);
  data.peer = to;
  return finish(std::move(data));
}

Exchange Group::make_receive(const Elements& values, int from) const {
  check_rank(from, size(), "sending");
  if (from == rank())
    throw BadArgument(fmt::format("rank {} receives from itself; copy instead", from));
  ExchangeData data = start(impl_, Operation::receive);
  set_elements(data, values);
  set_to(data, values);
  data.peer = from;
  return finish(std::move(data));
}

Exchange Group::make_put(const Elements& to, const Elements& from, int rank, std::uint64_t* signal,
                         std::uint64_t value) const {
  check_rank(rank, size(), "target");
  check_same(to, from, "put");
  ExchangeData data = start(impl_, Operation::put);
  set_elements(data, to);
  set_from(data, from);
  data.peer = rank;
  data.place = impl_->place_of(to.data, bytes_of(to), "a put writes to");
  if (signal) data.signal = impl_->place_of(signal, sizeof *signal, "the signal is at");
  data.value = value;
  return finish(std::move(data));
}

Exchange Group::make_get(const Elements& to, const Elements& from, int rank) const {
  check_rank(rank, size(), "source");
  check_same(to, from, "get");
  ExchangeData data = start(impl_, Operation::get);
  set_elements(data, to);
  set_to(data, to);
  data.peer = rank;
  data.place = impl_->place_of(from.data, bytes_of(from), "a get reads from");
  return finish(std::move(data));
}

Exchange Group::wait(std::uint64_t* signal, std::uint64_t value, int from) const {
  check_rank(from, size(), "signalling");
  ExchangeData data = start(impl_, Operation::wait);
  data.peer = from;
  data.signal = impl_->place_of(signal, sizeof *signal, "the signal is at");
  data.value = value;
  return finish(std::move(data));
}

Exchange Group::fetch_add(std::uint64_t* counter, std::uint64_t value, int rank,
                          std::uint64_t* before) const {
  check_rank(rank, size(), "counting");
  ExchangeData data = start(impl_, Operation::fetch_add);
  set_to(data, {before, 1, sizeof *before, ElementType::u64});
  data.peer = rank;
  data.place = impl_->place_of(counter, sizeof *counter, "the counter is at");
  data.value = value;
  return finish(std::move(data));
}

std::pair<std::shared_ptr<comm::SymmetricBlock>, void*> Group::allocate(std::size_t bytes) const {
  std::shared_ptr<comm::SymmetricBlock> block = impl_->allocate(bytes);
  void* data = block->bases[static_cast<std::size_t>(rank())];
  return {std::move(block), data};
}

namespace comm {

void* copy_of(const SymmetricBlock& block, int rank) {
  check_rank(rank, static_cast<int>(block.bases.size()), "a copy of");
  return block.bases[static_cast<std::size_t>(rank)];
}

void GroupImpl::enqueue(const ExchangePtr& exchange, StreamRef stream) {
  refuse_cuda(stream.device(), *exchange);
  stream.host(exchange->name, [exchange] { attacca::run(*exchange); });
}

PlainNode GroupImpl::add_to(const ExchangePtr& exchange, Graph& graph) {
  refuse_cuda(graph.device(), *exchange);
  return with_accesses(graph.host(exchange->name, [exchange] { attacca::run(*exchange); }),
                       *exchange);
}

void GroupImpl::trade(const ExchangeData&, std::span<const Outgoing>, std::span<const Incoming>) {
  throw Error(fmt::format("ranks of {} do not trade parts; this is a bug", backend_));
}

void GroupImpl::meet_at_first(const Descriptor&, void*, const Work&) {
  throw Error(fmt::format("ranks of {} do not share memory; this is a bug", backend_));
}

PlainNode with_accesses(const PlainNode& node, const ExchangeData& exchange) {
  if (exchange.from_bytes > 0) node.reads(std::span(exchange.from, exchange.from_bytes));
  if (exchange.to_bytes > 0) node.writes(std::span(exchange.to, exchange.to_bytes));
  return node;
}

std::shared_ptr<SymmetricBlock> GroupImpl::allocate(std::size_t bytes) {
  std::shared_ptr<SymmetricBlock> block = make_block(bytes);
  const std::lock_guard lock(blocks_mutex_);
  std::erase_if(blocks_, [](const auto& known) { return known.expired(); });
  blocks_.push_back(block);
  return block;
}

SymmetricPlace GroupImpl::place_of(const void* address, std::size_t bytes, const char* what) {
  const auto* first = static_cast<const std::byte*>(address);
  const std::lock_guard lock(blocks_mutex_);
  for (const auto& known : blocks_) {
    const std::shared_ptr<SymmetricBlock> block = known.lock();
    if (!block) continue;
    const std::byte* base = block->bases[static_cast<std::size_t>(rank_)];
    if (first >= base && first + bytes <= base + block->bytes)
      return {block, static_cast<std::size_t>(first - base)};
  }
  throw BadArgument(
      fmt::format("{} {}, where this group has no symmetric memory of {} bytes; use memory of this "
                  "group's `symmetric`",
                  what, address, bytes));
}

void check_options(const RanksOptions& options) {
  if (options.deadline <= std::chrono::nanoseconds::zero())
    throw BadArgument(fmt::format("a deadline of {} ns; give a positive one",
                                  static_cast<long long>(options.deadline.count())));
}

}  // namespace comm
}  // namespace attacca
