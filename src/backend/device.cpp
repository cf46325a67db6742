// device.cpp: the public Device, Stream and Event over the backends.
#include <attacca/device.hpp>

#include <fmt/core.h>

#include <charconv>
#include <mutex>
#include <thread>

#include "backend/host/device.hpp"
#include "graph/argument_checks.hpp"
#include "graph/executor.hpp"
#include "graph/host_calls.hpp"
#include "graph/record.hpp"
#include "graph/relocate.hpp"
#include "graph/residency.hpp"
#if ATTACCA_WITH_CUDA
#include "backend/cuda/device.hpp"
#endif

namespace attacca {

using namespace graph;

Device Device::host() {
  static const Device device = host(std::max(1u, std::thread::hardware_concurrency()));
  return device;
}

Device Device::host(unsigned threads) {
  if (threads == 0 || threads > 4096)
    throw BadArgument(
        fmt::format("a host device of {} threads; use 1 to 4096, or host_serial()", threads));
  return Device(host::make_device(threads, "host"));
}

Device Device::host_serial() {
  static const Device device(host::make_device(0, "host-serial"));
  return device;
}

int Device::cuda_count() {
#if ATTACCA_WITH_CUDA
  return cuda::device_count();
#else
  return 0;
#endif
}

Device Device::cuda([[maybe_unused]] int index) {
#if ATTACCA_WITH_CUDA
  return Device(cuda::get_device(index));
#else
  throw BadArgument(
      fmt::format("cuda:{}: this attacca was built without CUDA; build the preset "
                  "'cuda', or use Device::host()",
                  index));
#endif
}

int Device::compute_capability() const { return impl_->compute_capability(); }
unsigned Device::processors() const { return impl_->processors(); }

Device Device::best() { return cuda_count() > 0 ? cuda(0) : host(); }

Device Device::from_name(const std::string& name) {
  if (name == "best") return best();
  if (name == "host") return host();
  if (name == "host-serial") return host_serial();
  if (name == "cuda") return cuda(0);
  if (name.starts_with("cuda:")) {
    int index = -1;
    const char* last = name.data() + name.size();
    const auto [end, error] = std::from_chars(name.data() + 5, last, index);
    if (error == std::errc() && end == last && index >= 0) return cuda(index);
  }
  throw BadArgument(
      fmt::format("no device '{}'; use best, host, host-serial, cuda or cuda:N", name));
}

DeviceKind Device::kind() const { return impl_->kind(); }
std::string Device::name() const { return impl_->name(); }
std::size_t Device::bytes_free() const { return impl_->bytes_free(); }

Event::Event(const Device& device, Timing timing)
    : impl_(impl_of(device).make_event(timing == Timing::on)) {
  impl_->device = device;
  impl_->is_timed = timing == Timing::on;
}

bool Event::query() const {
  if (impl_->was_captured)
    throw BadArgument(
        "query of an event that was recorded during a capture, where nothing runs; record it on a "
        "stream that is not being captured");
  return !impl_->is_recorded || impl_->is_reached();
}

std::chrono::duration<double> Event::since(const Event& start) const {
  const auto check = [](EventImpl& event, const char* which) {
    const auto refuse = [&](const char* why) {
      throw BadArgument(fmt::format("time between two events: the {} {}", which, why));
    };
    if (!event.is_timed) refuse("keeps no time; make it with Event::Timing::on");
    if (event.was_captured) refuse("was recorded during a capture; record it on a running stream");
    if (!event.is_recorded) refuse("was never recorded; call stream.record(event)");
  };
  check(*start.impl_, "first");
  check(*impl_, "second");
  if (!(*start.impl_->device == *impl_->device))
    throw BadArgument(fmt::format(
        "time between two events: the first belongs to {} and the second to {}, which have "
        "no clock in common; record both on one device",
        start.impl_->device->name(), name_beside(*impl_->device, *start.impl_->device)));
  if (!start.query() || !query())
    throw BadArgument(
        "time between two events: one was not reached yet; synchronize its stream first");
  return impl_->since(*start.impl_);
}

void detail::check_same_count(std::size_t to, std::size_t from) {
  if (to != from)
    throw BadArgument(fmt::format(
        "copy of {} elements to a span of {}: make both spans of one size (subspan, first)", from,
        to));
}

Stream::Stream(const Device& device, const StreamOptions& options)
    : Stream(std::make_unique<StreamState>(device, impl_of(device).make_stream(options.priority))) {
}
Stream::Stream(std::unique_ptr<StreamState> state) : StreamRef(*state), owned_(std::move(state)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

BorrowedStream::BorrowedStream(const Device& device, void* cuda_stream)
    : BorrowedStream(
          std::make_unique<StreamState>(device, impl_of(device).borrow_stream(cuda_stream))) {}
BorrowedStream::BorrowedStream(std::unique_ptr<StreamState> state)
    : StreamRef(*state), owned_(std::move(state)) {}
BorrowedStream::BorrowedStream(BorrowedStream&&) noexcept = default;
BorrowedStream& BorrowedStream::operator=(BorrowedStream&&) noexcept = default;
BorrowedStream::~BorrowedStream() = default;

namespace {

void check_event(const EventImpl& event, const StreamState& stream, const char* doing,
                 bool can_be_of_another_gpu) {
  const bool is_usable =
      event.device->is_cuda() == stream.device.is_cuda() &&
      (!stream.device.is_cuda() || can_be_of_another_gpu || *event.device == stream.device);
  if (is_usable) return;
  throw BadArgument(fmt::format("an event of {} {} a stream of {}; make it for the stream's device",
                                event.device->name(), doing, stream.device.name()));
}

/// Outside its graph a stand-in for memory or a condition is a bad address: touching it ends the
/// process.
void refuse_stand_in(const std::string& name) {
  throw GraphError(
      Rule::foreign_handle, name,
      fmt::format("'{}' was enqueued on a stream with memory, a condition or a node handle of a "
                  "graph, which exist only while that graph runs; add '{}' to the graph",
                  name, name));
}
void check_address(const void* address, const char* name) {
  if (AddressRange::is_stand_in(reinterpret_cast<std::uintptr_t>(address))) refuse_stand_in(name);
}

}  // namespace

void StreamRef::enqueue_kernel(const KernelInfo& kernel, const Grid& grid, const void* args) const {
  if (state_->recorder) {
    state_->recorder->append(*state_, [&](Graph& graph, const std::vector<Node>& edges) {
      return Access::add_kernel(graph, kernel, grid, args).after(edges);
    });
    return;
  }
  check_grid(kernel, grid);
  if (kernel.traits.launches)
    throw GraphError(
        Rule::launch_outside_graph, kernel.name,
        fmt::format("kernel '{}' launches graphs, which only works from inside a graph; "
                    "add it to one",
                    kernel.name));
  if (!kernel.host && !state_->device.is_cuda())
    throw GraphError(
        Rule::no_body_for_backend, kernel.name,
        fmt::format("kernel '{}' is a plain CUDA kernel and the stream is on {}; use a stream of a "
                    "CUDA device, or declare a kernel with a host body (make_kernel)",
                    kernel.name, state_->device.name()));
  const std::span bytes(static_cast<const std::byte*>(args), kernel.args_size);
  each_argument(bytes, [&](std::uintptr_t word, std::size_t) {
    if (AddressRange::is_stand_in(word)) refuse_stand_in(kernel.name);
  });
  check_residency(impl_of(state_->device), kernel, grid, kernel.name);
  const HostCall call(state_->device, "launch a kernel");
  state_->impl->kernel(kernel, grid, args);
}

void StreamRef::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes == 0) return;
  check_copy(to, from, bytes);
  if (state_->recorder)
    state_->recorder->append(*state_, [&](Graph& graph, const std::vector<Node>& edges) {
      return graph.copy(to, from, bytes).after(edges);
    });
  else {
    check_address(to, "copy");
    check_address(from, "copy");
    const HostCall call(state_->device, "copy");
    state_->impl->copy(to, from, bytes);
  }
}

