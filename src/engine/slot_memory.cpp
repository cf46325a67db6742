// slot_memory.cpp: collects changes to slots as lists of words and their addresses, and enqueues
// the kernels that write them.
#include "engine/slot_memory.hpp"

#include <algorithm>
#include <cstring>

#include "engine/reply_masks.hpp"
#include "kernels/sample/highest.hpp"
#include "kernels/sample/sampling.hpp"

namespace attacca::engine {

namespace {

using kernels::SamplingParams;
using kernels::TokenBias;

std::uint32_t mask_rows_of(const schedule::Limits& limits) {
  return limits.requests + ReplyMasks::kSpareRows;
}

/// Copies values to memory that host and device share; grows it if they do not fit.
template <class T>
void fill(Buffer<T>& to, const std::vector<T>& from, const Device& device) {
  if (to.size() < from.size())
    to = Buffer<T>(device, std::max(from.size(), 2 * to.size()), Visibility::shared);
  std::copy(from.begin(), from.end(), to.data());
}

}  // namespace

SlotMemory::SlotMemory(const Device& device, const schedule::Limits& limits,
                       std::uint32_t vocabulary)
    : device_(device),
      vocabulary_(vocabulary),
      table_stride_(limits.table_stride()),
      mask_rows_(mask_rows_of(limits)),
      params_(device, std::vector<SamplingParams>(limits.slots)),
      stop_(device, std::size_t{limits.slots} * SamplingParams::kMaxStopTokens),
      bias_(device, std::size_t{limits.slots} * SamplingParams::kMaxBiases),
      masks_(device, std::size_t{mask_rows_} * kernels::mask_words(vocabulary)),
      edges_(device, std::vector<std::uint64_t>(kernels::MaskEdges::kCount)),
      plain_(device, std::vector<std::uint32_t>(kernels::mask_words(vocabulary))),
      marks_(device, std::size_t{limits.slots} * vocabulary),
      tables_(device, std::vector<std::int32_t>(std::size_t{limits.slots} * limits.table_stride())),
      needs_few_(limits.slots) {}

std::size_t SlotMemory::bytes_for(const schedule::Limits& limits, std::uint32_t vocabulary) {
  return limits.slots *
             (sizeof(SamplingParams) + SamplingParams::kMaxStopTokens * sizeof(std::int32_t) +
              SamplingParams::kMaxBiases * sizeof(TokenBias) +
              std::size_t{vocabulary} * sizeof(std::uint16_t) +
              std::size_t{limits.table_stride()} * sizeof(std::int32_t)) +
         (std::size_t{mask_rows_of(limits)} + 1) * kernels::mask_words(vocabulary) *
             sizeof(std::uint32_t) +
         kernels::MaskEdges::kCount * sizeof(std::uint64_t);
}

std::size_t SlotMemory::bytes() const {
  return params_.bytes() + stop_.bytes() + bias_.bytes() + masks_.bytes() + edges_.bytes() +
         plain_.bytes() + marks_.bytes() + tables_.bytes();
}

resident::SlotWrites SlotMemory::writable() const {
  return {.params = params_.data(),
          .stop = stop_.data(),
          .bias = bias_.data(),
          .masks = masks_.data(),
          .edges = {edges_.data(), plain_.data()},
          .marks = marks_.data(),
          .vocabulary = vocabulary_};
}

kernels::SlotTokens SlotMemory::tokens() const {
  return {.stop = stop_.data(),
          .bias = bias_.data(),
          .masks = masks_.data(),
          .marks = marks_.data(),
          .edges = {edges_.data(), plain_.data()}};
}

template <class T>
void SlotMemory::write(const T* to, const T* from, std::size_t count) {
  static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
  const std::size_t words = count * sizeof(T) / sizeof(std::uint32_t);
  if (words == 0) return;
  const std::size_t first = words_.size();
  words_.resize(first + words);
  std::memcpy(words_.data() + first, from, count * sizeof(T));
  writes_.push_back({reinterpret_cast<std::uint32_t*>(const_cast<T*>(to)),
                     static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(words)});
}

void SlotMemory::place(std::uint32_t slot, const driver::SlotSampling& sampling,
                       std::span<const std::int32_t> history, std::size_t prompt) {
  needs_few_[slot] = !sampling.allowed && kernels::needs_few(sampling.params);
  write(params_.data() + slot, &sampling.params, 1);
  write(stop_.data() + std::size_t{slot} * SamplingParams::kMaxStopTokens,
        sampling.stop_tokens.data(), sampling.stop_tokens.size());
  write(bias_.data() + std::size_t{slot} * SamplingParams::kMaxBiases, sampling.biases.data(),
        sampling.biases.size());
  if (!kernels::has_penalties(sampling.params)) return;
  histories_.push_back({slot, static_cast<std::uint32_t>(words_.size()),
                        static_cast<std::uint32_t>(prompt),
                        static_cast<std::uint32_t>(history.size() - prompt)});
  words_.insert(words_.end(), history.begin(), history.end());
}

void SlotMemory::set_mask(std::uint32_t slot, std::uint32_t row) {
  needs_few_[slot] = false;
  write(&params_.data()[slot].mask, &row, 1);
}

void SlotMemory::write_mask(std::uint32_t row, driver::MaskPtr mask) {
  new_masks_[row] = std::move(mask);
}

void SlotMemory::write_edge(std::uint32_t from, std::int32_t token, std::uint32_t to) {
  new_edges_[kernels::MaskEdges::place_of(from, token)] =
      kernels::MaskEdges::word_of(from, token, to);
}

void SlotMemory::clear_edges() {
  new_edges_.clear();
  clears_edges_ = true;
}

void SlotMemory::reset_edges() { edges_.write(std::vector<std::uint64_t>(edges_.size())); }

void SlotMemory::write_masks_and_edges() {
  for (const auto& [row, mask] : new_masks_)
    write(masks_.data() + std::size_t{row} * kernels::mask_words(vocabulary_), mask->data(),
          mask->size());
  if (clears_edges_) {
    std::vector<std::uint64_t> all(edges_.size());
    for (const auto& [place, word] : new_edges_) all[place] = word;
    write(edges_.data(), all.data(), all.size());
  } else {
    for (const auto& [place, word] : new_edges_) write(edges_.data() + place, &word, 1);
  }
}

void SlotMemory::change_tables(const schedule::Plan& plan) {
  for (std::uint32_t at = 0; at < plan.counts->changes; ++at) {
    const schedule::TableChange& change = plan.changes[at];
    const std::size_t first = std::size_t{change.slot} * table_stride_ + change.first;
    write(tables_.data() + first, plan.tables + first, change.count);
  }
}

SlotMemory::Sent SlotMemory::make_sent() const {
  return {Buffer<std::uint32_t>(device_, 64, Visibility::shared),
          Buffer<kernels::WordsWrite>(device_, 16, Visibility::shared),
          Buffer<kernels::SlotHistory>(device_, 1, Visibility::shared)};
}

void SlotMemory::send(StreamRef stream, Sent& sent) {
  write_masks_and_edges();
  if (writes_.empty()) return;
  fill(sent.words, words_, device_);
  fill(sent.writes, writes_, device_);
  fill(sent.histories, histories_, device_);
  const kernels::WriteWordsArgs writes{sent.writes.data(), sent.words.data(),
                                       static_cast<std::uint32_t>(writes_.size())};
  stream.kernel(kernels::write_words(), kernels::grid_of(writes, device_.is_cuda()), writes);
  if (!histories_.empty()) {
    const kernels::MarkTokensArgs marks{sent.histories.data(), sent.words.data(),
                                        static_cast<std::uint32_t>(histories_.size()), vocabulary_,
                                        marks_.data()};
    stream.kernel(kernels::mark_tokens(), kernels::grid_of(marks, device_.is_cuda()), marks);
  }
  forget();
}

void SlotMemory::forget() {
  words_.clear();
  writes_.clear();
  histories_.clear();
  new_masks_.clear();
  new_edges_.clear();
  clears_edges_ = false;
}

}  // namespace attacca::engine
