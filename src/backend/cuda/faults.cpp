// faults.cpp: carries failures from kernels and host calls to the streams they concern.
#include "backend/cuda/faults.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "backend/cuda/capture_mode.hpp"
#include "backend/cuda/check.hpp"

namespace attacca::cuda {

using attacca::detail::FaultRecord;
using graph::Failure;

FaultRecord* FaultMemory::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    free_.reserve(free_.capacity() + kRecordsAtOnce);  // so that giving back cannot fail
    void* block = nullptr;
    const CaptureMode relaxed(cudaStreamCaptureModeRelaxed);
    check(cudaHostAlloc(&block, kRecordsAtOnce * sizeof(FaultRecord),
                        cudaHostAllocMapped | cudaHostAllocPortable),
          "allocating memory for what kernels report");
    auto* records = static_cast<FaultRecord*>(block);
    for (std::size_t at = kRecordsAtOnce; at > 0; --at)
      free_.push_back(new (records + at - 1) FaultRecord{});
  }
  FaultRecord* record = free_.back();
  free_.pop_back();
  return record;
}

void FaultMemory::give_back(FaultRecord* record) noexcept {
  *record = {};
  const std::lock_guard lock(mutex_);
  free_.push_back(record);
}

void FaultLedger::add_device_graph(const std::shared_ptr<FaultBox>& box) {
  const std::lock_guard lock(mutex_);
  std::erase_if(device_graphs_, [](const auto& other) { return other.expired(); });
  device_graphs_.push_back(box);
  box->is_device_graph_ = true;
}

/// REQUIRES: the mutex. The result may own the last reference to a box: destroy it after unlocking.
FaultLedger::Boxes FaultLedger::device_graphs() {
  Boxes alive;
  for (const auto& weak : device_graphs_)
    if (auto box = weak.lock()) alive.push_back(std::move(box));
  return alive;
}

/// Tells every stream that a failure concerns. REQUIRES: the mutex.
void FaultLedger::deliver(FaultBox& box) {
  for (const Fault& fault : box.take()) {
    for (StreamFaults* stream : box.watchers_) stream->add(fault);
    if (box.is_device_graph_)
      for (StreamFaults* stream : launchers_) stream->add(fault);
  }
}

FaultBox::~FaultBox() {
  for (const Reporter& reporter : reporters_) ledger_.memory_.give_back(reporter.record);
}

attacca::detail::LaunchPort FaultBox::port(const KernelInfo& kernel, const std::string& node,
                                           const std::string& graph) {
  attacca::detail::LaunchPort port;
  {
    const std::lock_guard lock(ledger_.mutex_);
    for (const Reporter& reporter : reporters_)
      if (reporter.node == node && reporter.waits_for.data() == kernel.waits_for.data()) {
        port.fault = reporter.record;
        return port;
      }
  }
  // Unlocked: the driver may wait for host calls before it gives memory, and they take the mutex.
  port.fault = ledger_.memory_.take();
  try {
    const std::lock_guard lock(ledger_.mutex_);
    reporters_.push_back({node, graph, kernel.waits_for, port.fault});
  } catch (...) {
    ledger_.memory_.give_back(port.fault);
    throw;
  }
  return port;
}

void FaultBox::put(Failure failure) {
  const std::lock_guard lock(ledger_.mutex_);
  failures_.push_back(std::move(failure));
}

bool FaultBox::holds_host_calls_back() {
  FaultLedger::Boxes device_graphs;  // let go after the mutex
  const std::lock_guard lock(ledger_.mutex_);
  for (StreamFaults* stream : watchers_) stream->gather(device_graphs);
  const bool has_failed =
      std::any_of(watchers_.begin(), watchers_.end(),
                  [](const StreamFaults* stream) { return !stream->faults_.empty(); });
  // The call may belong to any of several streams, so each is told why it did not run.
  if (has_failed && watchers_.size() > 1) {
    std::vector<Fault> all;
    for (const StreamFaults* stream : watchers_)
      all.insert(all.end(), stream->faults_.begin(), stream->faults_.end());
    for (StreamFaults* stream : watchers_)
      for (const Fault& fault : all) stream->add(fault);
  }
  return has_failed;
}