void StreamRef::copy_2d(Pitched to, ConstPitched from, std::size_t width_bytes,
                        std::size_t rows) const {
  if (width_bytes == 0 || rows == 0) return;
  check_copy_2d(to, from, width_bytes, rows);
  const CopyPart part = copy_part(to, from, width_bytes, rows);
  if (state_->recorder)
    state_->recorder->append(*state_, [&](Graph& graph, const std::vector<Node>& edges) {
      return graph.copy_2d(to, from, width_bytes, rows).after(edges);
    });
  else {
    check_address(to.data, "copy");
    check_address(from.data, "copy");
    const HostCall call(state_->device, "copy");
    if (part.rows == 1)
      state_->impl->copy(part.to, part.from, part.bytes);
    else
      state_->impl->copy_rows(part);
  }
}

void StreamRef::fill(void* to, std::uint8_t value, std::size_t bytes) const {
  if (bytes == 0) return;
  check_fill(to, bytes);
  if (state_->recorder)
    state_->recorder->append(*state_, [&](Graph& graph, const std::vector<Node>& edges) {
      return graph.fill(to, value, bytes).after(edges);
    });
  else {
    check_address(to, "fill");
    const HostCall call(state_->device, "fill");
    state_->impl->fill(to, value, bytes);
  }
}

