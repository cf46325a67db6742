// Tests of the scheduling policy, rule by rule: the tokens of a step, the order of waiting, prefix
// sharing and refusals. How prompts share a step is in share_test.cpp, random workloads are in
// simulation_test.cpp.
#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include <string>
#include <type_traits>
#include <unordered_map>

#include "schedule/policy.hpp"

namespace attacca::test {
namespace {

using namespace schedule;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

static_assert(std::is_trivially_copyable_v<State>);

TEST_F(SchedulePolicy, a_prompt_is_computed_in_chunks_and_then_token_by_token) {
  submit(counting(1, 10), 3);
  plan_step(state());
  EXPECT_THAT(planned_tokens(), counting(1, 8));
  EXPECT_THAT(planned_positions(), counting(0, 8));
  EXPECT_EQ(counts().rows, 0u) << "no logits are wanted before the prompt's end";
  EXPECT_EQ(counts().placed, 1u);
  EXPECT_THAT(commit(), IsEmpty());

  plan_step(state());
  EXPECT_THAT(planned_tokens(), ElementsAre(9, 10));
  EXPECT_THAT(first(plan().gather, counts().rows), ElementsAre(1));
  EXPECT_THAT(first(plan().row_positions, counts().rows), ElementsAre(10));
  EXPECT_EQ(counts().placed, 0u);
  EXPECT_EQ(counts().decodes, 0u);
  const std::vector<Event> events = commit(42);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].id, 1u);
  EXPECT_EQ(events[0].position, 10u);
  EXPECT_EQ(events[0].token, 42);
  EXPECT_EQ(events[0].ending, Ending::none);

  plan_step(state());
  EXPECT_THAT(planned_tokens(), ElementsAre(42));
  EXPECT_THAT(planned_positions(), ElementsAre(10));
  EXPECT_EQ(counts().decodes, 1u);
  commit();
  EXPECT_EQ(step().at(0).ending, Ending::length);
  plan_step(state());
  EXPECT_EQ(counts().tokens, 0u) << "nothing is left to do";
  EXPECT_EQ(state().spare_pages(), 16u);
  EXPECT_EQ(state().statistics.prefilled, 10u);
  EXPECT_EQ(state().statistics.decoded, 2u);
}

