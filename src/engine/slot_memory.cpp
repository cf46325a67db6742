// slot_memory.cpp: collects changes to slots as lists of words and their addresses, and enqueues
// the kernels that write them.
#include "engine/slot_memory.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/sample/sampling.hpp"

namespace attacca::engine {

namespace {

using kernels::SamplingParams;
using kernels::TokenBias;

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
      params_(device, std::vector<SamplingParams>(limits.slots)),
      stop_(device, std::size_t{limits.slots} * SamplingParams::kMaxStopTokens),
      bias_(device, std::size_t{limits.slots} * SamplingParams::kMaxBiases),
      allowed_(device, std::size_t{limits.slots} * kernels::mask_words(vocabulary)),
      marks_(device, std::size_t{limits.slots} * vocabulary),
      tables_(device, std::vector<std::int32_t>(std::size_t{limits.slots} * limits.table_stride())),
      masks_(limits.slots) {}

std::size_t SlotMemory::bytes_for(const schedule::Limits& limits, std::uint32_t vocabulary) {
  return limits.slots *
         (sizeof(SamplingParams) + SamplingParams::kMaxStopTokens * sizeof(std::int32_t) +
          SamplingParams::kMaxBiases * sizeof(TokenBias) +
          kernels::mask_words(vocabulary) * sizeof(std::uint32_t) +
          std::size_t{vocabulary} * sizeof(std::uint16_t) +
          std::size_t{limits.table_stride()} * sizeof(std::int32_t));
}

std::size_t SlotMemory::bytes() const {
  return params_.bytes() + stop_.bytes() + bias_.bytes() + allowed_.bytes() + marks_.bytes() +
         tables_.bytes();
}

resident::SlotWrites SlotMemory::writable() const {
  return {.params = params_.data(),
          .stop = stop_.data(),
          .bias = bias_.data(),
          .allowed = allowed_.data(),
          .marks = marks_.data(),
          .vocabulary = vocabulary_};
}

kernels::SlotTokens SlotMemory::tokens() const {
  return {.stop = stop_.data(),
          .bias = bias_.data(),
          .allowed = allowed_.data(),
          .marks = marks_.data()};
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
  write(params_.data() + slot, &sampling.params, 1);
  write(stop_.data() + std::size_t{slot} * SamplingParams::kMaxStopTokens,
        sampling.stop_tokens.data(), sampling.stop_tokens.size());
  write(bias_.data() + std::size_t{slot} * SamplingParams::kMaxBiases, sampling.biases.data(),
        sampling.biases.size());
  masks_[slot] = nullptr;
  if (sampling.allowed) allow(slot, sampling.allowed);
  if (!kernels::has_penalties(sampling.params)) return;
  histories_.push_back({slot, static_cast<std::uint32_t>(words_.size()),
                        static_cast<std::uint32_t>(prompt),
                        static_cast<std::uint32_t>(history.size() - prompt)});
  words_.insert(words_.end(), history.begin(), history.end());
}

void SlotMemory::allow(std::uint32_t slot, const driver::MaskPtr& mask) {
  if (masks_[slot] == mask) return;
  masks_[slot] = mask;
  write(allowed_.data() + std::size_t{slot} * kernels::mask_words(vocabulary_), mask->data(),
        mask->size());
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
}

}  // namespace attacca::engine
