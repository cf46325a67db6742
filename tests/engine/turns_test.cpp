// Tests of engines that share a device: their steps take turns, their tokens are those of engines
// alone, and what does not fit into a limit is refused with the numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "engine/fixtures.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace llm;
using engine_tests::expected;
using engine_tests::fixture;
using engine_tests::greedy;
using testing::HasSubstr;

template <class Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const BadArgument& error) {
    return error.what();
  }
  return "nothing was refused";
}

class Turns : public test::OnEachDevice {
 protected:
  EngineOptions options() const {
    EngineOptions options;
    options.device = device();
    options.same_bits = true;
    options.context = 128;
    options.slots = 4;
    engine_tests::choose_scheduler_of_this_test(options);
    return options;
  }
  static std::vector<Request> requests_of(const std::string& model) {
    return std::vector<Request>(8, greedy(expected(model).prompt, 24));
  }
};
ATTACCA_ON_EACH_SCHEDULER(Turns);

/// When a step ran, by the host's clock.
struct Interval {
  double begin;
  double end;
  std::size_t engine;
};

TEST_P(Turns, steps_of_two_engines_never_overlap_and_their_tokens_are_right) {
  const std::vector<std::string> names = {"llama", "qwen3"};
  EngineOptions with = options();
  with.turns = make_step_turns();
  std::vector<Engine> engines;
  std::vector<std::vector<Ticket>> tickets(names.size());
  for (const std::string& name : names) engines.emplace_back(Model(fixture(name)), with);
  for (std::size_t at = 0; at < names.size(); ++at)
    for (const Request& request : requests_of(names[at]))
      tickets[at].push_back(engines[at].submit(request));
  for (std::size_t at = 0; at < names.size(); ++at) {
    const Reply alone = Engine(Model(fixture(names[at])), options())
                            .generate(greedy(expected(names[at]).prompt, 24));
    for (Ticket& ticket : tickets[at]) EXPECT_EQ(ticket.wait().tokens, alone.tokens) << names[at];
  }
  std::vector<Interval> steps;
  for (std::size_t at = 0; at < engines.size(); ++at) {
    engines[at].wait_until_idle();
    EXPECT_GT(engines[at].stats().steps, 24u);
    for (const StepRecord& record : engines[at].records()) {
      const double end = std::chrono::duration<double>(record.ended.time_since_epoch()).count();
      steps.push_back({end - record.microseconds / 1e6, end, at});
    }
  }
  std::sort(steps.begin(), steps.end(),
            [](const Interval& a, const Interval& b) { return a.end < b.end; });
  constexpr double kRounding = 1e-6;
  for (std::size_t at = 1; at < steps.size(); ++at)
    if (steps[at].engine != steps[at - 1].engine) {
      EXPECT_GE(steps[at].begin, steps[at - 1].end - kRounding) << at;
    }
}

TEST_P(Turns, an_engine_that_is_never_done_lets_others_in) {
  EngineOptions with = options();
  with.turns = make_step_turns();
  std::atomic<bool> goes_on = true;
  Request request = greedy(expected("llama").prompt, 100);  // its last callback may be late
  Engine busy(Model(fixture("llama")), with), other(Model(fixture("qwen3")), with);
  request.on_done = [&](const Reply&) {  // the end of one is the beginning of the next
    if (goes_on) busy.submit(request);
  };
  for (int at = 0; at < 8; ++at) busy.submit(request);
  while (busy.stats().steps == 0) std::this_thread::yield();
  Ticket ticket = other.submit(greedy(expected("qwen3").prompt, 8));
  std::size_t tokens = 0;
  while (ticket.next(std::chrono::seconds(60))) ++tokens;
  EXPECT_EQ(tokens, 8u) << "it got its turns";
  goes_on = false;
  busy.wait_until_idle();
}

TEST_P(Turns, a_limit_is_kept_or_refused_with_the_numbers) {
  const Model model(fixture("llama"));
  EngineOptions with = options();
  with.memory_limit = std::size_t{1} << 30;
  const Engine engine(model, with);
  const std::size_t pool = engine.memory().kv;
  const std::size_t rest = engine.memory().total() - pool;
  EXPECT_EQ(engine.memory().pages, 4u * 128 / 16) << "what all slots use at once";
  with.memory_limit = pool;
  EXPECT_THROW(Engine(model, with), DoesNotFit);
  EXPECT_THAT(message_of([&] { Engine refused(model, with); }), HasSubstr("memory_limit"));
  // Graphs are not foretold, so this is too much for the rest. On a GPU the limit also counts
  // workspaces that so small a model does not use.
  with.memory_limit = rest + pool / 2 + (is_cuda() ? std::size_t{128} << 20 : 0);
  with.pages = 1;
  EXPECT_LE(Engine(model, with).memory().kv, pool / 2);
}

}  // namespace
}  // namespace attacca
