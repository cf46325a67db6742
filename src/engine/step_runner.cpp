// step_runner.cpp: builds the graphs of all step sizes, launches steps and waits for them. Which
// kernels a step has is in step/.
#include "engine/step_runner.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "core/mebi.hpp"
#include "graph/access.hpp"
#include "graph/executor.hpp"
#include "kernels/persistent/phase.hpp"
#include "kernels/rms_norm.hpp"

namespace attacca::engine {

namespace {

using kernels::Sampled;

constexpr std::size_t kMostGraphless = 64;  // most step shapes without a graph that are kept

step::KvSizes kv_sizes(const StepSetup& setup) {
  return {.pages = setup.limits.pages, .page_size = setup.limits.page_size, .type = setup.kv_type};
}

step::StepSizes step_sizes(const StepSetup& setup, const step::TensorParallel* parallel = nullptr) {
  const schedule::Limits& limits = setup.limits;
  return {.largest = {.tokens = limits.step_tokens, .rows = limits.logit_rows},
          .slots = limits.slots,
          .table_stride = limits.table_stride(),
          .same_bits = setup.same_bits,
          .form = setup.form,
          .shares_device = setup.ranks.has_value(),
          .parallel = parallel};
}

step::TensorParallel::Ways ways_of(const StepSetup& setup) {
  return {.is_resident = setup.is_resident, .fuses_sums = setup.fuses_rank_sums};
}

std::optional<step::TensorParallel> parallel_of(const Device& device,
                                                const model::ModelConfig& config,
                                                const StepSetup& setup) {
  if (!setup.ranks) return std::nullopt;
  return std::optional<step::TensorParallel>(
      std::in_place, device,
      setup.exchanges ? *setup.exchanges : setup.ranks->on(device, setup.transport), config,
      step_sizes(setup).largest, ways_of(setup));
}

/// The kernels' view of a plan in device memory.
step::StepInput input_of(const schedule::Plan& plan, const SlotMemory& slots,
                         const StepSetup& setup) {
  return {.tokens = plan.tokens,
          .positions = plan.positions,
          .slots = plan.slots,
          .token_count = &plan.counts->tokens,
          .gather = plan.gather,
          .row_slots = plan.row_slots,
          .row_positions = plan.row_positions,
          .row_forced = plan.row_forced,
          .row_count = &plan.counts->rows,
          .tables = slots.tables(),
          .sampling = slots.params(),
          .slot_tokens = slots.tokens(),
          .token_from = setup.overlap ? plan.token_from : nullptr,
          .carried = plan.tokens};
}

}  // namespace

std::size_t StepRunner::fixed_bytes(const Device& device, const model::ModelConfig& c,
                                    const StepSetup& setup, bool expands) {
  const schedule::Limits& limits = setup.limits;
  const std::size_t handed_over = schedule::plan_bytes(limits) +
                                  (1 + schedule::kMostInFlight) * schedule::step_bytes(limits) +
                                  schedule::kMostInFlight * limits.logit_rows * sizeof(Sampled);
  const std::size_t ranks =
      setup.ranks ? step::TensorParallel::bytes_for(c, step_sizes(setup).largest,
                                                    setup.ranks->size(), ways_of(setup))
                  : 0;
  return handed_over + ranks + SlotMemory::bytes_for(limits, c.vocabulary) +
         step::StepMemory::bytes_for(device, c, kv_sizes(setup), step_sizes(setup), expands);
}

StepRunner::Flight StepRunner::make_flight() const {
  return {Buffer<std::byte>(device_, input_bytes_, Visibility::shared), slots_.make_sent(),
          Buffer<Sampled>(device_, setup_.limits.logit_rows, Visibility::shared), Event(device_),
          std::nullopt};
}

StepRunner::StepRunner(const model::ModelConfig& config,
                       std::shared_ptr<const model::Weights> weights, const Device& device,
                       const StepSetup& setup, const formats::Progress& progress)
    : device_(device),
      stream_(device),
      wait_stream_(device),
      setup_(setup),
      config_(config),
      weights_(std::move(weights)),
      kv_(device, config_, kv_sizes(setup)),
      slots_(device, setup.limits, config_.vocabulary),
      input_bytes_(schedule::step_bytes(setup.limits)),
      plan_memory_(schedule::plan_bytes(setup.limits) / sizeof(schedule::Line)),
      parallel_(parallel_of(device, config, setup)),
      input_(device, input_bytes_),
      memory_(device, config_, *weights_, kv_, step_sizes(setup, parallel_ ? &*parallel_ : nullptr),
              input_of(schedule::bind_plan(setup.limits, input_.data()), slots_, setup)),
      flights_{make_flight(), make_flight()},
      plan_(schedule::bind_plan(setup.limits, plan_memory_.data())) {
  if (setup.is_resident) {
    input_.write(std::vector<std::byte>(input_.size()));  // no step: the loop's first pass reads it
  } else {
    const std::size_t free = device_.bytes_free();
    graphs_ = build_all(setup.limits, progress);
    if (device_.is_cuda()) graph_device_bytes_ = free - std::min(free, device_.bytes_free());
  }
  if (setup.ranks) line_ = std::make_unique<PlanLine>(*setup.ranks, plan_memory_.size());
}

StepRunner::~StepRunner() { drain(); }

std::unique_ptr<StepRunner> StepRunner::make_sibling(const StepSetup& setup) const {
  return std::make_unique<StepRunner>(config_, weights_, device_, setup, formats::Progress());
}

schedule::Plan StepRunner::device_plan() const {
  schedule::Plan plan = schedule::bind_plan(setup_.limits, input_.data());
  plan.tables = slots_.tables();
  return plan;
}

void StepRunner::append_step(Graph& to, const schedule::Limits& limits, std::uint32_t graph) const {
  marked_step(shape_of(limits.graph_tokens(graph), limits.is_decode_graph(graph))).append_to(to);
}

std::string StepRunner::explain_steps() const {
  if (setup_.form == step::StepForm::kernels) return {};
  if (setup_.form == step::StepForm::automatic && !device_.is_cuda()) return {};
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  std::string why;
  for (std::uint32_t tokens = 1; tokens <= kernels::kMostPersistentRows; ++tokens) {
    std::string why_not = step::why_not_persistent(memory_, shape_of(tokens, true));
    if (why_not.empty()) {
      if (least == 0) least = tokens;
      most = tokens;
    } else if (why.empty()) {
      why = std::move(why_not);
    }
  }
  if (least == 0) return "decode steps are graphs of kernels, not one kernel: " + why;
  return fmt::format(
      "decode steps of {} to {} tokens are one persistent kernel{}; others are graphs of kernels",
      least, most,
      setup_.form == step::StepForm::automatic ? ", which was measured faster there" : "");
}

/// The kernels of a step that is one graph, between its marks if there are records.
step::Chain StepRunner::marked_step(const step::StepShape& shape) const {
  step::Chain chain = step::emit_step(memory_, shape);
  if (!setup_.records.items) return chain;
  const auto mark_of = [&](llm::StepMark what) -> MarkArgs {
    return {setup_.records, static_cast<std::uint32_t>(what), shape.tokens};
  };
  chain.add_first(step::Part::tokens, "step begins", mark(), Grid{},
                  mark_of(llm::StepMark::step_begins));
  chain.add(step::Part::sampling, "step ends", mark(), Grid{}, mark_of(llm::StepMark::step_ends));
  return chain;
}

std::shared_ptr<StepRunner::Graphs> StepRunner::build_graphs(const schedule::Limits& limits) const {
  auto graphs = std::make_shared<Graphs>();
  graphs->limits_ = limits;
  graphs->graphs_ = build_all(limits, {});
  return graphs;
}

void StepRunner::use(Graphs& graphs) {
  setup_.limits.decode_sizes = graphs.limits_.decode_sizes;
  setup_.limits.mixed_sizes = graphs.limits_.mixed_sizes;
  graphs_ = std::move(graphs.graphs_);
}

std::vector<StepRunner::Sized> StepRunner::build_all(const schedule::Limits& limits,
                                                     const formats::Progress& progress) const {
  std::vector<std::uint32_t> order(limits.graph_count());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return limits.graph_tokens(a) > limits.graph_tokens(b);
  });
  std::vector<Sized> graphs(order.size());
  const auto taken = [&, free = device_.bytes_free()] {
    return device_.is_cuda() ? free - std::min(free, device_.bytes_free()) : 0;
  };
  for (std::size_t built = 0; built < order.size(); ++built) {
    const std::uint32_t graph = order[built];
    if (progress) progress("building graphs", built, order.size());
    const auto refuse = [&](const char* what) {
      throw DeviceError(fmt::format(
          "building the graph of {} steps of {} tokens, after {} of {} others: {}; {:.0f} MiB of "
          "{} are free, and graphs took {:.0f} MiB; give fewer decode_sizes or mixed_sizes, a "
          "smaller memory_fraction or fewer pages, or turn graphs off",
          limits.is_decode_graph(graph) ? "decode" : "mixed", limits.graph_tokens(graph), built,
          order.size() - 1, what, mebi(device_.bytes_free()), device_.name(),
          mebi(taken() + bytes_of(graphs))));
    };
    try {
      graphs[graph] = build(limits, graph);
    } catch (const DeviceError& error) {
      refuse(error.what());
    } catch (const std::bad_alloc&) {
      refuse("the host is out of memory");
    }
  }
  return graphs;
}

