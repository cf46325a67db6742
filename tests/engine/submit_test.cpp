// Tests of an engine that takes requests while it runs: events, cancellation, deadlines,
// priorities, readers that do not read, callbacks, and steps that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <chrono>
#include <cstdlib>
#include <future>
#include <latch>
#include <optional>
#include <random>
#include <thread>

#include "engine/fixtures.hpp"
#include "graph/access.hpp"
#include "support/faulty_device.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace engine_tests;
using namespace std::chrono_literals;
using llm::Engine;
using llm::EngineOptions;
using llm::EngineStats;
using llm::Finish;
using llm::Model;
using llm::Priority;
using llm::Reply;
using llm::Request;
using llm::RequestEvent;
using llm::Scheduler;
using llm::Ticket;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kForever = 100;  // tokens that no test waits for

/// Each test runs with both schedulers.
class Submit : public test::OnEachDevice {
 protected:
  EngineOptions options(unsigned slots = 4) const {
    EngineOptions options;
    choose_scheduler_of_this_test(options);
    options.same_bits = true;
    options.device = device();
    options.context = 128;
    options.slots = slots;
    options.step_tokens = 48;
    return options;
  }
  /// Prompts of several lengths that share beginnings; greedy and seeded.
  std::vector<Request> mixture(std::size_t count) const {
    const Tokens text = text_of("llama");
    std::vector<Request> requests;
    for (std::size_t i = 0; i < count; ++i) {
      const auto length = static_cast<long>(1 + i * 7 % 60);
      requests.push_back(greedy({text.begin(), text.begin() + length}, 3 + i * 5 % 20));
      if (i % 2 == 1) requests.back().sampling = {.temperature = 1, .seed = i};
    }
    return requests;
  }
  Request endless() const { return greedy({1, 2, 3}, kForever); }
  static void expect_no_trace(const Engine& engine) {
    engine.wait_until_idle();
    const EngineStats stats = engine.stats();
    EXPECT_EQ(stats.requests_running, 0u);
    EXPECT_EQ(stats.requests_waiting, 0u);
    EXPECT_EQ(stats.pages_in_use, 0u);
  }

  const Model model_{fixture("llama")};
};
ATTACCA_ON_EACH_SCHEDULER(Submit);

TEST_P(Submit, the_events_of_a_request_are_its_reply) {
  const Model embedded("");
  Engine engine(embedded, options());
  Request request;
  request.prompt = "Once upon a time";
  request.max_tokens = 12;
  request.stop = {"never there"};
  request.logprobs = 2;
  const Reply right = engine.generate(request);
  Ticket ticket = engine.submit(request);
  std::string text;
  Tokens tokens;
  std::optional<Finish> finish;
  while (const std::optional<RequestEvent> event = ticket.next()) {
    EXPECT_FALSE(finish) << "an event after the last";
    text += event->text;
    if (event->token >= 0) {
      tokens.push_back(event->token);
      ASSERT_TRUE(event->logprob);
      EXPECT_EQ(event->logprob->token, event->token);
      EXPECT_EQ(event->logprob->top.size(), 2u);
    }
    finish = event->finish;
  }
  EXPECT_EQ(text, right.text);
  EXPECT_EQ(tokens, right.tokens);
  EXPECT_EQ(finish, Finish::length);
  EXPECT_TRUE(ticket.has_ended());
  const Reply reply = ticket.wait();
  EXPECT_EQ(reply.text, right.text);
  EXPECT_EQ(reply.tokens, right.tokens);
  EXPECT_EQ(reply.logprobs.size(), right.logprobs.size());
  EXPECT_EQ(reply.finish, Finish::length);
  EXPECT_EQ(reply.prompt_tokens, right.prompt_tokens);
  EXPECT_GT(reply.seconds, 0);
  EXPECT_LE(reply.seconds_to_first_token, reply.seconds);
}

/// Threads submit at random times, with cancels, deadlines, priorities, and readers that stall.
/// Each request must get the tokens that it gets alone, or fewer if it was ended.
class SubmitAtRandom : public Submit {
 protected:
  static constexpr std::size_t kThreads = 4;