TEST_F(SchedulePolicy, decodes_come_first_and_prefill_takes_what_is_left) {
  submit(counting(1, 2), 9);
  submit(counting(11, 2), 9);
  step();
  submit(counting(21, 8), 9);
  submit(counting(41, 12), 9);
  plan_step(state());
  EXPECT_EQ(counts().tokens, 16u) << "the budget";
  EXPECT_EQ(counts().decodes, 2u);
  EXPECT_THAT(planned_positions(), ElementsAre(2, 2, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(first(plan().gather, counts().rows), ElementsAre(0, 1, 9));
}

TEST_F(SchedulePolicy, a_step_runs_in_the_smallest_graph_of_its_kind_that_takes_it) {
  submit(counting(1, 1), 9);
  plan_step(state());
  EXPECT_TRUE(counts().is_decode) << "a prompt of one token is like a token that was generated";
  EXPECT_EQ(counts().graph, 0u);
  EXPECT_EQ(state().statistics.padding, 0u);
  submit(counting(10, 2), 9);
  commit();
  plan_step(state());
  EXPECT_EQ(counts().tokens, 3u);
  EXPECT_FALSE(counts().is_decode);
  EXPECT_EQ(counts().graph, 2u + 1) << "mixed sizes come after the two decode sizes";
  EXPECT_EQ(state().statistics.padding, 1u);
  commit();
  plan_step(state());
  EXPECT_TRUE(counts().is_decode);
  EXPECT_EQ(counts().tokens, 2u);
  EXPECT_EQ(counts().graph, 1u) << "of decode size 3, though a mixed size is equal";
  commit();
  submit(counting(20, 5), 1);
  plan_step(state());
  EXPECT_EQ(counts().graph, 2u + 2);
}

TEST_F(SchedulePolicy, a_decode_step_above_the_decode_sizes_runs_in_a_mixed_graph_or_in_none) {
  for (const bool has_mixed : {true, false}) {
    Limits limits = small_limits();
    if (!has_mixed) limits.mixed_sizes.count = 1;
    use(limits);
    for (std::int32_t first : {1, 11, 21, 31}) submit(counting(first, 1), 2);
    plan_step(state());
    EXPECT_TRUE(counts().is_decode);
    EXPECT_EQ(counts().graph, has_mixed ? 2u + 1 : kNone);
    EXPECT_EQ(state().statistics.padding, 0u);
  }
}

TEST_F(SchedulePolicy, without_padding_only_a_graph_of_the_same_size_will_do) {
  Limits limits = small_limits();
  limits.pads = false;
  EXPECT_EQ(choose_graph(limits, 1, true), 0u);
  EXPECT_EQ(choose_graph(limits, 2, true), 2u) << "a mixed size";
  EXPECT_EQ(choose_graph(limits, 3, true), 1u);
  EXPECT_EQ(choose_graph(limits, 1, false), kNone);
  EXPECT_EQ(choose_graph(limits, 3, false), kNone);
  EXPECT_EQ(choose_graph(limits, 4, false), 3u);
  EXPECT_EQ(choose_graph(limits, 15, false), kNone);
  EXPECT_EQ(choose_graph(limits, 16, false), 4u);
  limits.pads = true;
  EXPECT_EQ(choose_graph(limits, 1, false), 2u);
  EXPECT_EQ(choose_graph(limits, 15, false), 4u);
  EXPECT_EQ(choose_graph(limits, 17, false), kNone);
}

TEST_F(SchedulePolicy, a_chunk_of_one_token_is_no_decode_step) {
  Limits limits = small_limits();
  limits.prefill_chunk = 1;
  use(limits);
  submit(counting(1, 2), 1);
  plan_step(state());
  EXPECT_EQ(counts().tokens, 1u);
  EXPECT_FALSE(counts().is_decode) << "it has no row of logits";
  EXPECT_EQ(counts().graph, 2u);
  commit();
  plan_step(state());
  EXPECT_TRUE(counts().is_decode);
}

TEST_F(SchedulePolicy, the_sampler_ends_a_sequence_and_its_place_is_free_for_the_next_step) {
  const std::uint32_t entry = submit(counting(1, 3), 9);
  plan_step(state());
  const std::vector<Event> events = commit(7, Ending::stop_token);
  EXPECT_EQ(events.at(0).token, 7);
  EXPECT_EQ(events.at(0).ending, Ending::stop_token);
  EXPECT_EQ(state().entries[entry].state, EntryState::free);
  EXPECT_EQ(state().free_slots.count, 4u);
  EXPECT_EQ(state().free_pages.count, 16u);
}

TEST_F(SchedulePolicy, full_pages_of_an_equal_prefix_are_shared) {
  const std::uint32_t one = submit(counting(1, 11), 20);
  step();
  step();
  Tokens longer = counting(1, 9);
  longer.push_back(99);
  const std::uint32_t two = submit(longer, 4);
  plan_step(state());
  EXPECT_THAT(first(plan().positions + 1, 2), ElementsAre(8, 9)) << "two pages were there";
  EXPECT_EQ(table(two)[0], table(one)[0]);
  EXPECT_EQ(table(two)[1], table(one)[1]);
  EXPECT_NE(table(two)[2], table(one)[2]);
  EXPECT_EQ(state().pages[table(one)[1]].references, 2u);
  EXPECT_EQ(state().statistics.shared, 8u);
}

TEST_F(SchedulePolicy, the_last_token_of_a_prompt_is_always_computed) {
  submit(counting(1, 8), 1);
  finish_all();
  EXPECT_EQ(state().idle_pages.count, 2u);
  submit(counting(1, 8), 1);
  plan_step(state());
  EXPECT_THAT(planned_positions(), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(counts().rows, 1u);
}

TEST_F(SchedulePolicy, pages_computed_twice_at_a_time_are_merged) {
  const std::uint32_t one = submit(counting(1, 6), 9);
  const std::uint32_t two = submit(counting(1, 6), 9);
  plan_step(state());
  EXPECT_NE(table(one)[0], table(two)[0]);
  commit();
  EXPECT_EQ(table(one)[0], table(two)[0]);
  EXPECT_NE(table(one)[1], table(two)[1]) << "not full yet";
  EXPECT_EQ(state().statistics.merged, 1u);
  EXPECT_EQ(state().spare_pages(), 13u);
}

TEST_F(SchedulePolicy, a_prompt_catches_up_with_pages_that_others_have_computed_meanwhile) {
  Limits limits = small_limits();
  limits.step_tokens = limits.decode_step_tokens = limits.mixed_sizes.of[2] = 12;
  use(limits);
  submit(counting(1, 20), 1);
  submit(counting(1, 20), 1);
  plan_step(state());
  EXPECT_THAT(planned_positions(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3));
  commit();
  plan_step(state());
  EXPECT_THAT(planned_positions(), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11));
  EXPECT_EQ(state().statistics.shared, 4u);
}

TEST_F(SchedulePolicy, a_hash_that_collides_never_shares_a_page) {
  // By the birthday paradox two pages with the same hash are soon found.
  std::unordered_map<std::uint32_t, std::int32_t> seen;
  Tokens one = counting(0, 5), two = counting(0, 5);
  for (std::int32_t token = 0;; ++token) {
    two[0] = token;
    const auto [other, is_new] =
        seen.emplace(schedule::detail::hash_of(kNone, two.data(), 4), token);
    if (is_new) continue;
    one[0] = other->second;
    break;
  }
  ASSERT_NE(one, two);
  submit(one, 1);
  finish_all();
  submit(two, 1);
  plan_step(state());
  EXPECT_EQ(counts().tokens, 5u) << "nothing shared";
  commit();
  submit(two, 1);
  plan_step(state());
  EXPECT_EQ(counts().tokens, 1u) << "both are cached";
  const std::uint32_t hash = schedule::detail::hash_of(kNone, one.data(), 4);
  EXPECT_NE(schedule::detail::find_page(state(), kNone, one.data(), hash), kNone);
  EXPECT_EQ(schedule::detail::find_page(state(), 7, one.data(), hash), kNone)
      << "after another page";
}

TEST_F(SchedulePolicy, the_least_recently_used_page_is_evicted_first) {
  Limits limits = small_limits();
  limits.pages = 4;
  use(limits);
  for (const std::int32_t prompt : {10, 20, 30}) {
    submit(counting(prompt, 5), 1);
    finish_all();
  }
  submit(counting(10, 5), 1);  // uses its cached page again
  finish_all();
  submit(counting(40, 6), 1);  // takes the free page and evicts one
  finish_all();
  EXPECT_EQ(state().statistics.evictions, 1u);
  const std::uint64_t shared = state().statistics.shared;
  for (const std::int32_t prompt : {10, 30}) {
    submit(counting(prompt, 5), 0);
    finish_all();
  }
  EXPECT_EQ(state().statistics.shared, shared + 8) << "20 was evicted, 10 and 30 were not";
}

TEST_F(SchedulePolicy, pages_that_gave_logits_that_are_not_finite_are_not_kept_for_others) {
  submit(counting(0, 8), 4);
  plan_step(state());
  commit(7, Ending::not_finite);
  EXPECT_EQ(state().idle_pages.count, 0u);
  EXPECT_EQ(state().free_pages.count, state().limits.pages);
  submit(counting(0, 8), 4);
  step();
  EXPECT_EQ(state().statistics.shared, 0u);
}

TEST_F(SchedulePolicy, a_finished_prefix_is_evicted_from_its_end) {
  Limits limits = small_limits();
  limits.pages = 4;
  use(limits);
  submit(counting(1, 13), 1);
  finish_all();
  EXPECT_EQ(state().idle_pages.count, 3u);
  submit(counting(51, 6), 1);
  finish_all();
  submit(counting(1, 13), 1);
  plan_step(state());
  EXPECT_EQ(state().statistics.shared, 8u) << "the first two of three pages are still there";
}

TEST_F(SchedulePolicy, the_newest_is_preempted_for_a_page_and_computed_again_from_its_history) {
  Limits limits = small_limits();
  limits.pages = 5;
  limits.prefill_chunk = 16;
  use(limits);
  const std::uint32_t old = submit(counting(1, 7), 12);
  const std::uint32_t young = submit(counting(21, 3), 12);
  step();
  step();
  while (state().entries[young].state == EntryState::running) step();
  EXPECT_EQ(state().statistics.preemptions, 1u);
  EXPECT_EQ(state().entries[old].state, EntryState::running);
  const Tokens history = first(state().history(young), state().entries[young].length);
  EXPECT_GT(history.size(), 4u) << "what it generated stays";
  while (state().entries[old].state == EntryState::running) step();
  plan_step(state());
  const std::uint32_t computed = state().entries[young].computed - counts().tokens;
  EXPECT_EQ(planned_tokens(), Tokens(history.begin() + computed, history.end()));
  EXPECT_EQ(counts().rows, 1u) << "only the last token's logits are wanted";
  commit();
  finish_all();
  EXPECT_EQ(state().statistics.finished, 2u);
}

TEST_F(SchedulePolicy, a_request_that_needs_permissions_sits_out_without_one_and_delays_nobody) {
  const std::uint32_t asks = submit(counting(1, 10), 3);
  permit_next(state(), asks);
  submit(counting(21, 2), 9);
  plan_step(state());
  EXPECT_EQ(planned(asks), 8u);
  commit();
  plan_step(state());
  EXPECT_EQ(planned(asks), 2u) << "the first token is permitted";
  EXPECT_EQ(counts().rows, 2u);
  plan_step(state());
  EXPECT_EQ(planned(asks), 0u) << "its token is in flight";
  EXPECT_EQ(counts().tokens, 1u);
  const std::vector<Outcome> outcomes(2, {41, Ending::none});
  commit_step(state(), outcomes.data());
  commit_step(state(), outcomes.data());
  plan_step(state());
  EXPECT_EQ(planned(asks), 0u) << "its token is known, but the next one is not permitted";
  EXPECT_EQ(counts().tokens, 1u);
  EXPECT_TRUE(counts().is_decode);
  commit();
  permit_next(state(), asks);
  plan_step(state());
  EXPECT_EQ(planned(asks), 1u);
  EXPECT_EQ(planned_tokens()[0], 41);
  commit();
}

TEST_F(SchedulePolicy, what_runs_ahead_of_a_request_that_is_held_is_void_and_computed_again) {
  const std::uint32_t held = submit(counting(1, 4), 5);
  permit_all(state(), held);
  submit(counting(21, 2), 9);
  plan_step(state());
  EXPECT_EQ(counts().prepared, 2u);
  plan_step(state());
  EXPECT_EQ(planned(held), 1u) << "it runs ahead";
  const std::vector<Outcome> outcomes(2, {41, Ending::none});
  commit_step(state(), outcomes.data());
  EXPECT_EQ(state().event_count, 2u);
  hold(state(), held);
  plan_step(state());
  EXPECT_EQ(planned(held), 0u);
  EXPECT_EQ(counts().tokens, 1u) << "nobody else waits";
  commit_step(state(), outcomes.data());
  EXPECT_EQ(state().event_count, 1u) << "what ran ahead of it is void";
  EXPECT_EQ(state().statistics.voided, 1u);
  commit_step(state(), outcomes.data());
  permit_all(state(), held);
  plan_step(state());
  EXPECT_EQ(planned(held), 1u);
  EXPECT_THAT(planned_positions(), testing::Contains(4)) << "once more";
  EXPECT_EQ(counts().placed, 0u);
  EXPECT_EQ(counts().prepared, 1u) << "its slot gets another mask";
  commit();
  plan_step(state());
  EXPECT_EQ(counts().prepared, 0u);
  commit();
}

TEST_F(SchedulePolicy, a_preempted_request_without_a_permission_computes_all_but_its_last_token) {
  Limits limits = small_limits();
  limits.pages = 5;
  limits.prefill_chunk = 16;
  use(limits);
  const std::uint32_t old = submit(counting(1, 7), 8);
  const std::uint32_t asks = submit(counting(21, 5), 12);
  permit_next(state(), asks);
  step();
  while (state().entries[asks].state == EntryState::running) step();
  EXPECT_EQ(state().statistics.preemptions, 1u);
  while (state().entries[old].state != EntryState::free) step();
  while (state().entries[asks].state == EntryState::waiting) step();
  EXPECT_EQ(state().entries[asks].computed, 5u) << "of the six tokens it has";
  plan_step(state());
  EXPECT_EQ(counts().tokens, 0u);
  permit_next(state(), asks);
  plan_step(state());
  EXPECT_THAT(planned_positions(), ElementsAre(5));
  EXPECT_EQ(counts().rows, 1u);
  commit();
}

TEST_F(SchedulePolicy, nobody_overtakes_a_request_that_waits_for_pages) {
  Limits limits = small_limits();
  limits.pages = 8;
  use(limits);
  submit(counting(1, 16), 8);
  step();
  step();
  const std::uint32_t large = submit(counting(31, 24), 1);
  const std::uint32_t little = submit(counting(71, 1), 1);
  while (state().entries[large].state == EntryState::waiting) {
    EXPECT_EQ(state().entries[little].state, EntryState::waiting);
    step();
  }
  finish_all();
  EXPECT_EQ(state().statistics.finished, 3u);
}

TEST_F(SchedulePolicy, all_logits_of_a_prompt_come_as_rows_within_the_row_budget) {
  Limits limits = small_limits();
  limits.logit_rows = 5;
  use(limits);
  submit(counting(1, 7), 0, true);
  std::vector<Event> events = step();
  ASSERT_EQ(events.size(), 5u);
  for (std::uint32_t at = 0; at < 5; ++at) {
    EXPECT_EQ(events[at].position, at + 1);
    EXPECT_EQ(events[at].token, static_cast<std::int32_t>(at + 2)) << "the prompt's own";
    EXPECT_EQ(events[at].row, at);
    EXPECT_EQ(events[at].ending, Ending::none);
  }
  events = step();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].token, 7);
  EXPECT_EQ(events[1].token, -1) << "it generates nothing";
  EXPECT_EQ(events[1].ending, Ending::length);
  submit(counting(1, 7), 0, true);
  plan_step(state());
  EXPECT_EQ(state().statistics.shared, 0u) << "shared pages would have no logits";
}

