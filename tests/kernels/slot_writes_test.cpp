// Tests of the kernels that bring a slot's changes to the device: write_words and mark_tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/sample/mark_tokens.hpp"
#include "kernels/write_words.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using kernels::TokenMark;

class SlotWrites : public test::OnEachDevice {
 protected:
  template <class Args>
  void run_kernel(const Kernel<Args>& kernel, const Args& args) {
    stream().kernel(kernel, grid_of(args, is_cuda()), args);
    stream().synchronize();
  }
};
ATTACCA_ON_EACH_DEVICE(SlotWrites);

TEST_P(SlotWrites, write_words_changes_the_named_ranges_and_nothing_else) {
  std::mt19937 random(3);
  std::vector<std::uint32_t> right(5000), words;
  for (std::uint32_t& word : right) word = random();
  const Buffer<std::uint32_t> memory = buffer(right);
  std::vector<kernels::WordsWrite> writes;
  for (std::uint32_t first = 5; first < 4800; first += 200 + random() % 100) {
    const std::uint32_t count = 1 + random() % 190;  // more than a block has threads, too
    writes.push_back({memory.data() + first, static_cast<std::uint32_t>(words.size()), count});
    for (std::uint32_t at = 0; at < count; ++at) {
      words.push_back(random());
      right[first + at] = words.back();
    }
  }
  const Buffer<kernels::WordsWrite> write_list = buffer(writes);
  const Buffer<std::uint32_t> word_list = buffer(words);
  run_kernel(kernels::write_words(),
             {write_list.data(), word_list.data(), static_cast<std::uint32_t>(writes.size())});
  EXPECT_EQ(memory.read(), right);
}

TEST_P(SlotWrites, mark_tokens_rebuilds_the_marks_of_its_slots_and_leaves_the_others) {
  constexpr std::uint32_t kVocabulary = 3001, kSlots = 5;
  std::mt19937 random(5);
  std::vector<std::uint16_t> right(std::size_t{kSlots} * kVocabulary);
  for (std::uint16_t& mark : right) mark = static_cast<std::uint16_t>(random());
  const Buffer<std::uint16_t> marks = buffer(right);
  std::vector<kernels::SlotHistory> histories;
  std::vector<std::uint32_t> words;
  for (const std::uint32_t slot : {3u, 0u}) {
    const std::uint32_t prompt = 700, generated = 2000;
    histories.push_back({slot, static_cast<std::uint32_t>(words.size()), prompt, generated});
    std::uint16_t* const mine = right.data() + std::size_t{slot} * kVocabulary;
    std::fill_n(mine, kVocabulary, std::uint16_t{0});
    for (std::uint32_t at = 0; at < prompt + generated; ++at) {
      const std::uint32_t token = at % 3 == 0 ? 17 : random() % kVocabulary;  // one comes often
      words.push_back(token);
      if (at < prompt)
        mine[token] |= TokenMark::kInPrompt;
      else
        ++mine[token];
    }
  }
  const Buffer<kernels::SlotHistory> slots = buffer(histories);
  const Buffer<std::uint32_t> word_list = buffer(words);
  run_kernel(kernels::mark_tokens(),
             {slots.data(), word_list.data(), static_cast<std::uint32_t>(histories.size()),
              kVocabulary, marks.data()});
  EXPECT_EQ(marks.read(), right);
}

TEST_P(SlotWrites, a_count_of_marks_ends_at_the_largest_number_it_can_hold) {
  const std::uint32_t often = TokenMark::kMostTimes + 100;
  const Buffer<std::uint16_t> marks = buffer(std::vector<std::uint16_t>(4));
  const Buffer<kernels::SlotHistory> slots =
      buffer(std::vector<kernels::SlotHistory>{{0, 0, 1, often}});
  const Buffer<std::uint32_t> words = buffer(std::vector<std::uint32_t>(1 + often, 2));
  run_kernel(kernels::mark_tokens(), {slots.data(), words.data(), 1, 4, marks.data()});
  EXPECT_EQ(marks.read(), (std::vector<std::uint16_t>{0, 0, 0xffff, 0}));
}

}  // namespace
}  // namespace attacca