  void submit_all(Engine& engine, const std::vector<Request>& requests,
                  const std::vector<Tokens>& alone, unsigned seed) {
    std::vector<Reply> replies(requests.size());
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        std::mt19937 random(seed * 31 + static_cast<unsigned>(thread));
        std::vector<std::pair<std::size_t, Ticket>> open;
        for (std::size_t at = thread; at < requests.size(); at += kThreads) {
          Request request = requests[at];
          request.priority = static_cast<Priority>(random() % 3);
          if (random() % 6 == 0)
            request.deadline = std::chrono::steady_clock::now() + 1ms + 1us * (random() % 4000);
          try {
            open.emplace_back(at, engine.submit(request));
          } catch (const BadArgument&) {  // the machine was busy, and the deadline has passed
            request.deadline.reset();
            open.emplace_back(at, engine.submit(request));
          }
          if (random() % 4 == 0) open.back().second.cancel();
          if (random() % 3 == 0) open.front().second.next(1us * (random() % 500));
          // Those left open are not read for a while.
          while (open.size() > engine.options().slots / kThreads + random() % 12) {
            const std::size_t which = random() % open.size();
            replies[open[which].first] = open[which].second.wait();
            open.erase(open.begin() + static_cast<long>(which));
          }
        }
        for (auto& [at, ticket] : open) replies[at] = ticket.wait();
      });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t at = 0; at < requests.size(); ++at) {
      SCOPED_TRACE(at);
      const Tokens& tokens = replies[at].tokens;
      if (replies[at].finish == Finish::length) {
        EXPECT_EQ(tokens, alone[at]);
      } else {
        ASSERT_LE(tokens.size(), alone[at].size());
        EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), alone[at].begin()));
        EXPECT_NE(replies[at].finish, Finish::failed) << replies[at].error;
      }
    }
    expect_no_trace(engine);
  }
};
ATTACCA_ON_EACH_SCHEDULER(SubmitAtRandom);

