// Tests of how prompts share a step: what bounds the delay of decodes, which prompts come first,
// who may preempt, and how long a request waits before it joins.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <utility>

#include "schedule/policy.hpp"
#include "support/real_threads.hpp"

namespace attacca::test {
namespace {

using testing::ElementsAre;

using ScheduleShares = SchedulePolicy;

/// Room for long prompts: a step of 64 tokens has eighths of 8.
Limits roomy_limits() {
  Limits limits = small_limits();
  limits.slots = 12;
  limits.requests = 24;
  limits.pages = 4096;
  limits.max_context = 1024;
  limits.prefill_chunk = limits.step_tokens = limits.decode_step_tokens = 64;
  limits.logit_rows = 32;
  return limits;
}

/// A prompt that shares no page with another one of these.
Tokens prompt_of(std::int32_t number, std::uint32_t count) {
  return counting(1000 * number, count);
}

TEST_F(ScheduleShares, a_short_prompt_need_not_wait_behind_a_long_one) {
  use(roomy_limits());
  const std::uint32_t long_one = submit(prompt_of(1, 1000), 1);
  step();
  const std::uint32_t short_one = submit(prompt_of(2, 8), 1);
  plan_step(state());
  EXPECT_EQ(planned(short_one), 8u);
  EXPECT_EQ(planned(long_one), 56u) << "what is left goes to the long one";
  ASSERT_EQ(commit().size(), 1u) << "the short one has its first token";
  EXPECT_EQ(state().events[0].id, 2u);
}

TEST_F(ScheduleShares, a_step_in_which_a_sequence_decodes_is_bounded) {
  Limits limits = roomy_limits();
  limits.decode_step_tokens = 20;
  use(limits);
  submit(prompt_of(1, 1), 3);
  submit(prompt_of(2, 1000), 1);
  plan_step(state());
  EXPECT_EQ(counts().tokens, 64u) << "the first prompt of one token is no decode yet";
  commit();
  for (int decode = 0; decode < 2; ++decode) {
    plan_step(state());
    EXPECT_EQ(counts().decodes, 1u);
    EXPECT_EQ(counts().tokens, 20u);
    commit();
  }
  plan_step(state());
  EXPECT_EQ(counts().decodes, 0u);
  EXPECT_EQ(counts().tokens, 64u);
}

TEST_F(ScheduleShares, the_oldest_prompt_is_sure_of_half_of_what_decodes_leave) {
  Limits limits = roomy_limits();
  limits.decode_step_tokens = 34;
  use(limits);
  submit(prompt_of(1, 1), 9);
  submit(prompt_of(2, 1), 9);
  step();
  const std::uint32_t oldest = submit(prompt_of(3, 500), 1);
  for (std::int32_t at = 0; at < 6; ++at) submit(prompt_of(4 + at, 20), 1);
  plan_step(state());
  EXPECT_EQ(counts().decodes, 2u);
  EXPECT_EQ(counts().tokens, 34u);
  EXPECT_EQ(planned(oldest), 16u) << "as the first to get a slot";
  commit();
  plan_step(state());
  EXPECT_EQ(planned(oldest), 16u) << "and when it runs";
}

TEST_F(ScheduleShares, an_odd_token_goes_to_the_oldest_prompt) {
  Limits limits = roomy_limits();
  limits.step_tokens = 13;
  limits.decode_step_tokens = 12;
  use(limits);
  for (std::int32_t at = 0; at < 11; ++at) submit(prompt_of(at, 1), 9);
  step();
  const std::uint32_t last = submit(prompt_of(11, 3), 1);
  plan_step(state());
  EXPECT_EQ(counts().decodes, 11u);
  EXPECT_EQ(planned(last), 1u) << "of a budget of 1";
}

TEST_F(ScheduleShares, short_prompts_that_run_come_before_requests_that_wait) {
  Limits limits = roomy_limits();
  limits.slots = 16;
  use(limits);
  submit(prompt_of(0, 1000), 1);
  std::vector<std::uint32_t> entries;
  for (std::int32_t at = 0; at < 4; ++at) entries.push_back(submit(prompt_of(1 + at, 16), 1));
  plan_step(state());
  for (const std::uint32_t entry : entries) EXPECT_EQ(planned(entry), 8u) << "an eighth at first";
  commit();
  const std::uint32_t late = submit(prompt_of(5, 2), 1);
  plan_step(state());
  for (const std::uint32_t entry : entries) EXPECT_EQ(planned(entry), 8u) << "all it needs";
  EXPECT_EQ(state().entries[late].state, EntryState::waiting) << "half of the step is used up";
  EXPECT_EQ(commit().size(), 4u);
  plan_step(state());
  EXPECT_EQ(planned(late), 2u);
}

TEST_F(ScheduleShares, long_requests_that_get_slots_leave_room_for_a_short_one_behind_them) {
  use(roomy_limits());
  const std::uint32_t oldest = submit(prompt_of(0, 1000), 1);
  std::vector<std::uint32_t> long_ones;
  for (std::int32_t at = 0; at < 3; ++at) long_ones.push_back(submit(prompt_of(1 + at, 1000), 1));
  const std::uint32_t short_one = submit(prompt_of(4, 5), 1);
  plan_step(state());
  for (const std::uint32_t entry : long_ones) EXPECT_EQ(planned(entry), 8u);
  EXPECT_EQ(planned(short_one), 5u);
  EXPECT_EQ(planned(oldest), 35u);
}

TEST_F(ScheduleShares, the_rest_goes_to_the_prompts_with_the_fewest_tokens_left) {
  use(roomy_limits());
  const std::uint32_t oldest = submit(prompt_of(0, 900), 1);
  const std::uint32_t longer = submit(prompt_of(1, 950), 1);
  step();
  const std::uint32_t shorter = submit(prompt_of(2, 40), 1);
  const std::uint32_t shortest = submit(prompt_of(3, 20), 1);
  plan_step(state());
  EXPECT_EQ(planned(oldest), 32u);
  EXPECT_EQ(planned(longer), 0u);
  EXPECT_EQ(planned(shorter), 12u) << "an eighth, and what the shortest leaves";
  EXPECT_EQ(planned(shortest), 20u);
  commit();
  plan_step(state());
  EXPECT_EQ(planned(shorter), 28u);
  EXPECT_EQ(planned(oldest), 36u) << "it has fewer tokens left than the longer one";
  EXPECT_EQ(planned(longer), 0u);
}

TEST_F(ScheduleShares, equal_prompts_that_arrive_together_end_one_after_another) {
  Limits limits = roomy_limits();
  use(limits);
  for (std::int32_t at = 0; at < 4; ++at) submit(prompt_of(at, 16), 1);
  EXPECT_EQ(step().size(), 4u) << "a step has room for all four";

  for (std::int32_t at = 4; at < 8; ++at) submit(prompt_of(at, 640), 1);
  std::vector<std::uint32_t> ends;
  for (std::uint32_t at = 1; ends.size() < 4; ++at)
    for (const Event& event : step()) {
      EXPECT_EQ(event.id, 5 + ends.size()) << "in order of arrival";
      ends.push_back(at);
    }
  // Alone they would need ten steps each. The oldest only lends a few tokens to those behind it.
  EXPECT_THAT(ends, ElementsAre(11, 21, 31, 40));
}

TEST_F(ScheduleShares, a_chunk_is_capped_and_the_rest_goes_to_every_prompt_that_can_take_it) {
  Limits limits = roomy_limits();
  limits.prefill_chunk = 5;
  limits.max_context = 100;
  use(limits);
  std::vector<std::uint32_t> entries;
  for (std::int32_t at = 0; at < 12; ++at) entries.push_back(submit(prompt_of(at, 100), 0));
  for (int round = 0; round < 3; ++round) {
    plan_step(state());
    EXPECT_EQ(counts().tokens, 60u);
    for (const std::uint32_t entry : entries) EXPECT_EQ(planned(entry), 5u);
    commit();
  }
}

TEST_F(ScheduleShares, the_oldest_prompt_is_sure_of_half_of_the_rows_as_well) {
  Limits limits = roomy_limits();
  limits.logit_rows = 20;
  use(limits);
  const std::uint32_t oldest = submit(prompt_of(0, 40), 0, true);
  std::vector<std::uint32_t> others;
  for (std::int32_t at = 0; at < 3; ++at) others.push_back(submit(prompt_of(1 + at, 30), 0, true));
  const std::uint32_t plain = submit(prompt_of(4, 6), 1);
  plan_step(state());
  EXPECT_EQ(counts().rows, 20u);
  EXPECT_EQ(planned(oldest), 10u);
  for (const std::uint32_t entry : others)
    EXPECT_EQ(planned(entry), 3u) << "an eighth of the rows, rounded up";
  EXPECT_EQ(planned(plain), 6u);
  EXPECT_EQ(commit().size(), 20u);
  EXPECT_EQ(state().entries[plain].length, 7u) << "its one row was among them";
}

TEST_F(ScheduleShares, of_prompts_only_the_oldest_preempts_even_a_decode_of_the_same_step) {
  Limits limits = roomy_limits();
  limits.pages = 12;
  limits.max_context = 48;
  limits.prefill_chunk = limits.step_tokens = limits.decode_step_tokens = 16;
  use(limits);
  const std::uint32_t oldest = submit(prompt_of(0, 40), 1);
  const std::uint32_t second = submit(prompt_of(1, 24), 1);
  const std::uint32_t decoding = submit(prompt_of(2, 2), 20);
  step();
  step();
  EXPECT_EQ(state().spare_pages(), 3u);
  EXPECT_EQ(state().entries[second].computed, 13u);
  step();
  EXPECT_EQ(state().entries[oldest].computed, 24u);
  EXPECT_EQ(state().entries[second].computed, 16u) << "its pages are full";
  EXPECT_EQ(state().entries[decoding].computed, 4u);
  EXPECT_EQ(state().spare_pages(), 1u) << "kept for the one that decodes";
  EXPECT_EQ(state().statistics.preemptions, 0u);

  plan_step(state());
  EXPECT_EQ(state().statistics.preemptions, 1u);
  EXPECT_EQ(state().entries[decoding].state, EntryState::waiting);
  EXPECT_EQ(counts().decodes, 0u) << "it had its token before the oldest took its pages";
  EXPECT_EQ(counts().rows, 0u);
  EXPECT_THAT(planned_positions(), counting(24, 8)) << "of the oldest: half of what was left";
  commit();
  finish_all();
  EXPECT_EQ(state().statistics.finished, 3u);
}

TEST_F(ScheduleShares, a_short_prompt_without_a_page_waits_for_one_and_preempts_nobody) {
  Limits limits = roomy_limits();
  limits.page_size = 2;
  limits.pages = 12;
  limits.max_context = 20;
  limits.prefill_chunk = limits.step_tokens = limits.decode_step_tokens = 16;
  use(limits);
  const std::uint32_t oldest = submit(prompt_of(0, 12), 1);
  std::vector<std::uint32_t> short_ones;
  for (std::int32_t at = 0; at < 3; ++at) short_ones.push_back(submit(prompt_of(1 + at, 4), 1));
  const std::uint32_t decoding = submit(prompt_of(4, 2), 3);
  step();
  EXPECT_EQ(state().spare_pages(), 4u);
  plan_step(state());
  EXPECT_EQ(counts().decodes, 1u);
  EXPECT_EQ(planned(decoding), 1u);
  EXPECT_EQ(planned(oldest), 4u);
  for (const std::uint32_t entry : short_ones) EXPECT_EQ(planned(entry), 0u);
  EXPECT_EQ(state().spare_pages(), 1u) << "fewer than run beside each of them";
  EXPECT_EQ(state().statistics.preemptions, 0u);
  commit();
  finish_all();
  EXPECT_EQ(state().statistics.finished, 5u);
}

TEST_F(ScheduleShares, a_request_joins_only_if_there_are_pages_for_the_longest_chunk_it_may_have) {
  Limits limits = roomy_limits();
  limits.pages = 8;
  limits.max_context = 32;
  limits.prefill_chunk = limits.step_tokens = limits.decode_step_tokens = 16;
  use(limits);
  submit(prompt_of(0, 24), 1);
  step();
  const std::uint32_t waiting = submit(prompt_of(1, 24), 1);
  EXPECT_EQ(state().spare_pages(), 4u);
  plan_step(state());
  EXPECT_EQ(state().entries[waiting].state, EntryState::waiting)
      << "the two tokens it would get now need one page, but a chunk of 16 needs four of three";
  commit();
  finish_all();
  EXPECT_EQ(state().statistics.finished, 2u);
  EXPECT_EQ(state().statistics.preemptions, 0u);
}

// --- how long a request waits ---

/// Requests of very different lengths that arrive over time, where slots and pages are enough for
/// all.
class Crowd {
 public:
  explicit Crowd(std::uint32_t seed) : dice_(seed), schedule_(limits()) {}

