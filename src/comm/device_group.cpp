// device_group.cpp: exchanges that run at once, one-sided ones as work of a device, and those that
// are calls of a library.
#include "comm/device_group.hpp"

#include <fmt/core.h>

#include "comm/one_sided_kernel.hpp"
#include "graph/access.hpp"
#include "graph/data.hpp"
#include "graph/record.hpp"

namespace attacca::comm {

void DeviceGroup::run(const ExchangeData& exchange) {
  const std::lock_guard one_at_a_time(run_mutex_);
  enqueue(std::make_shared<const ExchangeData>(exchange), stream_);
  stream_.synchronize();
}

void DeviceGroup::check_device(const ExchangeData& exchange, const Device& device) const {
  if (!(device == device_))
    throw BadArgument(fmt::format("{} '{}' is for {}, and the stream or graph is of {}",
                                  name_of(exchange.descriptor.operation), exchange.name,
                                  device_.name(), device.name()));
}

namespace {

void copy(StreamRef stream, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) stream.copy(to, from, bytes);
}

void put(const ExchangeData& e, StreamRef stream) {
  std::byte* const to = e.place.of(e.peer);
  const bool is_long = e.from_bytes > kMostPutByKernel;
  if (!e.signal.block || is_long) copy(stream, to, e.from, e.from_bytes);
  if (!e.signal.block) return;
  const std::size_t left = is_long ? 0 : e.from_bytes;
  auto* const signal = reinterpret_cast<std::uint64_t*>(e.signal.of(e.peer));
  stream.kernel(put_kernel(), put_grid(left, stream.device().is_cuda()),
                {e.from, to, left, signal, e.value});
}

}  // namespace

void enqueue_one_sided(const ExchangeData& e, StreamRef stream) {
  switch (e.descriptor.operation) {
    case Operation::put:
      return put(e, stream);
    case Operation::get:
      return copy(stream, e.to, e.place.of(e.peer), e.to_bytes);
    default:
      return stream.kernel(fetch_add_kernel(), Grid{},
                           {reinterpret_cast<std::uint64_t*>(e.place.of(e.peer)), e.value,
                            reinterpret_cast<std::uint64_t*>(e.to)});
  }
}

void LibraryGroup::enqueue(const ExchangePtr& exchange, StreamRef stream) {
  check_device(*exchange, stream.device());
  check_kind(*exchange);
  graph::StreamState& state = graph::state_of(stream);
  if (state.recorder)
    return state.recorder->append(state, [&](Graph& graph, const std::vector<Node>& edges) {
      return add_to(exchange, graph).after(edges);
    });
  stream.library(exchange->name, function_of(exchange, false));
}

PlainNode LibraryGroup::add_to(const ExchangePtr& exchange, Graph& graph) {
  check_device(*exchange, graph.device());
  check_kind(*exchange);
  const PlainNode node =
      with_accesses(graph.library(exchange->name, function_of(exchange, true)), *exchange);
  graph::data_of(graph).keeps.push_back(needed_by_graphs());
  return node;
}

std::function<void(StreamRef)> LibraryGroup::function_of(const ExchangePtr& exchange,
                                                         bool is_in_graph) {
  return [self = std::static_pointer_cast<LibraryGroup>(shared_from_this()), exchange,
          is_in_graph](StreamRef stream) { self->call(*exchange, stream, is_in_graph); };
}

}  // namespace attacca::comm
