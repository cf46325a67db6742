// ranks_model.cpp: predicts decode steps of a model that is split over 1 to 1024 ranks, from three
// things: the kernels of one rank's part, which are measured for each count of ranks that divides
// the model; the exchanges of the step's graph; and the figures of links, one of which is measured,
// while others are given. On the host a step of the fewest ranks that divide the model is measured
// too, so that the prediction can be judged.
#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/ranks.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "comm/exchange.hpp"
#include "engine/model_data.hpp"
#include "llm/engine_runs.hpp"
#include "llm/random_file.hpp"
#include "llm/rank_step.hpp"
#include "llm/synthetic_step.hpp"
#include "model/shard.hpp"
#include "ranks/exchange_time.hpp"
#include "ranks/scaling.hpp"
#include "step/step.hpp"
#include "step/tensor_parallel.hpp"

namespace bench {

namespace {

using namespace attacca::llm;
using attacca::Device;
using attacca::Group;
using attacca::model::Checkpoint;

constexpr unsigned kMostRanks = 1024;
constexpr unsigned kContext = 64;
constexpr int kSamples = 5;

/// On the host a rank is a thread.
Device device_of(const Run& run) { return run.device.is_cuda() ? run.device : Device::host(1); }

/// The link between two ranks of this machine, from a short and a long all-reduce: two messages,
/// and the data once.
Link measured_link(Run& run) {
  constexpr std::size_t kLong = 4u << 20;
  const bool is_cuda = run.device.is_cuda();
  const auto all_reduce = [&](std::size_t bytes) {
    return [&run, bytes, is_cuda] {
      return all_reduce_us(run.device, attacca::Transport::edges, bytes / sizeof(float),
                           is_cuda ? 20 : 1, 1)
          .front();
    };
  };
  const auto times = run.interleave("the link", 11, {all_reduce(4), all_reduce(kLong)});
  return {is_cuda ? "ranks that share this GPU, measured" : "threads of this machine, measured",
          times[0].median / 2,
          static_cast<double>(kLong) / (times[1].median - times[0].median) * 1e6};
}

/// The counts of ranks, at most eight, over which attacca splits the model.
std::vector<int> counts_of(const Checkpoint& checkpoint) {
  std::vector<int> counts;
  for (int ranks = 1; ranks <= 8; ++ranks) try {
      attacca::model::check_ranks(checkpoint, ranks);
      counts.push_back(ranks);
    } catch (const attacca::BadArgument&) {
    }
  return counts;
}

/// Microseconds of a rank's kernels in a decode step of one sequence, in a graph, without its
/// exchanges.
Summary part_us(Run& run, const Checkpoint& checkpoint, int ranks) {
  const Device device = device_of(run);
  const SyntheticBatch batch{{kContext}};
  const SyntheticModel model(
      checkpoint, device, pages_of(batch),
      device.is_cuda() ? attacca::kernels::KvType::bf16 : attacca::kernels::KvType::f32,
      {.rank = 0, .ranks = ranks});
  const SyntheticStep step(model, batch);
  const Launch launch = step.launch(GraphMode::full);
  const DeviceClock clock = device_clock(device);
  return run.interleave(fmt::format("the part of one of {} ranks", ranks), kSamples,
                        {[&] { return clock(launch, device.is_cuda() ? 100 : 10); }})[0];
}

/// What the graph of a rank's decode step exchanges.
std::vector<StepExchange> exchanges_of(const attacca::model::ModelConfig& whole, int ranks) {
  using Kind = StepExchange::Kind;
  namespace step = attacca::step;
  std::vector<StepExchange> found;
  attacca::run_loopback(ranks, [&](const Group& group) {
    const Device device = Device::host(1);
    const attacca::model::ModelConfig config = attacca::model::shard_of(whole, ranks);
    const attacca::model::Weights weights(config, device, std::nullopt);
    const step::KvPool kv(device, config, {.pages = 1, .page_size = 16});
    const step::StepShape shape{.tokens = 1, .rows = 1, .is_decode = true};
    const step::TensorParallel parallel(device, group, config, shape, {});
    const step::StepMemory memory(device, config, weights, kv,
                                  {.largest = shape, .table_stride = 1, .parallel = &parallel}, {});
    if (group.rank() != 0) return;
    const step::Chain chain = step::emit_step(memory, shape);
    for (const step::Link& link : chain.links()) {
      if (!link.exchange) continue;
      const auto& exchange = attacca::comm::Access::data(*link.exchange).descriptor;
      const auto bytes = static_cast<std::uint64_t>(exchange.part_bytes());
      switch (exchange.operation) {
        case attacca::comm::Operation::all_reduce:
          found.push_back({Kind::all_reduce, bytes});
          break;
        case attacca::comm::Operation::all_gather:
          found.push_back({Kind::all_gather, bytes * static_cast<unsigned>(ranks)});
          break;
        default:
          found.push_back({Kind::broadcast, bytes});
      }
    }
  });
  return found;
}

void predict_over(Run& run, const SplitStep& step, const Link& link,
                  const std::vector<int>& counts) {
  const std::vector<Prediction> all = predict_all(step, link, kMostRanks);
  for (const Prediction& at : all)
    run.add(Row{.name = "predicted step, " + link.name,
                .params = {{"ranks", at.ranks},
                           {"divides", std::count(counts.begin(), counts.end(), at.ranks) > 0}},
                .value = {at.step_us(), at.step_us(), at.step_us()}});
  const auto bound = first_bound_by_exchange(all);
  run.note(fmt::format(
      "{}: {:.2f} µs a message, {:.1f} GB/s; the step is shortest on {} ranks, {}", link.name,
      link.latency_us, link.bytes_per_second / 1e9, fastest(all).ranks,
      bound ? fmt::format("and no kernels could hide the exchanges from {} ranks on", bound->ranks)
            : std::string("and kernels always take longer than exchanges")));
}

void ranks_model(Run& run) {
  std::vector<Link> links;
  for (const std::string& text : run.engine.links) {
    const auto link = link_of(text);
    if (!link)
      throw attacca::BadArgument(fmt::format(
          "--link '{}' is not NAME:MICROSECONDS:GIGABYTES; give for instance nvlink:2:450", text));
    links.push_back(*link);
  }
  std::optional<RandomFile> random;
  if (!run.engine.shapes.empty()) random.emplace(run, run.engine.shapes.front(), "bf16");
  const std::string path = random ? random->path().string() : model_path_of(run);
  const Model model(path);
  const auto data = detail::ModelData::open(path, {});
  const Checkpoint& checkpoint = data->checkpoint;
  const std::vector<int> counts = counts_of(checkpoint);
  if (counts.size() < 2) attacca::model::check_ranks(checkpoint, 2);  // throws, and says why
  run.note(fmt::format("model: {}, {} layers of {} columns, one sequence{}", model.name(),
                       data->config().layers, data->config().hidden,
                       run.device.is_cuda() ? "" : ", one thread a rank"));
  links.insert(links.begin(), measured_link(run));

  const Device device = device_of(run);
  const auto measure = [&](int ranks) {
    const auto step = [&] {
      return rank_step_us(model, device, ranks, attacca::Transport::automatic);
    };
    const Summary time =
        run.interleave(fmt::format("a step of {} ranks", ranks), kSamples, {step})[0];
    run.add(Row{.name = "measured step", .params = {{"ranks", ranks}}, .value = time});
    return time.median;
  };
  const double whole = measure(1);
  if (!device.is_cuda()) measure(counts[1]);  // ranks that share a GPU are no faster than one

  SplitStep step;
  double outside = 0;  // of the kernels of a step, which more ranks do not change
  for (const int ranks : counts) {
    const Summary part = part_us(run, checkpoint, ranks);
    run.add(Row{.name = "measured kernels of a rank", .params = {{"ranks", ranks}}, .value = part});
    if (ranks == 1) outside = std::max(0.0, whole - part.median);
    step.compute_us.emplace_back(ranks, part.median + outside);
  }
  step.exchanges = exchanges_of(data->config(), counts[1]);
  std::uint64_t bytes = 0;
  for (const StepExchange& exchange : step.exchanges) bytes += exchange.bytes;
  run.note(fmt::format("the step's graph has {} exchanges of {} bytes in all",
                       step.exchanges.size(), bytes));
  for (const Link& link : links) predict_over(run, step, link, counts);
  run.note(fmt::format(
      "Rows called predicted are predictions, and no such number of ranks was run. A rank's "
      "kernels "
      "were measured for up to {} ranks, over which attacca splits this model; beyond that, for a "
      "model with more heads, they are a part that is divided and one that is not. Exchanges go by "
      "halving and doubling. The plan's broadcast and ranks that wait for the slowest are left out",
      counts.back()));
  run.add(Plot{.title = "Decode step over ranks: a prediction",
               .x = "ranks",
               .x_label = "ranks",
               .y_label = "µs",
               .is_log_y = true});
}

const Registered registered{{"ranks-model",
                             "a prediction: over how many ranks does it pay to split a model?",
                             Needs::either, ranks_model, ""}};

}  // namespace

}  // namespace bench
