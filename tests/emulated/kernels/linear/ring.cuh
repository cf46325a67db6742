// ring.cuh: stands in for the file of this name in src/, for producers that fill stages themselves.
#pragma once

#include <attacca/thread.hpp>

#include "emulated/cuda_threads.hpp"

namespace attacca::kernels {

template <unsigned kStages, unsigned kProducers, unsigned kConsumers>
class Ring {
 public:
  struct State {
    unsigned stage = 0;
    bool phase = false;
    void advance() {
      if (++stage == kStages) {
        stage = 0;
        phase = !phase;
      }
    }
  };

  void init() {
    for (auto& barrier : full_) barrier = {kProducers, 0, 0};
    for (auto& barrier : empty_) barrier = {kConsumers * 32, 0, 0};
  }
  bool wait_empty(const State& at) { return empty_[at.stage].wait(!at.phase); }
  void finish_fill(const State& at) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) full_[at.stage].arrive();
  }
  bool wait_full(const State& at) { return full_[at.stage].wait(at.phase); }
  void release(const State& at, unsigned) {
    __syncwarp();
    empty_[at.stage].arrive();
  }
  void report(const WaitingThread&) const {}

 private:
  struct Barrier {
    unsigned expected;
    unsigned arrived;
    unsigned phases;  // completed

    void arrive() {
      if (++arrived < expected) return;
      arrived = 0;
      ++phases;
    }
    bool wait(bool parity) {
      test::emulated::Block::now().wait([&] { return (phases % 2 != 0) != parity; });
      return true;
    }
  };
  Barrier full_[kStages];
  Barrier empty_[kStages];
};

}  // namespace attacca::kernels
