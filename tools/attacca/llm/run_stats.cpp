// run_stats.cpp: see run_stats.hpp.
#include "llm/run_stats.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "instruments/bandwidth.hpp"

namespace attacca::tool {

using namespace llm;
using nlohmann::ordered_json;

ordered_json reply_json(const Model& model, const Reply& reply) {
  ordered_json json = {{"model", model.name()},
                       {"text", reply.text},
                       {"tokens", reply.tokens},
                       {"finish", finish_name(reply.finish)},
                       {"prompt_tokens", reply.prompt_tokens},
                       {"cached_tokens", reply.cached_tokens},
                       {"seconds_to_first_token", reply.seconds_to_first_token},
                       {"seconds", reply.seconds}};
  for (const TokenLogprob& entry : reply.logprobs) {
    ordered_json tops = ordered_json::array();
    for (const auto& [token, logprob] : entry.top)
      tops.push_back({{"token", token}, {"logprob", logprob}});
    json["logprobs"].push_back(
        {{"token", entry.token}, {"logprob", entry.logprob}, {"top", std::move(tops)}});
  }
  return json;
}

std::string graph_report(const Engine& engine) {
  std::string text;
  for (const GraphCoverage& coverage : engine.coverage())
    text += fmt::format("graphs    {}\n", describe(coverage));
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
      "hits      {} of {} steps had a graph ({}); {} tokens of padding, {:.1f} % of all\n",
      stats.graph_hits, stats.steps, modes, stats.tokens_padded,
      padded + tokens > 0 ? 100 * padded / (padded + tokens) : 0.0);
  for (std::size_t miss = 0; miss < kMisses; ++miss)
    if (stats.graph_misses[miss] > 0)
      text += fmt::format("misses    {} steps: {}\n", stats.graph_misses[miss],
                          miss_reason(static_cast<Miss>(miss)));
  return text;
}

}  // namespace

std::string run_stats(const Engine& engine, const std::vector<Reply>& replies) {
  const EngineStats stats = engine.stats();
  std::string text;
  const Reply& first = replies.front();
  const double steps = static_cast<double>(std::max<std::uint64_t>(stats.steps, 1));
  if (replies.size() == 1) {
    text +=
        fmt::format("prompt    {} tokens, {} of them cached, first token after {:.0f} ms\n",
                    first.prompt_tokens, first.cached_tokens, first.seconds_to_first_token * 1e3);
    const double decoding = first.seconds - first.seconds_to_first_token;
    if (first.tokens.size() > 1 && decoding > 0) {
      const double per_token = decoding / static_cast<double>(first.tokens.size() - 1);
      text += fmt::format("decode    {} tokens, {:.1f} tokens/s, {:.2f} ms each\n",
                          first.tokens.size(), 1 / per_token, per_token * 1e3);
      if (!engine.options().device.is_cuda()) {
        const EngineMemory memory = engine.memory();
        const double context =
            static_cast<double>(first.prompt_tokens) + static_cast<double>(first.tokens.size()) / 2;
        const double bytes = static_cast<double>(memory.weights_per_step) +
                             context * static_cast<double>(memory.kv_per_token);
        const double bandwidth = instruments::read_bandwidth();
        const double floor = bytes / bandwidth;
        text += fmt::format(
            "floor     {:.1f} MB a token at {:.1f} GB/s: {:.2f} ms, {:.0f} % of it reached\n",
            bytes / 1e6, bandwidth / 1e9, floor * 1e3, 100 * floor / per_token);
      }
    }
  } else {
    std::size_t tokens = 0;
    double seconds = 0;
    for (const Reply& reply : replies) {
      tokens += reply.tokens.size();
      seconds = std::max(seconds, reply.seconds);
    }
    text += fmt::format("batch     {} prompts, {} tokens in {:.2f} s: {:.1f} tokens/s\n",
                        replies.size(), tokens, seconds, static_cast<double>(tokens) / seconds);
  }
  text += fmt::format(
      "steps     {}, {:.2f} ms each and {:.1f} us between them; {} preemptions, {} tokens from "
      "the prefix cache\n",
      stats.steps, stats.seconds_in_graphs / steps * 1e3, stats.seconds_outside / steps * 1e6,
      stats.preemptions, stats.tokens_from_cache);
  if (engine.options().overlap)
    text += fmt::format(
        "overlap   {} steps were planned while the one before ran: {:.1f} us a step of the host's "
        "work hidden; {} tokens computed in vain\n",
        stats.steps_ahead, stats.seconds_hidden / steps * 1e6, stats.tokens_voided);
  return text + graph_counters(stats);
}

}  // namespace attacca::tool
