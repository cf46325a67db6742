// Tests of the threads between a request and its reply, with a scheduler that invents tokens: the
// driver, the text worker and tickets. The sanitizers run them in every full test run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver/driver.hpp"
#include "driver/ticket_core.hpp"

namespace attacca::driver {
namespace {

using llm::Finish;
using llm::Reply;
using llm::Request;
using llm::RequestEvent;
using llm::detail::TicketCore;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Tokens = std::vector<std::int32_t>;

/// The token of a request at a place of its reply.
std::int32_t token_of(std::uint64_t id, std::size_t at) {
  return static_cast<std::int32_t>((id * 31 + at * 7) % 1000);
}

/// Gives every job in it a token a step. It may hold four.
class InventingScheduler final : public Scheduler {
 public:
  std::atomic<int> steps_until_failure = -1;  // none
  std::atomic<bool> is_broken = false;
  std::atomic<bool> fails_to_begin = false;
  std::atomic<std::thread::id> begun_by = {};

  bool can_begin() const override { return true; }
  void begin() override {
    begun_by = std::this_thread::get_id();
    if (fails_to_begin.exchange(false)) throw Error("the launch failed");
  }
  Room room() const override {
    return {.for_generations = jobs_.size() < 4, .for_embeddings = jobs_.size() < 4};
  }
  void admit(JobPtr job) override { jobs_.push_back({std::move(job), 0}); }
  void remove(Job& job) override {
    std::erase_if(jobs_, [&](const Entry& entry) { return entry.job.get() == &job; });
  }
  bool step(std::vector<Outcome>& outcomes) override {
    if (jobs_.empty()) return false;
    if (steps_until_failure >= 0 && steps_until_failure-- == 0) throw Error("the step failed");
    ++stats_.steps;
    for (Entry& entry : jobs_) {
      Outcome outcome{.job = entry.job, .at = Clock::now()};
      outcome.token = token_of(entry.job->id, entry.at++);
      if (entry.at == entry.job->max_new) outcome.finish = Finish::length;
      outcomes.push_back(outcome);
    }
    std::erase_if(jobs_, [](const Entry& entry) { return entry.at == entry.job->max_new; });
    return true;
  }
  bool is_idle() const override { return jobs_.empty(); }
  std::vector<JobPtr> fail_running() override { return remove_all(); }
  std::vector<JobPtr> remove_all() override {
    std::vector<JobPtr> jobs;
    for (Entry& entry : jobs_) jobs.push_back(std::move(entry.job));
    jobs_.clear();
    return jobs;
  }
  void flush() override {}
  llm::EngineStats stats() const override { return stats_; }
  std::vector<llm::StepRecord> records(std::size_t) const override { return {}; }
  std::size_t bytes() const override { return 0; }
  bool is_usable() noexcept override { return !is_broken; }
  StepClock::Running running() override { return StepClock::Running(clock_); }

 private:
  struct Entry {
    JobPtr job;
    std::size_t at;
  };
  std::vector<Entry> jobs_;
  llm::EngineStats stats_;
  StepClock clock_;
};

/// Each token is a number and a blank; a reply stops at a multiple of 100.
class NumbersText final : public ReplyText {
 public:
  std::string push(std::int32_t token) override {
    is_stopped_ |= token % 100 == 0;
    return is_stopped_ ? "" : std::to_string(token) + " ";
  }
  std::string finish() override { return is_stopped_ ? "" : "."; }
  bool is_stopped() const override { return is_stopped_; }
  bool may_stop() const override { return true; }

 private:
  bool is_stopped_ = false;
};

class DriverTest : public testing::Test {
 protected:
  std::shared_ptr<TicketCore> submit(Request request, bool has_text = false) {
    auto job = std::make_shared<Job>();
    job->id = ++last_id_;
    job->prompt = {1, 2, 3};
    job->max_new = request.max_tokens;
    job->priority = request.priority;
    job->deadline = request.deadline;
    if (has_text) job->text = std::make_unique<NumbersText>();
    auto ticket = std::make_shared<TicketCore>(request, *job, inbox_);
    ticket->belongs_to(job);
    job->sink = ticket;
    inbox_->submit({&job, 1});
    return ticket;
  }
  static void expect_tokens(const Reply& reply, std::uint64_t id) {
    for (std::size_t at = 0; at < reply.tokens.size(); ++at)
      ASSERT_EQ(reply.tokens[at], token_of(id, at)) << "token " << at << " of request " << id;
  }

