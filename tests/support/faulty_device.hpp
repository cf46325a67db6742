// faulty_device.hpp: a device that forwards to another one, and fails where a test asks for it.
#pragma once

#include <attacca/device.hpp>

#include <deque>
#include <memory>

#include "graph/executor.hpp"
#include "support/kernels.hpp"

namespace attacca::test {

/// What the next calls do, one entry for each call. Calls beyond the last entry work.
struct Faults {
  enum class Kind { none, refuses, throws, gives_up };
  std::deque<Kind> applies;                        // a failing call makes half of the changes
  std::deque<Kind> instantiations;                 // these only throw
  std::deque<Kind> launches;                       // these throw, or a wait before them gives up
  bool is_lost = false;                            // every launch and copy throws
  std::shared_ptr<graph::Observer> observer = {};  // of a device that pretends to be CUDA

  static Kind next(std::deque<Kind>& of) {
    if (of.empty()) return Kind::none;
    const Kind kind = of.front();
    of.pop_front();
    return kind;
  }
};

class FaultyInstance final : public graph::Instance {
 public:
  FaultyInstance(std::unique_ptr<graph::Instance> inner, std::shared_ptr<Faults> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  void launch(graph::StreamImpl& stream) override {
    const Faults::Kind kind = Faults::next(faults_->launches);
    if (faults_->is_lost || kind == Faults::Kind::throws)
      throw DeviceError("the faulty device failed a launch");
    const GiveUpArgs waits{.block = 0, .wanted = 1, .seen = 0};
    if (kind == Faults::Kind::gives_up) stream.kernel(give_up.info(), Grid{}, &waits);
    inner_->launch(stream);
  }
  std::optional<graph::Refusal> apply(const graph::GraphData& data,
                                      const graph::Changes& changes) override {
    const Faults::Kind kind = Faults::next(faults_->applies);
    if (kind == Faults::Kind::none) return inner_->apply(data, changes);
    const auto half = [](std::span<const NodeId> list) {
      return list.first((list.size() + 1) / 2);
    };
    (void)inner_->apply(data, {half(changes.parameters), half(changes.switches)});
    if (kind == Faults::Kind::throws) throw DeviceError("the faulty device failed an update");
    return graph::Refusal{"the faulty device refused an update", data.name};
  }
  void upload() override { inner_->upload(); }
  DeviceGraph handle() override { return inner_->handle(); }
  std::size_t host_bytes() const override { return inner_->host_bytes(); }

 private:
  std::unique_ptr<graph::Instance> inner_;
  std::shared_ptr<Faults> faults_;
};

class FaultyDevice final : public graph::DeviceImpl {
 public:
  FaultyDevice(const Device& inner, std::shared_ptr<Faults> faults)
      : FaultyDevice(inner, std::move(faults), inner.kind()) {}
  /// `pretended`: the kind that it claims to be.
  FaultyDevice(const Device& inner, std::shared_ptr<Faults> faults, DeviceKind pretended)
      : device_(inner),
        inner_(graph::impl_of(device_)),
        faults_(std::move(faults)),
        kind_(pretended) {}

  DeviceKind kind() const override { return kind_; }
  std::string name() const override { return "faulty " + inner_.name(); }
  std::unique_ptr<graph::StreamImpl> make_stream(int priority) override {
    return inner_.make_stream(priority);
  }
  std::shared_ptr<graph::StreamImpl> borrow_stream(void* native) override {
    return inner_.borrow_stream(native);
  }
  std::shared_ptr<graph::EventImpl> make_event(bool is_timed) override {
    return inner_.make_event(is_timed);
  }
  std::unique_ptr<graph::Instance> instantiate(const graph::GraphData& data,
                                               graph::Target target) override {
    if (Faults::next(faults_->instantiations) == Faults::Kind::throws)
      throw DeviceError("the faulty device failed to instantiate");
    return std::make_unique<FaultyInstance>(inner_.instantiate(data, target), faults_);
  }
  std::unique_ptr<graph::PoolImpl> make_pool() override { return inner_.make_pool(); }
  void* allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
  void free(void* address) noexcept override { inner_.free(address); }
  void* allocate_shared(std::size_t bytes) override { return inner_.allocate_shared(bytes); }
  void free_shared(void* address) noexcept override { inner_.free_shared(address); }
  std::size_t bytes_free() const override { return inner_.bytes_free(); }
  void keep_while_busy(const std::shared_ptr<const void>& held) noexcept override {
    inner_.keep_while_busy(held);
  }
  void copy_now(void* to, const void* from, std::size_t bytes) override {
    if (faults_->is_lost) throw DeviceError("the faulty device is lost");
    inner_.copy_now(to, from, bytes);
  }
  unsigned processors() const override { return inner_.processors(); }
  Residency residency(const KernelInfo& kernel, const Grid& grid) override {
    return inner_.residency(kernel, grid);
  }
  std::uint64_t blocks_at_once(const KernelInfo& kernel, const Grid& grid) override {
    return inner_.blocks_at_once(kernel, grid);
  }
  bool observe(std::shared_ptr<graph::Observer> observer) override {
    if (kind_ != DeviceKind::cuda) return inner_.observe(std::move(observer));
    faults_->observer = std::move(observer);
    return false;
  }
  std::shared_ptr<graph::Observer> observer() const override {
    return kind_ == DeviceKind::cuda ? faults_->observer : inner_.observer();
  }
  void set_nested_limits(std::size_t pending_launches, std::size_t stack_bytes) override {
    inner_.set_nested_limits(pending_launches, stack_bytes);
  }

 private:
  Device device_;
  graph::DeviceImpl& inner_;
  std::shared_ptr<Faults> faults_;
  DeviceKind kind_;
};

}  // namespace attacca::test