std::vector<Fault> FaultBox::take() {
  std::vector<Fault> faults(std::make_move_iterator(failures_.begin()),
                            std::make_move_iterator(failures_.end()));
  failures_.clear();
  for (const Reporter& reporter : reporters_) {
    FaultRecord& record = *reporter.record;
    // acquire pairs with the release in `publish`: once the status is seen, the facts are.
    const unsigned word = std::atomic_ref(record.status).load(std::memory_order_acquire);
    if (word == 0) continue;
    faults.emplace_back(graph::KernelFault{
        .kernel = reporter.node,
        .graph = reporter.graph,
        .status = static_cast<LaunchStatus>(word & ((1u << FaultRecord::kStatusBits) - 1)),
        .detail = word >> FaultRecord::kStatusBits,
        .wait = record.wait,
        .spawn = record.spawn,
        .waits_for = reporter.waits_for,
        .spawn_limit = ledger_.spawn_limit_.load()});
    // Clear the claim last: otherwise the status of the next thread to claim could be cleared.
    std::atomic_ref(record.status).store(0, std::memory_order_relaxed);
    std::atomic_ref(record.is_claimed).store(0, std::memory_order_release);
  }
  return faults;
}

StreamFaults::StreamFaults(FaultLedger& ledger)
    : ledger_(ledger), own_(std::make_shared<FaultBox>(ledger)) {
  own_->watchers_.push_back(this);
}

StreamFaults::~StreamFaults() {
  collect();
  const std::lock_guard lock(ledger_.mutex_);
  own_->watchers_.clear();  // a host call may still hold it
}

void StreamFaults::watch(const std::shared_ptr<FaultBox>& box, bool launches) {
  const bool is_known = std::find(watched_.begin(), watched_.end(), box) != watched_.end();
  if (is_known && (!launches || has_launched_launchers_)) return;
  FaultLedger::Boxes device_graphs;  // let go after the mutex
  const std::lock_guard lock(ledger_.mutex_);
  if (!is_known) {
    watched_.reserve(watched_.size() + 1);
    // Earlier failures concern only the streams that launched it earlier.
    if (!box->watchers_.empty()) ledger_.deliver(*box);
    box->watchers_.push_back(this);
    watched_.push_back(box);
  }
  if (launches && !has_launched_launchers_) {
    if (!ledger_.launchers_.empty()) {
      device_graphs = ledger_.device_graphs();
      for (const auto& graph : device_graphs) ledger_.deliver(*graph);
    }
    ledger_.launchers_.push_back(this);
    has_launched_launchers_ = true;
  }
}

void StreamFaults::add(const Fault& fault) {
  const auto place = [](const Fault& of) {
    const auto* failure = std::get_if<Failure>(&of);
    return failure ? std::tie(failure->node, failure->graph)
                   : std::tie(std::get<graph::KernelFault>(of).kernel,
                              std::get<graph::KernelFault>(of).graph);
  };
  if (std::none_of(faults_.begin(), faults_.end(),
                   [&](const Fault& known) { return place(known) == place(fault); }))
    faults_.push_back(fault);
}

/// REQUIRES: the mutex. Destroy `device_graphs` after unlocking.
void StreamFaults::gather(FaultLedger::Boxes& device_graphs) {
  ledger_.deliver(*own_);
  for (const auto& box : watched_) ledger_.deliver(*box);
  if (!has_launched_launchers_) return;
  if (device_graphs.empty()) device_graphs = ledger_.device_graphs();
  for (const auto& graph : device_graphs) ledger_.deliver(*graph);
}

void StreamFaults::collect() {
  FaultLedger::Boxes device_graphs;  // destroyed after unlocking, like the watched boxes
  FaultLedger::Boxes watched;
  const std::lock_guard lock(ledger_.mutex_);
  gather(device_graphs);
  watched.swap(watched_);
  for (const auto& box : watched) std::erase(box->watchers_, this);
  if (std::exchange(has_launched_launchers_, false)) std::erase(ledger_.launchers_, this);
}

bool StreamFaults::any() {
  FaultLedger::Boxes device_graphs;  // let go after the mutex
  const std::lock_guard lock(ledger_.mutex_);
  gather(device_graphs);
  return !faults_.empty();
}

void StreamFaults::rethrow() {
  std::vector<Fault> faults;
  {
    const std::lock_guard lock(ledger_.mutex_);
    faults.swap(faults_);
  }
  graph::Failures failures;
  for (Fault& fault : faults) {
    auto* reported = std::get_if<graph::KernelFault>(&fault);
    if (reported && reported->status == LaunchStatus::driver_error)
      reported->driver_error = error_words(static_cast<cudaError_t>(reported->detail));
    failures.add(reported ? graph::failure_of(*reported) : std::get<Failure>(std::move(fault)));
  }
  failures.rethrow();
}

void HostCall::run(void* self) {
  auto& host_call = *static_cast<HostCall*>(self);
  if (!host_call.faults_->holds_host_calls_back()) {
    try {
      host_call.call_();
    } catch (...) {
      host_call.faults_->put(
          graph::failure_of_current_exception(host_call.name_, host_call.graph_));
    }
  }
  // Last: a thread that sees this may destroy the call.
  host_call.has_ended_.store(true, std::memory_order_release);
}

}  // namespace attacca::cuda
