// ranks_decode.cpp: a decode step of a model that two ranks of one device share, against the same
// on one rank, and the part of it that its all-reduces take. On a host device a rank is a thread.
// Then tokens of `attacca run` with its default sampling, with ranks that are threads or processes.
#include <fmt/core.h>
#include <attacca/nccl.hpp>
#include <attacca/ranks.hpp>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/model_data.hpp"
#include "kernels/sample/highest.hpp"
#include "llm/engine_runs.hpp"
#include "llm/random_file.hpp"
#include "llm/rank_step.hpp"
#include "llm/synthetic_step.hpp"
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

/// Microseconds of the kernels that both ranks compute in a decode step, at once and without
/// exchanges.
Summary kernels_us(Run& run, const attacca::model::Checkpoint& checkpoint) {
  struct Part {
    Part(const attacca::Device& device, const attacca::model::Checkpoint& checkpoint, int rank)
        : model(checkpoint, device, pages_of(batch),
                device.is_cuda() ? attacca::kernels::KvType::bf16 : attacca::kernels::KvType::f32,
                {rank, 2}),
          step(model, batch),
          launch(step.launch(GraphMode::full)),
          stream(device) {}
    const SyntheticBatch batch{{64}};
    SyntheticModel model;
    SyntheticStep step;
    Launch launch;
    attacca::Stream stream;
  };
  const auto device = [&] { return run.device.is_cuda() ? run.device : attacca::Device::host(1); };
  Part first(device(), checkpoint, 0), second(device(), checkpoint, 1);
  const int times = run.device.is_cuda() ? 100 : 10;
  const auto launch_both = [&] {
    const double all = microseconds([&] {
      for (int at = 0; at < times; ++at)
        for (Part* part : {&first, &second}) part->launch(part->stream);
      first.stream.synchronize();
      second.stream.synchronize();
    });
    return all / times;
  };
  return run.interleave("kernels of two ranks", 5, {launch_both})[0];
}

void measure(Run& run, const Model& model, const attacca::model::ModelConfig& config,
             Transport transport, const Summary& one, const Summary& kernels) {
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
      "{}: {} all-reduces of {} bytes, unfused and if no rank is late, are {:.0f} % of the step; "
      "all that it takes beside the kernels, as it runs by default, is {:.0f} %",
      through, 2 * config.layers, 4 * config.hidden, 100 * exchanges.median / step.median,
      100 * std::max(0.0, 1 - kernels.median / step.median)));
  compare_sampling(run, model, config, of_ranks, through);
  if (is_cuda && transport == Transport::edges) compare_sums(run, model, of_ranks, through);
}

/// A way to call the command.
struct Called {
  const char* name;
  const char* launcher;  // a script of this checkout that starts two processes; empty: none
  const char* options;
};

/// Microseconds of a token of `attacca run`, or none if the command fails.
std::optional<double> token_us(const Run& run, const std::string& model, const Called& called) {
  const std::string launcher =
      *called.launcher ? (source_folder() / called.launcher).string() + " 2 " : "";
  const auto output = output_of(fmt::format(
      "{}{} run {} 'Tell me a story about a fox.' --plain -n 128 --seed 1 --json --device {} {} "
      "2>/dev/null",
      launcher, std::filesystem::read_symlink("/proc/self/exe").string(),
      model.empty() ? "" : fmt::format("-m '{}'", model),
      run.device.is_cuda() ? run.device.name() : "host", called.options));
  const auto reply = nlohmann::json::parse(output.value_or(""), nullptr, false);
  if (!reply.is_object() || reply["tokens"].size() < 2) return {};
  const double seconds =
      reply["seconds"].get<double>() - reply["seconds_to_first_token"].get<double>();
  return seconds * 1e6 / static_cast<double>(reply["tokens"].size() - 1);
}

