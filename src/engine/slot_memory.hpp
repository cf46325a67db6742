// slot_memory.hpp: memory that slots keep on the device from step to step: block tables, sampling
// parameters and their token lists. The host collects a step's changes, and one kernel writes them
// behind the steps in flight. Only changes are sent. KV pages are in step/kv_pool.hpp.
#pragma once

#include <attacca/device.hpp>
#include <attacca/memory.hpp>
#include <span>
#include <vector>

#include "driver/slot_sampling.hpp"
#include "kernels/sample/mark_tokens.hpp"
#include "kernels/sample/sample.hpp"
#include "kernels/write_words.hpp"
#include "resident/loop_kernels.hpp"
#include "schedule/state.hpp"

namespace attacca::engine {

/// The memory of all slots. Not thread-safe.
class SlotMemory {
 public:
  SlotMemory(const Device& device, const schedule::Limits& limits, std::uint32_t vocabulary);

  const kernels::SamplingParams* params() const { return params_.data(); }
  kernels::SlotTokens tokens() const;
  std::int32_t* tables() const { return tables_.data(); }
  /// For a loop on the device, which places sequences itself.
  resident::SlotWrites writable() const;
  std::size_t bytes() const;
  static std::size_t bytes_for(const schedule::Limits& limits, std::uint32_t vocabulary);

  /// Gives a slot to its next sequence. `history` holds the known tokens; the first `prompt` of
  /// them are the prompt.
  void place(std::uint32_t slot, const driver::SlotSampling& sampling,
             std::span<const std::int32_t> history, std::size_t prompt);
  /// Changes a slot's mask. Without effect if the slot has it already. REQUIRES: its sequence was
  /// placed with a mask, and its last change is sent.
  void allow(std::uint32_t slot, const driver::MaskPtr& mask);
  /// Collects the plan's changes to block tables.
  void change_tables(const schedule::Plan& plan);

  /// Staging buffers for changes on their way to the device.
  struct Sent {
    Buffer<std::uint32_t> words;
    Buffer<kernels::WordsWrite> writes;
    Buffer<kernels::SlotHistory> histories;
  };
  Sent make_sent() const;
  /// Enqueues all collected changes. `sent` must live until they have run; then it can be reused.
  void send(StreamRef stream, Sent& sent);
  /// Forgets changes that were not sent.
  void forget();

 private:
  template <class T>
  void write(const T* to, const T* from, std::size_t count);

  Device device_;
  std::uint32_t vocabulary_;
  std::uint32_t table_stride_;
  Buffer<kernels::SamplingParams> params_;
  Buffer<std::int32_t> stop_;
  Buffer<kernels::TokenBias> bias_;
  Buffer<std::uint32_t> allowed_;
  Buffer<std::uint16_t> marks_;
  Buffer<std::int32_t> tables_;
  std::vector<driver::MaskPtr> masks_;  // of the slots, as they will be
  std::vector<std::uint32_t> words_;
  std::vector<kernels::WordsWrite> writes_;
  std::vector<kernels::SlotHistory> histories_;
};

}  // namespace attacca::engine
