// faults.cpp: see faults.hpp.
#include "backend/cuda/faults.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <utility>

#include "backend/cuda/check.hpp"
#include "graph/executor.hpp"

namespace attacca::cuda {

using attacca::detail::FaultRecord;

FaultRecord* FaultMemory::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    void* block = nullptr;
    check(cudaHostAlloc(&block, kRecordsAtOnce * sizeof(FaultRecord),
                        cudaHostAllocMapped | cudaHostAllocPortable),
          "allocating memory for what kernels report");
    auto* records = static_cast<FaultRecord*>(block);
    free_.reserve(free_.capacity() + kRecordsAtOnce);  // so that giving back cannot fail
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

FaultBox::~FaultBox() {
  for (const Reporter& reporter : reporters_) memory_.give_back(reporter.record);
}

attacca::detail::LaunchPort FaultBox::port(const KernelInfo& kernel, const std::string& node,
                                           const std::string& graph) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(reporters_.begin(), reporters_.end(),
                                  [&](const Reporter& reporter) { return reporter.node == node; });
  attacca::detail::LaunchPort port;
  if (known != reporters_.end()) {
    port.fault = known->record;
  } else {
    port.fault = memory_.take();
    reporters_.push_back({node, graph, kernel.waits_for, port.fault});
  }
  return port;
}

void FaultBox::put(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error_) return;
  error_ = std::move(error);
  is_set_.store(true, std::memory_order_release);
}

std::exception_ptr FaultBox::take(std::size_t spawn_limit) {
  const std::lock_guard lock(mutex_);
  is_set_.store(false, std::memory_order_release);
  std::exception_ptr error = std::exchange(error_, nullptr);
  for (const Reporter& reporter : reporters_) {
    FaultRecord& record = *reporter.record;
    // acquire pairs with the release in report_wait: the facts are seen once the status is.
    const unsigned word = std::atomic_ref(record.status).load(std::memory_order_acquire);
    if (word == 0) continue;
    if (!error)
      error = graph::exception_of(
          {.kernel = reporter.node,
           .graph = reporter.graph,
           .status = static_cast<LaunchStatus>(word & ((1u << FaultRecord::kStatusBits) - 1)),
           .detail = word >> FaultRecord::kStatusBits,
           .wait = record.wait,
           .waits_for = reporter.waits_for,
           .spawn_limit = spawn_limit});
    record = {};
  }
  return error;
}

void HostCall::run(void* self) {
  auto* host_call = static_cast<HostCall*>(self);
  const std::unique_ptr<HostCall> owner(host_call->is_owned_by_driver ? host_call : nullptr);
  if (host_call->faults->is_set()) return;
  std::string what = "something that is no exception";
  try {
    host_call->call();
    return;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  host_call->faults->put(std::make_exception_ptr(NodeFailed(
      host_call->name,
      fmt::format("'{}' of graph '{}' failed: {}", host_call->name, host_call->graph, what))));
}

}  // namespace attacca::cuda
