// Tests of the resident scheduler apart from the engine: a host that pauses, and start-up refusals.
// The tests of engine_test.cpp, sampling_test.cpp and submit_test.cpp run with it too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <bit>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "engine/fixtures.hpp"
#include "engine/resident_scheduler.hpp"
#include "engine/sizing.hpp"
#include "model/checkpoint.hpp"
#include "model/shapes.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace engine_tests;
using driver::Job;
using driver::JobPtr;
using driver::Outcome;
using engine::ResidentScheduler;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Tokens = std::vector<std::int32_t>;

class Resident : public test::OnEachDevice {
 protected:
  llm::EngineOptions options() const {
    llm::EngineOptions options;
    options.scheduler = llm::Scheduler::resident;
    options.same_bits = true;
    options.device = device();
    options.context = 128;
    options.slots = 4;
    options.step_tokens = 48;
    return options;
  }
  std::unique_ptr<ResidentScheduler> scheduler(std::uint32_t news_capacity = 0) const {
    llm::EngineOptions with = options();
    const schedule::Limits limits = engine::size_engine(checkpoint_, with);
    auto runner = std::make_unique<engine::StepRunner>(
        checkpoint_.config(), std::make_shared<const model::Weights>(checkpoint_, with.device),
        with.device, engine::setup_of(limits, with), formats::Progress{});
    return std::make_unique<ResidentScheduler>(
        std::move(runner), limits, with, device::RecordsRef{}, formats::Progress{}, news_capacity);
  }
  static JobPtr job_of(std::uint64_t id, std::size_t tokens) {
    auto job = std::make_shared<Job>();
    job->id = id;
    job->prompt = {static_cast<std::int32_t>(id), 7, 9};
    job->max_new = tokens;
    job->sampling.params.last_position = static_cast<std::int32_t>(job->prompt.size() + tokens - 1);
    return job;
  }

  const model::Checkpoint checkpoint_ = model::Checkpoint::open(fixture("llama"));
};
ATTACCA_ON_EACH_DEVICE(Resident);

TEST_P(Resident, a_host_that_does_not_read_pauses_the_loop_and_loses_nothing) {
  constexpr std::size_t kRequests = 6, kTokens = 100;
  llm::EngineOptions with = options();
  const schedule::Limits limits = engine::size_engine(checkpoint_, with);
  const std::unique_ptr<ResidentScheduler> made =
      scheduler(std::bit_ceil(2 * resident::news_wanted(limits)));
  ResidentScheduler& scheduler = *made;

  std::map<std::uint64_t, Tokens> prompts, replies;
  for (std::uint64_t id = 1; id <= kRequests; ++id) {
    const JobPtr job = job_of(id, kTokens);
    prompts[id] = job->prompt;
    ASSERT_TRUE(scheduler.room().for_generations);
    scheduler.admit(job);
  }
  std::vector<Outcome> outcomes;
  scheduler.step(outcomes);              // launches the loop
  while (scheduler.stats().pauses == 0)  // reads nothing
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  while (!scheduler.is_idle()) scheduler.step(outcomes);
  for (const Outcome& outcome : outcomes) replies[outcome.job->id].push_back(outcome.token);

  llm::EngineOptions by_host = options();
  by_host.scheduler = llm::Scheduler::host;
  llm::Engine engine(llm::Model(fixture("llama")), by_host);
  for (const auto& [id, prompt] : prompts)
    EXPECT_EQ(replies[id], engine.generate(greedy(prompt, kTokens)).tokens) << id;
  EXPECT_GE(scheduler.stats().launches, 2u);
  EXPECT_GT(scheduler.stats().steps_late, 0u);
  EXPECT_EQ(scheduler.stats().pages_in_use, 0u);
}

