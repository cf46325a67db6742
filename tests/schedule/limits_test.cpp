// Tests of the scheduler's limits: what is refused, and memory that plans are bound to.
#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include <string>

#include "schedule/policy.hpp"

namespace attacca::test {
namespace {

using namespace schedule;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ScheduleLimits, what_makes_no_sense_is_refused_with_the_value_and_the_remedy) {
  const auto refused = [](auto change, const std::string& value, const std::string& remedy) {
    Limits limits = small_limits();
    limits.page_size = 16;
    EXPECT_NO_THROW(check(limits));
    change(limits);
    EXPECT_THAT([&] { check(limits); },
                ThrowsMessage<BadArgument>(AllOf(HasSubstr(value), HasSubstr(remedy))));
  };
  refused([](Limits& l) { l.slots = 0; }, "slots = 0", "use 1 to");
  refused([](Limits& l) { l.requests = 3; }, "requests = 3", "use 4 to");
  refused([](Limits& l) { l.pages = 0; }, "pages = 0", "use 1 to");
  refused([](Limits& l) { l.page_size = 48; }, "page_size = 48", "16, 32 or 64");
  refused([](Limits& l) { l.max_context = 0; }, "max_context = 0", "use 1 to");
  refused([](Limits& l) { l.prefill_chunk = 0; }, "prefill_chunk = 0", "use 1 to");
  refused([](Limits& l) { l.logit_rows = 3; }, "logit_rows = 3", "use 4 to");
  refused([](Limits& l) { l.step_tokens = 3; }, "step_tokens = 3", "use 4 to");
  refused([](Limits& l) { l.decode_step_tokens = 3; }, "decode_step_tokens = 3", "use 4 to 16");
  refused([](Limits& l) { l.decode_step_tokens = 17; }, "decode_step_tokens = 17", "use 4 to 16");
  refused([](Limits& l) { l.mixed_sizes.count = 33; }, "33 sizes in mixed_sizes", "at most 32");
  refused([](Limits& l) { l.mixed_sizes.of[1] = 2; }, "mixed_sizes has 2 after 2", "ascending");
  refused([](Limits& l) { l.decode_sizes.of[0] = 0; }, "decode_sizes has 0 after 0", "from 1 on");
  refused([](Limits& l) { l.decode_sizes.of[1] = 5; }, "decode_sizes has 5", "slots = 5");
  refused([](Limits& l) { l.mixed_sizes.of[2] = 17; }, "than step_tokens = 16", "leave it out");
}

TEST(ScheduleLimits, a_plan_binds_to_any_memory_the_same_way) {
  const Limits limits = small_limits();
  alignas(64) unsigned char memory[8192];
  ASSERT_LE(plan_bytes(limits), sizeof memory);
  const Plan plan = bind_plan(limits, memory);
  EXPECT_EQ(static_cast<void*>(plan.counts), memory);
  const auto* end =
      reinterpret_cast<unsigned char*>(plan.tables + limits.slots * limits.table_stride());
  EXPECT_LE(static_cast<std::size_t>(end - memory), plan_bytes(limits));
  EXPECT_LT(memory + plan_bytes(limits) - end, 64);
}

}  // namespace
}  // namespace attacca::test
