// Tests of turns: one holder at a time, and those who wait are served in their order.
#include "driver/step_turns.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace attacca::driver {
namespace {

TEST(StepTurn, without_others_is_never_wanted) {
  StepTurn alone(nullptr);
  alone.take();
  alone.take();
  EXPECT_FALSE(alone.is_wanted());
  alone.give_back();
  alone.give_back();
}

TEST(StepTurn, is_wanted_while_somebody_waits_and_given_back_at_its_end) {
  const auto turns = std::make_shared<llm::StepTurns>();
  std::thread other;
  std::atomic<bool> has_it = false;
  {
    StepTurn mine(turns);
    mine.take();
    EXPECT_FALSE(mine.is_wanted());
    other = std::thread([&] {
      StepTurn theirs(turns);
      theirs.take();
      has_it = true;
    });
    while (!mine.is_wanted()) std::this_thread::yield();
    EXPECT_FALSE(has_it);
  }
  other.join();
  EXPECT_TRUE(has_it);
}

TEST(StepTurn, is_tried_without_waiting) {
  const auto turns = std::make_shared<llm::StepTurns>();
  StepTurn mine(turns), theirs(turns);
  EXPECT_TRUE(mine.try_take());
  EXPECT_TRUE(mine.try_take());
  EXPECT_FALSE(theirs.try_take());
  mine.give_back();
  EXPECT_TRUE(theirs.try_take());
  EXPECT_FALSE(mine.try_take());
  EXPECT_TRUE(StepTurn(nullptr).try_take());
}

TEST(StepTurn, those_who_wait_are_served_in_order) {
  constexpr std::size_t kWaiting = 8;
  const auto turns = std::make_shared<llm::StepTurns>();
  std::vector<std::size_t> served;  // the turn's holder writes it
  std::vector<std::thread> threads;
  StepTurn first(turns);
  first.take();
  for (std::size_t number = 0; number < kWaiting; ++number) {
    threads.emplace_back([&, number] {
      StepTurn turn(turns);
      turn.take();
      served.push_back(number);
    });
    while (turns->waiting() <= number) std::this_thread::yield();
  }
  first.give_back();
  for (std::thread& thread : threads) thread.join();
  for (std::size_t at = 0; at < kWaiting; ++at) EXPECT_EQ(served[at], at);
}

}  // namespace
}  // namespace attacca::driver