TEST_F(SchedulePolicy, a_request_cancelled_while_its_step_runs_has_no_event) {
  const std::uint32_t one = submit(counting(1, 5), 4);
  submit(counting(11, 5), 4);
  plan_step(state());
  EXPECT_FALSE(cancel(state(), one, 77)) << "another's id";
  EXPECT_FALSE(cancel(state(), 1000, 1));
  EXPECT_TRUE(cancel(state(), one, 1));
  EXPECT_FALSE(cancel(state(), one, 1));
  EXPECT_EQ(submit(counting(21, 5), 4), one) << "the entry is used again at once";
  const std::vector<Event> events = commit();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].id, 2u);
  plan_step(state());
  EXPECT_EQ(counts().tokens, 6u);
}

// --- a step ahead --------------------------------------------------------------------------------

TEST_F(SchedulePolicy, a_step_ahead_takes_unknown_tokens_from_the_rows_that_sample_them) {
  submit(counting(1, 3), 5);
  plan_step(state());
  const std::vector<Outcome> one(1, {41, Ending::none});
  submit(counting(11, 2), 5);
  plan_step(state());
  EXPECT_THAT(planned_positions(), ElementsAre(3, 0, 1));
  EXPECT_THAT(first(plan().token_from, 3), ElementsAre(0, -1, -1));
  EXPECT_THAT(first(plan().tokens + 1, 2), ElementsAre(11, 12));
  EXPECT_EQ(state().statistics.ahead, 1u);
  plan_step(state());
  EXPECT_EQ(counts().tokens, 0u) << "two steps are in flight, and no more";

  commit_step(state(), one.data());
  ASSERT_EQ(state().event_count, 1u);
  EXPECT_EQ(state().events[0].token, 41);
  plan_step(state());
  EXPECT_THAT(planned_positions(), ElementsAre(4, 2));
  EXPECT_THAT(first(plan().token_from, 2), ElementsAre(0, 1));
  const std::vector<Outcome> two{{42, Ending::none}, {51, Ending::none}};
  commit_step(state(), two.data());
  commit_step(state(), two.data());
  EXPECT_EQ(state().in_flight, 0u);
  plan_step(state());
  EXPECT_THAT(first(plan().token_from, 2), ElementsAre(-1, -1)) << "all is known now";
  EXPECT_THAT(planned_tokens(), ElementsAre(42, 51));
}

