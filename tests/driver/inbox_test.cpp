// Tests of inbox.hpp: what it takes for work.
#include "driver/inbox.hpp"

#include <gtest/gtest.h>

namespace attacca::driver {
namespace {

TEST(Inbox, stays_quiet_when_nothing_is_submitted) {
  Inbox inbox;
  inbox.submit({});
  inbox.wait_until_quiet();  // would wait forever
}

}  // namespace
}  // namespace attacca::driver
