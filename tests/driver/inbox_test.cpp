// Tests of inbox.hpp: what it takes for work, and who gets it.
#include "driver/inbox.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

namespace attacca::driver {
namespace {

TEST(Inbox, stays_quiet_when_nothing_is_submitted) {
  Inbox inbox;
  inbox.submit({});
  inbox.wait_until_quiet();  // would wait forever
}

TEST(Inbox, a_driver_that_polls_takes_what_comes_itself) {
  Inbox inbox;
  int begun = 0;
  inbox.let_begin([&](Inbox::Mail) { ++begun; });
  inbox.let_poll(std::chrono::hours(1));
  for (int round = 0; round < 3; ++round) {
    Inbox::Mail mail;
    std::thread driver([&] { mail = inbox.take(true); });
    inbox.wait_until_quiet();
    const JobPtr job = std::make_shared<Job>();
    inbox.submit({&job, 1});
    driver.join();
    ASSERT_EQ(mail.submitted.size(), 1u);
    EXPECT_EQ(mail.submitted.front(), job);
  }
  EXPECT_EQ(begun, 0);
}

TEST(Inbox, a_driver_that_polls_hears_that_it_should_end) {
  Inbox inbox;
  inbox.let_poll(std::chrono::hours(1));
  std::thread driver([&] { EXPECT_TRUE(inbox.take(true).is_closed); });
  inbox.close();
  driver.join();
  EXPECT_TRUE(inbox.take(true).is_closed);  // and would not wait again
}

}  // namespace
}  // namespace attacca::driver