TEST_P(SubmitAtRandom, gives_every_request_the_tokens_it_gets_alone) {
  const std::vector<Request> requests = mixture(64);
  std::vector<Tokens> alone;
  {
    EngineOptions by_host = options();
    by_host.scheduler = Scheduler::host;
    by_host.resident_loop = EngineOptions{}.resident_loop;
    Engine engine(model_, by_host);
    for (const Request& request : requests) alone.push_back(engine.generate(request).tokens);
  }
  EngineOptions scarce = options();
  scarce.pages = 14;
  Engine roomy_engine(model_, options()), scarce_engine(model_, scarce);
  // More rounds on demand: ATTACCA_SOAK_SECONDS=240 tests/engine_tests --gtest_filter=*AtRandom*
  const char* wish = std::getenv("ATTACCA_SOAK_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wish ? atoi(wish) : 0);
  unsigned round = 0;
  do {
    submit_all(roomy_engine, requests, alone, ++round);
    submit_all(scarce_engine, requests, alone, round);
  } while (!HasFailure() && std::chrono::steady_clock::now() < end);
  EXPECT_GT(scarce_engine.stats().steps, 0u);
}

TEST_P(Submit, many_times_more_requests_than_slots_wait_and_all_are_answered) {
  Engine engine(model_, options(2));
  std::vector<Ticket> tickets;
  for (int i = 0; i < 300; ++i) tickets.push_back(engine.submit(greedy({1 + i % 5}, 2)));
  for (Ticket& ticket : tickets) EXPECT_EQ(ticket.wait().tokens.size(), 2u);
  expect_no_trace(engine);
}

TEST_P(Submit, a_request_of_high_priority_overtakes_those_that_wait) {
  Engine engine(model_, options(1));
  std::vector<std::size_t> ended;
  std::vector<Request> requests;
  for (std::size_t at = 0; at < 9; ++at) {
    Request request = greedy({1, 2}, 3);
    request.priority = at == 8 ? Priority::high : Priority::low;
    request.on_done = [&ended, at](const Reply&) { ended.push_back(at); };
    requests.push_back(request);
  }
  engine.generate(requests);
  EXPECT_THAT(ended, testing::ElementsAre(8, 0, 1, 2, 3, 4, 5, 6, 7));
}

/// Its steps take long enough that a test can cancel a request meanwhile.
class SubmitToALargerModel : public Submit {
 protected:
  SubmitToALargerModel() {
    endless_.prompt = "Once upon a time";
    endless_.max_tokens = 400;
    endless_.ignores_end = true;
  }
  EngineOptions options(unsigned slots) const {
    EngineOptions options = Submit::options(slots);
    options.context = 512;
    return options;
  }

  const Model embedded_{""};
  Request endless_;
};
ATTACCA_ON_EACH_SCHEDULER(SubmitToALargerModel);

TEST_P(SubmitToALargerModel, a_cancelled_request_ends_and_its_pages_are_free) {
  Engine engine(embedded_, options(4));
  Reply reply;
  for (int attempt = 0; attempt < 20; ++attempt) {  // the machine may be too busy for one
    Ticket runs = engine.submit(endless_);
    ASSERT_TRUE(runs.next());
    runs.cancel();
    reply = runs.wait();
    expect_no_trace(engine);
    if (reply.finish == Finish::cancelled) break;
  }
  EXPECT_EQ(reply.finish, Finish::cancelled);
  EXPECT_LT(reply.tokens.size(), endless_.max_tokens);
}

/// A step that was planned before the cancel came in computes the request in vain. Pages are free
/// before the next one is planned, so there is only one such step: the one launched ahead.
TEST_P(SubmitToALargerModel, a_cancelled_request_has_its_pages_for_at_most_one_more_step) {
  Engine engine(embedded_, options(4));
  Ticket other = engine.submit(endless_);
  unsigned cancelled = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    Ticket leaves = engine.submit(endless_);
    ASSERT_TRUE(leaves.next());
    ASSERT_TRUE(leaves.next());
    leaves.cancel();
    if (leaves.wait().finish == Finish::cancelled) ++cancelled;
  }
  other.cancel();
  other.wait();
  engine.wait_until_idle();
  EXPECT_GT(cancelled, 0u);
  EXPECT_LE(engine.stats().tokens_voided, cancelled + 1) << "one for each, and for the other";
}

TEST_P(SubmitToALargerModel, a_cancelled_request_that_waits_never_runs) {
  Engine engine(embedded_, options(1));
  bool has_waited = false;
  for (int attempt = 0; attempt < 20 && !has_waited; ++attempt) {  // the machine may be too busy
    Ticket runs = engine.submit(endless_);
    Ticket waits = engine.submit(endless_);
    waits.cancel();
    const Reply reply = waits.wait();
    runs.cancel();
    has_waited = runs.wait().finish == Finish::cancelled;  // so it had the slot until then
    expect_no_trace(engine);
    if (!has_waited) continue;
    EXPECT_EQ(reply.finish, Finish::cancelled);
    EXPECT_EQ(reply.tokens.size(), 0u);
  }
  EXPECT_TRUE(has_waited);
}

TEST_P(Submit, a_deadline_ends_a_request_whether_it_runs_or_waits) {
  Engine engine(model_, options(1));
  Request request = endless();
  std::vector<Ticket> tickets;
  while (tickets.size() < 200) {
    request.deadline = std::chrono::steady_clock::now() + 20ms;
    try {
      tickets.push_back(engine.submit(request));
    } catch (const BadArgument&) {  // the machine was busy, and the deadline has passed
    }
  }
  std::size_t expired = 0;
  for (Ticket& ticket : tickets) {
    const Reply reply = ticket.wait();
    expired += reply.finish == Finish::deadline;
    if (reply.finish == Finish::deadline) {
      EXPECT_LT(reply.tokens.size(), kForever);
    }
  }
  EXPECT_GT(expired, 100u) << "one slot cannot give 20,000 tokens in that time";
  expect_no_trace(engine);
}