TEST_F(SchedulePolicy, what_ends_by_its_length_is_not_planned_ahead) {
  submit(counting(1, 3), 1);
  submit(counting(11, 3), 2);
  submit(counting(21, 3), 0);
  plan_step(state());
  plan_step(state());
  EXPECT_THAT(planned_positions(), ElementsAre(3)) << "of the second";
  const std::vector<Outcome> outcomes(3, {7, Ending::none});
  commit_step(state(), outcomes.data());
  EXPECT_EQ(state().event_count, 3u);
  plan_step(state());
  EXPECT_EQ(counts().tokens, 0u) << "and now it ends, too";
  commit_step(state(), outcomes.data());
  EXPECT_EQ(state().statistics.finished, 3u);
  EXPECT_EQ(state().statistics.voided, 0u);
}

TEST_F(SchedulePolicy, what_is_planned_after_a_stop_that_was_not_known_is_void) {
  const std::uint32_t entry = submit(counting(1, 3), 9);
  plan_step(state());
  plan_step(state());
  const std::vector<Outcome> stop(1, {7, Ending::stop_token}), other(1, {8, Ending::none});
  commit_step(state(), stop.data());
  EXPECT_EQ(state().events[0].ending, Ending::stop_token);
  EXPECT_EQ(state().spare_pages(), 16u) << "who runs after the void step may write them";
  EXPECT_EQ(submit(counting(21, 3), 9), entry);
  plan_step(state());
  EXPECT_EQ(state().entries[entry].slot, 0u) << "the same entry in the same slot, and yet another";
  commit_step(state(), other.data());
  EXPECT_EQ(state().event_count, 0u);
  EXPECT_EQ(state().statistics.voided, 1u);
  commit_step(state(), other.data());
  ASSERT_EQ(state().event_count, 1u);
  EXPECT_EQ(state().events[0].id, 2u);
  EXPECT_EQ(state().events[0].position, 3u);
}

