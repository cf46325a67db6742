// synthetic_step.cpp: allocates the weights and pages of synthetic_step.hpp, plans its batch, and
// builds and launches its step.
#include "llm/synthetic_step.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <attacca/error.hpp>
#include <memory>
#include <numeric>
#include <random>

#include "kernels/random_fill.hpp"
#include "model/checkpoint.hpp"
#include "model/shapes.hpp"
#include "model/shard.hpp"

namespace bench {

using namespace attacca;
using kernels::KvType;
using kernels::Sampled;
using kernels::SamplingParams;
using kernels::TensorType;
using model::ModelConfig;

namespace {

constexpr std::pair<GraphMode, const char*> kModes[] = {
    {GraphMode::full, "full"}, {GraphMode::piecewise, "piecewise"}, {GraphMode::off, "off"}};
constexpr std::uint64_t kSeed = 1;  // for the tokens and the order of pages

step::KvSizes kv_sizes(std::uint64_t pages, KvType type) {
  return {.pages = pages, .page_size = SyntheticModel::kPageSize, .type = type};
}
double kv_bytes(const ModelConfig& c, const step::KvSizes& sizes) {
  return static_cast<double>(sizes.pages) * static_cast<double>(step::KvPool::page_bytes(c, sizes));
}
/// The usual type of keys and values on a device, and the bytes of random weights.
KvType usual_type(const Device& device) { return device.is_cuda() ? KvType::bf16 : KvType::f32; }
double random_bytes(const ModelConfig& c) {
  constexpr double kBytes = 2;  // bf16
  const double tables = c.is_tied.value_or(false) ? 1 : 2;
  return kBytes * (model::parameters_per_token(c) + tables * c.vocabulary * c.hidden);
}

std::uint32_t pages_for(const SyntheticSequence& sequence) {
  return (sequence.context + sequence.tokens + SyntheticModel::kPageSize - 1) /
         SyntheticModel::kPageSize;
}

/// Returns the device, or throws if the model does not fit.
const Device& roomy(const Device& device, const ModelConfig& c, double weights, double kv) {
  constexpr double kGiB = 1 << 30;
  const auto free = static_cast<double>(device.bytes_free());
  if (weights + kv > free)
    throw BadArgument(fmt::format(
        "{} needs {:.1f} GiB of weights and {:.1f} GiB of KV pages, and {:.1f} GiB are free; ask "
        "for a smaller batch, context or shape",
        c.name, weights / kGiB, kv / kGiB, free / kGiB));
  return device;
}

ModelConfig part_of(const ModelConfig& whole, const model::Shard& shard) {
  ModelConfig part = model::shard_of(whole, shard.ranks);
  part.vocabulary = model::rows_of(whole.vocabulary, shard.rank, shard.ranks).count;
  return part;
}

step::StepShape shape_of(const SyntheticBatch& batch) {
  step::StepShape shape{0, static_cast<std::uint32_t>(batch.size()), true};
  for (const SyntheticSequence& sequence : batch) {
    shape.tokens += sequence.tokens;
    shape.is_decode &= sequence.tokens == 1;
  }
  return shape;
}

}  // namespace

GraphMode graph_mode_called(const std::string& name) {
  for (const auto& [mode, known] : kModes)
    if (name == known) return mode;
  throw BadArgument(fmt::format("no graph mode '{}'; use full, piecewise or off", name));
}
const char* name_of(GraphMode mode) { return kModes[static_cast<std::size_t>(mode)].second; }

std::uint64_t pages_of(const SyntheticBatch& batch) {
  std::uint64_t sum = 0;
  for (const SyntheticSequence& sequence : batch) sum += pages_for(sequence);
  return sum;
}
std::uint64_t context_of(const SyntheticBatch& batch) {
  std::uint64_t sum = 0;
  for (const SyntheticSequence& sequence : batch) sum += sequence.context;
  return sum;
}

SyntheticModel::SyntheticModel(const ModelConfig& of_config, const Device& on, std::uint64_t pages,
                               std::uint64_t seed, model::WeightFormat format)
    : device(roomy(on, of_config, random_bytes(of_config),
                   kv_bytes(of_config, kv_sizes(pages, usual_type(on))))),
      config(of_config),
      weights(config, device, seed, format),
      kv_(device, config, kv_sizes(pages, usual_type(on))) {
  fill_pages(seed);
}

SyntheticModel::SyntheticModel(const model::Checkpoint& checkpoint, const Device& on,
                               std::uint64_t pages, KvType kv_type, const model::Shard& shard)
    : device(roomy(on, checkpoint.config(),
                   static_cast<double>(checkpoint.weights().bytes) / shard.ranks,
                   kv_bytes(checkpoint.config(), kv_sizes(pages, kv_type)))),
      config(part_of(checkpoint.config(), shard)),
      weights(checkpoint, device, {}, model::WeightFormat::as_stored, shard),
      kv_(device, config, kv_sizes(pages, kv_type)) {
  fill_pages(1);
}

void SyntheticModel::fill_pages(std::uint64_t seed) {
  const KvType kv_type = kv_.sizes().type;
  const TensorType type = kv_type == KvType::bf16 ? TensorType::bf16 : TensorType::f32;
  const std::uint64_t elements = kv_.bytes() / kv_element_bytes(kv_type);
  const kernels::RandomFillArgs args{kv_.data(), type, elements, ~seed, 1};
  const Stream stream(device);
  stream.kernel(kernels::random_fill(), kernels::grid_of(args, device.is_cuda()), args);
  stream.synchronize();
}

double SyntheticModel::bytes_read(const SyntheticBatch& batch) const {
  std::uint64_t bytes = weights.head.bytes();
  for (const model::LayerWeights& layer : weights.layers)
    for (const kernels::Matrix& matrix :
         {layer.query, layer.key, layer.value, layer.output, layer.gate, layer.up, layer.down})
      bytes += matrix.bytes();
  const std::uint64_t kv_per_token =
      2 * config.layers * config.kv_heads * config.head_size * kv_element_bytes(kv_.sizes().type);
  return static_cast<double>(bytes + kv_per_token * context_of(batch));
}

SyntheticStep::SyntheticStep(const SyntheticModel& of_model, const SyntheticBatch& batch,
                             std::uint64_t first_page, bool same_bits, bool is_persistent)
    : model_(of_model),
      shape_(shape_of(batch)),
      counts_(of_model.device, std::vector<std::uint32_t>{shape_.tokens, shape_.rows}),
      sampling_(of_model.device, std::vector<SamplingParams>(batch.size())),
      marks_(of_model.device, batch.size() * of_model.config.vocabulary) {
  if (first_page + pages_of(batch) > model_.pages())
    throw BadArgument(fmt::format("a batch of {} pages, and the pool has {}, {} of them for others",
                                  pages_of(batch), model_.pages(), first_page));
  std::mt19937_64 random(kSeed);
  std::vector<std::int32_t> tokens, positions, slots, last, row_slots, row_positions;
  std::uint32_t most_pages = 0;
  for (const SyntheticSequence& sequence : batch) {
    const auto slot = static_cast<std::int32_t>(row_slots.size());
    for (std::uint32_t at = 0; at < sequence.tokens; ++at) {
      tokens.push_back(static_cast<std::int32_t>(random() % model_.config.vocabulary));
      positions.push_back(static_cast<std::int32_t>(sequence.context + at));
      slots.push_back(slot);
    }
    last.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
    row_slots.push_back(slot);
    row_positions.push_back(positions.back() + 1);
    most_pages = std::max(most_pages, pages_for(sequence));
  }
  const step::StepSizes sizes{
      .largest = shape_,
      .slots = static_cast<std::uint32_t>(batch.size()),
      .table_stride = most_pages,
      .same_bits = same_bits,
      .form = is_persistent ? step::StepForm::persistent : step::StepForm::kernels};
  memory_.emplace(model_.device, model_.config, model_.weights, model_.kv(), sizes,
                  step::StepInput{
                      .tokens = keep(tokens),
                      .positions = keep(positions),
                      .slots = keep(slots),
                      .token_count = counts_.data(),
                      .gather = keep(last),
                      .row_slots = keep(row_slots),
                      .row_positions = keep(row_positions),
                      .row_forced = keep(std::vector<std::int32_t>(shape_.rows, -1)),
                      .row_count = counts_.data() + 1,
                      .tables = deal_pages(batch, most_pages, first_page),
                      .sampling = sampling_.data(),
                      .slot_tokens = {.marks = marks_.data()},
                  });
  chain_.emplace(step::emit_step(*memory_, shape_));
}

std::string SyntheticStep::why_not_persistent() const {
  return step::why_not_persistent(*memory_, shape_);
}

const std::int32_t* SyntheticStep::keep(const std::vector<std::int32_t>& values) {
  return plan_.emplace_back(model_.device, values).data();
}

/// Scatters every sequence's pages over the pool, as after hours of serving.
const std::int32_t* SyntheticStep::deal_pages(const SyntheticBatch& batch, std::uint32_t stride,
                                              std::uint64_t first_page) {
  std::vector<std::int32_t> pages(model_.pages());
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937_64(kSeed));
  std::vector<std::int32_t> tables(batch.size() * stride);
  auto from = pages.begin() + static_cast<std::ptrdiff_t>(first_page);
  auto to = tables.begin();
  for (const SyntheticSequence& sequence : batch) {
    std::copy_n(from, pages_for(sequence), to);
    from += pages_for(sequence);
    to += stride;
  }
  return keep(tables);
}

