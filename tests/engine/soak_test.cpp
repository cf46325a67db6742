// A soak of the engine, on demand: threads submit to a full batch of 256 for as long as one likes,
// with cancels, deadlines, page shortage, shared prefixes and readers that stall.
//
//   ATTACCA_SOAK_SECONDS=240 build/cuda/tests/engine_tests
//   --gtest_filter='relaunch/*AtRandom*full_batch*/cuda'
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/fixtures.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace engine_tests;
using namespace std::chrono_literals;
using llm::Engine;
using llm::EngineOptions;
using llm::EngineStats;
using llm::Finish;
using llm::Reply;
using llm::Request;
using llm::Ticket;
using Clock = std::chrono::steady_clock;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kThreads = 4;
constexpr auto kProgressEvery = 5s;
constexpr auto kMostOverdue = 20s;  // from the end of the soak to that of its last thread

/// Kilobytes of memory that this process has in use.
std::size_t resident_kilobytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "VmRSS:") {
      std::size_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes;
    }
  return 0;
}

class SoakAtRandom : public test::OnEachDevice {
 protected:
  SoakAtRandom() {
    for (std::size_t at = 0; at < 128; ++at) {
      Tokens prompt(1 + at * 7 % 60);
      for (std::size_t i = 0; i < prompt.size(); ++i)  // every eighth begins alike
        prompt[i] = static_cast<std::int32_t>(100 + (i + at % 8 * 50) % 400);
      requests_.push_back(greedy(prompt, 60 + at * 13 % 200));
      if (at % 2 == 1) requests_.back().sampling = {.temperature = 1, .seed = at};
    }
  }

  EngineOptions options(unsigned slots) const {
    EngineOptions options;
    options.same_bits = true;
    options.device = device();
    options.context = 320;
    options.slots = slots;
    options.step_tokens = 512;
    return options;
  }

  /// The right replies, from the host's scheduler and with pages enough: some alone, which take a
  /// step for each token, and all of them together.
  void find_right_replies(const llm::Model& model) {
    Engine engine(model, options(32));
    for (const Reply& reply : engine.generate(requests_)) right_.push_back(reply.tokens);
    for (std::size_t at = 0; at < requests_.size(); at += 19)
      ASSERT_EQ(engine.generate(requests_[at]).tokens, right_[at]) << "request " << at;
  }

  /// Submits until `end`, then cancels what is open.
  void submit_until(Clock::time_point end, Engine& engine, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<std::size_t, Ticket>> open;
    const auto take = [&](std::size_t which) {
      check(open[which].first, open[which].second.wait());
      open.erase(open.begin() + static_cast<long>(which));
    };
    const auto goes_on = [&] { return Clock::now() < end && !HasFailure(); };
    while (goes_on()) {
      const std::size_t at = random() % requests_.size();
      Request request = requests_[at];
      request.priority = static_cast<llm::Priority>(random() % 3);
      if (random() % 6 == 0) request.deadline = Clock::now() + 1ms + 1us * (random() % 4000);
      try {
        open.emplace_back(at, engine.submit(request));
      } catch (const BadArgument&) {  // the machine was busy, and the deadline has passed
        request.deadline.reset();
        open.emplace_back(at, engine.submit(request));
      }
      ++submitted_;
      if (random() % 4 == 0) open.back().second.cancel();
      if (random() % 3 == 0) open.front().second.next(1us * (random() % 500));
      // Those left open are not read for a while.
      while (goes_on() && open.size() > engine.options().slots / kThreads + random() % 12) {
        const auto ended = std::find_if(open.begin(), open.end(),
                                        [](const auto& one) { return one.second.has_ended(); });
        if (ended != open.end())
          take(static_cast<std::size_t>(ended - open.begin()));
        else
          open[random() % open.size()].second.next(1ms);
      }
    }
    for (auto& [at, ticket] : open) {
      try {
        ticket.cancel();
      } catch (const BadArgument&) {  // it was cancelled before
      }
    }
    while (!open.empty()) take(open.size() - 1);
  }

