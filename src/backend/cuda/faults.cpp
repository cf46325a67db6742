// faults.cpp: see faults.hpp.
#include "backend/cuda/faults.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "backend/cuda/check.hpp"
#include "graph/executor.hpp"

namespace attacca::cuda {

using attacca::detail::FaultLog;

void ErrorBox::put(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error_) return;
  error_ = std::move(error);
  is_set_.store(true, std::memory_order_release);
}

std::exception_ptr ErrorBox::take() {
  if (!is_set()) return nullptr;
  const std::lock_guard lock(mutex_);
  is_set_.store(false, std::memory_order_release);
  return std::exchange(error_, nullptr);
}

void HostCall::run(void* self) {
  auto* host_call = static_cast<HostCall*>(self);
  const std::unique_ptr<HostCall> owner(host_call->is_owned_by_driver ? host_call : nullptr);
  if (host_call->errors->is_set()) return;
  std::string what = "something that is no exception";
  try {
    host_call->call();
    return;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  host_call->errors->put(std::make_exception_ptr(NodeFailed(
      host_call->name,
      fmt::format("'{}' of graph '{}' failed: {}", host_call->name, host_call->graph, what))));
}

Faults::Faults() {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof(FaultLog), cudaHostAllocMapped | cudaHostAllocPortable),
        "allocating the fault log");
  log_ = new (memory) FaultLog{};
}

Faults::~Faults() { (void)cudaFreeHost(log_); }

attacca::detail::LaunchPort Faults::port(const std::string& kernel, const std::string& graph) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(labels_.begin(), labels_.end(), [&](const Label& label) {
    return label.kernel == kernel && label.graph == graph;
  });
  auto index = static_cast<unsigned>(known - labels_.begin());
  if (known == labels_.end()) labels_.push_back({kernel, graph});
  if (index >= FaultLog::kCapacity - 1) {
    // More launching kernels than words: the last word stands for all the others.
    labels_.resize(FaultLog::kCapacity - 1);
    labels_.push_back({"(one of many)", "(one of many)"});
    index = FaultLog::kCapacity - 1;
  }
  return {nullptr, log_, index};
}

void Faults::throw_if_any(std::size_t spawn_limit) {
  // The caller has synchronized with the work that wrote here, which makes its writes visible.
  if (std::atomic_ref(log_->has_any).load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex_);
  std::optional<std::size_t> first;
  unsigned word = 0;
  for (std::size_t label = 0; label < labels_.size(); ++label) {
    const unsigned found = std::exchange(log_->status[label], 0u);
    if (found == 0 || first) continue;
    first = label;
    word = found;
  }
  std::atomic_ref(log_->has_any).store(0, std::memory_order_release);
  if (!first) return;
  const Label& label = labels_[*first];
  const auto status = static_cast<LaunchStatus>(word & ((1u << FaultLog::kStatusBits) - 1));
  throw LaunchRefused(label.kernel,
                      graph::refusal_message(label.kernel, label.graph, status, spawn_limit,
                                             word >> FaultLog::kStatusBits));
}

}  // namespace attacca::cuda
