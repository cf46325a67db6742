// sizing.cpp: fills in default options, estimates the memory of weights and steps, and gives the
// rest to KV pages.
#include "engine/sizing.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/mebi.hpp"
#include "engine/coverage.hpp"
#include "kernels/linear/expand.hpp"
#include "model/checkpoint.hpp"
#include "model/held_types.hpp"
#include "schedule/default_sizes.hpp"
#include "schedule/host.hpp"

namespace attacca::engine {

namespace {

constexpr std::size_t kDefaultContext = 4096;
constexpr unsigned kGpuStepTokens = 2048;
constexpr unsigned kHostStepTokens = 512;
constexpr unsigned kHostDecodeStepTokens = 128;  // the host computes prompts slowly
constexpr std::uint32_t kScoreRows = 64;         // most rows of logits in a step that scores
constexpr std::uint32_t kRequestsPerSlot = 2;    // running and waiting inside the engine
// The KV pool's default size, in multiples of what all slots can use at once. Pages beyond the
// first multiple keep cached prefixes.
constexpr std::size_t kMostPools = 16;
constexpr std::size_t kMostHostPools = 2;

template <class T>
void check_range(const char* name, T value, T least, T most) {
  if (!(value >= least && value <= most))
    throw BadArgument(fmt::format("{} is {}; use {} to {}", name, value, least, most));
}

schedule::Sizes sizes_of(const char* name, const std::vector<unsigned>& given) {
  schedule::Sizes sizes;
  if (given.size() > schedule::Sizes::kMost)
    throw BadArgument(fmt::format("{} has {} sizes; give at most {}", name, given.size(),
                                  schedule::Sizes::kMost));
  for (const unsigned size : given) sizes.of[sizes.count++] = size;
  return sizes;
}

/// Checks the lists of sizes in every mode, then drops those that the mode does not use.
void choose_sizes(schedule::Limits& limits, llm::EngineOptions& options) {
  limits.decode_sizes = sizes_of("decode_sizes", options.decode_sizes);
  limits.mixed_sizes = sizes_of("mixed_sizes", options.mixed_sizes);
  schedule::check(limits);
  using llm::GraphMode;
  if (options.decode_sizes.empty())
    options.decode_sizes = schedule::default_decode_sizes(limits.slots);
  if (options.mixed_sizes.empty())
    options.mixed_sizes =
        schedule::default_mixed_sizes(limits.most_mixed(), limits.decode_step_tokens);
  if (options.graphs == GraphMode::off) options.decode_sizes.clear();
  if (options.graphs == GraphMode::off || options.graphs == GraphMode::decode)
    options.mixed_sizes.clear();
  limits.decode_sizes = sizes_of("decode_sizes", options.decode_sizes);
  limits.mixed_sizes = sizes_of("mixed_sizes", options.mixed_sizes);
}

/// The loop runs on a GPU where it can.
void choose_scheduler(const schedule::Limits& limits, llm::EngineOptions& options) {
  using llm::Scheduler;
  if (options.scheduler == Scheduler::automatic) {
    const bool can_reside = options.device.is_cuda() && !options.ranks && options.overlap &&
                            !first_without_graph(limits, options.graphs);
    options.scheduler = can_reside ? Scheduler::resident : Scheduler::host;
  }
  if (options.scheduler == Scheduler::resident && !options.overlap)
    throw BadArgument(
        "overlap is off, and the resident scheduler always plans a step while one runs; leave it "
        "on, or use the host's scheduler");
  if (options.scheduler == Scheduler::host &&
      options.resident_loop != llm::EngineOptions{}.resident_loop)
    throw BadArgument(fmt::format(
        "resident_loop is {}, and the host's scheduler has no such loop; leave it out, or use the "
        "resident scheduler",
        llm::resident_loop_name(options.resident_loop)));
}

/// Fills in the sizes of steps and checks what depends on neither the model nor the memory: pages
/// are left out. REQUIRES: `context` is filled in.
schedule::Limits choose_steps(llm::EngineOptions& options) {
  check_range("slots", options.slots, 1u, 1024u);
  if (options.step_tokens == 0)
    options.step_tokens = options.device.is_cuda() ? kGpuStepTokens : kHostStepTokens;
  check_range("step_tokens", options.step_tokens, 1u, 65536u);
  check_range("memory_fraction", options.memory_fraction, 0.01, 1.0);
  options.step_tokens = std::max(options.step_tokens, options.slots);
  if (options.decode_step_tokens == 0)
    options.decode_step_tokens =
        options.device.is_cuda() ? options.step_tokens : kHostDecodeStepTokens;
  options.decode_step_tokens =
      std::clamp(options.decode_step_tokens, options.slots, options.step_tokens);
  if (options.prefill_chunk == 0) options.prefill_chunk = options.step_tokens;
  options.prefill_chunk = std::min(options.prefill_chunk, options.step_tokens);

  schedule::Limits limits;
  limits.slots = options.slots;
  limits.requests = options.slots * kRequestsPerSlot;
  limits.page_size = options.page_size;
  limits.max_context = static_cast<std::uint32_t>(options.context);
  limits.prefill_chunk = options.prefill_chunk;
  limits.step_tokens = options.step_tokens;
  limits.decode_step_tokens = options.decode_step_tokens;
  limits.pads = options.pads;
  limits.shares_prefixes = options.shares_prefixes;
  limits.logit_rows = std::max(options.slots, std::min(kScoreRows, options.step_tokens));
  limits.pages = 1;  // so that the other limits pass their checks
  choose_sizes(limits, options);
  return limits;
}

/// Streamed steps support every type of keys and values; plain steps support f32 only.
llm::KvType choose_kv_type(const GpuWeights& weights, const llm::EngineOptions& options) {
  using llm::KvType;
  const bool has_choice = options.device.is_cuda() && weights.are_streamed;
  if (options.kv_type == KvType::automatic)  // with quantized weights x is not rounded to bf16
    return has_choice && !weights.are_quantized ? KvType::bf16 : KvType::f32;
  if (options.kv_type != KvType::f32 && !has_choice)
    throw BadArgument(fmt::format(
        "kv_type is {}, and on {} keys and values of this model are f32; use f32 or automatic, or "
        "a model in bf16 on a CUDA device",
        llm::kv_type_name(options.kv_type), options.device.name()));
  return options.kv_type;
}

}  // namespace

schedule::Limits with_sizes(const schedule::Limits& limits, const std::vector<unsigned>& decode,
                            const std::vector<unsigned>& mixed) {
  if (decode.empty() || mixed.empty())
    throw BadArgument(fmt::format("{} has no size; give at least one",
                                  decode.empty() ? "decode_sizes" : "mixed_sizes"));
  schedule::Limits next = limits;
  next.decode_sizes = sizes_of("decode_sizes", decode);
  next.mixed_sizes = sizes_of("mixed_sizes", mixed);
  schedule::check(next);
  return next;
}

GpuWeights gpu_weights(const model::Checkpoint& checkpoint, llm::WeightFormat format) {
  const model::HeldTypes held(checkpoint, model_format(format));
  GpuWeights result{.bytes = checkpoint.config().rotary_size / 2 * sizeof(float),  // frequencies
                    .are_streamed = held.are_layers_streamed()};
  for (const formats::Tensor& tensor : checkpoint.tensors()) {
    result.mapped += tensor.bytes;
    if (tensor.name == "rope_freqs.weight") continue;  // part of the frequencies
    if (tensor.shape.size() != 2) {
      result.bytes += tensor.count() * sizeof(float);
      continue;
    }
    const bool is_embedding = tensor.name == "token_embd.weight";
    const bool is_product = !is_embedding || &tensor == &checkpoint.head();
    if (is_embedding) result.bytes += tensor.bytes;
    if (!is_product) continue;
    kernels::Matrix matrix = formats::matrix_of(tensor);
    matrix.type = held.of(tensor);
    const bool is_shared = is_embedding && matrix.type == tensor.type;
    if (!is_shared) result.bytes += matrix.bytes();
    if (matrix.type == kernels::TensorType::e4m3)
      result.bytes += matrix.rows * sizeof(float);  // a scale for each row
    result.are_quantized |= kernels::is_quantized(matrix.type);
    result.are_expanded |= result.are_streamed && kernels::can_expand(matrix);
  }
  return result;
}

schedule::Limits size_engine(const model::Checkpoint& checkpoint, llm::EngineOptions& options) {
  return size_engine(checkpoint.config(), gpu_weights(checkpoint, options.weights), options);
}

schedule::Limits size_engine(const model::ModelConfig& config, const GpuWeights& weights,
                             llm::EngineOptions& options) {
  check_range("context", options.context, std::size_t{0}, std::size_t{config.context});
  if (options.context == 0)
    options.context = std::min<std::size_t>(config.context, kDefaultContext);
  schedule::Limits limits = choose_steps(options);
  choose_scheduler(limits, options);
  options.kv_type = choose_kv_type(weights, options);

  const std::size_t wanted = std::size_t{limits.slots} * limits.table_stride();
  const std::size_t page = step::KvPool::page_bytes(
      config, {.page_size = limits.page_size, .type = kernel_type(options.kv_type)});
  const std::size_t free = options.device.bytes_free();
  std::size_t taken = StepRunner::fixed_bytes(options.device, config, setup_of(limits, options),
                                              weights.are_expanded);
  if (options.device.is_cuda()) taken += weights.bytes;
  auto budget = static_cast<std::size_t>(static_cast<double>(free) * options.memory_fraction);
  std::string limit,
      remedy = fmt::format("use a smaller step_tokens, of {} now, or fewer slots, {}",
                           options.step_tokens, options.slots);
  if (options.memory_limit > 0) {
    remedy = "raise memory_limit, or " + remedy;
    // The system may drop mapped pages and read them again, so they count only here.
    if (!options.device.is_cuda()) taken += weights.mapped;
    budget = std::min(budget, options.memory_limit);
    limit = fmt::format(", memory_limit {:.0f} MiB", mebi(options.memory_limit));
    if (options.pages == 0) options.pages = std::min<std::size_t>(wanted, schedule::kMostPages);
  }
  const std::size_t affordable = budget > taken ? (budget - taken) / page : 0;
  if (affordable < 1)
    throw llm::DoesNotFit(fmt::format(
        "the model does not fit: {:.0f} MiB are free, of which {} may be used{}; it needs {:.0f} "
        "MiB and at least one KV page of {:.2f} MiB; {}",
        mebi(free), options.memory_fraction, limit, mebi(taken), mebi(page), remedy));
  if (options.pages > affordable)
    throw llm::DoesNotFit(fmt::format(
        "{} KV pages of {:.2f} MiB are {:.0f} MiB, and {:.0f} MiB are left of {:.0f} MiB free "
        "(memory_fraction {}{}, {:.0f} MiB for the rest); ask for at most {} pages",
        options.pages, mebi(page), mebi(options.pages * page), mebi(affordable * page), mebi(free),
        options.memory_fraction, limit, mebi(taken), affordable));
  const std::size_t most = wanted * (options.device.is_cuda() ? kMostPools : kMostHostPools);
  if (options.pages == 0)
    options.pages = std::min({most, affordable, std::size_t{schedule::kMostPages}});
  limits.pages = static_cast<std::uint32_t>(options.pages);
  schedule::check(limits);
  return limits;
}

namespace {
step::StepForm step_form(llm::StepForm form) {
  switch (form) {
    case llm::StepForm::kernels:
      return step::StepForm::kernels;
    case llm::StepForm::persistent:
      return step::StepForm::persistent;
    default:
      return step::StepForm::automatic;
  }
}
}  // namespace

StepSetup setup_of(const schedule::Limits& limits, const llm::EngineOptions& options) {
  return {limits,
          options.graphs,
          kernel_type(options.kv_type),
          options.overlap,
          options.same_bits,
          options.scheduler == llm::Scheduler::resident,
          {},
          options.ranks,
          options.rank_transport,
          step_form(options.step_form),
          options.fuses_rank_sums};
}

kernels::KvType kernel_type(llm::KvType type) {
  switch (type) {
    case llm::KvType::bf16:
      return kernels::KvType::bf16;
    case llm::KvType::f16:
      return kernels::KvType::f16;
    case llm::KvType::fp8:
      return kernels::KvType::fp8;
    default:
      return kernels::KvType::f32;
  }
}

model::WeightFormat model_format(llm::WeightFormat format) {
  return format == llm::WeightFormat::fp8 ? model::WeightFormat::fp8
                                          : model::WeightFormat::as_stored;
}

std::size_t most_tokens(const schedule::Limits& limits) {
  return std::min<std::size_t>(limits.max_context, std::size_t{limits.pages} * limits.page_size);
}

}  // namespace attacca::engine

namespace attacca::llm {

void check(EngineOptions options) {
  options.context = engine::kDefaultContext;  // any will do
  const schedule::Limits limits = engine::choose_steps(options);
  if (options.scheduler == Scheduler::automatic) return;
  engine::choose_scheduler(limits, options);
  if (options.scheduler == Scheduler::resident && options.graphs != GraphMode::full)
    engine::require_graphs(limits, options.graphs);
}

}  // namespace attacca::llm