  void check(std::size_t at, const Reply& reply) {
    const Tokens& right = right_[at];
    ++replies_;
    tokens_ += reply.tokens.size();
    cancelled_ += reply.finish == Finish::cancelled;
    expired_ += reply.finish == Finish::deadline;
    EXPECT_NE(reply.finish, Finish::failed) << reply.error;
    const bool is_whole = reply.finish == Finish::length;
    ASSERT_TRUE(is_whole ? reply.tokens.size() == right.size()
                         : reply.tokens.size() <= right.size())
        << "request " << at << ": " << reply.tokens.size() << " tokens of " << right.size();
    EXPECT_TRUE(std::equal(reply.tokens.begin(), reply.tokens.end(), right.begin()))
        << "request " << at << " got other tokens than alone";
  }

  void print(Clock::time_point begin, const EngineStats& stats) const {
    fmt::print(
        "soak: {:.0f} s, {} requests, {} replies ({} cancelled, {} expired), {} tokens; {} steps, "
        "{} preemptions, {} evictions, {} launches; {} running, {} waiting, {} pages in use\n",
        std::chrono::duration<double>(Clock::now() - begin).count(), submitted_.load(),
        replies_.load(), cancelled_.load(), expired_.load(), tokens_.load(), stats.steps,
        stats.preemptions, stats.evictions, stats.launches, stats.requests_running,
        stats.requests_waiting, stats.pages_in_use);
    std::fflush(stdout);
  }

  std::vector<Request> requests_;
  std::vector<Tokens> right_;
  std::atomic<std::uint64_t> submitted_ = 0, replies_ = 0, cancelled_ = 0, expired_ = 0,
                             tokens_ = 0;
};
ATTACCA_ON_EACH_SCHEDULER(SoakAtRandom);

TEST_P(SoakAtRandom, a_full_batch_of_256_loses_nothing_for_as_long_as_one_likes) {
  const char* wish = std::getenv("ATTACCA_SOAK_SECONDS");
  if (!wish) GTEST_SKIP() << "set ATTACCA_SOAK_SECONDS to the seconds it shall take";
  const Clock::time_point begin = Clock::now();
  const llm::Model model("");
  ASSERT_NO_FATAL_FAILURE(find_right_replies(model));
  EngineOptions full = options(256);
  full.pages = 384;  // of 20 that a sequence may need
  choose_scheduler_of_this_test(full);
  Engine engine(model, full);
  print(begin, engine.stats());

  // The seconds count from the beginning, so that whoever waits for the test knows its end; on a
  // slow machine half of them are left.
  const auto length = std::chrono::milliseconds(1000 * std::atoi(wish));
  const Clock::time_point end = std::max(begin + length, Clock::now() + length / 2);
  const Clock::time_point middle = Clock::now() + (end - Clock::now()) / 2;
  std::atomic<std::size_t> working = kThreads;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      submit_until(end, engine, static_cast<unsigned>(thread));
      --working;
    });
  std::size_t kilobytes = 0, bytes_free = 0;
  Clock::time_point next_print = Clock::now() + kProgressEvery;
  while (working > 0) {
    std::this_thread::sleep_for(20ms);
    const Clock::time_point now = Clock::now();
    if (kilobytes == 0 && now >= middle) {  // by now the rings have been filled once
      kilobytes = resident_kilobytes();
      bytes_free = device().bytes_free();
    }
    if (now < next_print) continue;
    print(begin, engine.stats());
    next_print += kProgressEvery;
    if (now < end + kMostOverdue) continue;
    fmt::print("soak: {} threads still wait for replies; it hangs\n", working.load());
    std::fflush(stdout);
    std::abort();  // they cannot be told to stop
  }
  for (std::thread& thread : threads) thread.join();
  engine.wait_until_idle();

  const EngineStats stats = engine.stats();
  print(begin, stats);
  const std::size_t kilobytes_now = resident_kilobytes(), bytes_free_now = device().bytes_free();
  fmt::print(
      "soak: memory in the middle {} MB, at the end {} MB; free on the device {} and {} MB\n",
      kilobytes >> 10, kilobytes_now >> 10, bytes_free >> 20, bytes_free_now >> 20);
  EXPECT_EQ(replies_, submitted_);
  EXPECT_EQ(stats.requests_running + stats.requests_waiting, 0u);
  EXPECT_EQ(stats.pages_in_use, 0u);
  EXPECT_GT(stats.preemptions + stats.evictions, 0u) << "pages were never short";
  EXPECT_LE(kilobytes_now, kilobytes + 16 * 1024);
  EXPECT_TRUE(!is_cuda() || bytes_free_now + (std::size_t{64} << 20) >= bytes_free);
}

}  // namespace
}  // namespace attacca