TEST_F(SchedulePolicy, a_request_cancelled_with_two_steps_in_flight_has_no_event_in_either) {
  const std::uint32_t one = submit(counting(1, 5), 4);
  submit(counting(11, 5), 4);
  plan_step(state());
  plan_step(state());
  EXPECT_TRUE(cancel(state(), one, 1));
  const std::vector<Outcome> outcomes(2, {7, Ending::none});
  for (int step = 0; step < 2; ++step) {
    commit_step(state(), outcomes.data());
    ASSERT_EQ(state().event_count, 1u);
    EXPECT_EQ(state().events[0].id, 2u);
  }
  EXPECT_EQ(state().statistics.voided, 6u);
}

TEST_F(SchedulePolicy, a_page_is_shared_only_when_its_last_token_is_known) {
  submit(counting(1, 3), 9);
  plan_step(state());
  plan_step(state());  // fills the page with a token that is in flight
  const std::vector<Outcome> outcomes(1, {4, Ending::none});
  submit(counting(1, 6), 1);
  commit_step(state(), outcomes.data());
  plan_step(state());
  EXPECT_EQ(state().statistics.shared, 0u) << "the step that fills it is still in flight";
  commit_step(state(), outcomes.data());
  submit(counting(1, 6), 1);
  plan_step(state());
  EXPECT_EQ(state().statistics.shared, 4u);
}

