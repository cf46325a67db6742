// Tests of the thread that computes masks, with grammars that invent them.
#include "driver/mask_worker.hpp"

#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include <latch>
#include <memory>
#include <vector>

namespace attacca::driver {
namespace {

using namespace std::chrono_literals;

/// Its mask is the list of its tokens. A negative token is one that it cannot take.
class ListingGrammar final : public ReplyGrammar {
 public:
  MaskPtr allowed() override {
    if (gate) gate->wait();
    return std::make_shared<const std::vector<std::uint32_t>>(tokens_);
  }
  void advance(std::int32_t token) override {
    if (token < 0) throw Error("no such token");
    tokens_.push_back(static_cast<std::uint32_t>(token));
  }

  std::latch* gate = nullptr;

 private:
  std::vector<std::uint32_t> tokens_;
};

JobPtr job_with(std::latch* gate = nullptr) {
  auto job = std::make_shared<Job>();
  auto grammar = std::make_unique<ListingGrammar>();
  grammar->gate = gate;
  job->grammar = std::move(grammar);
  return job;
}

TEST(MaskWorker, takes_tokens_whose_masks_nobody_wants_and_waits_for_none) {
  MaskWorker worker;
  const JobPtr job = job_with(), other = job_with();
  for (std::int32_t token = 0; token < 5; ++token) worker.send(job, token, false);
  EXPECT_FALSE(worker.has_open());
  worker.send(job, 5);
  ASSERT_TRUE(worker.wait(1min));
  const std::vector<MaskWorker::Ready> ready = worker.take();
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(*ready[0].mask, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ready[0].token, 5);
  worker.send(other, -1, false);  // it cannot take it, and that is told with the next mask
  worker.send(other, 1);
  ASSERT_TRUE(worker.wait(1min));
  const std::vector<MaskWorker::Ready> failed = worker.take();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].mask, nullptr);
  EXPECT_EQ(failed[0].error, "no such token");
}

TEST(MaskWorker, gives_each_job_the_mask_after_its_tokens) {
  MaskWorker worker;
  EXPECT_FALSE(worker.wait(1min)) << "nothing was asked for";
  const std::vector<JobPtr> jobs = {job_with(), job_with(), job_with()};
  for (std::int32_t round = 0; round < 50; ++round) {
    for (std::size_t at = 0; at < jobs.size(); ++at)
      worker.send(jobs[at], round * 3 + static_cast<std::int32_t>(at));
    EXPECT_TRUE(worker.has_open());
    ASSERT_TRUE(worker.wait(1min));
    const std::vector<MaskWorker::Ready> ready = worker.take();
    EXPECT_FALSE(worker.has_open());
    ASSERT_EQ(ready.size(), jobs.size());
    for (std::size_t at = 0; at < jobs.size(); ++at) {
      EXPECT_EQ(ready[at].job, jobs[at]);
      ASSERT_EQ(ready[at].mask->size(), static_cast<std::size_t>(round) + 1);
      EXPECT_EQ(ready[at].mask->back(), static_cast<std::size_t>(round) * 3 + at);
    }
  }
}

TEST(MaskWorker, tells_why_there_is_no_mask) {
  MaskWorker worker;
  worker.send(job_with(), -1);
  worker.send(job_with(), 1);
  ASSERT_TRUE(worker.wait(1min));
  const std::vector<MaskWorker::Ready> ready = worker.take();
  ASSERT_EQ(ready.size(), 2u);
  EXPECT_FALSE(ready[0].mask);
  EXPECT_EQ(ready[0].error, "no such token");
  EXPECT_TRUE(ready[1].mask);
}

TEST(MaskWorker, patience_ends_while_a_mask_takes_long) {
  std::latch gate(1);
  MaskWorker worker;
  worker.send(job_with(&gate), 1);
  EXPECT_TRUE(worker.wait(1us));
  EXPECT_TRUE(worker.take().empty());
  EXPECT_TRUE(worker.has_open());
  gate.count_down();
  EXPECT_TRUE(worker.wait(1min));
  EXPECT_EQ(worker.take().size(), 1u);
}

TEST(MaskWorker, ends_with_masks_that_nobody_took) {
  std::latch gate(1);
  MaskWorker worker;
  worker.send(job_with(&gate), 1);
  for (int i = 0; i < 10; ++i) worker.send(job_with(), 1);
  gate.count_down();
}

}  // namespace
}  // namespace attacca::driver
