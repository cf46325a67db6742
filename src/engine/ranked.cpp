// ranked.cpp: compares the ranks of an engine, and runs those that follow.
#include "engine/ranked.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/version.hpp>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "engine/resident_ranks.hpp"
#include "engine/sizing.hpp"
#include "model/shard.hpp"

namespace attacca::engine {

namespace {

using llm::EngineOptions;
using llm::detail::ModelData;

/// What a rank tells the others about itself.
struct Card {
  char version[16] = {};
  char model[96] = {};
  std::uint64_t fingerprint = 0;
  std::uint8_t is_cuda = 0;
  std::uint8_t is_resident = 0;
  std::uint8_t is_fp8 = 0;
  std::uint8_t fuses_sums = 0;
  std::uint16_t transport = 0;
  std::uint8_t has_graphs = 0;  // of steps
  std::uint8_t none = 0;
};
static_assert(sizeof(Card) == 128, "other versions send as many bytes, the version first");

/// What rank 0 decides for all.
struct Decision {
  schedule::Limits limits;
  llm::GraphMode graphs;
  llm::KvType kv_type;
  llm::ResidentLoop resident_loop;
  bool overlap;
  bool same_bits;
};

template <std::size_t size>
void set(char (&text)[size], std::string_view value) {
  value.copy(text, size - 1);
}

Card card_of(const ModelData& model, const EngineOptions& options) {
  Card card;
  set(card.version, version());
  set(card.model, model.config().name);
  card.fingerprint = model::fingerprint(model.checkpoint);
  card.is_cuda = options.device.is_cuda();
  card.is_fp8 = options.weights == llm::WeightFormat::fp8;
  card.is_resident = options.scheduler == llm::Scheduler::resident;
  card.fuses_sums = options.fuses_rank_sums;
  card.transport = static_cast<std::uint16_t>(options.rank_transport);
  card.has_graphs = options.graphs != llm::GraphMode::off;
  return card;
}

/// Every rank sees the same cards, so every rank throws the same.
void compare(std::span<const Card> cards) {
  const Card& first = cards.front();
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const Card& card = cards[rank];
    if (std::strcmp(card.version, first.version) != 0)
      throw BadArgument(fmt::format(
          "rank 0 is attacca {} and rank {} is attacca {}; start the same version everywhere",
          first.version, rank, card.version));
    if (card.fingerprint != first.fingerprint)
      throw BadArgument(fmt::format(
          "rank 0 has the model '{}' ({:016x}) and rank {} has '{}' ({:016x}); give all ranks the "
          "same files",
          first.model, first.fingerprint, rank, card.model, card.fingerprint));
    if (card.is_cuda != first.is_cuda)
      throw BadArgument(fmt::format(
          "rank 0 has {} device and rank {} has {} device; give all ranks the same kind",
          first.is_cuda ? "a CUDA" : "a host", rank, card.is_cuda ? "a CUDA" : "a host"));
    if (card.is_fp8)
      throw BadArgument(fmt::format(
          "rank {} has weights in fp8, which models over ranks do not have; use them as stored",
          rank));
    if (card.is_resident != first.is_resident)
      throw BadArgument(
          fmt::format("rank 0 has {} scheduler and rank {} has {}; give all ranks the same",
                      first.is_resident ? "the resident" : "the host's", rank,
                      card.is_resident ? "the resident one" : "the host's"));
    if (card.transport != first.transport)
      throw BadArgument(
          fmt::format("rank 0 has the transport {} and rank {} has {}; give all ranks the same",
                      transport_name(static_cast<Transport>(first.transport)), rank,
                      transport_name(static_cast<Transport>(card.transport))));
    if (card.fuses_sums != first.fuses_sums)
      throw BadArgument(
          fmt::format("rank 0 has fuses_rank_sums {} and rank {} has {}; give all ranks the same",
                      first.fuses_sums ? "on" : "off", rank, card.fuses_sums ? "on" : "off"));
    if (card.is_resident && card.is_cuda &&
        card.transport != static_cast<std::uint16_t>(Transport::nvshmem))
      throw BadArgument(fmt::format(
          "rank {} has the resident scheduler and the transport {}, whose exchanges need the host "
          "or another rank's graph; use NVSHMEM, or the host's scheduler",
          rank, transport_name(static_cast<Transport>(card.transport))));
  }
}

/// The ranks on the device: a library that is missing, or refuses the ranks, is found here too.
Group agree(const ModelData& model, const EngineOptions& options) {
  const Group& ranks = *options.ranks;
  const Card own = card_of(model, options);
  std::vector<Card> cards(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(std::span(&own, 1), std::span(cards)).named("compare models").run();
  compare(cards);
  model::check_ranks(model.checkpoint, ranks.size());
  if (!own.is_resident) {
    const Group there = ranks.on(options.device, options.rank_transport);
    if (there.backend() == "peer" && cards.front().has_graphs)  // rank 0 decides for all
      throw BadArgument(
          "copies between devices of threads (the transport peer) cannot stand in the graphs of "
          "steps; use graphs off, or install NCCL and use the transport nccl");
    return there;
  }
  constexpr int kMost = kernels::RankRoom::kMostRanks;
  if (ranks.size() > kMost)
    throw BadArgument(
        fmt::format("the resident scheduler runs over at most {} ranks, and here are {}; use the "
                    "host's",
                    kMost, ranks.size()));
  const Group there = ranks.on(options.device, options.rank_transport);
  if (!own.is_cuda && !step::LinkedRanks::can_link(options.device, there))
    throw BadArgument(fmt::format(
        "the resident scheduler does not run over ranks whose transport is {}: its exchanges need "
        "the host or another rank's graph; give each rank a host device of its own, or use the "
        "host's scheduler",
        there.backend()));
  return there;
}

Decision decide(const ModelData& model, const model::ModelConfig& config, EngineOptions& options) {
  // All ranks may be on this machine.
  options.memory_fraction /= options.ranks->size();
  GpuWeights weights = gpu_weights(model.checkpoint, options.weights);
  // Every rank has the whole embedding.
  weights.bytes = weights.bytes / static_cast<std::size_t>(options.ranks->size()) +
                  model.checkpoint.find("token_embd.weight")->bytes;
  weights.are_streamed = weights.are_expanded = false;
  const schedule::Limits limits = size_engine(config, weights, options);
  return {limits,          options.graphs,   options.kv_type, options.resident_loop,
          options.overlap, options.same_bits};
}

const Group* group_of(const EngineOptions& options) {
  return options.ranks ? &*options.ranks : nullptr;
}

}  // namespace

RankedModel agree_as_first(const ModelData& model, EngineOptions& options) {
  if (!options.ranks) return {model.config(), size_engine(model.checkpoint, options)};
  if (options.ranks->rank() != 0)
    throw BadArgument(
        fmt::format("rank {} cannot take requests; call llm::follow there", options.ranks->rank()));
  Group exchanges = agree(model, options);
  const model::ModelConfig config = model::shard_of(model.config(), options.ranks->size());
  Decision decision = or_give_up(group_of(options), [&] { return decide(model, config, options); });
  options.ranks->broadcast(std::span(&decision, 1), 0).named("sizes").run();
  return {config, decision.limits, std::move(exchanges)};
}

std::unique_ptr<StepRunner> make_runner(const ModelData& model, const model::ModelConfig& config,
                                        const EngineOptions& options, const StepSetup& setup,
                                        const formats::Progress& progress) {
  return or_give_up(group_of(options), [&] {
    model::Shard shard;
    if (options.ranks) shard = {options.ranks->rank(), options.ranks->size()};
    auto weights = std::make_shared<const model::Weights>(
        model.checkpoint, options.device, progress, model_format(options.weights), shard);
    return std::make_unique<StepRunner>(config, std::move(weights), options.device, setup,
                                        progress);
  });
}

void follow(const ModelData& model, EngineOptions options, const formats::Progress& progress) {
  if (!options.ranks)
    throw BadArgument("llm::follow without ranks; give it a group, or make an Engine");
  if (options.ranks->rank() == 0) throw BadArgument("rank 0 does not follow; make an Engine there");
  Group exchanges = agree(model, options);
  const model::ModelConfig config = model::shard_of(model.config(), options.ranks->size());
  Decision decision{};
  options.ranks->broadcast(std::span(&decision, 1), 0).named("sizes").run();
  options.graphs = decision.graphs;
  options.kv_type = decision.kv_type;
  options.resident_loop = decision.resident_loop;
  options.overlap = decision.overlap;
  options.same_bits = decision.same_bits;
  StepSetup setup = setup_of(decision.limits, options);
  setup.exchanges = std::move(exchanges);
  const auto runner = make_runner(model, config, options, setup, progress);
  try {
    or_give_up(group_of(options), [&] {
      if (options.scheduler == llm::Scheduler::resident)
        follow_resident(*runner, decision.limits, options, progress);
      else
        runner->follow();
    });
  } catch (const NodeFailed&) {
    options.ranks->check();  // throws what all ranks are told, without this rank's node
    throw;
  }
}

}  // namespace attacca::engine
