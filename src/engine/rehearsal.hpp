// rehearsal.hpp: a small loop with a request that never runs. Behind the end of the resident loop
// the request is admitted here once more, so the code of an admission is in the GPU's caches when
// the next request comes: the first plan waits for that code otherwise, because the steps before
// have read their weights through the caches.
#pragma once

#include <attacca/device/ring.hpp>
#include <attacca/graph.hpp>
#include <attacca/memory.hpp>
#include <cstddef>

#include "resident/loop_kernels.hpp"
#include "schedule/host.hpp"

namespace attacca::engine {

class Rehearsal {
 public:
  /// `limits`: of the loop. The rehearsal's are smaller, but for the sizes of pages and steps.
  Rehearsal(const Device& device, const schedule::Limits& limits);

  /// Adds nodes that rehearse if `loop` is over. REQUIRES: outlives the graph.
  void add_to(Graph& graph, const resident::LoopState* loop) const;
  std::size_t bytes() const;

 private:
  schedule::Limits limits_;
  device::Ring<resident::Order> orders_;
  device::Ring<resident::News> news_;
  device::Ring<kernels::Sampled> tops_;
  Buffer<resident::Letters::Letter> letters_;
  Buffer<std::int32_t> prompt_, stop_;
  Buffer<resident::Launch> launch_;
  Buffer<resident::Board> board_;
  Buffer<schedule::Line> plan_memory_;
  Buffer<std::uint32_t> cached_tokens_, masks_;
  Buffer<kernels::SamplingParams> params_;
  Buffer<std::int32_t> loop_stop_;
  // The LoopState, then what its schedule points to; as it is and as it was at the beginning.
  Buffer<schedule::Line> memory_, beginning_;
  resident::PlanArgs plan_;
};

}  // namespace attacca::engine