step::StepShape StepRunner::shape_of(std::uint32_t tokens, bool is_decode) const {
  return {tokens, std::min(tokens, setup_.limits.logit_rows), is_decode};
}

StepRunner::Sized StepRunner::build(const schedule::Limits& limits, std::uint32_t graph) const {
  step::StepShape shape = shape_of(limits.graph_tokens(graph), limits.is_decode_graph(graph));
  Sized sized{build(shape), {}};
  shape.samples_highest = can_sample_highest();
  if (shape.samples_highest) sized.from_highest = build(shape);
  return sized;
}

StepRunner::Ready StepRunner::build(const step::StepShape& shape) const {
  const std::string name =
      fmt::format("{} step of {}{}", shape.is_decode ? "decode" : "mixed", shape.tokens,
                  shape.samples_highest ? ", highest logits" : "");
  Ready ready;
  if (shape.is_decode || setup_.graphs == llm::GraphMode::full) {
    Graph whole(device_, name);
    marked_step(shape).append_to(whole);
    ready.graphs.push_back(whole.instantiate());
  } else {
    step::Chain chain = step::emit_step(memory_, shape);
    ready.graphs = build_pieces(name, chain);
    ready.kernels = std::move(chain);
  }
  return ready;
}

std::vector<Exec> StepRunner::build_pieces(const std::string& name,
                                           const step::Chain& chain) const {
  std::vector<Exec> pieces;
  for (std::size_t first = 0, end = 0; first < chain.size(); first = end) {
    end = chain.end_of_piece(first);
    if (chain.is_attention(first)) continue;
    Graph graph(device_, fmt::format("{}, piece {}", name, pieces.size()));
    chain.append_to(graph, first, end);
    pieces.push_back(graph.instantiate());
  }
  return pieces;
}

