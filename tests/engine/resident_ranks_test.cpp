// Tests of the resident scheduler of a model that is split over ranks: rank 0's loop sends its
// plans to the loops of the others, which give the same tokens as one rank; a rank that fails is
// named.
#include <gmock/gmock.h>
#include <attacca/llm.hpp>
#include <attacca/ranks.hpp>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "engine/batches.hpp"
#include "engine/fixtures.hpp"
#include "engine/rank_fixtures.hpp"
#include "graph/access.hpp"
#include "graph/executor.hpp"
#include "step/linked_ranks.hpp"

namespace attacca::engine_tests {
namespace {

using llm::Engine;
using llm::EngineOptions;
using llm::Model;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// For tests in which it passes; a busy machine may leave a thread without a processor for a while.
constexpr std::chrono::seconds kShort(3);
constexpr std::chrono::seconds kLonger(4);

EngineOptions resident_options(llm::ResidentLoop loop = llm::ResidentLoop::while_node) {
  EngineOptions options = small_options();
  options.scheduler = llm::Scheduler::resident;
  options.resident_loop = loop;
  return options;
}

class ResidentRankedModels : public testing::TestWithParam<std::string> {};

TEST_P(ResidentRankedModels, give_the_greedy_tokens_of_one_rank) {
  const std::vector<llm::Request> requests = requests_for(GetParam());
  Engine whole(Model(fixture(GetParam())), small_options());
  const auto one = tokens_of(whole, requests);
  for (const int count : counts_for(fixture(GetParam())))
    with_ranks(count, fixture(GetParam()), resident_options(), [&](Engine& engine) {
      EXPECT_EQ(tokens_of(engine, requests), one) << count << " ranks";
      EXPECT_GT(stats_when_idle(engine).launches, 0u);
    });
}

TEST_P(ResidentRankedModels, give_the_bits_of_one_rank) {
  Engine whole(Model(fixture(GetParam())), small_options());
  const std::vector<float> one = tops_of(whole, text_of(GetParam()));
  ASSERT_EQ(one.size(), 160u);
  for (const int count : {2, 4})
    with_ranks(count, fixture(GetParam()), resident_options(), [&](Engine& engine) {
      EXPECT_EQ(tops_of(engine, text_of(GetParam())), one) << count << " ranks";
    });
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ResidentRankedModels, testing::ValuesIn(kModels),
                         [](const auto& at) {
                           std::string name = at.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class ResidentRanks : public testing::TestWithParam<llm::ResidentLoop> {
 protected:
  EngineOptions options() const { return resident_options(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Forms, ResidentRanks,
                         testing::Values(llm::ResidentLoop::while_node,
                                         llm::ResidentLoop::self_relaunch),
                         [](const auto& at) {
                           return at.param == llm::ResidentLoop::while_node ? "while_node"
                                                                            : "self_relaunch";
                         });

/// More requests than slots, prompts longer than a step, fewer pages than they want.
TEST_P(ResidentRanks, cut_prompts_and_preempt_as_one_rank_does) {
  const Model model(fixture("llama"));
  EngineOptions with = options();
  with.context = 128;
  with.prefill_chunk = 16;
  with.pages = 10;
  EngineOptions host = small_options();
  const Batch batch = batch_of(model, host, text_of("llama"));
  with_ranks(2, fixture("llama"), with, [&](Engine& engine) {
    const std::vector<llm::Reply> replies = engine.generate(batch.requests);
    for (std::size_t at = 0; at < replies.size(); ++at) {
      EXPECT_EQ(replies[at].error, "");
      expect_tokens(model, batch.requests[at].tokens, replies[at].tokens, batch.alone[at],
                    kNearTie);
    }
    const llm::EngineStats stats = stats_when_idle(engine);
    EXPECT_GT(stats.preemptions + stats.evictions, 0u);
    EXPECT_EQ(stats.pages_in_use, 0u);
  });
}

TEST_P(ResidentRanks, end_and_begin_their_loops_again_and_again) {
  const llm::Request request = greedy(expected("llama").prompt, 5);
  Engine whole(Model(fixture("llama")), small_options());
  const std::vector<std::int32_t> one = whole.generate(request).tokens;
  with_ranks(2, fixture("llama"), options(), [&](Engine& engine) {
    for (int round = 0; round < 40; ++round) {
      ASSERT_EQ(engine.generate(request).tokens, one) << round;
      if (round % 4 == 0) engine.wait_until_idle();
    }
    EXPECT_GT(stats_when_idle(engine).launches, 5u);
  });
}

TEST_P(ResidentRanks, cancel_requests_and_go_on_with_the_others) {
  const std::vector<std::int32_t> prompt = expected("llama").prompt;
  Engine whole(Model(fixture("llama")), small_options());
  const std::vector<std::int32_t> one = whole.generate(greedy(prompt, 60)).tokens;
  with_ranks(2, fixture("llama"), options(), [&](Engine& engine) {
    for (int round = 0; round < 5; ++round) {
      llm::Ticket kept = engine.submit(greedy(prompt, 60));
      std::vector<llm::Ticket> left;
      for (int each = 0; each < 4; ++each) left.push_back(engine.submit(greedy(prompt, 100)));
      for (llm::Ticket& ticket : left) ticket.cancel();
      EXPECT_EQ(kept.wait().tokens, one) << round;
    }
    EXPECT_EQ(stats_when_idle(engine).pages_in_use, 0u);
  });
}

TEST_P(ResidentRanks, sample_with_grammars_penalties_and_log_probabilities) {
  expect_the_sampled_reply_of_one_rank(options());
}

TEST_P(ResidentRanks, go_on_after_a_failure_of_the_host_alone) {
  const llm::Request request = greedy(expected("llama").prompt, 8);
  Engine whole(Model(fixture("llama")), small_options());
  const std::vector<std::int32_t> one = whole.generate(request).tokens;
  int steps = 0;
  EngineOptions with = options();
  with.on_step = [&](const llm::StepRecord&) {
    if (++steps == 3) throw Error("the disk is full");
  };
  run_loopback(2,
               [&](const Group& group) {
                 EngineOptions own = with;
                 own.device = Device::host(1);
                 own.ranks = group;
                 const Model model(fixture("llama"));
                 if (group.rank() != 0) return llm::follow(model, own);
                 Engine engine(model, own);
                 EXPECT_THAT([&] { engine.generate(request); },
                             ThrowsMessage<Error>("the disk is full"));
                 std::this_thread::sleep_for(kLonger);  // the line is not silent
                 EXPECT_EQ(engine.generate(request).tokens, one);
               },
               {.deadline = kShort});
}

TEST_P(ResidentRanks, stay_ready_while_idle_for_longer_than_the_deadline) {
  const llm::Request request = greedy(expected("llama").prompt, 4);
  run_loopback(2,
               [&](const Group& group) {
                 EngineOptions own = options();
                 own.device = Device::host(1);
                 own.ranks = group;
                 const Model model(fixture("llama"));
                 if (group.rank() != 0) return llm::follow(model, own);
                 Engine engine(model, own);
                 EXPECT_EQ(engine.generate(std::vector{request})[0].error, "");
                 std::this_thread::sleep_for(kLonger);
                 EXPECT_EQ(engine.generate(std::vector{request})[0].error, "");
               },
               {.deadline = kShort});
}

TEST(ResidentRanksEngine, has_no_embeddings_and_goes_on) {
  llm::Request request = greedy(expected("llama").prompt, 1);
  with_ranks(2, fixture("llama"), resident_options(), [&](Engine& engine) {
    llm::Request embedding = request;
    embedding.embed = llm::Pooling::mean;
    EXPECT_THAT([&] { engine.generate(embedding); },
                ThrowsMessage<BadArgument>(HasSubstr("computes no embeddings")));
    EXPECT_EQ(engine.generate(request).tokens.size(), 1u);
  });
}

TEST(ResidentRanksEngine, counts_rooms_and_inboxes_in_its_memory) {
  EngineOptions alone = resident_options();
  const std::size_t one = Engine(Model(fixture("llama")), alone).memory().step;
  with_ranks(2, fixture("llama"), resident_options(), [&](Engine& engine) {
    EXPECT_GT(engine.memory().step, one + step::LinkedRanks::bytes());
  });
}

// --- a rank that fails -------------------------------------------------------------------------

/// Rank 0 is this thread, the others have one each.
class FailingRank : public testing::TestWithParam<llm::ResidentLoop> {
 protected:
  void start(int count, std::chrono::milliseconds deadline) {
    groups_ = make_loopback(count, {.deadline = deadline});
    told_.resize(static_cast<std::size_t>(count));
    for (int rank = 0; rank < count; ++rank) devices_.push_back(Device::host(1));
    for (int rank = 1; rank < count; ++rank)
      followers_.emplace_back([this, rank] {
        try {
          llm::follow(model_, options(rank));
        } catch (const Error& error) {
          told_[static_cast<std::size_t>(rank)] = error.what();
        }
      });
  }
  EngineOptions options(int rank) const {
    EngineOptions options = resident_options(GetParam());
    options.scheduler = scheduler_;
    options.device = devices_[static_cast<std::size_t>(rank)];
    options.ranks = groups_[static_cast<std::size_t>(rank)];
    return options;
  }
  std::string error_of(Engine& engine, const llm::Request& request) const {
    try {
      return engine.generate(request).error;
    } catch (const Error& error) {
      return error.what();
    }
  }
  llm::Request request(std::size_t tokens) const {
    return greedy(expected("llama").prompt, tokens);
  }
  void TearDown() override { told(); }
  const std::vector<std::string>& told() {
    for (std::thread& follower : followers_)
      if (follower.joinable()) follower.join();
    return told_;
  }

  const Model model_{fixture("llama")};
  llm::Scheduler scheduler_ = llm::Scheduler::resident;
  std::vector<Group> groups_;
  std::vector<Device> devices_;
  std::vector<std::thread> followers_;
  std::vector<std::string> told_;  // by rank
};
INSTANTIATE_TEST_SUITE_P(Forms, FailingRank,
                         testing::Values(llm::ResidentLoop::while_node,
                                         llm::ResidentLoop::self_relaunch),
                         [](const auto& at) {
                           return at.param == llm::ResidentLoop::while_node ? "while_node"
                                                                            : "self_relaunch";
                         });

TEST_P(FailingRank, is_named_if_it_gives_up_while_the_loop_runs) {
  start(2, std::chrono::seconds(30));
  {
    Engine engine(model_, options(0));
    EXPECT_EQ(error_of(engine, request(5)), "");
    std::string error;
    for (int round = 0; error.empty(); ++round) {
      llm::Ticket ticket = engine.submit(request(100));
      while (const auto event = ticket.next())
        if (round == 0 && event->token >= 0) groups_[1].give_up("its machine is shut down");
      error = ticket.wait().error;
    }
    EXPECT_EQ(error, "rank 1 gave up: its machine is shut down");
    EXPECT_THAT([&] { engine.generate(request(5)); },
                ThrowsMessage<Error>(AllOf(HasSubstr("takes no more requests"),
                                           HasSubstr("rank 1 gave up: its machine is shut down"))));
  }
  EXPECT_EQ(told()[1], "rank 1 gave up: its machine is shut down");
}

/// Stands still in the middle of a step of its device, until it is released.
class Stall final : public graph::Observer {
 public:
  void ran(const graph::Execution& execution) override {
    if (!execution.node.ends_with(" sum") || --left_ != 0) return;
    has_begun_.set_value();
    end_.get_future().wait();
  }
  /// It stands still behind this many sums.
  void arm(int sums = 1) { left_ = sums; }
  void wait() { has_begun_.get_future().wait(); }
  void release() { end_.set_value(); }

 private:
  std::atomic<int> left_ = 0;
  std::promise<void> has_begun_, end_;
};

TEST_P(FailingRank, is_named_to_all_within_the_deadline_if_it_stalls) {
  start(4, kShort);
  const auto stall = std::make_shared<Stall>();
  graph::impl_of(devices_[2]).observe(stall);
  {
    Engine engine(model_, options(0));
    EXPECT_EQ(error_of(engine, request(5)), "");
    stall->arm();
    EXPECT_THAT(error_of(engine, request(5)), HasSubstr("rank 2"));
    EXPECT_THAT([&] { engine.generate(request(5)); },
                ThrowsMessage<Error>(HasSubstr("takes no more requests")));
    stall->release();
  }
  EXPECT_THAT(told(), testing::ElementsAre("", HasSubstr("rank 2"), HasSubstr("rank 2"),
                                           HasSubstr("rank 2")));
  graph::impl_of(devices_[2]).observe(nullptr);
}

/// A step that lacks a rank's part of a sum samples some other token. The reply has the tokens of
/// the steps before it and no more, with either scheduler.
TEST_P(FailingRank, leaves_the_reply_without_what_the_broken_step_sampled) {
  Engine whole(model_, small_options());
  const std::vector<std::int32_t> one = whole.generate(request(100)).tokens;
  if (GetParam() == llm::ResidentLoop::self_relaunch) scheduler_ = llm::Scheduler::host;
  start(2, kShort);
  const auto stall = std::make_shared<Stall>();
  graph::impl_of(devices_[1]).observe(stall);
  {
    Engine engine(model_, options(0));
    stall->arm(61);  // a step has an even number of them
    const llm::Reply reply = engine.submit(request(100)).wait();
    EXPECT_THAT(reply.error, HasSubstr("rank 1"));
    ASSERT_GT(reply.tokens.size(), 0u);
    ASSERT_LT(reply.tokens.size(), one.size());
    EXPECT_EQ(reply.tokens,
              std::vector(one.begin(), one.begin() + static_cast<long>(reply.tokens.size())));
    stall->release();
  }
  EXPECT_THAT(told()[1], HasSubstr("rank 1"));
  graph::impl_of(devices_[1]).observe(nullptr);
}

TEST_P(FailingRank, is_named_to_all_if_it_is_the_first) {
  start(2, kShort);
  const auto stall = std::make_shared<Stall>();
  graph::impl_of(devices_[0]).observe(stall);
  {
    Engine engine(model_, options(0));
    EXPECT_EQ(error_of(engine, request(5)), "");
    stall->arm();
    llm::Ticket ticket = engine.submit(request(5));
    EXPECT_THAT(told()[1], HasSubstr("rank 0"));
    stall->release();
    EXPECT_THAT(ticket.wait().error, HasSubstr("rank 0"));
  }
  graph::impl_of(devices_[0]).observe(nullptr);
}

}  // namespace
}  // namespace attacca::engine_tests
