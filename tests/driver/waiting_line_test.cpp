// Tests of the line in front of the schedule: order within a priority, turns between priorities
// and between kinds of work.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "driver/waiting_line.hpp"

namespace attacca {
namespace {

using driver::Job;
using driver::JobPtr;
using driver::WaitingLine;
using llm::Priority;

class WaitingLineTest : public testing::Test {
 protected:
  JobPtr push(Priority priority, llm::Pooling pooling = llm::Pooling::none) {
    auto job = std::make_shared<Job>();
    job->id = ++last_id_;
    job->pooling = pooling;
    job->priority = priority;
    line_.push(job);
    return job;
  }

  WaitingLine line_;
  std::uint64_t last_id_ = 0;
};

TEST_F(WaitingLineTest, keeps_the_order_within_a_priority) {
  for (int i = 0; i < 60; ++i) push(static_cast<Priority>(i % 3));
  std::array<std::uint64_t, 3> last = {};
  while (const JobPtr job = line_.pop()) {
    std::uint64_t& before = last[static_cast<std::size_t>(job->priority)];
    EXPECT_GT(job->id, before);
    before = job->id;
  }
  EXPECT_TRUE(line_.empty());
}

TEST_F(WaitingLineTest, of_21_turns_16_are_high_and_4_normal_and_1_low) {
  for (int i = 0; i < 300; ++i) push(static_cast<Priority>(i % 3));
  for (int round = 0; round < 4; ++round) {
    std::array<int, 3> turns = {};
    for (int turn = 0; turn < 21; ++turn) ++turns[static_cast<std::size_t>(line_.pop()->priority)];
    EXPECT_EQ(turns, (std::array{16, 4, 1}));
  }
}

TEST_F(WaitingLineTest, a_request_of_high_priority_overtakes_the_others_that_wait) {
  for (int i = 0; i < 10; ++i) push(Priority::low);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(line_.pop()->priority, Priority::low);
  const JobPtr late = push(Priority::high);
  // The low line's next turn may be due; after that the high one comes first.
  EXPECT_TRUE(line_.pop() == late || line_.pop() == late);
}

TEST_F(WaitingLineTest, no_class_saves_up_turns_while_it_is_empty) {
  for (int i = 0; i < 200; ++i) push(Priority::high);
  for (int i = 0; i < 100; ++i) line_.pop();
  for (int i = 0; i < 20; ++i) push(Priority::low);
  int low = 0;
  for (int i = 0; i < 34; ++i) low += line_.pop()->priority == Priority::low;
  EXPECT_LE(low, 3);
  EXPECT_GE(low, 2) << "and none starves";
}

TEST_F(WaitingLineTest, a_generation_waits_for_one_embedding_however_many_came_before) {
  for (int i = 0; i < 16; ++i) push(Priority::normal, llm::Pooling::last);
  const JobPtr first = push(Priority::normal), second = push(Priority::normal);
  std::vector<JobPtr> served;
  for (int i = 0; i < 4; ++i) served.push_back(line_.pop());
  EXPECT_EQ(std::count(served.begin(), served.end(), first), 1);
  EXPECT_EQ(std::count(served.begin(), served.end(), second), 1);
}

TEST_F(WaitingLineTest, a_kind_without_room_holds_back_no_other_and_saves_up_no_turns) {
  for (int i = 0; i < 40; ++i) push(Priority::normal, llm::Pooling::mean);
  for (int i = 0; i < 40; ++i) push(Priority::normal);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(line_.pop({.for_embeddings = false})->work(), driver::Work::generation);
  EXPECT_EQ(line_.pop({.for_generations = false, .for_embeddings = false}), nullptr);
  int embeddings = 0;
  for (int i = 0; i < 20; ++i) embeddings += line_.pop()->work() == driver::Work::embedding;
  EXPECT_GE(embeddings, 10);
  EXPECT_LE(embeddings, 11);
}

TEST_F(WaitingLineTest, who_leaves_is_not_served) {
  const JobPtr first = push(Priority::normal), second = push(Priority::normal),
               third = push(Priority::normal);
  line_.remove(*second);
  EXPECT_EQ(line_.size(), 2u);
  EXPECT_EQ(line_.pop(), first);
  EXPECT_EQ(line_.pop(), third);
  EXPECT_EQ(line_.pop(), nullptr);
}

}  // namespace
}  // namespace attacca