PlanLine::News StepRunner::planned_news() const {
  const std::span slots(plan_.row_slots, plan_.counts->rows);
  const bool needs_few = std::all_of(slots.begin(), slots.end(), [&](std::int32_t slot) {
    return slots_.needs_few(static_cast<std::uint32_t>(slot));
  });
  return needs_few && can_sample_highest() ? PlanLine::News::step_of_highest : PlanLine::News::step;
}

void StepRunner::launch(bool keeps_rows, bool needs_logits) {
  if (!line_) return launch_planned(keeps_rows, needs_logits, false);
  const PlanLine::News news = planned_news();
  line_->lead(news, plan_memory_);
  // All ranks compute the same.
  launch_planned(keeps_rows, true, news == PlanLine::News::step_of_highest);
}

void StepRunner::follow() {
  for (;;) {
    const PlanLine::News news = line_->follow(plan_memory_);
    if (news != PlanLine::News::step && news != PlanLine::News::step_of_highest) break;
    if (in_flight_ == schedule::kMostInFlight) wait();
    launch_planned(false, true, news == PlanLine::News::step_of_highest);
  }
  while (in_flight_ > 0) wait();
}

void StepRunner::launch_planned(bool keeps_rows, bool needs_logits, bool samples_highest) {
  const schedule::Counts& counts = *plan_.counts;
  Flight& flight = flights_[(oldest_ + in_flight_) % schedule::kMostInFlight];
  slots_.change_tables(plan_);
  slots_.send(stream_, flight.slots);
  std::memcpy(flight.input.data(), plan_memory_.data(), input_bytes_);
  if (!needs_logits) schedule::bind_plan(setup_.limits, flight.input.data()).counts->rows = 0;
  stream_.copy(input_.data(), flight.input.data(), input_bytes_);
  if (samples_highest) ++steps_of_highest_;
  if (counts.graph == schedule::kNone)
    launch(without_graph(counts, samples_highest));
  else
    launch(samples_highest ? graphs_[counts.graph].from_highest
                           : graphs_[counts.graph].from_logits);
  if (needs_logits)
    stream_.copy(flight.sampled.data(), memory_.sampled().data(), counts.rows * sizeof(Sampled));
  else
    std::fill_n(flight.sampled.data(), counts.rows, Sampled{});
  if (keeps_rows) keep_rows(flight);
  stream_.record(flight.done);
  ++in_flight_;
}