TEST_P(Submit, a_deadline_in_the_past_is_refused) {
  Engine engine(model_, options());
  Request request = endless();
  request.deadline = std::chrono::steady_clock::now() - 2000s;
  EXPECT_THAT([&] { engine.submit(request); },
              ThrowsMessage<BadArgument>(HasSubstr("the deadline passed 20")));
}

TEST_P(Submit, what_makes_no_sense_is_refused_where_it_is_made) {
  Engine engine(model_, options());
  EXPECT_THAT(
      [&] {
        engine.submit(greedy({1, 100000}, 4));
      },
      ThrowsMessage<BadArgument>(HasSubstr("100000")));
  EXPECT_THAT([&] { engine.submit(greedy(Tokens(200, 1), 4)); },
              ThrowsMessage<BadArgument>(HasSubstr("200 tokens")));
  EXPECT_THAT([&] { engine.submit(greedy({1}, 0)); },
              ThrowsMessage<BadArgument>(HasSubstr("max_tokens is 0")));
  Request request = endless();
  request.priority = static_cast<Priority>(7);
  EXPECT_THAT([&] { engine.submit(request); }, ThrowsMessage<BadArgument>(HasSubstr("priority 7")));
  EXPECT_EQ(engine.stats().steps, 0u);
}

TEST_P(Submit, a_ticket_that_was_used_up_says_so) {
  Engine engine(model_, options());
  Ticket ticket = engine.submit(greedy({1}, 2));
  ticket.wait();
  EXPECT_EQ(ticket.next(), std::nullopt);
  EXPECT_THAT([&] { ticket.wait(); }, ThrowsMessage<BadArgument>(HasSubstr("taken already")));
  ticket.cancel();  // too late, and so without effect
  EXPECT_THAT([&] { ticket.cancel(); },
              ThrowsMessage<BadArgument>(HasSubstr("request 1 was cancelled already")));
  Ticket none;
  EXPECT_THAT([&] { none.wait(); }, ThrowsMessage<BadArgument>(HasSubstr("has no request")));
}

TEST_P(Submit, a_reader_that_does_not_read_delays_nobody) {
  Engine engine(model_, options());
  Ticket unread = engine.submit(endless());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(engine.generate(greedy({1, 2}, 4)).tokens.size(), 4u);
  engine.wait_until_idle();
  EXPECT_EQ(unread.wait().tokens.size(), kForever) << "and loses nothing";
}

TEST_P(Submit, a_callback_that_blocks_stops_no_step) {
  std::latch blocks(1);
  Engine engine(model_, options());
  Request request = endless();
  request.on_event = [&](const RequestEvent&) { blocks.wait(); };
  Ticket ticket = engine.submit(request);
  engine.wait_until_idle();  // every step has run
  EXPECT_FALSE(ticket.has_ended());
  blocks.count_down();
  EXPECT_EQ(ticket.wait().tokens.size(), kForever);
}

TEST_P(Submit, callbacks_get_the_events_in_order_and_then_the_reply) {
  const Model embedded("");
  std::string text, pieces;
  std::promise<Reply> done;
  Engine engine(embedded, options());
  Request request;
  request.prompt = "Once upon a time";
  request.max_tokens = 10;
  const Reply right = engine.generate(request);
  request.on_event = [&](const RequestEvent& event) { text += event.text; };
  request.on_text = [&](std::string_view piece) {
    pieces += piece;
    return true;
  };
  request.on_done = [&](const Reply& reply) { done.set_value(reply); };
  Ticket ticket = engine.submit(request);
  const Reply reply = done.get_future().get();
  EXPECT_EQ(text, right.text);
  EXPECT_EQ(pieces, right.text);
  EXPECT_EQ(reply.text, right.text);
  EXPECT_EQ(ticket.wait().text, right.text);
  EXPECT_THAT([&] { ticket.next(); }, ThrowsMessage<BadArgument>(HasSubstr("has callbacks")));
}

