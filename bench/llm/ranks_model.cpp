// ranks_model.cpp: predicts decode steps of a model that is split over 1 to 1024 ranks, from its
// step on one rank, which is measured, and the figures of links: one is measured, the others are
// given. Two ranks are measured too, so the prediction can be judged.
#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/ranks.hpp>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "engine/model_data.hpp"
#include "llm/engine_runs.hpp"
#include "llm/rank_step.hpp"
#include "model/shard.hpp"
#include "ranks/scaling.hpp"

namespace bench {

namespace {

using namespace attacca::llm;
using attacca::Device;
using attacca::Group;

constexpr unsigned kMostRanks = 1024;

/// Microseconds of a decode step of one sequence on one thread a rank.
double step_us(const Model& model, int ranks) {
  return rank_step_us(model, Device::host(1), ranks, attacca::Transport::automatic);
}

/// Microseconds of one all-reduce of two threads.
double all_reduce_us(std::size_t bytes, int times) {
  double time = 0;
  attacca::run_loopback(2, [&](const Group& group) {
    std::vector<float> values(bytes / sizeof(float));
    const attacca::Exchange sum = group.all_reduce(std::span(values));
    sum.run();
    const double taken = microseconds([&] {
      for (int at = 0; at < times; ++at) sum.run();
    });
    if (group.rank() == 0) time = taken / times;
  });
  return time;
}

/// The link between threads of this machine, from a short and a long all-reduce: two messages, and
/// the data once.
Link measured_link(Run& run) {
  const auto times = run.interleave(
      "the link between threads", 11,
      {[] { return all_reduce_us(4, 200); }, [] { return all_reduce_us(4u << 20, 5); }});
  return {"threads of this machine, measured", times[0].median / 2,
          static_cast<double>(4u << 20) / (times[1].median - times[0].median) * 1e6};
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
  const std::string path = model_path_of(run);
  const Model model(path);
  const auto data = detail::ModelData::open(path, {});
  const attacca::model::ModelConfig& config = data->config();
  run.note(fmt::format("model: {}, {} layers of {} columns, one sequence, one thread a rank",
                       model.name(), config.layers, config.hidden));
  links.insert(links.begin(), measured_link(run));

  const auto one = run.interleave("one rank", 5, {[&] { return step_us(model, 1); }})[0];
  run.add(Row{.name = "measured step", .params = {{"ranks", 1}}, .value = one});
  const SplitStep step{.compute_us = one.median,
                       .all_reduces = 2 * config.layers,
                       .bytes_each = std::uint64_t{config.hidden} * sizeof(float)};
  bool is_divided = true;
  try {
    attacca::model::check_ranks(data->checkpoint, 2);
  } catch (const attacca::BadArgument&) {
    is_divided = false;
  }
  if (is_divided)
    run.add(Row{.name = "measured step",
                .params = {{"ranks", 2}},
                .value = run.interleave("two ranks", 5, {[&] { return step_us(model, 2); }})[0]});
  for (const Link& link : links) {
    const std::vector<Prediction> all = predict_all(step, link, kMostRanks);
    for (const Prediction& at : all)
      run.add(Row{.name = "predicted step, " + link.name,
                  .params = {{"ranks", at.ranks}},
                  .value = {at.step_us(), at.step_us(), at.step_us()}});
    const auto bound = first_bound_by_exchange(all);
    run.note(fmt::format(
        "{}: {:.2f} µs a message, {:.1f} GB/s; the step is shortest on {} ranks, {}", link.name,
        link.latency_us, link.bytes_per_second / 1e9, fastest(all).ranks,
        bound ? fmt::format("and exchanges take longer than kernels from {} ranks on", bound->ranks)
              : std::string("and kernels always take longer than exchanges")));
  }
  run.note(
      "Rows called predicted are predictions: the kernels' time is divided by the ranks, and each "
      "all-reduce goes by halving and doubling. They leave out sampling, the plan's broadcast, and "
      "ranks that wait for the slowest. No such number of ranks was run");
  run.add(Plot{.title = "Decode step over ranks: a prediction",
               .x = "ranks",
               .x_label = "ranks",
               .y_label = "µs",
               .is_log_y = true});
}

const Registered registered{{"ranks-model",
                             "a prediction: over how many ranks does it pay to split a model?",
                             Needs::host, ranks_model, "ranks exchange host memory"}};

}  // namespace

}  // namespace bench