/// The next request is written at all moments of a loop's end: before its last plan, between that
/// and the decision to end, after the decision, and after the news of it.
TEST_P(Resident, a_request_that_arrives_while_the_loop_ends_is_answered) {
  constexpr std::uint64_t kRequests = 400;
  const std::unique_ptr<ResidentScheduler> scheduler = this->scheduler();
  std::vector<Outcome> outcomes;
  std::map<std::uint64_t, std::size_t> answers;
  std::uint64_t before_the_news = 0;
  for (std::uint64_t id = 1; id <= kRequests; ++id) {
    const std::uint64_t launches = scheduler->stats().launches;
    scheduler->admit(job_of(id, 1));
    while (answers[id] == 0) {
      outcomes.clear();
      ASSERT_TRUE(scheduler->step(outcomes)) << "request " << id << " was left lying";
      for (const Outcome& outcome : outcomes) ++answers[outcome.job->id];
    }
    before_the_news += scheduler->stats().launches == launches;
    // Some of them come a little later, some when the loop's end is known.
    for (std::uint64_t round = 0; round < id % 50; ++round) std::this_thread::yield();
    while (id % 20 == 0 && !scheduler->is_idle()) scheduler->step(outcomes);
  }
  while (!scheduler->is_idle()) scheduler->step(outcomes);
  for (const auto& [id, count] : answers) EXPECT_EQ(count, 1u) << "request " << id;
  EXPECT_EQ(scheduler->stats().pages_in_use, 0u);
  EXPECT_GE(scheduler->stats().launches, kRequests / 20);
  EXPECT_EQ(scheduler->stats().launches + before_the_news, kRequests);
}

TEST_P(Resident, a_host_that_pauses_for_a_second_delays_no_step) {
  if (!is_cuda()) GTEST_SKIP() << "for a GPU: on the host the loop runs on the threads that pause";
  constexpr std::size_t kRequests = 2, kTokens = 2000;
  llm::EngineOptions with = options();
  with.same_bits = false;
  with.slots = 1;
  with.context = 2048;
  const model::ModelConfig config = model::shape_called("smollm2-135m");
  auto weights = std::make_shared<const model::Weights>(config, with.device, 1);
  const schedule::Limits limits = engine::size_engine(config, {}, with);
  const device::Records records(with.device, 1u << 15);
  engine::StepSetup setup = engine::setup_of(limits, with);
  setup.records = records.ref();
  ResidentScheduler scheduler(
      std::make_unique<engine::StepRunner>(config, std::move(weights), with.device, setup,
                                           formats::Progress{}),
      limits, with, records.ref());
  for (std::uint64_t id = 1; id <= kRequests; ++id) scheduler.admit(job_of(id, kTokens));
  std::vector<Outcome> outcomes;
  scheduler.step(outcomes);  // launches the loop
  std::this_thread::sleep_for(std::chrono::seconds(1));
  scheduler.step(outcomes);
  EXPECT_GT(outcomes.size(), 50u) << "steps went on meanwhile, more slowly if others share the GPU";
  EXPECT_LT(outcomes.size(), kRequests * kTokens) << "they should last longer than the pause";
  while (!scheduler.is_idle()) scheduler.step(outcomes);
  EXPECT_EQ(outcomes.size(), kRequests * kTokens);
  EXPECT_EQ(scheduler.stats().pauses, 0u);
  EXPECT_EQ(scheduler.stats().launches, 1u);
  std::optional<std::uint64_t> last;
  std::uint64_t longest = 0;
  for (const device::Record& record : records.read()) {
    if (record.what != static_cast<std::uint32_t>(llm::StepMark::step_ends)) continue;
    if (last) longest = std::max(longest, record.at - *last);
    last = record.at;
  }
  EXPECT_GT(longest, 0u);
  EXPECT_LT(longest, 200'000'000u) << "nanoseconds from the end of one step to that of the next";
}

TEST_P(Resident, many_steps_are_one_launch) {
  llm::Engine engine(llm::Model(fixture("llama")), options());
  engine.generate(greedy({1, 2, 3}, 100));
  engine.wait_until_idle();
  EXPECT_GE(engine.stats().steps, 100u);
  EXPECT_EQ(engine.stats().launches, 1u);
  EXPECT_GE(engine.stats().steps_ahead, 98u);
}