TEST_P(Submit, what_callbacks_captured_goes_with_their_request) {
  Engine engine(model_, options());
  for (const bool is_cancelled : {false, true}) {
    auto captured = std::make_shared<int>(0);
    std::weak_ptr<int> left = captured;
    Request request = is_cancelled ? endless() : greedy({1, 2}, 4);
    request.on_event = [captured](const RequestEvent&) {};
    request.on_done = [captured](const Reply&) {};
    {
      Ticket ticket = engine.submit(std::move(request));
      if (is_cancelled) ticket.cancel();
      ticket.wait();
    }
    captured.reset();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!left.expired() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(left.expired());
  }
}

TEST_P(Submit, a_callback_that_has_had_enough_ends_its_request) {
  const Model embedded("");
  Engine engine(embedded, options());
  Request request;
  request.prompt = "Once upon a time";
  request.max_tokens = kForever;
  request.ignores_end = true;
  std::string text;
  request.on_text = [&](std::string_view piece) {
    text += piece;
    return text.size() < 8;
  };
  const Reply reply = engine.submit(request).wait();
  EXPECT_EQ(reply.finish, Finish::cancelled);
  EXPECT_EQ(reply.text, text);
  expect_no_trace(engine);
}

TEST_P(Submit, a_callback_that_throws_fails_its_request_and_no_other) {
  Engine engine(model_, options());
  Request request = endless();
  request.on_event = [](const RequestEvent&) { throw std::runtime_error("enough"); };
  Ticket fails = engine.submit(request);
  const Reply other = engine.generate(greedy({1, 2}, 8));
  EXPECT_EQ(other.tokens.size(), 8u);
  const Reply reply = fails.wait();
  EXPECT_EQ(reply.finish, Finish::failed);
  EXPECT_THAT(reply.error, HasSubstr("threw: enough"));
  expect_no_trace(engine);
}

TEST_P(Submit, a_callback_cannot_wait_for_its_own_thread) {
  std::promise<std::string> said;
  Engine engine(model_, options());
  Request request = greedy({1}, 1);
  request.on_done = [&](const Reply&) {
    try {
      engine.generate(greedy({1}, 1));
      said.set_value("");
    } catch (const Error& error) {
      said.set_value(error.what());
    }
  };
  engine.submit(request);
  EXPECT_THAT(said.get_future().get(), HasSubstr("cannot wait inside a callback"));
}

TEST_P(Submit, the_end_of_an_engine_cancels_its_requests_and_tickets_outlive_it) {
  std::vector<Ticket> tickets;
  {
    Engine engine(model_, options(2));
    for (int i = 0; i < 6; ++i) tickets.push_back(engine.submit(endless()));
    ASSERT_TRUE(tickets[0].next());
  }
  for (Ticket& ticket : tickets) {
    const Reply reply = ticket.wait();
    EXPECT_TRUE(reply.finish == Finish::cancelled || reply.tokens.size() == kForever);
    ticket.cancel();
  }
}

// --- steps that fail ---------------------------------------------------------------------------

class FailingSteps : public Submit {
 protected:
  EngineOptions faulty(unsigned slots) {
    EngineOptions with = options(slots);
    with.device = graph::Access::device(std::make_shared<test::FaultyDevice>(device(), faults_));
    with.overlap = with.scheduler == Scheduler::resident;
    return with;
  }

  std::shared_ptr<test::Faults> faults_ = std::make_shared<test::Faults>();
};
ATTACCA_ON_EACH_SCHEDULER(FailingSteps);

TEST_P(FailingSteps, end_the_requests_that_had_a_slot_and_no_other) {
  using Kind = test::Faults::Kind;
  Engine engine(model_, faulty(1));
  const Tokens right = engine.generate(greedy({1, 2}, 4)).tokens;
  engine.wait_until_idle();
  const EngineStats before = engine.stats();
  const bool is_resident = options().scheduler == Scheduler::resident;
  faults_->launches = {Kind::throws};  // of a step, or of the resident loop
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) tickets.push_back(engine.submit(greedy({1, 2}, 4)));
  std::size_t failed = 0;
  for (Ticket& ticket : tickets) {
    const Reply reply = ticket.wait();
    if (reply.finish == Finish::failed) {
      ++failed;
      EXPECT_THAT(reply.error, HasSubstr("failed a launch"));
    } else {
      EXPECT_EQ(reply.tokens, right);
    }
  }
  EXPECT_GE(failed, 1u);
  EXPECT_LE(failed, is_resident ? 2u : 1u) << "the loop has one waiting request beside the slot's";
  expect_no_trace(engine);
  EXPECT_GT(engine.stats().steps, before.steps) << "steps before the failure still count";
  EXPECT_GT(engine.stats().tokens_decoded, before.tokens_decoded);
}

