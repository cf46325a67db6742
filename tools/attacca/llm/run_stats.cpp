// run_stats.cpp: formats replies, memory, graphs, products and times as text and JSON.
#include "llm/run_stats.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "core/counted.hpp"
#include "instruments/bandwidth.hpp"
#include "instruments/machine.hpp"
#include "llm/engine_flags.hpp"

namespace attacca::tool {

using namespace llm;

std::string token_text(const Model& model, std::int32_t token) {
  const std::int32_t twice[] = {token, token};
  const std::string once = model.detokenize({twice, 1});
  const std::string text = model.detokenize(twice);
  return text.starts_with(once) ? text.substr(once.size()) : once;
}

Json reply_json(const Model& model, const Reply& reply) {
  Json json = {{"model", model.name()},
               {"text", reply.text},
               {"tokens", reply.tokens},
               {"finish", finish_name(reply.finish)},
               {"prompt_tokens", reply.prompt_tokens},
               {"cached_tokens", reply.cached_tokens},
               {"seconds_to_first_token", reply.seconds_to_first_token},
               {"seconds", reply.seconds}};
  if (reply.finish == Finish::failed) json.add("error", reply.error);
  const auto scored = [&](std::int32_t token, float logprob) -> Json {
    return {{"token", token}, {"text", token_text(model, token)}, {"logprob", logprob}};
  };
  Json::List logprobs;
  for (const TokenLogprob& entry : reply.logprobs) {
    Json::List top;
    for (const auto& [token, logprob] : entry.top) top.push_back(scored(token, logprob));
    logprobs.push_back(scored(entry.token, entry.logprob));
    logprobs.back().add("top", std::move(top));
  }
  if (!logprobs.empty()) json.add("logprobs", std::move(logprobs));
  return json;
}

std::string start_report(const Model& model, const Engine& engine) {
  std::string text;
  for (const std::string& note : model.notes()) text += fmt::format("note      {}\n", note);
  text += fmt::format("memory    {}\n", describe(engine.memory()));
  for (const GraphCoverage& coverage : engine.coverage())
    text += fmt::format("graphs    {}\n", describe(coverage));
  if (const std::string steps = engine.explain_steps(); !steps.empty())
    text += fmt::format("steps     {}\n", steps);
  for (const Product& product : engine.products())
    text += fmt::format("products  {}\n", describe(product));
  return text;
}

namespace {

/// "hits      30 of 32 steps (29 decode, 1 mixed), 4.2 % of their tokens padding; ..."
std::string graph_counters(const EngineStats& stats) {
  std::string modes;
  for (std::size_t mode = 0; mode < kStepModes; ++mode)
    if (stats.steps_by_mode[mode] > 0)
      modes += fmt::format("{}{} {}", modes.empty() ? "" : ", ", stats.steps_by_mode[mode],
                           step_mode_name(static_cast<StepMode>(mode)));
  const auto padded = static_cast<double>(stats.tokens_padded);
  const auto tokens = static_cast<double>(stats.tokens_prefilled + stats.tokens_decoded);
  std::string text = fmt::format(
      "hits      {} of {} had a graph ({}); {} of padding, {:.1f} % of all\n", stats.graph_hits,
      counted(stats.steps, "step"), modes, counted(stats.tokens_padded, "token"),
      padded + tokens > 0 ? 100 * padded / (padded + tokens) : 0.0);
  for (std::size_t miss = 0; miss < kMisses; ++miss)
    if (stats.graph_misses[miss] > 0)
      text += fmt::format("misses    {}: {}\n", counted(stats.graph_misses[miss], "step"),
                          miss_reason(static_cast<Miss>(miss)));
  return text;
}

/// How fast a device's memory can be read, and what its last cache holds; 0 where not known.
struct Memory {
  double bytes_per_second = 0;
  std::uint64_t cache_bytes = 0;
};

/// A GPU's peak is its driver's word; the host's is measured with as many threads as compute.
Memory memory_of(const Device& device, unsigned threads) {
  if (!device.is_cuda())
    return {instruments::read_bandwidth(device.kind() == DeviceKind::host_serial ? 1 : threads), 0};
  const std::vector<instruments::Gpu> gpus = instruments::describe_machine().gpus;
  for (std::size_t index = 0; index < gpus.size(); ++index)
    if (device.name() == fmt::format("cuda:{}", index))
      return {gpus[index].peak_bytes_per_second, gpus[index].l2_bytes};
  return {};
}

/// The time a token takes if reading memory is all it does. It is a floor only for what must come
/// from memory, so without a known rate, or with caches that hold the model, the rate that was
/// reached stands alone.
std::string floor_line(const Engine& engine, const Reply& reply, double seconds_per_token,
                       unsigned threads) {
  const EngineMemory sizes = engine.memory();
  const double context =
      static_cast<double>(reply.prompt_tokens) + static_cast<double>(reply.tokens.size()) / 2;
  const double bytes = static_cast<double>(sizes.weights_per_step) +
                       context * static_cast<double>(sizes.kv_per_token);
  const Memory memory = memory_of(engine.options().device, threads);
  const double rate = bytes / seconds_per_token;
  if (memory.bytes_per_second <= 0)
    return fmt::format("floor     not known; {:.1f} MB a token were read at {:.1f} GB/s\n",
                       bytes / 1e6, rate / 1e9);
  if (rate > memory.bytes_per_second || bytes <= static_cast<double>(memory.cache_bytes))
    return fmt::format(
        "floor     none: {:.1f} MB a token were read at {:.1f} GB/s, from caches too; memory has "
        "{:.1f} GB/s\n",
        bytes / 1e6, rate / 1e9, memory.bytes_per_second / 1e9);
  return fmt::format(
      "floor     {:.1f} MB a token at {:.1f} GB/s: {:.2f} ms, {:.0f} % of it reached\n",
      bytes / 1e6, memory.bytes_per_second / 1e9, bytes / memory.bytes_per_second * 1e3,
      100 * rate / memory.bytes_per_second);
}

}  // namespace

std::string run_stats(const Engine& engine, const std::vector<Reply>& replies, unsigned threads) {
  engine.wait_until_idle();
  const EngineStats stats = engine.stats();
  std::string text;
  const Reply& first = replies.front();
  const double steps = static_cast<double>(std::max<std::uint64_t>(stats.steps, 1));
  if (replies.size() == 1) {
    text += fmt::format("prompt    {}, {} of them cached, first token after {:.0f} ms\n",
                        counted(first.prompt_tokens, "token"), first.cached_tokens,
                        first.seconds_to_first_token * 1e3);
    const double decoding = first.seconds - first.seconds_to_first_token;
    if (first.tokens.size() > 1 && decoding > 0) {
      const double per_token = decoding / static_cast<double>(first.tokens.size() - 1);
      text += fmt::format("decode    {} tokens, {:.1f} tokens/s, {:.2f} ms each\n",
                          first.tokens.size(), 1 / per_token, per_token * 1e3);
      text += floor_line(engine, first, per_token, threads);
    }
  } else {
    std::size_t tokens = 0;
    double seconds = 0;
    for (const Reply& reply : replies) {
      tokens += reply.tokens.size();
      seconds = std::max(seconds, reply.seconds);
    }
    text += fmt::format("batch     {}, {} in {:.2f} s: {:.1f} tokens/s\n",
                        counted(replies.size(), "prompt"), counted(tokens, "token"), seconds,
                        static_cast<double>(tokens) / seconds);
  }
  text += fmt::format(
      "steps     {}, {:.2f} ms each and {:.1f} us between them; {}, {} from the prefix cache\n",
      stats.steps, stats.seconds_busy / steps * 1e3, stats.seconds_idle / steps * 1e6,
      counted(stats.preemptions, "preemption"), counted(stats.tokens_from_cache, "token"));
  if (engine.options().overlap)
    text += fmt::format(
        "overlap   {} steps were planned while the one before ran: {:.1f} us a step of the host's "
        "work hidden; {} computed in vain\n",
        stats.steps_ahead, stats.seconds_overlapped / steps * 1e6,
        counted(stats.tokens_voided, "token"));
  if (engine.options().scheduler == llm::Scheduler::resident)
    text += fmt::format(
        "loop      {} on the device, launched {} as a {}; it paused {} for the host to read\n",
        counted(stats.steps, "step"), counted(stats.launches, "time"),
        llm::resident_loop_name(engine.options().resident_loop), counted(stats.pauses, "time"));
  text += engine.explain_loop();
  return text + graph_counters(stats);
}

}  // namespace attacca::tool
