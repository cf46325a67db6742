// device_group.cpp: exchanges that run at once, and those that are calls of a library.
#include "comm/device_group.hpp"

#include <fmt/core.h>

#include "graph/access.hpp"
#include "graph/data.hpp"

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

void LibraryGroup::enqueue(const ExchangePtr& exchange, StreamRef stream) {
  check_device(*exchange, stream.device());
  check_kind(*exchange);
  stream.library(exchange->name, function_of(exchange));
}

PlainNode LibraryGroup::add_to(const ExchangePtr& exchange, Graph& graph) {
  check_device(*exchange, graph.device());
  check_kind(*exchange);
  graph::data_of(graph).keeps.push_back(shared_from_this());
  return with_accesses(graph.library(exchange->name, function_of(exchange)), *exchange);
}

std::function<void(StreamRef)> LibraryGroup::function_of(const ExchangePtr& exchange) {
  return [self = std::static_pointer_cast<LibraryGroup>(shared_from_this()),
          exchange](StreamRef stream) { self->call(*exchange, stream); };
}

}  // namespace attacca::comm