TEST_F(SchedulePolicy, a_token_in_flight_is_sampled_again_where_its_sequence_is_preempted) {
  Limits limits = small_limits();
  limits.pages = 3;
  use(limits);
  submit(counting(1, 4), 8);
  const std::uint32_t young = submit(counting(11, 2), 8);
  plan_step(state());
  const std::vector<Outcome> outcomes(2, {7, Ending::none});
  plan_step(state());  // both decode: the first takes the last page
  commit_step(state(), outcomes.data());
  while (state().entries[young].state == EntryState::running) {
    plan_step(state());
    if (state().entries[young].state == EntryState::running) commit_step(state(), outcomes.data());
  }
  const Entry& e = state().entries[young];
  EXPECT_EQ(e.length, e.known());
  EXPECT_EQ(e.wanted, e.settled);
  const std::uint32_t length = e.length;
  commit_step(state(), outcomes.data());
  EXPECT_EQ(state().event_count, 1u) << "of the older one";
  EXPECT_EQ(e.length, length);
  while (state().running.count + state().waiting.count > 0) {
    if (state().in_flight > 0) commit_step(state(), outcomes.data());
    plan_step(state());
  }
  EXPECT_EQ(state().statistics.finished, 2u);
  EXPECT_EQ(state().spare_pages(), 3u);
}