/// The step leaves its residual stream behind. The norm of the rows is computed once more: what the
/// head reads has other formats.
void StepRunner::keep_rows(Flight& flight) {
  const std::size_t count = std::size_t{setup_.limits.logit_rows} * config_.hidden;
  if (!normed_rows_) normed_rows_.emplace(device_, count);
  if (!flight.kept)
    flight.kept.emplace(KeptRows{Buffer<float>(device_, count, Visibility::shared),
                                 Buffer<std::uint32_t>(device_, 1, Visibility::shared)});
  *flight.kept->count.data() = plan_.counts->rows;
  const step::StepInput& in = memory_.input();
  const kernels::RmsNormArgs args{
      .x = memory_.hidden(shape_of(plan_.counts->tokens, false)),
      .weight = weights_->final_norm,
      .gather = in.gather,
      .rows = {flight.kept->count.data(), setup_.limits.logit_rows},
      .epsilon = config_.norm_epsilon,
      .y = {normed_rows_->data(), kernels::RowFormat::f32, config_.hidden}};
  stream_.kernel(kernels::rms_norm(), kernels::grid_of(args, device_.is_cuda()), args);
  stream_.copy(flight.kept->values.data(), normed_rows_->data(),
               std::size_t{plan_.counts->rows} * config_.hidden * sizeof(float));
}

const Sampled* StepRunner::wait() {
  const Flight& flight = flights_[oldest_];
  oldest_ = (oldest_ + 1) % schedule::kMostInFlight;
  try {
    if (--in_flight_ == 0) {
      stream_.synchronize();
    } else {
      wait_stream_.wait(flight.done);
      wait_stream_.synchronize();
      // Without the others' parts a step samples anything, which must not be told.
      if (line_ && graph::state_of(stream_).impl->has_failed()) stream_.synchronize();
    }
  } catch (const std::exception& error) {
    // Other ranks may still wait for exchanges of this step, and must not take those of the next.
    if (line_) line_->give_up(error.what());
    throw;
  }
  rows_ = flight.kept ? flight.kept->values.data() : nullptr;
  return flight.sampled.data();
}

void StepRunner::drain() noexcept {
  in_flight_ = 0;
  slots_.forget();
  try {
    stream_.synchronize();
  } catch (const std::exception& error) {  // an earlier failure is already on its way to the caller
    if (line_) line_->give_up(error.what());
  } catch (...) {
  }
}

bool StepRunner::is_usable() noexcept {
  try {
    if (line_ && line_->is_broken()) return false;
    input_.write(std::array<std::byte, sizeof(schedule::Line)>{});
    return true;
  } catch (...) {
    return false;
  }
}

StepRunner::Ready& StepRunner::without_graph(const schedule::Counts& counts, bool samples_highest) {
  const std::tuple key(counts.tokens, counts.is_decode != 0, samples_highest);
  if (const auto found = graphless_.find(key); found != graphless_.end()) return found->second;
  if (graphless_.size() == kMostGraphless) graphless_.clear();
  step::StepShape shape = shape_of(counts.tokens, counts.is_decode != 0);
  shape.samples_highest = samples_highest;
  return graphless_.emplace(key, Ready{{}, step::emit_step(memory_, shape)}).first->second;
}

void StepRunner::launch(Ready& ready) {
  if (!ready.kernels) return ready.graphs.front().launch(stream_);
  const step::Chain& chain = *ready.kernels;
  auto piece = ready.graphs.begin();
  for (std::size_t first = 0, end = 0; first < chain.size(); first = end) {
    end = chain.end_of_piece(first);
    if (ready.graphs.empty() || chain.is_attention(first))
      chain.launch(stream_, first, end);
    else
      (piece++)->launch(stream_);
  }
}

std::size_t StepRunner::step_bytes() const {
  std::size_t bytes = plan_memory_.size() * sizeof(schedule::Line) + input_.bytes() +
                      memory_.sampled().bytes() + slots_.bytes() + memory_.scratch_bytes() +
                      memory_.tiled_bytes() + (parallel_ ? parallel_->bytes() : 0);
  for (const Flight& flight : flights_) bytes += flight.input.bytes() + flight.sampled.bytes();
  return bytes;
}

std::size_t StepRunner::graph_bytes() const { return bytes_of(graphs_); }

std::size_t StepRunner::bytes_of(const std::vector<Sized>& graphs) {
  std::size_t bytes = 0;
  for (const Sized& sized : graphs)
    for (const Ready* ready : {&sized.from_logits, &sized.from_highest})
      for (const Exec& graph : ready->graphs)
        bytes += graph.memory().host_bytes + graph.memory().pinned_bytes;
  return bytes;
}

}  // namespace attacca::engine
