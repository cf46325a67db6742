// ranks_decode.cpp: a decode step of a model that two ranks of one device share, against the same
// on one rank, and the part of it that its all-reduces take. On a host device a rank is a thread.
#include <fmt/core.h>
#include <attacca/nccl.hpp>
#include <attacca/ranks.hpp>

#include <optional>
#include <string>

#include "engine/model_data.hpp"
#include "kernels/sample/highest.hpp"
#include "llm/engine_runs.hpp"
#include "llm/random_file.hpp"
#include "llm/rank_step.hpp"
#include "model/shard.hpp"
#include "ranks/exchange_time.hpp"

namespace bench {

namespace {

using namespace attacca::llm;
using attacca::Transport;

/// Ranks send their 32 highest logits for a top-k of 32, and all logits for one more.
void compare_sampling(Run& run, const Model& model, const attacca::model::ModelConfig& config,
                      Transport transport, const std::string& through) {
  using attacca::kernels::Highest;
  const auto step = [&](int top_k) {
    return [&run, &model, transport, top_k] {
      return rank_step_us(model, run.device, 2, transport, {.top_k = top_k});
    };
  };
  const int few = Highest::kCount;
  const auto steps =
      run.interleave("tokens of two ranks, " + through, 5, {step(few), step(few + 1)});
  const std::size_t bytes = 2 * sizeof(Highest);
  const std::size_t all = 2 * sizeof(float) * attacca::model::most_rows(config.vocabulary, 2);
  run.add(compared(
      fmt::format("step that draws from {} logits of each rank against all, {}", few, through),
      {{"ranks", 2}, {"bytes", bytes}, {"bytes of all", all}}, steps[0], steps[1]));
  run.note(fmt::format("{}: {} bytes are gathered for a token instead of {}", through, bytes, all));
}

/// One kernel adds up the parts of ranks and the residual, or the exchange's and one more.
void compare_sums(Run& run, const Model& model, Transport transport, const std::string& through) {
  const auto step = [&](bool fuses) {
    return [&run, &model, transport, fuses] {
      return rank_step_us(model, run.device, 2, transport, {.fuses_sums = fuses});
    };
  };
  const auto steps = run.interleave("sums of two ranks, " + through, 5, {step(true), step(false)});
  run.add(compared(fmt::format("step with fused sums against one without, {}", through),
                   {{"ranks", 2}}, steps[0], steps[1]));
}

void measure(Run& run, const Model& model, const attacca::model::ModelConfig& config,
             Transport transport, const Summary& one) {
  const bool is_cuda = run.device.is_cuda();
  const std::string through = is_cuda ? transport_name(transport) : "threads";
  const int launches = is_cuda ? 20 : 1;
  const Transport of_ranks = is_cuda ? transport : Transport::automatic;
  const auto step =
      run.interleave("two ranks, " + through, 5,
                     {[&] { return rank_step_us(model, run.device, 2, of_ranks); }})[0];
  const Summary exchange =
      summarize(all_reduce_us(run.device, transport, config.hidden, launches, 11));
  run.add(compared(fmt::format("decode step of 2 ranks against one, {}", through), {{"ranks", 2}},
                   step, one));
  const Summary exchanges = scaled(exchange, 2.0 * config.layers);
  run.add(Row{.name = fmt::format("all-reduces of that step, {}", through),
              .params = {{"ranks", 2}},
              .value = exchanges});
  run.note(fmt::format(
      "{}: {} all-reduces of {} bytes are {:.0f} % of the step, if no rank is late", through,
      2 * config.layers, 4 * config.hidden, 100 * exchanges.median / step.median));
  compare_sampling(run, model, config, of_ranks, through);
  if (is_cuda && transport == Transport::edges) compare_sums(run, model, of_ranks, through);
}

void ranks_decode(Run& run) {
  std::optional<RandomFile> random;
  if (!run.engine.shapes.empty()) random.emplace(run, run.engine.shapes.front(), "bf16");
  const std::string path = random ? random->path().string() : model_path_of(run);
  const Model model(path);
  const auto data = detail::ModelData::open(path, {});
  const attacca::model::ModelConfig& config = data->config();
  run.note(fmt::format("model: {}, {} layers of {} columns, one sequence", model.name(),
                       config.layers, config.hidden));
  const auto one = run.interleave(
      "one rank", 5, {[&] { return rank_step_us(model, run.device, 1, Transport::automatic); }})[0];
  run.add(Row{.name = "decode step of one rank", .params = {{"ranks", 1}}, .value = one});
  measure(run, model, config, Transport::edges, one);
  if (!run.device.is_cuda()) return;
  try {
    if (attacca::has_nccl()) measure(run, model, config, Transport::nccl, one);
  } catch (const attacca::Error& error) {
    run.note(fmt::format("NCCL was not measured: {}", error.what()));
  }
}

const Registered registered{
    {"ranks-decode", "what does a decode step of two ranks cost, and how much is exchanges?",
     Needs::either, ranks_decode, ""}};

}  // namespace

}  // namespace bench
