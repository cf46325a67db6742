// Tests of a persistent step's plan on the host: tiles cover every matrix once, producers and
// consumers agree on the order of stages, and a simulation of all blocks shows that no schedule
// stops and that no phase begins before all earlier ones have ended.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>
#include <tuple>

#include "kernels/linear/streamed_tiles.hpp"
#include "kernels/persistent/persistent_step.hpp"
#include "model/shapes.hpp"

namespace attacca::test {
namespace {

using kernels::blocks_with_work;
using kernels::Epilogue;
using kernels::Phase;
using kernels::PhaseKind;
using kernels::streamed::tile_range;
using model::ModelConfig;

constexpr unsigned kTileRows = kernels::kPersistentTileRows;
constexpr std::uint32_t kGrids[] = {1, 2, 7, 78, 114, 132, 148};

/// Phases with the sizes of a model's products; nothing is at their addresses.
std::vector<Phase> phases_for(const ModelConfig& c, std::uint32_t rows, std::uint32_t blocks) {
  std::vector<Phase> phases;
  Phase& embed = phases.emplace_back();
  kernels::EmbedResidualArgs tokens{};
  tokens.rows.capacity = rows;
  tokens.residual.columns = c.hidden;
  embed.set(tokens);
  const auto add = [&](Epilogue epilogue, std::uint32_t outputs, std::uint32_t columns) {
    kernels::StreamedLinearArgs args{};
    args.epilogue = epilogue;
    args.w = {nullptr, kernels::TensorType::bf16, outputs, columns};
    args.rows.capacity = rows;
    phases.emplace_back().kind = PhaseKind::product;
    phases.back().set(args);
  };
  for (std::uint32_t layer = 0; layer < c.layers; ++layer) {
    add(Epilogue::store, (c.heads + 2 * c.kv_heads) * c.head_size, c.hidden);
    phases.emplace_back().kind = PhaseKind::attention;
    add(Epilogue::add, c.hidden, c.heads * c.head_size);
    add(Epilogue::gate, c.feed_forward, c.hidden);
    add(Epilogue::add, c.hidden, c.feed_forward);
  }
  add(Epilogue::store, c.vocabulary, c.hidden);
  phases.back().is_for_logits = 1;
  kernels::link_phases(phases, blocks);
  return phases;
}

std::vector<ModelConfig> configs(std::uint32_t layers) {
  std::vector<ModelConfig> all;
  for (const std::string& name : model::shape_names()) {
    all.push_back(model::shape_called(name));
    if (layers != 0) all.back().layers = layers;
  }
  ModelConfig tiny;  // fewer tiles than blocks everywhere
  tiny.name = "tiny";
  tiny.hidden = 64;
  tiny.layers = 3;
  tiny.heads = 4;
  tiny.kv_heads = 2;
  tiny.head_size = 16;
  tiny.feed_forward = 160;
  tiny.vocabulary = 512;
  all.push_back(tiny);
  return all;
}

std::uint32_t tiles_of(const Phase& phase) {
  const kernels::StreamedLinearArgs& a = phase.product();
  return a.w.rows / (a.epilogue == Epilogue::gate ? kTileRows / 2 : kTileRows);
}

TEST(PersistentPlan, gives_each_tile_of_every_product_to_one_block_and_counts_these_blocks) {
  for (const ModelConfig& config : configs(1))
    for (const std::uint32_t blocks : kGrids)
      for (const Phase& phase : phases_for(config, 1, blocks)) {
        if (phase.kind != PhaseKind::product) continue;
        const kernels::StreamedLinearArgs& a = phase.product();
        SCOPED_TRACE(config.name + ", " + std::to_string(a.w.rows) + " rows of weights, " +
                     std::to_string(blocks) + " blocks");
        std::uint32_t next = 0;
        std::uint32_t with_work = 0;
        for (std::uint32_t block = 0; block < blocks; ++block) {
          const auto range = tile_range<kTileRows>(a.w.rows, a.epilogue, block, blocks);
          ASSERT_EQ(range.first, next);
          ASSERT_TRUE(a.epilogue != Epilogue::add || range.count % 2 == 0) << "a part is cut";
          ASSERT_TRUE(range.count == 0 || with_work == block) << "blocks with work come first";
          with_work += range.count != 0;
          next += range.count;
        }
        ASSERT_EQ(next, tiles_of(phase));
        ASSERT_EQ(with_work, blocks_with_work(phase, blocks, 0));
        ASSERT_GT(with_work, 0u);
      }
}

TEST(PersistentPlan, waits_for_all_arrivals_of_earlier_phases) {
  for (const ModelConfig& config : configs(0))
    for (const std::uint32_t attending : {1u, 64u, 132u}) {
      const std::vector<Phase> phases = phases_for(config, 16, 132);
      ASSERT_EQ(phases.size(), 2 + 5 * config.layers);
      std::uint32_t arrivals = 0;
      std::uint32_t product = phases.front().next_product;
      for (std::size_t at = 0; at < phases.size(); ++at) {
        EXPECT_EQ(phases[at].wanted(attending), arrivals);
        arrivals += blocks_with_work(phases[at], 132, attending);
        EXPECT_EQ(phases[at].is_last, at + 1 == phases.size());
        if (at == product)
          product = phases[at].next_product;
        else
          EXPECT_NE(phases[at].kind, PhaseKind::product) << "the producers leave it out";
      }
      EXPECT_EQ(product, Phase::kNone);
    }
}

/// A stage: phase, tile and chunk.
using Stage = std::tuple<std::size_t, std::uint32_t, std::uint32_t>;

/// The blocks of a step, each a producer and a consumer that take one action at a time, in any
/// order. As in persistent_step.cuh, but without the numbers.
class Simulation {
 public:
  static constexpr std::size_t kRing = 8;

