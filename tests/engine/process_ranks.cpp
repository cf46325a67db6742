// Models that are split over processes: mpirun or launch.py starts this program. For each fixture
// rank 0 compares the greedy tokens of all ranks with those of an engine of its own and with those
// of transformers.
#include <gtest/gtest.h>
#include <attacca/mpi.hpp>

#include <optional>
#include <string>
#include <tuple>

#include "engine/fixtures.hpp"

namespace attacca::engine_tests {
namespace {

std::optional<Group> world;

class ProcessRankedModels : public testing::TestWithParam<std::tuple<std::string, llm::Scheduler>> {
};

TEST_P(ProcessRankedModels, give_the_greedy_tokens_of_one_rank) {
  const auto& [name, scheduler] = GetParam();
  const Expected e = expected(name);
  const llm::Request request = greedy(e.prompt, e.greedy.size());
  llm::EngineOptions options;
  options.device = Device::host(1);
  options.slots = 2;
  options.context = 128;
  const llm::Model model(fixture(name));
  llm::EngineOptions ranked = options;
  ranked.ranks = world;
  ranked.scheduler = scheduler;
  if (world->rank() != 0) return llm::follow(model, ranked);
  llm::Engine all(model, ranked);
  llm::Engine whole(model, options);
  const std::vector<std::int32_t> tokens = all.generate(request).tokens;
  EXPECT_EQ(tokens, whole.generate(request).tokens);
  EXPECT_EQ(tokens, e.greedy);
}
INSTANTIATE_TEST_SUITE_P(Fixtures, ProcessRankedModels,
                         testing::Combine(testing::ValuesIn(kModels),
                                          testing::Values(llm::Scheduler::host,
                                                          llm::Scheduler::resident)));

}  // namespace
}  // namespace attacca::engine_tests

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  attacca::engine_tests::world = attacca::join_processes();
  const int result = RUN_ALL_TESTS();
  attacca::engine_tests::world.reset();
  return result;
}