TEST_P(FailingSteps, leave_the_masks_of_other_requests_right) {
  Engine engine(model_, faulty(1));
  Request masked = greedy({1, 2}, 4);
  masked.sampling.allowed = {3, 40, 90};
  const Tokens right = engine.generate(masked).tokens;
  engine.wait_until_idle();
  faults_->launches = {test::Faults::Kind::throws};
  std::vector<Ticket> tickets;
  for (int i = 0; i < 6; ++i) tickets.push_back(engine.submit(masked));
  std::size_t failed = 0;
  for (Ticket& ticket : tickets) {
    const Reply reply = ticket.wait();
    failed += reply.finish == Finish::failed;
    if (reply.finish != Finish::failed) {
      EXPECT_EQ(reply.tokens, right);
    }
  }
  EXPECT_GE(failed, 1u);
  EXPECT_LT(failed, tickets.size());
  expect_no_trace(engine);
}

TEST_P(FailingSteps, whose_waits_expire_fail_their_requests_with_the_record_and_no_other) {
  Engine engine(model_, faulty(1));
  const Tokens right = engine.generate(greedy({1, 2}, 4)).tokens;
  engine.wait_until_idle();
  faults_->launches = {test::Faults::Kind::gives_up};
  const Reply failed = engine.submit(greedy({1, 2}, 4)).wait();
  EXPECT_EQ(failed.finish, Finish::failed);
  EXPECT_THAT(failed.error,
              testing::AllOf(HasSubstr("give up"), HasSubstr("waited"), HasSubstr("a letter")));
  EXPECT_EQ(engine.generate(greedy({1, 2}, 4)).tokens, right);
  expect_no_trace(engine);
}

TEST_P(FailingSteps, whose_waits_expire_end_no_reply_at_a_stop_string) {
  Engine engine(Model(""), faulty(1));
  Request request;
  request.prompt = "Once upon a time";
  request.max_tokens = 30;
  request.stop = {"e"};
  faults_->launches = {test::Faults::Kind::gives_up};
  EXPECT_EQ(engine.submit(request).wait().finish, Finish::failed);
  EXPECT_EQ(engine.generate(request).finish, Finish::stop);
  expect_no_trace(engine);
}

TEST_P(FailingSteps, come_out_of_generate_as_they_were_thrown) {
  Engine engine(model_, faulty(4));
  faults_->launches = {test::Faults::Kind::throws};
  EXPECT_THAT(
      [&] {
        engine.generate(greedy({1, 2}, 4));
      },
      ThrowsMessage<DeviceError>(HasSubstr("failed a launch")));
  EXPECT_EQ(engine.generate(greedy({1, 2}, 4)).tokens.size(), 4u);
  expect_no_trace(engine);
}

TEST_P(FailingSteps, of_a_lost_device_fail_every_request_and_no_more_are_taken) {
  Engine engine(model_, faulty(1));
  faults_->is_lost = true;
  std::vector<Ticket> tickets;
  try {
    for (int i = 0; i < 3; ++i) tickets.push_back(engine.submit(endless()));
  } catch (const DeviceError&) {  // it may be known already
  }
  ASSERT_FALSE(tickets.empty());
  for (Ticket& ticket : tickets) EXPECT_EQ(ticket.wait().finish, Finish::failed);
  EXPECT_THAT([&] { engine.submit(endless()); },
              ThrowsMessage<DeviceError>(HasSubstr("has lost its device")));
  engine.wait_until_idle();
}

}  // namespace
}  // namespace attacca