  std::atomic<std::uint64_t> last_id_ = 0;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  InventingScheduler scheduler_;
  std::unique_ptr<TextWorker> text_ = std::make_unique<TextWorker>(inbox_);
  std::unique_ptr<Driver> driver_ = std::make_unique<Driver>(inbox_, scheduler_, *text_);
};

TEST_F(DriverTest, begins_on_the_thread_that_submits_while_its_own_sleeps) {
  for (int round = 0; round < 100; ++round) {
    Request request;
    request.max_tokens = 3;
    const auto ticket = submit(request);
    if (round > 0) {  // the driver has slept before
      EXPECT_EQ(scheduler_.begun_by.load(), std::this_thread::get_id());
    }
    const Reply reply = ticket->wait();
    EXPECT_EQ(reply.tokens.size(), 3u);
    expect_tokens(reply, ticket->id());
    inbox_->wait_until_quiet();
    scheduler_.begun_by = std::thread::id();
  }
}

TEST_F(DriverTest, an_error_while_it_begins_ends_that_request_alone) {
  Request request;
  request.max_tokens = 3;
  submit(request)->wait();
  inbox_->wait_until_quiet();
  scheduler_.fails_to_begin = true;
  const Reply failed = submit(request)->wait();
  EXPECT_EQ(failed.finish, Finish::failed);
  EXPECT_THAT(failed.error, HasSubstr("the launch failed"));
  EXPECT_EQ(submit(request)->wait().finish, Finish::length);
}

TEST_F(DriverTest, gives_every_thread_the_replies_to_its_own_requests_whole_and_in_order) {
  constexpr int kThreads = 4, kRequests = 150;
  std::vector<std::thread> threads;
  std::atomic<int> cancelled = 0, expired = 0, ended = 0;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      std::mt19937 random(static_cast<unsigned>(thread));
      std::vector<std::shared_ptr<TicketCore>> open;
      const auto take_one = [&] {
        const Reply reply = open.front()->wait();
        expect_tokens(reply, open.front()->id());
        cancelled += reply.finish == Finish::cancelled;
        expired += reply.finish == Finish::deadline;
        ended += reply.finish == Finish::length;
        open.erase(open.begin());
      };
      for (int i = 0; i < kRequests; ++i) {
        Request request;
        request.max_tokens = 1 + random() % 30;
        request.priority = static_cast<llm::Priority>(random() % 3);
        if (random() % 8 == 0)
          request.deadline = Clock::now() + std::chrono::microseconds(random() % 300);
        if (random() % 4 == 0) request.on_event = [](const RequestEvent&) {};
        open.push_back(submit(request));
        if (random() % 5 == 0) open.back()->cancel();
        while (open.size() > random() % 8) take_one();
      }
      while (!open.empty()) take_one();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cancelled + expired + ended, kThreads * kRequests);
  EXPECT_GT(ended, 0);
  inbox_->wait_until_quiet();
  EXPECT_EQ(driver_->stats().requests_waiting, 0u);
}

TEST_F(DriverTest, ends_a_request_at_the_text_that_stops_it) {
  Request request;
  request.max_tokens = 2000;
  const Reply reply = submit(request, true)->wait();
  EXPECT_EQ(reply.finish, Finish::stop);
  ASSERT_FALSE(reply.tokens.empty());
  EXPECT_EQ(reply.tokens.back() % 100, 0) << "the token that completed the stop string is the last";
  std::string text;
  for (std::size_t at = 0; at + 1 < reply.tokens.size(); ++at)
    text += std::to_string(reply.tokens[at]) + " ";
  EXPECT_EQ(reply.text, text);
  inbox_->wait_until_quiet();
}

TEST_F(DriverTest, gives_out_text_that_was_held_back_when_a_reply_ends) {
  Request request;
  request.max_tokens = 2;
  EXPECT_EQ(submit(request, true)->wait().text, "31 38 .");
}

TEST_F(DriverTest, a_step_that_throws_fails_what_is_scheduled_and_no_other) {
  Request request;
  request.max_tokens = 50;
  scheduler_.steps_until_failure = 10;
  std::vector<std::shared_ptr<TicketCore>> tickets;
  for (int i = 0; i < 12; ++i) tickets.push_back(submit(request));
  std::size_t failed = 0;
  for (const auto& ticket : tickets) {
    const Reply reply = ticket->wait();
    expect_tokens(reply, ticket->id());
    if (reply.finish == Finish::failed) {
      ++failed;
      EXPECT_EQ(reply.error, "the step failed");
    } else {
      EXPECT_EQ(reply.tokens.size(), 50u);
    }
  }
  EXPECT_GE(failed, 1u);
  EXPECT_LE(failed, 4u);
}

TEST_F(DriverTest, a_lost_device_fails_everything_and_refuses_more) {
  scheduler_.is_broken = true;
  scheduler_.steps_until_failure = 0;
  Request request;
  request.max_tokens = 50;
  EXPECT_EQ(submit(request)->wait().finish, Finish::failed);
  inbox_->wait_until_quiet();
  EXPECT_THAT([&] { submit(request); }, ThrowsMessage<DeviceError>(HasSubstr("the step failed")));
}

TEST_F(DriverTest, its_end_cancels_what_runs_and_what_waits) {
  Request request;
  request.max_tokens = 1'000'000'000;
  std::vector<std::shared_ptr<TicketCore>> tickets;
  for (int i = 0; i < 10; ++i) tickets.push_back(submit(request));
  ASSERT_TRUE(tickets[0]->next(std::nullopt));
  driver_.reset();
  text_.reset();
  for (const auto& ticket : tickets) {
    const Reply reply = ticket->wait();
    EXPECT_EQ(reply.finish, Finish::cancelled);
    expect_tokens(reply, ticket->id());
  }
}

TEST_F(DriverTest, a_patient_reader_gets_nothing_before_there_is_something) {
  Request request;
  request.max_tokens = 1;
  const auto ticket = submit(request);
  std::optional<RequestEvent> event;
  while (!(event = ticket->next(std::chrono::microseconds(1)))) EXPECT_FALSE(ticket->has_ended());
  EXPECT_EQ(event->token, token_of(1, 0));
  EXPECT_TRUE(ticket->has_ended());
  EXPECT_FALSE(ticket->next(std::chrono::hours(1)))
      << "after the last there is no more to wait for";
}

}  // namespace
}  // namespace attacca::driver