  Simulation(const std::vector<Phase>& phases, std::uint32_t blocks, std::uint32_t attending)
      : phases_(phases), blocks_(blocks), attending_(attending), ended_(phases.size()) {
    for (std::uint32_t index = 0; index < blocks; ++index) {
      Block& block = blocks_[index];
      for (std::uint32_t at = phases.front().next_product; at != Phase::kNone;
           at = phases[at].next_product)
        add_stages(block.to_fill, at, index);
    }
  }

  /// Runs actions in random order until nothing can be done any more.
  void run(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<unsigned> actors(2 * blocks_.size());
    for (unsigned at = 0; at < actors.size(); ++at) actors[at] = at;
    // Some actors are much slower than others.
    const unsigned slow = static_cast<unsigned>(random() % actors.size());
    for (unsigned idle = 0; idle < 4 * actors.size();) {
      const unsigned actor = actors[random() % actors.size()];
      if (actor == slow && random() % 50 != 0) continue;
      idle = act(actor) ? 0 : idle + 1;
    }
    for (unsigned rest = 0; rest < 4; ++rest)
      for (const unsigned actor : actors)
        while (act(actor)) rest = 0;
  }

  void expect_complete() const {
    for (const Block& block : blocks_) {
      EXPECT_EQ(block.phase, phases_.size());
      EXPECT_TRUE(block.to_fill.empty());
      EXPECT_TRUE(block.ring.empty());
    }
    for (std::size_t at = 0; at < phases_.size(); ++at)
      EXPECT_EQ(ended_[at], blocks_with_work(phases_[at], count(), attending_));
    EXPECT_TRUE(counter_.is_reset()) << "the next launch would not find zeros";
    EXPECT_TRUE(mistakes_.empty()) << mistakes_;
  }

 private:
  struct Block {
    std::deque<Stage> to_fill;  // by the producer, in its order
    std::deque<Stage> ring;
    std::deque<Stage> to_read;  // of the current phase
    std::size_t phase = 0;
    bool is_in_phase = false;
    bool has_left = false;
  };

