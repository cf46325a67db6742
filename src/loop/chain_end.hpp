// chain_end.hpp: tells a stream when a chain of graphs that launch each other from the device has
// ended. In processes that had made about a thousand graphs, streams were seen to be done while
// graphs that tail launches started still ran (lab/tail_launch_chain.cu). So the last kernel of a
// chain counts up a word, and the stream waits for it behind each launch. end_chain.hpp has the
// kernel's part.
#pragma once

#include <attacca/device.hpp>
#include <attacca/memory.hpp>
#include <cstdint>

#include "graph/access.hpp"
#include "graph/executor.hpp"

namespace attacca::loop {

class ChainEnd {
 public:
  explicit ChainEnd(const Device& device) : word_(device, std::vector<std::uint32_t>{0}) {}

  /// For the chain's kernels.
  std::uint32_t* word() const { return const_cast<std::uint32_t*>(word_.data()); }
  /// Comes behind each launch of the chain. REQUIRES: memory outlives what the stream does.
  void wait_on(StreamRef stream) {
    graph::state_of(stream).impl->wait_for_word(word_.data(), ++launches_);
  }

 private:
  Buffer<std::uint32_t> word_;
  std::uint32_t launches_ = 0;
};

}  // namespace attacca::loop
