// lanes_test.cpp: the policy run by several lanes, as threads of the host: whatever the number of
// lanes, every plan and every commit is the same.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <thread>

#include "schedule/steady.hpp"
#include "schedule/world.hpp"

namespace attacca::schedule {
namespace {

using test::Dice;
using test::Outcome;
using test::Schedule;

/// Threads that wait for one another.
class Crew {
 public:
  explicit Crew(std::uint32_t count) : count_(count), barrier_(count) {
    for (std::uint32_t index = 0; index < count; ++index)
      threads_.emplace_back([this, index] { serve(index); });
  }
  ~Crew() {
    work_ = nullptr;
    start();
    for (std::thread& thread : threads_) thread.join();
  }

  class Lanes {
   public:
    Lanes(Crew& crew, std::uint32_t index) : crew_(&crew), index_(index) {}
    std::uint32_t index() const { return index_; }
    std::uint32_t count() const { return crew_->count_; }
    void sync() const { crew_->barrier_.arrive_and_wait(); }
    template <class T>
    T sum_before(const T& value, T& all) const {
      static_assert(sizeof(T) <= sizeof(Slot));
      std::memcpy(&crew_->values_[index_], &value, sizeof(T));
      sync();
      T before{};
      all = {};
      for (std::uint32_t at = 0; at < crew_->count_; ++at) {
        if (at == index_) before = all;
        T one;
        std::memcpy(&one, &crew_->values_[at], sizeof(T));
        all = all + one;
      }
      sync();
      return before;
    }

   private:
    Crew* crew_;
    std::uint32_t index_;
  };

  void run(const std::function<void(const Lanes&)>& work) {
    work_ = &work;
    start();
    done_.wait(false, std::memory_order_acquire);
    done_.store(false, std::memory_order_relaxed);
  }

 private:
  struct Slot {
    std::uint32_t words[8];
  };

  void start() {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  void serve(std::uint32_t index) {
    for (std::uint32_t seen = 0;; ++seen) {
      round_.wait(seen, std::memory_order_acquire);
      if (!work_) return;
      (*work_)(Lanes(*this, index));
      barrier_.arrive_and_wait();
      if (index != 0) continue;
      done_.store(true, std::memory_order_release);
      done_.notify_one();
    }
  }

  std::uint32_t count_;
  std::barrier<> barrier_;
  Slot values_[64];
  const std::function<void(const Lanes&)>* work_ = nullptr;
  std::atomic<std::uint32_t> round_{0};
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

Limits limits_of(Dice& dice) {
  Limits limits;
  limits.slots = dice.from(1, 24);
  limits.requests = limits.slots + dice.from(0, 8);
  limits.page_size = 1u << dice.from(1, 3);
  limits.max_context = dice.from(20, 60);
  limits.pages = limits.pages_for(limits.max_context) * dice.from(1, limits.slots);
  limits.prefill_chunk = dice.from(1, 40);
  limits.step_tokens = limits.slots + dice.from(0, 40);
  limits.decode_step_tokens = dice.from(limits.slots, limits.step_tokens);
  limits.logit_rows = limits.slots + dice.from(0, 8);
  limits.shares_prefixes = !dice.one_in(4);
  return limits;
}

/// Two schedules that get the same requests, cancels and samples. One is run by a single lane, the
/// other by a crew.
class Twins {
 public:
  Twins(std::uint32_t seed, Crew& crew) : dice_(seed), crew_(crew), limits_(limits_of(dice_)) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      while (dice_.one_in(2)) submit();
      if (dice_.one_in(9)) cancel();
      plan_both();
      compare_plans();
      if (one_.state.in_flight > dice_.from(0, 1)) commit(sample(12));
      compare_states();
    }
    ASSERT_GT(one_.state.statistics.decoded, 0u);
  }

