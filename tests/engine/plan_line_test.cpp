// Tests of the line on which rank 0 tells the others what the next step computes.
#include "engine/plan_line.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

namespace attacca::test {
namespace {

using engine::PlanLine;
using testing::HasSubstr;

std::string message_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const RanksBroken& error) {
    return error.what();
  }
}

TEST(PlanLine, tells_of_a_rank_that_left_while_there_is_nothing_to_compute) {
  std::string told;
  const auto body = [&](const Group& group) {
    std::promise<std::string> message;  // longer than the line, whose thread sets it
    PlanLine line(group, 1);
    if (group.rank() != 0) return;
    line.tell_of_failure([&](const std::exception_ptr& failure) {
      EXPECT_THROW(line.begin_loop(), RanksBroken) << "who is told may use the line";
      message.set_value(message_of(failure));
    });
    told = message.get_future().get();
  };
  run_loopback(2, body, {.deadline = std::chrono::milliseconds(300)});
  EXPECT_THAT(told, HasSubstr("rank 1 left"));
}

TEST(PlanLine, tells_who_asks_late_too) {
  std::string told;
  const auto body = [&](const Group& group) {
    std::promise<std::string> message;
    PlanLine line(group, 1);
    if (group.rank() != 0) return;
    while (!line.is_broken()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    line.tell_of_failure(
        [&](const std::exception_ptr& failure) { message.set_value(message_of(failure)); });
    told = message.get_future().get();
  };
  run_loopback(2, body, {.deadline = std::chrono::milliseconds(300)});
  EXPECT_THAT(told, HasSubstr("rank 1 left"));
}

TEST(PlanLine, keeps_ranks_that_wait_longer_than_the_deadline) {
  const auto body = [&](const Group& group) {
    PlanLine line(group, 1);
    if (group.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::seconds(2));
    } else {
      EXPECT_EQ(line.follow({}), PlanLine::News::end);
    }
  };
  EXPECT_NO_THROW(run_loopback(2, body, {.deadline = std::chrono::milliseconds(600)}));
}

}  // namespace
}  // namespace attacca::test