TEST_F(SchedulePolicy, a_full_queue_and_requests_that_can_never_finish_are_refused) {
  const Limits limits = small_limits();
  EXPECT_EQ(judge(limits, {1, 0, 4, false}), Admission::no_prompt);
  EXPECT_EQ(judge(limits, {1, 30, 3, false}), Admission::over_context);
  EXPECT_EQ(judge(limits, {1, 2, 0xffffffff, false}), Admission::over_context);
  Limits few = limits;
  few.pages = 7;
  EXPECT_EQ(judge(few, {1, 25, 4, false}), Admission::over_pages);
  EXPECT_EQ(judge(few, {1, 24, 4, false}), Admission::done);
  EXPECT_THAT(why_refused(limits, {1, 0, 4, false}), HasSubstr("at least one"));
  EXPECT_THAT(why_refused(limits, {1, 30, 3, false}), HasSubstr("33, over the context of 32"));
  EXPECT_THAT(why_refused(few, {1, 25, 4, false}), HasSubstr("29, over the 28 that 7 KV pages"));
  EXPECT_THAT(why_refused(few, {1, 24, 4, false}), IsEmpty());

  EXPECT_EQ(submit(counting(1, 30), 3), kNone);
  EXPECT_EQ(state().free_entries.count, 8u) << "a refused entry is free again";
  for (int at = 0; at < 8; ++at) EXPECT_NE(submit(counting(1, 3), 3), kNone);
  EXPECT_EQ(submit(counting(1, 3), 3), kNone);
}

}  // namespace
}  // namespace attacca::test