  /// One of them commits and plans with steady passes, where they can be made; returns how many
  /// were.
  int run_steadily(int passes) {
    int steady = 0;
    for (int pass = 0; pass < passes && !testing::Test::HasFatalFailure(); ++pass) {
      while (dice_.one_in(8)) submit();
      if (dice_.one_in(50)) cancel();
      for (Schedule* each : {&one_, &many_})
        while (each->state.in_flight < kMostInFlight) {
          plan_step(each->state);
          if (each->state.plan.counts->tokens == 0) break;
        }
      const std::vector<Outcome> sampled = sample(60);
      const bool is_steady = make_steady_pass_of_many(sampled);
      commit_step(one_.state, sampled.data());
      if (is_steady) {
        ++steady;
        compare_events();
        plan_step(one_.state);
      } else {
        commit_step(many_.state, sampled.data());
      }
      compare_plans();
      compare_states();
    }
    return steady;
  }

 private:
  void submit() {
    const Request request{.id = ++last_id_,
                          .prompt = dice_.from(1, limits_.max_context / 2),
                          .max_new = dice_.from(0, limits_.max_context / 2),
                          .wants_all_logits = dice_.one_in(5)};
    std::vector<std::int32_t> prompt(request.prompt);
    for (std::int32_t& token : prompt) token = static_cast<std::int32_t>(dice_.from(1, 2));
    const std::uint32_t entry = one_.submit(request, prompt);
    ASSERT_EQ(many_.submit(request, prompt), entry);
  }

  void cancel() {
    const std::uint32_t entry = dice_.from(0, limits_.requests - 1);
    const std::uint64_t id = one_.state.entries[entry].request.id;
    ASSERT_EQ(schedule::cancel(one_.state, entry, id), schedule::cancel(many_.state, entry, id));
  }

  void plan_both() {
    plan_step(one_.state);
    crew_.run([&](const Crew::Lanes& lanes) { plan_step(many_.state, lanes); });
  }

  /// One in so many rows ends its request.
  std::vector<Outcome> sample(std::uint32_t rows_per_end) {
    std::vector<Outcome> sampled(limits_.logit_rows);
    for (Outcome& each : sampled)
      each = {static_cast<std::int32_t>(dice_.from(1, 2)),
              dice_.one_in(rows_per_end)       ? Ending::stop_token
              : dice_.one_in(3 * rows_per_end) ? Ending::not_finite
                                               : Ending::none};
    return sampled;
  }

  /// Makes a steady pass with the crew, if it can be made, and keeps its events.
  bool make_steady_pass_of_many(const std::vector<Outcome>& sampled) {
    std::atomic<std::uint32_t> against = 0;
    steady_events_.assign(many_.state.running.count, {});
    crew_.run([&](const Crew::Lanes& lanes) {
      SteadyPart own;
      against += !find_steady_part(many_.state, sampled.data(), lanes, own);
      lanes.sync();
      if (against > 0) return;
      if (own.is_used) steady_events_[lanes.index()] = own.event;
      make_steady_pass(many_.state, lanes, own);
    });
    return against == 0;
  }

  void compare_events() {
    ASSERT_EQ(one_.state.event_count, steady_events_.size());
    for (std::uint32_t at = 0; at < one_.state.event_count; ++at)
      compare(one_.state.events[at], steady_events_[at]);
  }

  static void compare(const Event& a, const Event& b) {
    ASSERT_EQ(std::tie(a.id, a.entry, a.row, a.position, a.token, a.ending),
              std::tie(b.id, b.entry, b.row, b.position, b.token, b.ending));
  }

  void commit(const std::vector<Outcome>& sampled) {
    commit_step(one_.state, sampled.data());
    crew_.run([&](const Crew::Lanes& lanes) {
      settle_step(many_.state, sampled.data(), lanes);
      lanes.sync();
      if (is_first(lanes)) keep_step(many_.state);
    });
    ASSERT_EQ(one_.state.event_count, many_.state.event_count);
    for (std::uint32_t at = 0; at < one_.state.event_count; ++at)
      compare(one_.state.events[at], many_.state.events[at]);
  }