  void run() {
    std::uint32_t to_come = kSlots;
    while (to_come > 0 || state().waiting.count > 0) {
      for (; to_come > 0 && !dice_.one_in(8); --to_come) submit();
      plan_step(state());
      ++steps_;
      check_joined();
      const std::vector<Outcome> outcomes(state().plan.counts->rows, {1, Ending::none});
      commit_step(state(), outcomes.data());
    }
  }

  std::uint32_t longest_wait_ = 0;

 private:
  static constexpr std::uint32_t kSlots = 40;
  static constexpr std::uint32_t kLongest = 20000;

  State& state() { return schedule_.state; }

  Limits limits() {
    Limits limits;
    limits.slots = limits.requests = kSlots;
    limits.page_size = 16;
    limits.max_context = kLongest + 100;
    limits.pages = kSlots * limits.table_stride();
    limits.prefill_chunk = dice_.one_in(2) ? kLongest : dice_.from(1, 100);
    limits.logit_rows = kSlots + 18;
    limits.decode_step_tokens = kSlots + dice_.from(17, 200);  // 18 or more are left for prompts
    limits.step_tokens = limits.decode_step_tokens + dice_.from(0, 100);
    limits.shares_prefixes = false;
    return limits;
  }

  void submit() {
    const std::uint32_t prompt = dice_.from(1, dice_.one_in(2) ? 30 : kLongest);
    const std::uint32_t ahead = state().running.count + state().waiting.count;
    const std::uint32_t entry =
        schedule_.submit({++last_id_, prompt, dice_.from(1, 100), dice_.one_in(6)},
                         std::vector<std::int32_t>(prompt, 1));
    require(entry != kNone, "there is room");
    deadlines_[entry] = {steps_, 2 * ahead / 3 + 1};
  }

  void check_joined() {
    for (auto waits = deadlines_.begin(); waits != deadlines_.end();) {
      const auto [since, most] = waits->second;
      require(steps_ - since <= most, "a request joins by the bound");
      if (state().entries[waits->first].slot == kNone) {
        ++waits;
        continue;
      }
      longest_wait_ = std::max(longest_wait_, steps_ - since);
      waits = deadlines_.erase(waits);
    }
  }

  Dice dice_;
  Schedule schedule_;
  std::uint64_t last_id_ = 0;
  std::uint32_t steps_ = 0;
  // For each waiting entry: the step in which it arrived, and how many steps later it must have
  // joined.
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> deadlines_;
};

TEST(ScheduleWaits, a_wait_depends_on_how_many_requests_are_ahead_and_not_on_their_lengths) {
  std::uint32_t longest_wait = 0;
  for (std::uint32_t seed = 0; seed < 200 / kSlowdown; ++seed) {
    Crowd crowd(seed);
    ASSERT_NO_THROW(crowd.run()) << "seed " << seed;
    longest_wait = std::max(longest_wait, crowd.longest_wait_);
  }
  EXPECT_GT(longest_wait, 5u) << "the workloads make requests wait";
}

}  // namespace
}  // namespace attacca::test