  std::uint32_t count() const { return static_cast<std::uint32_t>(blocks_.size()); }
  /// The stages of a phase in the order of streamed::Block: four tiles at a time, chunk by chunk.
  void add_stages(std::deque<Stage>& to, std::size_t phase, std::uint32_t block) const {
    const kernels::StreamedLinearArgs& a = phases_[phase].product();
    const auto range = tile_range<kTileRows>(a.w.rows, a.epilogue, block, count());
    const std::uint32_t chunks = (a.w.columns + 1023) / 1024;
    for (std::uint32_t tile = 0; tile < range.count; tile += 4)
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
        for (std::uint32_t one = tile; one < std::min(tile + 4, range.count); ++one)
          to.emplace_back(phase, range.first + one, chunk);
  }
  bool act(unsigned actor) {
    const auto index = static_cast<std::uint32_t>(actor / 2);
    Block& block = blocks_[index];
    return actor % 2 == 0 ? produce(block) : consume(block, index);
  }
  bool produce(Block& block) {
    if (block.to_fill.empty() || block.ring.size() == kRing) return false;
    block.ring.push_back(block.to_fill.front());
    block.to_fill.pop_front();
    return true;
  }
  bool consume(Block& block, std::uint32_t index) {
    if (block.phase == phases_.size()) {
      if (block.has_left) return false;
      block.has_left = true;
      counter_.leave(count());
      return true;
    }
    const Phase& phase = phases_[block.phase];
    if (!block.is_in_phase) {
      if (index >= blocks_with_work(phase, count(), attending_)) {
        ++block.phase;
        return true;
      }
      if (!counter_.has(phase.wanted(attending_))) return false;
      for (std::size_t before = 0; before < block.phase; ++before)
        if (ended_[before] != blocks_with_work(phases_[before], count(), attending_))
          mistakes_ += "phase " + std::to_string(block.phase) + " begins before phase " +
                       std::to_string(before) + " has ended\n";
      block.is_in_phase = true;
      if (phase.kind == PhaseKind::product) add_stages(block.to_read, block.phase, index);
      return true;
    }
    if (!block.to_read.empty()) {
      if (block.ring.empty()) return false;
      if (block.ring.front() != block.to_read.front()) mistakes_ += "a stage of another tile\n";
      block.ring.pop_front();
      block.to_read.pop_front();
      return true;
    }
    ++ended_[block.phase];
    if (!phase.is_last) counter_.arrive();
    block.is_in_phase = false;
    ++block.phase;
    return true;
  }

  const std::vector<Phase>& phases_;
  std::vector<Block> blocks_;
  std::uint32_t attending_;
  std::vector<std::uint32_t> ended_;  // blocks that have ended each phase
  kernels::PhaseCounter<> counter_{};
  std::string mistakes_;
};

TEST(PersistentPlan, ends_in_every_order_of_events_and_no_phase_begins_too_soon) {
  for (const ModelConfig& config : configs(2)) {
    ModelConfig small = config;
    small.vocabulary = std::min(config.vocabulary, 4096u);
    for (const std::uint32_t blocks : {1u, 3u, 132u}) {
      const std::vector<Phase> phases = phases_for(small, 4, blocks);
      for (std::uint64_t seed = 0; seed < (blocks > 100 ? 2u : 20u); ++seed) {
        SCOPED_TRACE(config.name + ", " + std::to_string(blocks) + " blocks, seed " +
                     std::to_string(seed));
        Simulation simulation(phases, blocks, std::min(blocks, 1 + static_cast<unsigned>(seed)));
        simulation.run(seed);
        simulation.expect_complete();
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(PersistentPlan, the_simulation_sees_a_phase_that_waits_for_too_few) {
  const ModelConfig config = configs(1).back();
  std::vector<Phase> phases = phases_for(config, 4, 3);
  --phases[3].arrivals_before;
  bool is_seen = false;
  for (std::uint64_t seed = 0; seed < 50 && !is_seen; ++seed) {
    Simulation simulation(phases, 3, 3);
    simulation.run(seed);
    testing::TestPartResultArray results;
    {
      const testing::ScopedFakeTestPartResultReporter reporter(
          testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
      simulation.expect_complete();
    }
    is_seen = results.size() != 0;
  }
  EXPECT_TRUE(is_seen);
}

}  // namespace
}  // namespace attacca::test