Graph SyntheticStep::graph(const std::string& name) const {
  Graph graph(model_.device, name);
  chain_->append_to(graph);
  return graph;
}

Launch SyntheticStep::launch(GraphMode mode) const {
  const auto graph_of = [&](std::size_t first, std::size_t end) -> Launch {
    Graph graph(model_.device, "step");
    chain_->append_to(graph, first, end);
    const auto exec = std::make_shared<Exec>(graph.instantiate());
    return [exec](StreamRef stream) { exec->launch(stream); };
  };
  if (mode == GraphMode::full) return graph_of(0, chain_->size());
  if (mode == GraphMode::off) return [this](StreamRef stream) { chain_->launch(stream); };
  std::vector<Launch> pieces;
  for (std::size_t first = 0, end = 0; first < chain_->size(); first = end) {
    end = chain_->end_of_piece(first);
    if (chain_->is_attention(first))
      pieces.push_back([=, this](StreamRef stream) { chain_->launch(stream, first, end); });
    else
      pieces.push_back(graph_of(first, end));
  }
  return [pieces](StreamRef stream) {
    for (const Launch& piece : pieces) piece(stream);
  };
}

std::vector<SyntheticDraw> SyntheticStep::draws_of(const Launch& launch) const {
  Sampled nothing{};
  nothing.token = -1;
  memory_->sampled().write(std::vector<Sampled>(shape_.rows, nothing));
  const Stream stream(model_.device);
  launch(stream);
  stream.synchronize();
  std::vector<SyntheticDraw> draws;
  for (const Sampled& sampled : memory_->sampled().read()) {
    if (sampled.token < 0 ||
        static_cast<std::uint32_t>(sampled.token) >= model_.config.vocabulary ||
        !(sampled.logprob <= 0))
      throw Error(fmt::format("the step sampled token {} with log-probability {} in row {}",
                              sampled.token, sampled.logprob, draws.size()));
    draws.push_back({sampled.token, sampled.logprob});
  }
  return draws;
}

}  // namespace bench