void StreamRef::host(const std::string& name, std::function<void()> call) const {
  if (!call) throw BadArgument(fmt::format("host call '{}' has no function", name));
  if (state_->recorder)
    state_->recorder->append(*state_, [&](Graph& graph, const std::vector<Node>& edges) {
      return graph.host(name, std::move(call)).after(edges);
    });
  else {
    const HostCall told(state_->device, "enqueue a host call");
    state_->impl->host(name, std::move(call));
  }
}

void StreamRef::library(const std::string& name, std::function<void(StreamRef)> enqueue) const {
  if (!enqueue) throw BadArgument(fmt::format("library call '{}' has no function", name));
  if (state_->recorder)
    state_->recorder->append(*state_, [&](Graph& graph, const std::vector<Node>& edges) {
      return graph.library(name, std::move(enqueue)).after(edges);
    });
  else
    enqueue(*this);
}

void StreamRef::record(const Event& event) const {
  EventImpl& impl = impl_of(event);
  check_event(impl, *state_, "recorded on", false);
  impl.was_captured = state_->recorder != nullptr;
  impl.recorder.reset();
  impl.frontier = state_->frontier;
  if (state_->recorder) {
    impl.recorder = state_->recorder->weak_from_this();
  } else {
    const HostCall call(state_->device, "record an event");
    state_->impl->record(impl);
  }
  impl.is_recorded = impl.is_recorded || !state_->recorder;
}

void StreamRef::wait(const Event& event) const {
  EventImpl& impl = impl_of(event);
  check_event(impl, *state_, "waited for by", true);
  if (const auto recorder = impl.recorder.lock()) {
    recorder->join(*state_, impl.frontier);
  } else if (impl.was_captured) {
    throw BadArgument("the event was recorded during a capture that has ended; record it again");
  } else if (state_->recorder) {
    throw BadArgument(
        "a stream that is being captured waited for an event recorded outside the capture; wait "
        "before the capture starts");
  } else {
    const HostCall call(state_->device, "wait for an event");
    state_->impl->wait(impl);
  }
}

void StreamRef::synchronize() const {
  if (state_->recorder)
    throw BadArgument("synchronize on a stream that is being captured; do it after the capture");
  const HostCall call(state_->device, "synchronize");
  state_->impl->synchronize();
}

void* StreamRef::native() const { return state_->impl->native(); }
Device StreamRef::device() const { return state_->device; }

}  // namespace attacca