/// Each answer is of new processes.
void call_the_command(Run& run, const std::string& model) {
  static constexpr Called kOnGpu[] = {
      {"one rank", "", ""},
      {"two threads, edges", "", "--ranks 2 --rank-transport edges"},
      {"two processes, nvshmem", "scripts/under_mps.sh", "--ranks 2 --rank-transport nvshmem"},
      {"two processes, nvshmem, resident in a WHILE", "scripts/under_mps.sh",
       "--ranks 2 --rank-transport nvshmem --scheduler resident --resident-loop while-node"},
      {"two processes, nvshmem, resident and launched anew by itself", "scripts/under_mps.sh",
       "--ranks 2 --rank-transport nvshmem --scheduler resident --resident-loop self-relaunch"}};
  static constexpr Called kOnHost[] = {{"one rank", "", ""},
                                       {"two threads", "", "--ranks 2"},
                                       {"two processes, tcp", "scripts/under_mps.sh", "--ranks 2"}};
  const std::span<const Called> ways =
      run.device.is_cuda() ? std::span<const Called>(kOnGpu) : std::span<const Called>(kOnHost);
  const int count = run.is_quick() ? 1 : 3;
  std::vector<std::vector<double>> times(ways.size());
  for (int sample = 0; sample < count; ++sample)
    for (std::size_t at = 0; at < ways.size(); ++at) {
      run.show_progress("attacca run, " + std::string(ways[at].name),
                        static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(count));
      if (const auto time = token_us(run, model, ways[at])) times[at].push_back(*time);
    }
  for (std::size_t at = 0; at < ways.size(); ++at) {
    if (times[at].size() < static_cast<std::size_t>(count)) {
      run.note(fmt::format("attacca run, {}: not measured, the command failed", ways[at].name));
      continue;
    }
    Row row{.name = fmt::format("a token of attacca run, {}", ways[at].name),
            .params = {{"ranks", at == 0 ? 1 : 2}},
            .value = summarize(times[at])};
    if (at > 0 && !times[0].empty()) row.baseline = summarize(times[0]).median;
    run.add(std::move(row));
  }
}

/// The model that was asked for, or the usual one if two ranks can divide it, else the embedded
/// one.
std::string divided_path_of(Run& run) {
  const std::string path = model_path_of(run);
  if (!run.engine.model.empty()) return path;
  try {
    attacca::model::check_ranks(detail::ModelData::open(path, {})->checkpoint, 2);
    return path;
  } catch (const attacca::BadArgument& error) {
    run.note(
        fmt::format("SmolLM2 cannot be split ({}), so this is the embedded model", error.what()));
    return "";
  }
}

void ranks_decode(Run& run) {
  std::optional<RandomFile> random;
  if (!run.engine.shapes.empty()) random.emplace(run, run.engine.shapes.front(), "bf16");
  const std::string path = random ? random->path().string() : divided_path_of(run);
  const Model model(path);
  const auto data = detail::ModelData::open(path, {});
  attacca::model::check_ranks(data->checkpoint, 2);
  const attacca::model::ModelConfig& config = data->config();
  run.note(fmt::format("model: {}, {} layers of {} columns, one sequence", model.name(),
                       config.layers, config.hidden));
  const auto one = run.interleave(
      "one rank", 5, {[&] { return rank_step_us(model, run.device, 1, Transport::automatic); }})[0];
  run.add(Row{.name = "decode step of one rank", .params = {{"ranks", 1}}, .value = one});
  const Summary kernels = kernels_us(run, data->checkpoint);
  run.add(Row{.name = "kernels of 2 ranks at once, without exchanges",
              .params = {{"ranks", 2}},
              .value = kernels});
  measure(run, model, config, Transport::edges, one, kernels);
  try {
    if (run.device.is_cuda() && attacca::has_nccl())
      measure(run, model, config, Transport::nccl, one, kernels);
  } catch (const attacca::Error& error) {
    run.note(fmt::format("NCCL was not measured: {}", error.what()));
  }
  call_the_command(run, path);
}

const Registered registered{
    {"ranks-decode", "what does a decode step of two ranks cost, and how much is exchanges?",
     Needs::either, ranks_decode, ""}};

}  // namespace

}  // namespace bench
