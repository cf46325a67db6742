// sizing.cpp: see sizing.hpp.
#include "engine/sizing.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cstdint>

#include "device/schedule/host.hpp"
#include "engine/step_runner.hpp"

namespace attacca::engine {

namespace {

constexpr std::size_t kDefaultContext = 4096;
constexpr std::uint32_t kScoreRows = 64;       // logits computed at once when every position counts
constexpr std::uint32_t kRequestsPerSlot = 8;  // that wait inside the engine

template <class T>
void check_range(const char* name, T value, T least, T most) {
  if (!(value >= least && value <= most))
    throw BadArgument(fmt::format("{} is {}; use {} to {}", name, value, least, most));
}

/// Powers of two up to the largest step.
void choose_sizes(schedule::Limits& limits, std::uint32_t step_tokens) {
  for (std::uint32_t size = 1; size < step_tokens; size *= 2)
    limits.sizes[limits.size_count++] = size;
  limits.sizes[limits.size_count++] = step_tokens;
}

double mebi(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

schedule::Limits size_engine(const model::Checkpoint& checkpoint, llm::EngineOptions& options) {
  const model::ModelConfig& config = checkpoint.config();
  check_range("slots", options.slots, 1u, 1024u);
  check_range("step_tokens", options.step_tokens, 1u, 65536u);
  check_range("memory_fraction", options.memory_fraction, 0.01, 1.0);
  check_range("context", options.context, std::size_t{0}, std::size_t{config.context});
  if (options.prefill_chunk == 0) throw BadArgument("prefill_chunk is 0; use 1 or more");
  if (options.context == 0)
    options.context = std::min<std::size_t>(config.context, kDefaultContext);
  options.step_tokens = std::max(options.step_tokens, options.slots);
  options.prefill_chunk = std::min(options.prefill_chunk, options.step_tokens);

  schedule::Limits limits;
  limits.slots = options.slots;
  limits.requests = options.slots * kRequestsPerSlot;
  limits.page_size = options.page_size;
  limits.max_context = static_cast<std::uint32_t>(options.context);
  limits.prefill_chunk = options.prefill_chunk;
  limits.shares_prefixes = options.shares_prefixes;
  limits.logit_rows = std::max(options.slots, std::min(kScoreRows, options.step_tokens));
  choose_sizes(limits, options.step_tokens);
  limits.pages = 1;  // for the checks of the rest
  schedule::check(limits);

  const std::size_t wanted = std::size_t{limits.slots} * limits.table_stride();
  const std::size_t page = StepRunner::page_bytes(config, limits.page_size);
  const std::size_t free = options.device.bytes_free();
  std::size_t taken = StepRunner::fixed_bytes(config, limits);
  if (options.device.is_cuda()) taken += checkpoint.weights().bytes;
  const auto budget = static_cast<std::size_t>(static_cast<double>(free) * options.memory_fraction);
  const std::size_t affordable = budget > taken ? (budget - taken) / page : 0;
  if (options.pages > affordable)
    throw BadArgument(fmt::format(
        "{} KV pages of {:.2f} MiB are {:.0f} MiB, and {:.0f} MiB are left of {:.0f} MiB free "
        "(memory_fraction {}, {:.0f} MiB for the rest); ask for at most {} pages",
        options.pages, mebi(page), mebi(options.pages * page), mebi(affordable * page), mebi(free),
        options.memory_fraction, mebi(taken), affordable));
  if (affordable < 1)
    throw BadArgument(fmt::format(
        "the model does not fit: {:.0f} MiB are free, of which {} may be used; it needs {:.0f} MiB "
        "and at least one KV page of {:.2f} MiB; use a smaller step_tokens or fewer slots",
        mebi(free), options.memory_fraction, mebi(taken), mebi(page)));
  if (options.pages == 0) options.pages = std::min(wanted, affordable);
  limits.pages = static_cast<std::uint32_t>(options.pages);
  schedule::check(limits);
  return limits;
}

std::size_t most_tokens(const schedule::Limits& limits) {
  return std::min<std::size_t>(limits.max_context, std::size_t{limits.pages} * limits.page_size);
}

void* aligned_state(std::byte* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return memory + (kStateAlignment - address % kStateAlignment) % kStateAlignment;
}

}  // namespace attacca::engine
