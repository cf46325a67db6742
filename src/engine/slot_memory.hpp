// slot_memory.hpp: memory that slots keep on the device from step to step: block tables, sampling
// parameters and their token lists, and the masks that they share. The host collects a step's
// changes, and one kernel writes them behind the steps in flight. Only changes are sent. KV pages
// are in step/kv_pool.hpp.
#pragma once

#include <attacca/device.hpp>
#include <attacca/memory.hpp>
#include <map>
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

  kernels::SamplingParams* params() const { return params_.data(); }
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
  /// Whether the slot's sequence samples from its highest logits only (see kernels::needs_few).
  bool needs_few(std::uint32_t slot) const { return needs_few_[slot]; }
  /// Changes the mask of a slot's sequence.
  void set_mask(std::uint32_t slot, std::uint32_t row);
  void write_mask(std::uint32_t row, driver::MaskPtr mask);
  /// From one row of masks to another.
  void write_edge(std::uint32_t from, std::int32_t token, std::uint32_t to);
  void clear_edges();
  /// The same at once. REQUIRES: no step runs.
  void reset_edges();
  /// A mask; see kernels::MaskEdges. REQUIRES: no step runs.
  void set_plain_tokens(const std::vector<std::uint32_t>& mask) { plain_.write(mask); }
  std::uint32_t mask_rows() const { return mask_rows_; }
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
  void write_masks_and_edges();

  Device device_;
  std::uint32_t vocabulary_;
  std::uint32_t table_stride_;
  std::uint32_t mask_rows_;
  Buffer<kernels::SamplingParams> params_;
  Buffer<std::int32_t> stop_;
  Buffer<kernels::TokenBias> bias_;
  Buffer<std::uint32_t> masks_;
  Buffer<std::uint64_t> edges_;
  Buffer<std::uint32_t> plain_;
  Buffer<std::uint16_t> marks_;
  Buffer<std::int32_t> tables_;
  std::vector<bool> needs_few_;  // by slot
  std::vector<std::uint32_t> words_;
  std::vector<kernels::WordsWrite> writes_;
  std::vector<kernels::SlotHistory> histories_;
  // One kernel writes everything at once, so no two writes may meet.
  std::map<std::uint32_t, driver::MaskPtr> new_masks_;  // by their rows
  std::map<std::uint32_t, std::uint64_t> new_edges_;    // by their places
  bool clears_edges_ = false;                           // before the new ones are written
};

}  // namespace attacca::engine