/// For compute-sanitizer: a loop of few graphs that does a little of everything.
class SmallResident : public Resident {
 protected:
  static std::vector<llm::Request> requests() {
    std::vector<llm::Request> requests;
    for (const std::size_t length : {3, 20, 33, 33}) {
      Tokens prompt(length);
      for (std::size_t at = 0; at < length; ++at)
        prompt[at] = static_cast<std::int32_t>(1 + at % 9);
      requests.push_back(greedy(prompt, 5));
    }
    requests[1].sampling = {.temperature = 1, .top_p = 0.9f, .seed = 3};
    requests[1].sampling.repetition_penalty = 1.2f;
    requests[1].sampling.bias = {{5, 1.5f}, {7, -2.0f}};
    requests[2].logprobs = 2;
    requests[3].stop_tokens = {2, 4};
    requests[3].sampling.allowed = {4, 6, 8};
    return requests;
  }
  void answer_requests(llm::ResidentLoop form) const {
    const llm::Model model(fixture("llama"));
    llm::EngineOptions with = options();
    with.slots = 2;
    with.pages = 8;
    with.decode_sizes = {2};
    with.mixed_sizes = {16, 48};
    std::vector<llm::Reply> right;
    {
      llm::EngineOptions by_host = with;
      by_host.scheduler = llm::Scheduler::host;
      right = llm::Engine(model, by_host).generate(requests());
    }
    with.resident_loop = form;
    llm::Engine engine(model, with);
    llm::Ticket cancelled = engine.submit(greedy({1, 2, 3}, 100));
    cancelled.cancel();
    const std::vector<llm::Reply> replies = engine.generate(requests());
    for (std::size_t at = 0; at < replies.size(); ++at)
      EXPECT_EQ(replies[at].tokens, right[at].tokens) << "request " << at;
    EXPECT_EQ(replies[2].logprobs.size(), replies[2].tokens.size());
    cancelled.wait();
    engine.wait_until_idle();
    EXPECT_EQ(engine.stats().pages_in_use, 0u);
  }
};
ATTACCA_ON_EACH_DEVICE(SmallResident);

TEST_P(SmallResident, answers_requests_of_many_kinds_in_a_while_node) {
  answer_requests(llm::ResidentLoop::while_node);
}

TEST_P(SmallResident, answers_requests_of_many_kinds_by_relaunching_itself) {
  answer_requests(llm::ResidentLoop::self_relaunch);
}

TEST_P(Resident, says_what_its_loop_costs_in_each_form) {
  const llm::Model model(fixture("llama"));
  for (const auto form : {llm::ResidentLoop::while_node, llm::ResidentLoop::self_relaunch}) {
    llm::EngineOptions with = options();
    with.resident_loop = form;
    const LoopForm lowered =
        form == llm::ResidentLoop::while_node ? LoopForm::while_node : LoopForm::self_relaunch;
    const std::string said = llm::Engine(model, with).explain_loop();
    EXPECT_THAT(
        said, HasSubstr(std::string("'resident scheduler' becomes a ") + loop_form_name(lowered)));
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1 + static_cast<long>(kLoopForms));
  }
  llm::EngineOptions by_host = options();
  by_host.scheduler = llm::Scheduler::host;
  EXPECT_EQ(llm::Engine(model, by_host).explain_loop(), "");
}

TEST_P(Resident, refuses_to_start_where_a_step_would_have_no_graph) {
  const llm::Model model(fixture("llama"));
  llm::EngineOptions with = options();
  with.mixed_sizes = {16};
  EXPECT_THAT([&] { llm::Engine(model, with); },
              ThrowsMessage<BadArgument>(HasSubstr("needs a graph for every step")));
  with = options();
  with.graphs = llm::GraphMode::piecewise;
  EXPECT_THAT([&] { llm::Engine(model, with); },
              ThrowsMessage<BadArgument>(HasSubstr("needs a graph for every step")));
  with = options();
  with.overlap = false;
  EXPECT_THAT([&] { llm::Engine(model, with); },
              ThrowsMessage<BadArgument>(HasSubstr("overlap is off")));
}

}  // namespace
}  // namespace attacca
