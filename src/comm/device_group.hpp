// device_group.hpp: what groups that move a device's memory have in common. Each stands on another
// group of the same ranks, `control`, which moves host memory and knows whether the program is
// broken.
#pragma once

#include <memory>
#include <mutex>

#include "comm/group.hpp"

namespace attacca::comm {

class DeviceGroup : public GroupImpl {
 public:
  void run(const ExchangeData& exchange) override;
  std::shared_ptr<GroupImpl> on(const Device& device, Transport transport) override {
    return control_->on(device, transport);
  }
  bool is_on_device() const override { return true; }
  std::shared_ptr<GroupImpl> control() override { return control_; }
  void check() override { control_->check(); }
  void fail(const std::string& message) override { control_->fail(message); }
  void poll() override { control_->poll(); }

 protected:
  DeviceGroup(std::string backend, std::shared_ptr<GroupImpl> control, const Device& device)
      : GroupImpl(std::move(backend), control->rank(), control->members(), control->deadline()),
        control_(std::move(control)),
        device_(device),
        stream_(device) {}

  /// Throws BadArgument if the exchange would be work of another device.
  void check_device(const ExchangeData& exchange, const Device& device) const;

  const Device& device() const { return device_; }
  /// The stream on which exchanges outside graphs run.
  Stream& stream() { return stream_; }

 private:
  std::shared_ptr<GroupImpl> control_;
  Device device_;
  std::mutex run_mutex_;
  Stream stream_;
};

/// Enqueues a put, a get or a fetch-add on symmetric memory that the stream's device can address.
void enqueue_one_sided(const ExchangeData& exchange, StreamRef stream);

/// A group whose exchanges are calls of a library, which a graph captures.
class LibraryGroup : public DeviceGroup {
 public:
  void enqueue(const ExchangePtr& exchange, StreamRef stream) override;
  PlainNode add_to(const ExchangePtr& exchange, Graph& graph) override;

 protected:
  using DeviceGroup::DeviceGroup;
  /// Throws BadArgument if the library cannot do that.
  virtual void check_kind(const ExchangeData&) const {}
  /// What a graph with a call needs for as long as it lives.
  virtual std::shared_ptr<const void> needed_by_graphs() { return shared_from_this(); }
  /// Enqueues it. `is_in_graph`: for launches of a graph, which captures it or calls this each
  /// time.
  virtual void call(const ExchangeData& exchange, StreamRef stream, bool is_in_graph) = 0;
  /// What a stream or a graph calls: it enqueues the exchange.
  virtual std::function<void(StreamRef)> function_of(const ExchangePtr& exchange, bool is_in_graph);
};

}  // namespace attacca::comm