  void compare_plans() {
    const Plan &a = one_.state.plan, &b = many_.state.plan;
    ASSERT_EQ(std::memcmp(a.counts, b.counts, sizeof(Counts)), 0);
    const auto same = [](const auto* x, const auto* y, std::uint32_t count) {
      return std::memcmp(x, y, count * sizeof *x) == 0;
    };
    const Counts& counts = *a.counts;
    EXPECT_TRUE(same(a.tokens, b.tokens, counts.tokens));
    EXPECT_TRUE(same(a.token_from, b.token_from, counts.tokens));
    EXPECT_TRUE(same(a.positions, b.positions, counts.tokens));
    EXPECT_TRUE(same(a.slots, b.slots, counts.tokens));
    EXPECT_TRUE(same(a.gather, b.gather, counts.rows));
    EXPECT_TRUE(same(a.row_slots, b.row_slots, counts.rows));
    EXPECT_TRUE(same(a.row_positions, b.row_positions, counts.rows));
    EXPECT_TRUE(same(a.row_forced, b.row_forced, counts.rows));
    EXPECT_TRUE(same(a.prepared, b.prepared, counts.prepared));
    EXPECT_TRUE(same(a.changes, b.changes, counts.changes));
    ASSERT_TRUE(same(a.tables, b.tables, limits_.slots * limits_.table_stride()));
  }

  void compare_states() {
    const State &a = one_.state, &b = many_.state;
    ASSERT_EQ(std::memcmp(&a.statistics, &b.statistics, sizeof a.statistics), 0);
    ASSERT_EQ(std::memcmp(a.entries, b.entries, limits_.requests * sizeof(Entry)), 0);
    ASSERT_EQ(std::memcmp(a.slots, b.slots, limits_.slots * sizeof(schedule::Slot)), 0);
    ASSERT_EQ(std::memcmp(a.pages, b.pages, limits_.pages * sizeof(Page)), 0);
    ASSERT_EQ(std::tie(a.oldest, a.in_flight, a.settled, a.to_keep_count),
              std::tie(b.oldest, b.in_flight, b.settled, b.to_keep_count));
    for (std::uint32_t place = 0; place < kMostInFlight; ++place) {
      ASSERT_EQ(a.part_count[place], b.part_count[place]);
      ASSERT_EQ(
          std::memcmp(a.parts_at(place), b.parts_at(place), a.part_count[place] * sizeof(Part)), 0);
    }
    const std::size_t history = std::size_t{limits_.requests} * limits_.max_context;
    ASSERT_EQ(std::memcmp(a.histories, b.histories, history * sizeof *a.histories), 0);
    ASSERT_EQ(a.running.count, b.running.count);
    ASSERT_EQ(std::memcmp(a.running.items, b.running.items, a.running.count * 4), 0);
    ASSERT_EQ(a.free_pages.count, b.free_pages.count);
    ASSERT_EQ(std::memcmp(a.free_pages.items, b.free_pages.items, a.free_pages.count * 4), 0);
  }

  Dice dice_;
  Crew& crew_;
  Limits limits_;
  Schedule one_{limits_}, many_{limits_};
  std::uint64_t last_id_ = 0;
  std::vector<Event> steady_events_;
};

TEST(Lanes, any_number_of_them_plans_and_commits_the_same_steps) {
  for (const std::uint32_t count : {1u, 2u, 5u}) {
    Crew crew(count);
    for (std::uint32_t seed = 0; seed < 40; ++seed) {
      SCOPED_TRACE(testing::Message() << count << " lanes, seed " << seed);
      Twins(seed, crew).run(60);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Lanes, a_steady_pass_does_what_a_commit_and_a_plan_do) {
  for (const std::uint32_t count : {1u, 5u}) {
    Crew crew(count);
    int steady = 0;
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(testing::Message() << count << " lanes, seed " << seed);
      steady += Twins(seed, crew).run_steadily(100);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(steady, 50) << count << " lanes";
  }
}

}  // namespace
}  // namespace attacca::schedule
